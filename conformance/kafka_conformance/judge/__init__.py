"""What `judge` compares: lists of batches, bytes that a testee wrote, deliveries, a broker's answers; pure."""
