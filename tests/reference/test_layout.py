"""The layout tables, against the sizes and places that Kafka's classes name."""

import doctest
from types import ModuleType

import pytest

from kafka_records import constants, layout, primitives, varint
from kafka_records.layout import BATCH_V2, ENTRY, MESSAGE_V0, MESSAGE_V1, Layout

# DefaultRecordBatch and LegacyRecord, *_OFFSET; the latter's count from the crc, 12 bytes on.
V2 = {
    "base_offset": (0, 8),
    "batch_length": (8, 4),
    "partition_leader_epoch": (12, 4),
    "magic": (16, 1),
    "crc": (17, 4),
    "attributes": (21, 2),
    "last_offset_delta": (23, 4),
    "base_timestamp": (27, 8),
    "max_timestamp": (35, 8),
    "producer_id": (43, 8),
    "producer_epoch": (51, 2),
    "base_sequence": (53, 4),
    "record_count": (57, 4),
}
V0 = {"offset": (0, 8), "message_size": (8, 4), "crc": (12, 4), "magic": (16, 1), "attributes": (17, 1)}
V1 = V0 | {"timestamp": (18, 8)}


@pytest.mark.parametrize(("table", "expected"), [(BATCH_V2, V2), (MESSAGE_V0, V0), (MESSAGE_V1, V1)])
def test_fields_are_where_kafka_puts_them(table: Layout, expected: dict[str, tuple[int, int]]) -> None:
    """Names, offsets and widths are Kafka's (HDR-01, LEG-01, LEG-02)."""
    assert {field.name: (field.offset, field.width) for field in table.fields} == expected
    assert table.size == sum(width for _, width in expected.values())


@pytest.mark.parametrize("table", [BATCH_V2, MESSAGE_V0, MESSAGE_V1])
def test_magic_is_at_byte_16_in_every_version(table: Layout) -> None:
    """One byte distinguishes the formats before anything else is read (FRM-03)."""
    assert table.field("magic").offset == layout.MAGIC_OFFSET == constants.HEADER_SIZE_UP_TO_MAGIC - 1 == 16


def test_sizes_agree_with_the_constants() -> None:
    """The overheads that Kafka names are the sizes of the tables."""
    assert ENTRY.size == constants.LOG_OVERHEAD == 12
    assert BATCH_V2.size == constants.RECORD_BATCH_OVERHEAD == 61
    # With the two length fields that follow the fixed part.
    assert MESSAGE_V0.size - 12 + 8 == constants.RECORD_OVERHEAD_V0 == 14
    assert MESSAGE_V1.size - 12 + 8 == constants.RECORD_OVERHEAD_V1 == 22


def test_only_the_crc_is_unsigned() -> None:
    """All other fixed fields are signed, as Java's are (HDR-02, CRC-04)."""
    for table in (BATCH_V2, MESSAGE_V0, MESSAGE_V1):
        assert {field.name for field in table.fields if field.type[0] == "u"} == {"crc"}


def test_a_field_that_is_not_there_is_a_key_error() -> None:
    """A table fails loudly for another format's field."""
    with pytest.raises(KeyError, match="timestamp"):
        MESSAGE_V0.field("timestamp")


@pytest.mark.parametrize("module", [layout, primitives, varint])
def test_examples_in_docstrings_hold(module: ModuleType) -> None:
    """The examples of docstrings are right."""
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


def test_values_by_name() -> None:
    """`values` gives the number in each field, from wherever the fields begin."""
    data = bytes(3) + MESSAGE_V1.struct.pack(7, 22, 0xFFFFFFFF, 1, 8, -1)
    expected = {"offset": 7, "message_size": 22, "crc": 0xFFFFFFFF, "magic": 1, "attributes": 8, "timestamp": -1}
    assert MESSAGE_V1.values(data, 3) == expected
