"""Mutated payloads for real brokers, what those made of them, and what the reference says that they would."""
