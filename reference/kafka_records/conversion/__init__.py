"""What brokers turn stored batches into for old fetches, and old messages into when they are appended: `convert`."""

from kafka_records.conversion.convert import convert

__all__ = ["convert"]
