"""Clients of further libraries: each delivers what Kafka delivers, and reports or drops what its page says.

Builds that compile Rust or fetch with Maven take long, so they are tested where they are built already.
"""

from collections.abc import Iterator

import pytest

from kafka_conformance.judge.observation import ConsumedRecords
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.known import connect, find_testee
from kafka_conformance.testees.recipe import is_built
from kafka_records import Batch, Record, encode

pytestmark = [pytest.mark.testees, pytest.mark.slow]

# The newest magic that a client reads.
CLIENTS = {
    "kafka-node": 1, "no-kafka": 0, "kafka-ts": 2, "kafka-rust": 0, "kafka-python-2": 2, "afkak": 0,
    "java-0.10": 1, "scala-consumer": 1, "optiopay-kafka": 2, "librdkafka-debian": 2,
    "kafka-node-snappy": 1, "no-kafka-snappy": 0,
}  # fmt: skip
SLOW_BUILDS = {"cargo", "mvn"}
# Clients that give no record of a damaged message and no error: they fetch it again and again.
SILENT = {"afkak"}
# Clients that compare no checksum by default.
UNCHECKED = {
    "kafka-node", "kafka-node-snappy", "no-kafka", "no-kafka-snappy", "kafka-ts", "kafka-python-2", "scala-consumer",
    "librdkafka-debian",
}  # fmt: skip
SNAPPY = ("kafka-node", "no-kafka")


def two_records(magic: int) -> bytes:
    """A batch of two records with key and value, in format *magic*."""
    time = 1_700_000_000_123 if magic else -1
    records = tuple(Record(offset, time, b"key", b"value") for offset in range(2))
    kind = "create" if magic else "none"
    return encode(
        Batch(magic=magic, base_offset=0, last_offset=1, timestamp_type=kind, max_timestamp=time, records=records)  # type: ignore[arg-type]
    )


@pytest.fixture(params=CLIENTS)
def client(request: pytest.FixtureRequest) -> Iterator[tuple[str, Sandbox]]:
    """A client that is, or can soon be, built here."""
    name: str = request.param
    known = find_testee(name)
    assert known is not None
    assert known.recipe is not None
    if missing := known.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    if SLOW_BUILDS & {*known.recipe.programs} and not is_built(known.recipe):
        pytest.skip("its build takes long, and is not here")
    sandbox = Sandbox(connect(name))
    yield name, sandbox
    sandbox.close()


def test_records_are_delivered(client: tuple[str, Sandbox]) -> None:
    """Offsets, keys and values of a plain batch are those that were written."""
    (answered,) = client[1].ask([CaseRequest(two_records(CLIENTS[client[0]]))])
    observed = answered.observation

    assert isinstance(observed, ConsumedRecords)
    assert observed.error is None
    assert [(each.offset, each.key, each.value) for each in observed.records] == [
        (0, b"key", b"value"), (1, b"key", b"value"),
    ]  # fmt: skip


def test_damage_is_reported_by_those_that_compare_checksums(client: tuple[str, Sandbox]) -> None:
    """A flipped bit in a value is an error, or no record, where checksums are compared; elsewhere it is delivered."""
    name, sandbox = client
    data = bytearray(two_records(CLIENTS[name]))
    at = data.index(b"value")
    data[at] ^= 1
    (answered,) = sandbox.ask([CaseRequest(bytes(data))])
    observed = answered.observation

    assert isinstance(observed, ConsumedRecords)
    if name in UNCHECKED:
        assert [each.value for each in observed.records] == [b"walue".replace(b"w", bytes([data[at]])), b"value"]
    elif name in SILENT:
        assert observed.error is None
        assert observed.records == ()
    else:
        assert observed.error is not None
        assert b"value" not in [each.value for each in observed.records]


@pytest.mark.parametrize("name", SNAPPY)
def test_snappy_is_read_where_the_package_is_installed(name: str) -> None:
    """A wrapper in snappy is read with the package snappy; without it kafka-node ends, and no-kafka gives no record."""
    known = find_testee(f"{name}-snappy")
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    time = 1_700_000_000_123 if CLIENTS[name] else -1
    kind = "create" if CLIENTS[name] else "none"
    records = tuple(Record(offset, time, b"key", b"value") for offset in range(2))
    wrapper = Batch(
        magic=CLIENTS[name], compression="snappy", base_offset=0, last_offset=1, max_timestamp=time,
        timestamp_type=kind, records=records,  # type: ignore[arg-type]
    )  # fmt: skip
    observed = [_observed(each, encode(wrapper)) for each in (f"{name}-snappy", name)]
    delivered = [each.records if isinstance(each, ConsumedRecords) else () for each in observed]

    assert [(each.offset, each.value) for each in delivered[0]] == [(0, b"value"), (1, b"value")]
    assert not delivered[1]


def _observed(name: str, data: bytes) -> object:
    sandbox = Sandbox(connect(name))
    (answered,) = sandbox.ask([CaseRequest(data)])
    sandbox.close()
    return answered.observation
