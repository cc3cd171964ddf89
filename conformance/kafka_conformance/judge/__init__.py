"""Compare observations with the expected answer: batches, written bytes, deliveries, broker answers; pure."""
