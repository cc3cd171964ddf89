"""Kafkaproof: conformance of Kafka's record formats."""
