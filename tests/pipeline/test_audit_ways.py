"""However a log is judged, the report is the same to the byte: by kernels or the reference, whole or cut."""

import os
from pathlib import Path
from random import Random

import msgspec
import pytest

pytest.importorskip("numba")

from tests.pipeline import audit_damage, audit_index_damage
from tests.pipeline.recorded import DAMAGE, NOW, Log, fresh, seal

from kafka_corpus.vectors import load_vectors
from kafka_pipeline.audit.entries import MoreThanQuick, QuickLimits
from kafka_pipeline.audit.local import QUICK_BYTES, report_of, tasks_of
from kafka_pipeline.audit.stretch import Judgement, judge_task
from kafka_pipeline.reading import read_file
from kafka_pipeline.segments.listing import find_segments
from kafka_records import Batch, Record, encode

pytestmark = pytest.mark.columnar
MODULES = (audit_damage, audit_index_damage)
INPUTS = {case.id: case.input for case in load_vectors() if case.op == "decode" and isinstance(case.input, bytes)}
LARGEST_INPUT = 1 << 20


def document(folder: Path, *, kernels: bool, split: int = 1 << 28, contiguous: bool = False) -> bytes:
    """The report document of an audit."""
    how = Judgement(now_ms=NOW, contiguous=contiguous, kernels=kernels)
    tasks = [task for shard in tasks_of(find_segments([str(folder)]), split) for task in shard]
    report = report_of(str(folder), (judge_task(task, how) for task in tasks), NOW, contiguous=contiguous)
    return msgspec.json.encode(report)


@pytest.mark.parametrize("name", DAMAGE)
def test_every_damage_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    """Each kind of damage, by both readers and cut in many pieces."""
    log = fresh(tmp_path)
    DAMAGE[name](log)
    right = document(log.folder, kernels=True)
    assert document(log.folder, kernels=False) == right
    assert document(log.folder, kernels=True, split=3000) == right


def damaged_at_random(log: Log, draw: Random) -> None:
    """Bytes of headers, records and files, lost bytes and repeated ones."""
    for path, start, end in draw.sample(log.places(), 4):
        whole = path.read_bytes()
        data = bytearray(whole[start:end])
        for _ in range(draw.randrange(1, 4)):
            data[draw.randrange(draw.choice((17, 61, len(data))))] = draw.choice((0, 1, 127, 128, 255))
        new = seal(bytes(data)) if draw.random() < 0.6 else bytes(data)
        path.write_bytes(whole[:start] + new + whole[end:])
    path = draw.choice(sorted(log.folder.iterdir()))
    data = bytearray(path.read_bytes())
    match draw.randrange(3):
        case 0:
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
        case 1:
            del data[draw.randrange(len(data)) :]
        case _:
            data += data[: draw.randrange(len(data))]
    path.write_bytes(data)


@pytest.mark.parametrize("seed", range(40))
def test_random_damage_gives_the_same_bytes(seed: int, tmp_path: Path) -> None:
    """Both readers agree about logs with several defects at once."""
    log = fresh(tmp_path)
    damaged_at_random(log, Random(seed))
    right = document(log.folder, kernels=True)
    assert document(log.folder, kernels=False) == right
    assert document(log.folder, kernels=True, split=3000) == right


def test_every_input_of_the_corpus_gives_the_same_bytes(tmp_path: Path) -> None:
    """Every format and every broken one: each input of the corpus is a segment of its own log."""
    for number, data in enumerate(INPUTS.values()):
        if len(data) <= LARGEST_INPUT:
            path = tmp_path / f"{number}-0" / f"{0:020}.log"
            path.parent.mkdir()
            path.write_bytes(data)
    right = msgspec.json.decode(document(tmp_path, kernels=True))
    found = msgspec.json.decode(document(tmp_path, kernels=False))
    names = list(INPUTS)
    differing = [
        names[int(Path(one["path"]).name.removesuffix("-0"))]
        for one, other in zip(right["logs"], found["logs"], strict=True)
        if one != other
    ]
    assert differing == []
    assert len(right["logs"]) > 2000
    assert len({name for log in right["logs"] for name in log["found"]}) > 30


def test_many_findings_of_one_kind_are_listed_alike(tmp_path: Path) -> None:
    """More findings than are listed, of many producers: both readers list the first ones of the log."""
    path = tmp_path / f"{0:020}.log"
    draw = Random(1)
    with path.open("wb") as file:
        for offset in range(3500):
            batch = Batch(
                magic=2, base_offset=offset, last_offset=offset, max_timestamp=5, partition_leader_epoch=0,
                producer_id=draw.randrange(40), producer_epoch=0, base_sequence=draw.randrange(1000),
                records=(Record(offset, 5, None, b"v"),),
            )  # fmt: skip
            file.write(encode(batch))
    right = document(tmp_path, kernels=True)
    assert len(msgspec.json.decode(right)["logs"][0]["listed"]) >= 1000
    assert document(tmp_path, kernels=False) == right


@pytest.mark.parametrize("records", [b"", b"v" * 300_000])
def test_the_reference_leaves_large_logs_to_the_kernels(records: bytes, tmp_path: Path) -> None:
    """A small file that holds more than the reference reads in a moment is left to the kernels, and others are not."""
    path = tmp_path / f"{0:020}.log"
    batch = Batch(
        magic=2, base_offset=0, last_offset=99, max_timestamp=5, partition_leader_epoch=0, compression="gzip",
        records=tuple(Record(offset, 5, None, records) for offset in range(100)),
    )  # fmt: skip
    path.write_bytes(encode(batch))
    assert path.stat().st_size < QUICK_BYTES
    ((task,),) = tasks_of(find_segments([str(path)]), QUICK_BYTES)
    quick = Judgement(now_ms=NOW, kernels=False, quick=QuickLimits())
    if records:
        with pytest.raises(MoreThanQuick):
            judge_task(task, quick)
    else:
        assert judge_task(task, quick).counts.numbers["records"] == 100
        with pytest.raises(MoreThanQuick):
            judge_task(task, Judgement(now_ms=NOW, kernels=False, quick=QuickLimits(records=99)))
    assert document(tmp_path, kernels=False) == document(tmp_path, kernels=True)


@pytest.mark.parametrize("kernels", [True, False])
def test_a_segment_that_is_truncated_while_it_is_read_is_a_finding(kernels: bool, tmp_path: Path) -> None:
    """The file ends before the size that it had: what cannot be read is a finding, and the process lives."""
    log = fresh(tmp_path)
    segments = find_segments([str(log.folder)])
    tasks = [task for shard in tasks_of(segments, 1 << 28) for task in shard]
    os.truncate(log.files[1], 5000)
    how = Judgement(now_ms=NOW, kernels=kernels)
    listed = [(Path(each.file).name, each.kind) for task in tasks for each in judge_task(task, how).listed]
    assert listed == [(log.files[1].name, "not_read")]


def test_bytes_that_are_gone_are_an_error(tmp_path: Path) -> None:
    """A file that is truncated after it was opened is read up to its end, and no process is killed."""
    log = fresh(tmp_path)
    with read_file(log.files[1]) as source:
        os.truncate(log.files[1], 5000)
        assert len(source.window(0, 5000)) == 5000
        with pytest.raises(OSError, match="it ends at byte 5,000, and was longer"):
            source.window(1000, source.size)
