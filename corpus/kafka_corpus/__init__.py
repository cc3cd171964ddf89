"""Cases: bytes with a verdict, and recorded answers to them.

Imports `kafka_records` only.  `kafka_conformance` and `kafka_fuzz` may import this.
"""
