"""`kafkaproof explain`: the reference's explanation of bytes, shown to people."""
