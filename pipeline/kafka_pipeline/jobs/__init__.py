"""Jobs of the pipeline: pure functions over shards, and the drivers that run them.

`kafka_pipeline.spark` runs them; nothing here imports PySpark.
"""
