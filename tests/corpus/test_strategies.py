"""The public strategies give what they promise."""

import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_corpus import strategies
from kafka_records import Batch, RecordFormatError, decode, encode
from kafka_records.constants import COMPRESSIONS, Compression

repeatable = settings(
    max_examples=40, derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)


@repeatable
@given(strategies.logs())
def test_valid_logs_survive(log: tuple[Batch, ...]) -> None:
    """A log from `logs` is the same after encoding and decoding, and its offsets rise."""
    assert decode(b"".join(map(encode, log))) == log
    firsts = [batch.base_offset for batch in log]
    assert firsts == sorted(firsts)


@pytest.mark.parametrize(
    ("magic", "compression"),
    [(magic, codec) for magic in (0, 1, 2) for codec in COMPRESSIONS if magic == 2 or codec != "zstd"],
)
@settings(repeatable, max_examples=15)
@given(data=st.data())
def test_batches_of_one_kind(data: st.DataObject, magic: int, compression: Compression) -> None:
    """`batches` gives the magic and the codec of its arguments, and they survive."""
    batch = data.draw(strategies.batches(magic=magic, compression=compression))
    assert (batch.magic, batch.compression) == (magic, compression)
    assert decode(encode(batch)) == (batch,)


@repeatable
@given(strategies.encoded(strategies.batches(magic=2)))
def test_encoded_batches(data: bytes) -> None:
    """`encoded` gives bytes that are read as one batch, and written the same."""
    (batch,) = decode(data)
    assert encode(batch) == data or batch.compression != "none"


@repeatable
@given(strategies.encoded())
def test_encoded_logs(data: bytes) -> None:
    """Without a source `encoded` gives logs."""
    decode(data)


@pytest.mark.parametrize("label", sorted(strategies.FAULTS))
def test_faults_are_refused(label: str) -> None:
    """The reference refuses each fault of `nearly_valid`, with a kind that fits."""

    @settings(repeatable, max_examples=20)
    @given(strategies.nearly_valid(label=label))
    def refuse(faulty: tuple[bytes, str]) -> None:
        data, drawn = faulty
        assert drawn == label
        with pytest.raises(RecordFormatError) as caught:
            decode(data)
        assert caught.value.kind in strategies.FAULTS[label].kinds

    refuse()


@settings(repeatable, max_examples=15)
@given(strategies.nearly_valid())
def test_a_fault_has_a_label(faulty: tuple[bytes, str]) -> None:
    """Without an argument the label is one of `FAULTS`."""
    assert faulty[1] in strategies.FAULTS


SHAPES: dict[str, Callable[[Batch], bool]] = {
    "control": lambda batch: batch.control,
    "empty": lambda batch: not batch.records,
    "transactional": lambda batch: batch.transactional,
    "delete horizon": lambda batch: batch.delete_horizon is not None,
    "gap at the end": lambda batch: bool(batch.records) and batch.last_offset > batch.records[-1].offset,
    "gap inside": lambda batch: len(batch.records) > 1 and batch.records[1].offset > batch.records[0].offset + 1,
    "log-append time": lambda batch: batch.timestamp_type == "append",
    "null key": lambda batch: any(record.key is None for record in batch.records),
    "headers": lambda batch: any(record.headers for record in batch.records),
}


@pytest.mark.slow
def test_every_shape_comes_up() -> None:
    """v2 batches of every shape are among what `batches` gives."""
    seen: set[str] = set()

    @settings(repeatable, max_examples=300)
    @given(strategies.batches(magic=2))
    def look(batch: Batch) -> None:
        seen.update(shape for shape, has in SHAPES.items() if has(batch))

    look()
    assert seen == set(SHAPES)


def test_without_hypothesis() -> None:
    """Without Hypothesis the import says what to install; the rest of the package needs none."""
    program = (
        "import sys; sys.modules['hypothesis'] = None\n"
        "import kafka_corpus.registry\n"
        "try: import kafka_corpus.strategies\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'kafka_corpus.strategies needs Hypothesis: pip install "kafkaproof[strategies]"'
