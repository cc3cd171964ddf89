"""Testees written on the spot, shared with the tests of `kafka_conformance`."""

from tests.conformance.conftest import interrupts_are_heard, script

__all__ = ["interrupts_are_heard", "script"]
