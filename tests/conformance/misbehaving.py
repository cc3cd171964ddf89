"""Requests of the sandbox tests, and bodies of testees that misbehave."""

from collections.abc import Callable

from kafka_conformance.judge.observation import Decoded
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import ConnectionSpec

Script = Callable[..., ConnectionSpec]
Make = Callable[..., Sandbox]

# Seconds, for tests of what hangs.
SHORT = 0.4
FINE = CaseRequest(b"fine")
BAD = CaseRequest(b"bad")
ANSWERED = Decoded(())
REPLY = "reply(id=id, batches=[])"


def misbehaving(what: str) -> str:
    """A loop body that executes *what* for the input `bad` and answers every other request."""
    return f"if data == b'bad':\n    {what}\n{REPLY}"
