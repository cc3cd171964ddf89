"""The data pipeline: segments, columns, audits, and Spark jobs over pure functions."""
