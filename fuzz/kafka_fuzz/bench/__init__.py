"""What fuzzing costs and finds, measured side by side: `kafkaproof fuzz bench`."""
