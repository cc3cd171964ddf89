"""The columnar encoder writes what the reference writes, byte for byte, and refuses what it refuses."""

from random import Random

import pytest

pytest.importorskip("numba")

import pyarrow as pa
from hypothesis import HealthCheck, given, settings

from kafka_corpus import strategies
from kafka_corpus.vectors import load_vectors
from kafka_pipeline.columnar import BATCHES, RECORDS, batch_tables, in_batches, pack_records, read_chunks, write_rows
from kafka_pipeline.columnar.encoder import RowWriter
from kafka_records import Batch, Header, Record, RecordFormatError, encode
from kafka_records.constants import COMPRESSIONS, Compression

pytestmark = pytest.mark.columnar

repeatable = settings(
    max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
FORMATS = [(magic, codec) for magic in (0, 1, 2) for codec in COMPRESSIONS if magic == 2 or codec != "zstd"]
ALL_ENCODED = {case.id: case.input for case in load_vectors() if case.op == "encode" and isinstance(case.input, Batch)}
# The column of header keys has no nulls.
WITHOUT_KEY = {id_: batch for id_, batch in ALL_ENCODED.items() if id_.startswith("writers.null_header_key[")}
ENCODED = {id_: batch for id_, batch in ALL_ENCODED.items() if id_ not in WITHOUT_KEY}


def written(*batches: Batch) -> bytes | str:
    """The bytes that the columns give, or the error message."""
    try:
        return bytes(write_rows(*batch_tables(batches)))
    except RecordFormatError as error:
        return str(error)


def by_reference(*batches: Batch) -> bytes | str:
    """The bytes that the reference gives, or its error message."""
    try:
        return b"".join(map(encode, batches))
    except RecordFormatError as error:
        return str(error)


def test_every_encode_case_of_the_corpus() -> None:
    """Each batch of the corpus whose numbers fit columns gives the reference's bytes, or its refusal."""
    assert len(ENCODED) > 500
    different, beyond = [], 0
    for id_, batch in ENCODED.items():
        try:
            if written(batch) != by_reference(batch):
                different.append(id_)
        except (OverflowError, pa.ArrowException):
            beyond += 1

    assert different == []
    assert beyond < 20


@pytest.mark.parametrize("id_", WITHOUT_KEY)
def test_a_header_without_a_key(id_: str) -> None:
    """It is refused before anything is written; the reference refuses it, too."""
    with pytest.raises(ValueError, match="a header without a key"):
        written(WITHOUT_KEY[id_])
    assert str(by_reference(WITHOUT_KEY[id_])).endswith("REC-18)")


@repeatable
@given(strategies.logs())
def test_valid_logs(log: tuple[Batch, ...]) -> None:
    """Any valid log is written as the reference writes it, all its batches in one go."""
    assert written(*log) == by_reference(*log)


@repeatable
@given(strategies.logs())
def test_what_was_read_is_written_again(log: tuple[Batch, ...]) -> None:
    """The tables that `read` gives are those that `write` takes, whatever was compressed, null or sliced."""
    data = b"".join(map(encode, log))

    assert b"".join(bytes(write_rows(chunk.records, chunk.batches)) for chunk in read_chunks(data)) == data


def rows(count: int, draw: Random) -> list[Record]:
    """Records whose sizes, offsets and times need varints of every width."""
    return [
        Record(
            offset=2**40 + at * at,
            timestamp=2**41 + draw.randrange(2 ** draw.randrange(1, 40)),
            key=draw.choice([None, b"", b"k" * draw.randrange(30)]),
            value=draw.choice([None, draw.randbytes(draw.randrange(20)), draw.randbytes(draw.randrange(20000))]),
            headers=tuple(
                Header(b"h" * draw.randrange(200), draw.choice([None, b"", draw.randbytes(70)]))
                for _ in range(draw.randrange(4))
            ),
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_widths_of_every_number(seed: int) -> None:
    """Varints of all widths, nulls, and strings of all sizes up to the end of their memory are right."""
    draw = Random(seed)
    codecs: tuple[Compression, ...] = ("none", "gzip")
    batches = []
    for codec in codecs:
        records = tuple(rows(draw.randrange(1, 60), draw))
        first, last = records[0].offset, records[-1].offset
        batches.append(Batch(magic=2, base_offset=first, last_offset=last, compression=codec, records=records))

    assert written(*batches) == by_reference(*batches)


@pytest.mark.parametrize(("magic", "codec"), FORMATS)
def test_records_in_batches(magic: int, codec: str) -> None:
    """Rows without batches are cut into batches of a number, the last one shorter, as a producer makes them."""
    draw = Random(3)
    given = [
        record._replace(offset=at, headers=() if magic < 2 else record.headers)
        for at, record in enumerate(rows(25, draw))
    ]
    table, _ = batch_tables([Batch(magic=2, base_offset=0, last_offset=24, records=tuple(given))])
    expected = b"".join(
        encode(
            Batch(
                magic=magic,
                base_offset=start,
                last_offset=part[-1].offset,
                compression=codec,  # type: ignore[arg-type]
                timestamp_type="create" if magic else "none",
                max_timestamp=max(record.timestamp for record in part) if magic else -1,
                records=tuple(part),
            )
        )
        for start in range(0, 25, 10)
        for part in [given[start : start + 10]]
    )

    for made in (
        write_rows(table, in_batches(table, 10, magic=magic, compression=codec)),  # type: ignore[arg-type]
        pack_records(table, 10, magic=magic, compression=codec),  # type: ignore[arg-type]
    ):
        assert bytes(made) == expected


def test_columns_of_other_kinds_and_slices() -> None:
    """Arrow's plain binary and string columns are taken too, and rows from the middle of a table."""
    records = tuple(Record(at, at, b"key%d" % at, b"value" * at) for at in range(50))
    table, _ = batch_tables([Batch(magic=2, base_offset=0, last_offset=49, records=records)])
    plain = table.set_column(3, "key", table["key"].cast(pa.binary()).cast(pa.string()))
    plain = plain.set_column(4, "value", table["value"].cast(pa.large_binary()))
    for one in (table, plain):
        part = one.slice(13, 9)
        expected = encode(Batch(magic=2, base_offset=13, last_offset=21, max_timestamp=21, records=records[13:22]))
        assert bytes(write_rows(part, in_batches(part, 100))) == expected


def test_nothing_to_write() -> None:
    """No batches are no bytes, and an empty batch is a header."""
    empty = Batch(magic=2, base_offset=5, last_offset=9)

    nothing = (pa.RecordBatch.from_pylist([], schema=schema) for schema in (RECORDS, BATCHES))
    assert bytes(write_rows(*nothing)) == b""
    assert written(empty) == encode(empty)


def test_tables_that_do_not_fit() -> None:
    """Batches of more records than there are, or of fewer, are refused."""
    records, batches = batch_tables([Batch(magic=2, base_offset=0, last_offset=0, records=(Record(0, 0, None, None),))])

    with pytest.raises(ValueError, match="batches of 1 records, and 0 records"):
        write_rows(records.slice(1), batches)
    with pytest.raises(ValueError, match="batches of 0 records"):
        pack_records(records, 0)


def test_rows_that_no_writer_takes() -> None:
    """Rows whose offsets fall are refused, in the reference's words, where only rows were given too."""
    records = tuple(Record(at, 5, None, b"v") for at in (3, 4, 4))
    table, _ = batch_tables([Batch(magic=2, base_offset=3, last_offset=4, records=records)])

    with pytest.raises(RecordFormatError, match="offset 4 follows 4") as refused:
        pack_records(table, 10)
    assert refused.value.rule == "OFF-07"


@pytest.mark.parametrize(("magic", "codec"), [(1, "none"), (1, "lz4"), (2, "none"), (2, "gzip")])
def test_more_bytes_than_samples_show(magic: int, codec: Compression, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many rows only some are looked at to know how much memory to take; there is more if that was not enough."""
    # Between the first sample and the second.
    records = tuple(Record(at, at, b"key", b"v" * (20_000 if 70 <= at < 190 else at % 20)) for at in range(6000))
    table, _ = batch_tables([Batch(magic=2, base_offset=0, last_offset=5999, records=records)])
    expected = b"".join(
        bytes(pack_records(table.slice(at, 500), 500, magic=magic, compression=codec)) for at in range(0, 6000, 500)
    )
    rows, take_more = [], RowWriter.take_more

    def take(writer: RowWriter, batch: int, row: int) -> None:
        rows.append(row)
        take_more(writer, batch, row)

    monkeypatch.setattr(RowWriter, "take_more", take)

    assert bytes(pack_records(table, 500, magic=magic, compression=codec)) == expected
    assert rows == [0]


@pytest.mark.parametrize("last", [-(2**63), -(2**63) + 5, 2**31, -(2**31)])
def test_a_last_offset_far_from_the_base(last: int) -> None:
    """A difference that no int32 holds is refused, also one that no int64 holds."""
    for base in (0, 7, 2**62, -(2**62)):
        batch = Batch(magic=2, base_offset=base, last_offset=last, records=(Record(base, 0, None, None),))
        assert written(batch) == by_reference(batch)


def test_deltas_below_zero() -> None:
    """Timestamps and offsets below the base, among others above it."""
    times = [100, 99, 5000, 0, 100, 8291, 8292, 101, 2**40]
    records = tuple(Record(1000 + at, time, b"k" * (60 + at), b"v" * 8094) for at, time in enumerate(times))
    for base in (1000, 1004, 9000):
        batch = Batch(magic=2, base_offset=base, last_offset=base, base_timestamp=100, records=records)
        assert written(batch) == by_reference(batch)
