"""The Java client as a testee, built once for all tests."""

from collections.abc import Iterator

import pytest

from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees import recipe
from kafka_conformance.testees.connection import VIRTUAL_MACHINE_MEMORY, ConnectionSpec
from kafka_conformance.testees.known import JAVA

# MiB.  Java allocates what hostile sizes announce; with a small heap it gives up soon.
HEAP = 512
# CPU-bound cases must not end early on a busy machine: this set compares answers, not times.
SECONDS = 60.0


@pytest.fixture(scope="session")
def java_client() -> Iterator[Sandbox]:
    """A running testee; what it takes is said by the error when it cannot be built."""
    java = next(each for each in recipe.recipes() if each.name == JAVA)
    argv = [
        f"-Xmx{HEAP}m" if word.startswith("-Xmx") else word
        for word in recipe.built_command(java, recipe.build_testee(java))
    ]
    sandbox = Sandbox(ConnectionSpec(name=JAVA, argv=tuple(argv), memory=VIRTUAL_MACHINE_MEMORY), SECONDS)
    yield sandbox
    sandbox.close()
