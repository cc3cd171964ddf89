"""Conversion by brokers: stored batches for old fetches, and old messages when they are appended: `convert`."""

from kafka_records.conversion.convert import convert

__all__ = ["convert"]
