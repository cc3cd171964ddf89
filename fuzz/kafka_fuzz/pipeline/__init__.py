"""Jobs of the pipeline that need mutators, lies or campaigns: what they do with a shard, in pure functions.

`kafka_corpus.pipeline` runs them; nothing here imports PySpark.
"""
