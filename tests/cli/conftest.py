"""Testees written on the spot, shared with the tests of `kafka_conformance`."""

from tests.conformance.conftest import script

__all__ = ["script"]
