"""Encoders under fuzzing: batches with one odd value each, written by testees, held against what Kafka writes."""
