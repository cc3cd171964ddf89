"""The Spark home: sessions, shards that survive whatever happens, Parquet with a manifest.

Nothing else imports PySpark.  Jobs live where what they need lives; each hands
a pure function over Arrow record batches to `running.run` and never sees Spark.
"""
