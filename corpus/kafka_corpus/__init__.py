"""Cases: bytes with a verdict, and what others answered to them.

Imports `kafka_records` only.  `kafka_conformance` and `kafka_fuzz` may import this.
"""
