"""Encoded bytes are compared byte by byte, or without compression."""

import zlib
from dataclasses import replace
from gzip import compress as gzip_compress

import pytest

from kafka_conformance.judge import written
from kafka_conformance.judge.observation import MAX_WRITTEN, Encoded, Refused, observation_summary
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.run import judged_line
from kafka_conformance.testees.protocol import Refusal
from kafka_corpus.case import Case, Compare, Expectation
from kafka_records import Batch, Record, decode, encode
from kafka_records.batch import encode_at
from kafka_records.checksum import checksum_v2
from kafka_records.compression.lz4 import MAGIC as LZ4_MAGIC
from kafka_records.compression.lz4 import header_checksum
from kafka_records.constants import Compression
from kafka_records.layout import BATCH_V2
from kafka_records.rules import all_rules

RECORDS = (Record(0, 1000, b"key", b"value" * 50), Record(1, 1001, b"key", b"value" * 50))
BATCH = Batch(magic=2, base_offset=0, last_offset=1, max_timestamp=1001, records=RECORDS)
ZIPPED = replace(BATCH, compression="gzip")
WRAPPER = replace(BATCH, magic=1, compression="gzip")


def case(batch: Batch, compare: Compare = "exact") -> Case:
    """An encode case whose right answer is the reference's."""
    expect = Expectation(verdict="valid", data=encode(batch), compare=compare)
    return Case(id="a.b", title="", rules=("X",), area="a", op="encode", input=batch, expect=expect)


def resealed(data: bytes) -> bytes:
    """A v2 batch with the length and the CRC that it should have."""
    data = data[:8] + (len(data) - 12).to_bytes(4, "big") + data[12:]
    return data[:17] + checksum_v2(data).to_bytes(4, "big") + data[21:]


def test_exact_bytes_agree() -> None:
    """The very bytes agree."""
    assert judge(case(BATCH), Encoded(encode(BATCH))).outcome == "agree"


def test_a_wrong_field_is_named() -> None:
    """Bytes that read as another batch are wrong, and the field is named."""
    owned = replace(BATCH, producer_id=1, producer_epoch=0, base_sequence=0)
    verdict = judge(case(owned), Encoded(encode(replace(owned, producer_epoch=5))))

    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].producer_epoch")


def test_a_wrong_checksum_cannot_be_read() -> None:
    """Bytes that the reference refuses are wrong, and it says why."""
    data = encode(BATCH)
    verdict = judge(case(BATCH), Encoded(data[:17] + bytes(4) + data[21:]))

    assert (verdict.outcome, verdict.field) == ("wrong_data", "batch.crc")


def test_bytes_that_read_the_same_are_still_wrong() -> None:
    """Where only bytes differ that no field shows, their place is named."""
    data = encode(BATCH)
    payload = data[BATCH_V2.size :]
    # An attributes byte of a record: no reader uses it, but no writer sets it.
    odd = resealed(data[: BATCH_V2.size] + payload[:2] + b"\x01" + payload[3:])
    verdict = judge(case(BATCH), Encoded(odd))

    assert verdict.outcome == "wrong_data"
    assert verdict.field.startswith("data[")


def test_the_epoch_that_brokers_overwrite_is_lossy() -> None:
    """A leader epoch of 0 instead of -1 does no harm."""
    data = encode(BATCH)
    verdict = judge(case(BATCH), Encoded(data[:12] + bytes(4) + data[16:]))

    assert (verdict.outcome, verdict.field) == ("lossy", "batches[0].partition_leader_epoch")


def test_a_sequence_of_no_producer_is_lossy() -> None:
    """A base sequence of 0 does no harm where there is no producer id, and does where there is one."""
    owned = replace(BATCH, producer_id=7, producer_epoch=1, base_sequence=5)
    anyone, owner = (encode(replace(batch, base_sequence=0)) for batch in (BATCH, owned))

    assert judge(case(BATCH), Encoded(anyone)).outcome == "lossy"
    assert judge(case(owned), Encoded(owner)).outcome == "wrong_data"


def test_other_compressed_bytes_agree() -> None:
    """Compressed by another library or level, the same payload agrees under `masked`."""
    data = encode(ZIPPED)
    plain = zlib.decompress(data[BATCH_V2.size :], 31)
    other = resealed(data[: BATCH_V2.size] + gzip_compress(plain, 1, mtime=99))

    assert other != data
    assert judge(case(ZIPPED, "masked"), Encoded(other)).outcome == "agree"
    assert judge(case(ZIPPED, "exact"), Encoded(other)).outcome == "wrong_data"


def test_another_payload_is_wrong() -> None:
    """Under `masked` the decompressed payload has to be the same, byte by byte."""
    data = encode(ZIPPED)
    plain = zlib.decompress(data[BATCH_V2.size :], 31)
    odd = resealed(data[: BATCH_V2.size] + gzip_compress(plain[:2] + b"\x01" + plain[3:], mtime=0))
    verdict = judge(case(ZIPPED, "masked"), Encoded(odd))

    assert verdict.outcome == "wrong_data"
    assert verdict.field == "decompressed[2]"


def test_wrappers_are_opened_too() -> None:
    """A v1 wrapper is compared above compression as well."""
    assert judge(case(WRAPPER, "masked"), Encoded(encode(WRAPPER))).outcome == "agree"
    assert (
        judge(case(WRAPPER, "masked"), Encoded(encode(replace(WRAPPER, last_offset=0, records=RECORDS[:1])))).outcome
        == "wrong_data"
    )


def test_a_codec_that_was_not_used_is_lossy() -> None:
    """A batch left uncompressed has the right records."""
    verdict = judge(case(ZIPPED, "masked"), Encoded(encode(BATCH)))

    assert (verdict.outcome, verdict.field) == ("lossy", "batches[0].compression")


def test_a_wrapper_at_offset_0_is_lossy() -> None:
    """Producers may leave a wrapper's offset at 0: readers and brokers know that."""
    moved = replace(
        WRAPPER, base_offset=7, last_offset=8, records=tuple(r._replace(offset=r.offset + 7) for r in RECORDS)
    )
    at_0 = bytes(8) + encode(WRAPPER)[8:]

    assert judge(case(WRAPPER, "masked"), Encoded(at_0)).outcome == "lossy"
    assert judge(case(moved, "masked"), Encoded(at_0)).outcome == "wrong_data"


def test_messages_at_offset_0_are_lossy() -> None:
    """Old producers leave all offsets 0, which brokers assign; that does not do for messages from 7 on."""
    several = replace(WRAPPER, compression="none")
    records = tuple(record._replace(offset=record.offset + 7) for record in RECORDS)
    moved = replace(several, base_offset=7, last_offset=8, records=records)
    at_0 = b"".join(encode(replace(several, last_offset=0, records=(r._replace(offset=0),))) for r in RECORDS)

    assert judge(case(several), Encoded(at_0)).outcome == "lossy"
    assert judge(case(moved), Encoded(at_0)).outcome == "wrong_data"


def test_readable_takes_any_bytes_that_mean_the_same() -> None:
    """Under `readable` only what the reference reads back counts."""
    odd = resealed(encode(BATCH)[:63] + b"\x01" + encode(BATCH)[64:])

    assert judge(case(BATCH, "readable"), Encoded(odd)).outcome == "agree"
    assert judge(case(BATCH, "readable"), Encoded(encode(ZIPPED))).outcome == "wrong_data"


def test_nothing_is_not_a_batch() -> None:
    """An encoder that writes nothing has not written the batch."""
    assert judge(case(BATCH), Encoded(b"")).outcome == "wrong_data"


@pytest.mark.parametrize(
    ("observation", "outcome"),
    [
        (Refused(Refusal("malformed")), "agree"),
        (Refused(Refusal("limit")), "wrong_error"),
        (Encoded(b""), "accepts_invalid"),
    ],
)
def test_what_must_not_be_written(observation: Encoded | Refused, outcome: str) -> None:
    """A batch that Kafka's writer refuses has to be refused."""
    expect = Expectation(verdict="invalid", kinds=("malformed",))

    assert judge(replace(case(BATCH), expect=expect), observation).outcome == outcome


def test_another_base_timestamp_is_a_named_equivalence() -> None:
    """Any base timestamp will do whose deltas give the right times; the verdict names the rule."""
    later = replace(BATCH, base_timestamp=990)
    verdict = judge(case(BATCH), Encoded(encode(later)))

    assert (verdict.outcome, verdict.field) == ("lossy", "batches[0].base_timestamp")
    assert verdict.why.endswith("equivalent: another base timestamp (TIM-01)")


def test_a_base_that_shifts_the_records_is_wrong() -> None:
    """A base timestamp that was changed without the deltas gives the records other times."""
    data = encode(BATCH)
    at = BATCH_V2.field("base_timestamp").offset
    verdict = judge(case(BATCH), Encoded(resealed(data[:at] + (990).to_bytes(8, "big") + data[at + 8 :])))

    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].records[0].timestamp")


def test_an_unassigned_sequence_is_a_named_equivalence() -> None:
    """Without a producer id the sequence is not read; with a producer id the writer has to set it correctly."""
    at = BATCH_V2.field("base_sequence").offset
    data = encode(BATCH)
    verdict = judge(case(BATCH), Encoded(resealed(data[:at] + bytes(4) + data[at + 4 :])))
    assert (verdict.outcome, verdict.field) == ("lossy", "batches[0].base_sequence")
    assert "PID-02" in verdict.why

    owned = replace(BATCH, producer_id=5, producer_epoch=1, base_sequence=7)
    data = encode(owned)
    verdict = judge(case(owned), Encoded(resealed(data[:at] + bytes(4) + data[at + 4 :])))
    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].base_sequence")


def test_an_equivalence_hides_no_defect() -> None:
    """An unrequested bit is found after a field with a harmless difference, compressed or not."""
    pairs: tuple[tuple[Batch, Compare], ...] = ((BATCH, "exact"), (ZIPPED, "masked"))
    for batch, compare in pairs:
        data = encode(batch)
        at = BATCH_V2.field("attributes").offset
        odd = resealed(data[:12] + bytes(4) + data[16:at] + b"\x40" + data[at + 1 :])
        verdict = judge(case(batch, compare), Encoded(odd))

        assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].attributes")


def test_what_makes_most_work_for_a_broker_is_named_first() -> None:
    """A wrapper at offset 0 around offsets of 0, with a time of its own: the offsets make the broker compress again."""
    late = replace(WRAPPER, last_offset=0, max_timestamp=2000)
    unassigned = replace(late, records=tuple(record._replace(offset=0) for record in RECORDS))

    found = [[each.equivalence for each in written.compare_written([WRAPPER], [batch])] for batch in (late, unassigned)]

    assert found[0] == ["time of a wrapper (NST-23)", "wrapper at offset 0 (NST-09)"]
    assert found[1] == ["offsets left to the broker (NST-13)", *found[0]]


def test_a_longer_varint_is_a_named_equivalence() -> None:
    """A length in more bytes than it needs is read by everybody, and named."""
    data = encode(BATCH)
    payload = data[BATCH_V2.size :]
    # The key's length, 06, in two bytes; the record's own length, two bytes already, is one more.
    at = payload.index(b"key") - 1
    size = int.from_bytes(payload[:2], "little") + 2
    payload = size.to_bytes(2, "little") + payload[2:at] + b"\x86\x00" + payload[at + 1 :]
    verdict = judge(case(BATCH), Encoded(resealed(data[: BATCH_V2.size] + payload)))

    assert verdict.outcome == "lossy", verdict
    assert "varint longer than needed (VAR-05)" in verdict.why


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_longer_varint_shows_beside_another_equivalence(compression: Compression) -> None:
    """Longer varints in every record are the first difference of a batch whose leader epoch differs, too."""
    batch = replace(BATCH, compression=compression)
    data = encode(BATCH)
    payload = b"".join(longer_record(record) for record in BATCH.records)
    packed = gzip_compress(payload) if compression == "gzip" else payload
    header = encode(batch)[: BATCH_V2.size]
    odd = resealed(header[:12] + bytes(4) + header[16:] + packed)
    assert len(payload) == len(data) - BATCH_V2.size + 2 * len(BATCH.records)
    assert decode(odd)[0].records == BATCH.records

    verdict = judge(case(batch, "masked" if compression == "gzip" else "exact"), Encoded(odd))

    assert verdict.outcome == "lossy"
    assert verdict.field.startswith("decompressed[")
    assert "varint longer than needed (VAR-05)" in verdict.why
    assert verdict.also == ("batches.partition_leader_epoch",)


def longer_record(record: Record) -> bytes:
    """The record of `BATCH`, with its key's length and its number of headers in two bytes each instead of one."""
    size, body = encode_at(record.offset, record, 0, 1000)[:2], encode_at(record.offset, record, 0, 1000)[2:]
    at = body.index(b"key") - 1
    body = body[:at] + b"\x86\x00" + body[at + 1 : -1] + b"\x80\x00"
    return (int.from_bytes(size, "little") + 4).to_bytes(2, "little") + body


@pytest.mark.parametrize(
    ("checksum", "outcome"),
    [(None, "agree"), (header_checksum(b"\x60\x40"), "lossy"), (0x00, "wrong_data")],
    ids=["as Kafka in v0", "as the frame format says", "wrong"],
)
def test_the_lz4_header_checksum_of_v0_is_compared(checksum: int | None, outcome: str) -> None:
    """Readers skip it in v0, and a writer has to write it as Kafka does; the one of the frame format does no harm."""
    records = tuple(record._replace(timestamp=-1) for record in RECORDS)
    wrapper = replace(BATCH, magic=0, compression="lz4", timestamp_type="none", max_timestamp=-1, records=records)
    data = encode(wrapper)
    at = data.index(LZ4_MAGIC) + 6
    if checksum is not None:
        data = legacy_resealed(data[:at] + bytes([checksum]) + data[at + 1 :])
    assert decode(data)[0].records == records

    verdict = judge(case(wrapper, "masked"), Encoded(data))

    assert verdict.outcome == outcome
    if checksum is not None:
        assert verdict.field == "batches[0].lz4_header_checksum"
        assert ("LZ4-06" in verdict.why) == (outcome == "lossy")


@pytest.mark.parametrize(("count", "kept"), [(100, 100), (MAX_WRITTEN + 1, MAX_WRITTEN)])
def test_a_finding_keeps_the_bytes_that_were_written(count: int, kept: int) -> None:
    """A result line has the written bytes of a finding in hex, at most the first KiB of them, and the whole number."""
    summary = observation_summary(Encoded(b"\x01" * count), finding=True)
    assert summary == {"kind": "encoded", "bytes": count, "written": "01" * kept}

    assert judged_line(case(BATCH), Encoded(b"\x01" * count)).observation == summary
    assert judged_line(case(BATCH), Encoded(encode(BATCH))).observation == {
        "kind": "encoded",
        "bytes": len(encode(BATCH)),
    }


def legacy_resealed(data: bytes) -> bytes:
    """A v0 or v1 entry with the CRC that it should have."""
    return data[:12] + zlib.crc32(data[16:]).to_bytes(4, "big") + data[16:]


def test_what_brokers_rewrite_is_still_a_defect() -> None:
    """A wrong max timestamp of a batch is computed again by brokers, and wrong all the same."""
    verdict = judge(case(BATCH), Encoded(encode(replace(BATCH, max_timestamp=1000))))

    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].max_timestamp")


def test_every_equivalence_cites_a_rule() -> None:
    """Each equivalence has a name of its own, a reason, and a rule of the catalogue."""
    known = {rule.id for rule in all_rules()}

    equivalences = (*written.EQUIVALENCES, written.LONGER_VARINT, written.LZ4_CHECKSUM)
    assert {each.rule for each in equivalences} <= known
    assert len({each.name for each in equivalences}) == len(equivalences)
    assert all(each.reason for each in equivalences)


def test_a_wrapper_without_the_newest_time_is_lossy() -> None:
    """A wrapper's own time is worked out again by brokers; a batch's is not the writer's to leave out."""
    verdict = judge(case(WRAPPER, "masked"), Encoded(encode(replace(WRAPPER, max_timestamp=0))))
    assert (verdict.outcome, verdict.field) == ("lossy", "batches[0].max_timestamp")

    verdict = judge(case(ZIPPED, "masked"), Encoded(encode(replace(ZIPPED, max_timestamp=0))))
    assert (verdict.outcome, verdict.field) == ("wrong_data", "batches[0].max_timestamp")
