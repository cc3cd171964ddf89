"""Encoders under fuzzing: batches with one unusual value each, written by testees, compared with what Kafka writes."""
