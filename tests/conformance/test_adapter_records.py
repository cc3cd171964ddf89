"""Records of decoders as adapters show them."""

from types import SimpleNamespace

from kafka_conformance.testees.client_parts import exposed_record, typed_records


class DecodedBatch(list[SimpleNamespace]):
    """Records of a decoder with the timestamp type of their batch."""

    timestamp_type = 0


def record(timestamp_type: int | None) -> SimpleNamespace:
    """A record of a decoder."""
    return SimpleNamespace(offset=0, timestamp=1, key=None, value=b"v", headers=(), timestamp_type=timestamp_type)


def test_a_record_with_another_timestamp_type_shows() -> None:
    """The type is that of the batch unless a record has another one; None is none."""
    kinds = [typed_records(DecodedBatch(map(record, types)), exposed_record)[0] for types in ((), (0, None), (0, 1))]
    assert kinds == ["create", "create", "append"]
    assert len(typed_records(DecodedBatch([record(0), record(0)]), exposed_record)[1]) == 2
