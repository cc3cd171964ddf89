"""DumpLogSegments' words held against the headers that it read."""

from kafka_brokers.scenarios.disk import dump_difference, header_lines, read_dump
from kafka_corpus.authoring.batches import batch_of, bytes_of, some_records
from kafka_corpus.authoring.build import put, raw_message

BATCH = bytes_of(batch_of(*some_records(3)))
SAID = """\
Dumping /data/t-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 0 lastOffset: 2 count: 3 baseSequence: -1 lastSequence: -1 producerId: -1 producerEpoch: -1 \
partitionLeaderEpoch: -1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty position: 0 \
CreateTime: 1700000000002 size: {size} magic: 2 compresscodec: none crc: {crc} isvalid: true
Dumping /data/t-1/00000000000000000000.log
Starting offset: 0
offset: 4 position: 0 NoTimestampType: -1 isvalid: true payloadsize: 5 magic: 0 compresscodec: NONE crc: {old}
"""
MESSAGE = raw_message(0, b"k", offset=4)


def said() -> dict[str, list[dict[str, str]]]:
    """The tool's output for a batch and a message, parsed."""
    crc = int.from_bytes(BATCH[17:21], "big")
    return read_dump(SAID.format(size=len(BATCH), crc=crc, old=int.from_bytes(MESSAGE[12:16], "big")))


def test_right() -> None:
    """Lines of the newest and of old releases say what the headers do."""
    first, second = said().values()
    assert (dump_difference(first, BATCH), dump_difference(second, MESSAGE)) == ("", "")


def test_wrong() -> None:
    """A field that is read otherwise is named, with both values."""
    (entry,), _ = said().values()
    assert dump_difference([entry], put(BATCH, "producer_id", 5)) == "entry 0: producerId is -1, the header says 5"
    assert dump_difference([entry | {"isvalid": "false"}], BATCH) == "entry 0: isvalid is false, the header says true"


def test_missing() -> None:
    """Entries that the tool does not print, and entries that are not framed, are a difference."""
    assert dump_difference([], BATCH) == "0 entries in place of 1"
    assert dump_difference([], b"\x00" * 8 + b"\xff" * 20).startswith("not framed")


def test_several() -> None:
    """Positions count from the start of the file."""
    assert [entry["position"] for entry in header_lines(BATCH + BATCH)] == ["0", str(len(BATCH))]
