"""Producer by consumer: what each testee writes, every other one reads, and a real broker stores in between."""
