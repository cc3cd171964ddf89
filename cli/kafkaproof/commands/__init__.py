"""The commands of `kafkaproof` that are ours, each imported when it runs."""
