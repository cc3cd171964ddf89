"""The peers that can deliver the bytes of a finding, from recorded broker answers.

Most of it is in the corpus's evidence, which has the answers of all releases to the
inputs of decode cases.  What it lacks (inputs that are made when they are
needed) is measured by `kafkaproof dossier --measure RELEASE` and kept in
`reach.ndjson`; the reference predicts the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

import msgspec

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.progress import progress
from kafka_brokers.releases import RELEASES
from kafka_brokers.scenarios.recorder import RecordedAnswer, Recorder, ScenarioRequest, answer_file_of, record_answers
from kafka_brokers.wire.errors import ERROR_NAMES
from kafka_corpus import evidence
from kafka_corpus.answer_diff import scenario_of
from kafka_corpus.case import Case, Recipe
from kafka_corpus.prediction import predict
from kafka_corpus.scenario import LAST_OF_V1, NEWEST, Made, Produce, Scenario, StepAnswer
from kafka_corpus.vector_format import content_hash, input_of
from kafka_corpus.vectors import package_root
from kafka_records import Batch, RecordFormatError, decode
from kafka_records.layout import MAGIC_OFFSET

FILE: Final = "reach.ndjson"
# Valid data of these groups come from brokers themselves: markers, what the cleaner leaves, what is converted.
BROKERS_OWN: Final = ("CLN", "CNV", "KRF", "SEG", "TXN")
_PREFIX: Final = 12  # bytes: offset and size
_SMALLEST: Final = 14
_LAST_PRODUCE_OF_V1: Final = 2

# How much of a payload is left in what a fetch gives.
Kept = Literal[
    "as it is",  # but for offsets and the leader epoch
    "in part, still wrong",
    "with other offsets",  # rewritten with the same records, in the same format
    "rewritten",
    "nothing",
]
# What a consumer then gets shows what the case is about.
SHOWS: Final = ("as it is", "in part, still wrong", "with other offsets")
# These cases are about the encoding, which is gone when the broker rewrites records.
_OF_BYTES: Final = ("VAR", "GZP", "SNP", "LZ4", "ZST", "LEG")
Who = Literal["producers", "brokers", "hostile", "writers", "unknown"]


class ReachResult(msgspec.Struct, frozen=True, omit_defaults=True):
    """A broker's result for a payload: an error code, or how it stored it; `ended` if the broker crashed."""

    error_code: int = 0
    kept: Kept = "nothing"
    closed: bool = False
    ended: bool = False

    @property
    def reaches(self) -> bool:
        """Whether a consumer can meet the bytes because of it."""
        return not (self.error_code or self.closed or self.ended) and self.kept in SHOWS

    def __str__(self) -> str:
        if self.ended:
            return "the broker ends"
        if self.closed:
            return "closes the connection"
        if self.error_code:
            return f"refuses it: {ERROR_NAMES.get(self.error_code, 'error')} ({self.error_code})"
        kept = {
            "rewritten": "stores the records again in a form of its own, so that this is gone",
            "nothing": "takes it, and stores nothing of it",
        }
        return kept.get(self.kept, f"stores it and serves it {self.kept}")


class MeasuredReach(msgspec.Struct, frozen=True):
    """One line of `reach.ndjson`: a case, the hash of its content, and answers by release."""

    case: str
    sha256: str
    answers: dict[str, ReachResult]


@dataclass(frozen=True, slots=True)
class BrokerReach:
    """Answers to the bytes of one case, releases in order; *predicted* if the reference gave them."""

    answers: Mapping[str, ReachResult]
    predicted: bool = False

    def stored(self) -> list[str]:
        """The releases on which a consumer can meet it."""
        return [release for release, result in self.answers.items() if result.reaches]


def order(releases: Iterable[str]) -> list[str]:
    """Releases, oldest first."""
    known = [each.name for each in RELEASES]
    return sorted(releases, key=lambda name: (known.index(name) if name in known else len(known), name))


def input_origin(case: Case, reach: BrokerReach) -> Who:
    """The least privileged party that can cause the input."""
    if case.op == "encode":
        return "writers"
    if case.aborted is not None:
        # No single payload shows a transaction: its batches come from producers, and its end from the broker.
        return (
            "producers" if all(_as_produced(batch) or _is_marker(batch) for batch in case.expect.batches) else "brokers"
        )
    if reach.stored():
        return "producers"
    if case.expect.verdict == "valid" and (
        _prefix_of(case) in BROKERS_OWN or any(map(_of_broker, case.expect.batches))
    ):
        return "brokers"
    return "hostile" if reach.answers else "unknown"


def _prefix_of(case: Case) -> str:
    return case.rules[0].partition("-")[0]


def _as_produced(batch: Batch) -> bool:
    return not _of_broker(batch)


def _is_marker(batch: Batch) -> bool:
    """Whether it is the end of a transaction as brokers of today write it, with a key of version 0."""
    return batch.control and [(record.key or b"")[:2] for record in batch.records] == [bytes(2)]


def _of_broker(batch: Batch) -> bool:
    """Whether only brokers write such batches: they accept them from no client."""
    span = batch.last_offset - batch.base_offset + 1
    stamped = batch.timestamp_type == "append" or batch.delete_horizon is not None
    return stamped or batch.control or len(batch.records) != span


def reach_of(case: Case) -> BrokerReach:
    """Answers of brokers to the bytes of *case*: recorded, else measured, else predicted."""
    if case.op != "decode":
        return BrokerReach({})
    scenario = scenario_for(case)
    recorded = _recorded().get(case.id)
    if recorded is not None and recorded.brokers and recorded.sha256 == content_hash(case):
        given = input_of(case)
        assert isinstance(given, bytes)
        found = {
            release: reach_result(case, given, steps[0]) for release, steps in recorded.by_release().items() if steps
        }
        return BrokerReach({release: found[release] for release in order(found)})
    kept = load_reach().get(case.id)
    if kept is not None and kept.sha256 == content_hash(case):
        return BrokerReach({release: kept.answers[release] for release in order(kept.answers)})
    return BrokerReach({} if isinstance(case.input, Recipe) else _predicted(case, scenario), predicted=True)


def _predicted(case: Case, scenario: Scenario) -> dict[str, ReachResult]:
    found = {}
    for release in (each.name for each in RELEASES if scenario.concerns(each.name)):
        said = predict(scenario, release)
        if said:
            given = input_of(case)
            assert isinstance(given, bytes)
            found[release] = reach_result(case, given, said[0])
    return found


def scenario_for(case: Case) -> Scenario:
    """The scenario that sends a decode case to a broker; the recorder builds inputs from recipes itself."""
    if not isinstance(case.input, Recipe):
        scenario = scenario_of(case)
        assert scenario is not None
        return scenario
    data = input_of(case)
    assert isinstance(data, bytes)
    is_v2 = len(data) <= MAGIC_OFFSET or data[MAGIC_OFFSET] >= 2
    made = Made(case.input.name, dict(case.input.args))
    step = Produce(recipe=made, api_version=NEWEST if is_v2 else _LAST_PRODUCE_OF_V1)
    return Scenario(steps=(step,), until="" if is_v2 else LAST_OF_V1).bounded()


def reach_result(case: Case, given: bytes, answer: StepAnswer) -> ReachResult:
    """The result that *answer* to the bytes *given* means."""
    if answer.error_code or answer.closed or answer.ended or answer.silent:
        return ReachResult(answer.error_code, closed=answer.closed or answer.silent, ended=answer.ended)
    return ReachResult(kept=_kept(case, given, answer.data))


def _kept(case: Case, given: bytes, stored: bytes) -> Kept:
    if not stored:
        return "nothing"
    if placed(given) == placed(stored):
        return "as it is"
    if case.expect.verdict == "invalid":
        return "in part, still wrong" if _refused(stored) else "rewritten"
    alike = _prefix_of(case) not in _OF_BYTES and _content(given) == _content(stored)
    return "with other offsets" if alike else "rewritten"


def _content(data: bytes) -> list[object] | None:
    """The content of batches without offsets; None if they cannot be read."""
    try:
        return [
            (
                batch.magic,
                batch.compression,
                batch.timestamp_type,
                [record._replace(offset=0) for record in batch.records],
            )
            for batch in decode(data)
        ]
    except RecordFormatError:
        return None


def _refused(stored: bytes) -> bool:
    try:
        decode(stored)
    except RecordFormatError:
        return True
    return False


def placed(data: bytes) -> bytes:
    """A log without what a broker sets without looking inside: the offsets of its entries and leader epochs."""
    found, at = bytearray(data), 0
    while at + _PREFIX <= len(data):
        size = int.from_bytes(data[at + 8 : at + _PREFIX], "big", signed=True)
        end = at + _PREFIX + size
        if size < _SMALLEST or end > len(data):
            break
        found[at : at + 8] = bytes(8)
        if data[at + MAGIC_OFFSET] >= 2:
            found[at + _PREFIX : at + MAGIC_OFFSET] = bytes(4)
        at = end
    return bytes(found)


@cache
def _recorded() -> evidence.Evidence:
    return evidence.load_evidence(package_root())


@cache
def load_reach() -> Mapping[str, MeasuredReach]:
    """`reach.ndjson`, by case id."""
    source = files(__package__).joinpath(FILE)
    lines = msgspec.json.Decoder(MeasuredReach).decode_lines(source.read_bytes()) if source.is_file() else []
    return {line.case: line for line in lines}


def unmeasured(cases: Iterable[Case], release: str) -> Iterator[Case]:
    """The *cases* without an answer of *release*."""
    for case in cases:
        if case.op == "decode" and scenario_for(case).concerns(release) and release not in _known(case):
            yield case


def _known(case: Case) -> Mapping[str, ReachResult]:
    reach = reach_of(case)
    return {} if reach.predicted else reach.answers


def merge_reach(release: str, answers: Mapping[str, tuple[Case, ReachResult]]) -> dict[str, MeasuredReach]:
    """The stored results, updated with *answers* of *release* by case id; a changed case keeps only new answers."""
    kept = dict(load_reach())
    for id_, (case, answer) in answers.items():
        content = content_hash(case)
        old = kept.get(id_)
        before = old.answers if old is not None and old.sha256 == content else {}
        found = {**before, release: answer}
        kept[id_] = MeasuredReach(id_, content, {name: found[name] for name in order(found)})
    return kept


def write_reach(kept: Mapping[str, MeasuredReach], path: Path | None = None) -> None:
    """Replace `reach.ndjson` (or *path*), sorted by id."""
    path = path or Path(str(files(__package__).joinpath(FILE)))
    path.write_bytes(b"".join(msgspec.json.encode(kept[id_]) + b"\n" for id_ in sorted(kept)))
    load_reach.cache_clear()


# As the answers of the corpus were recorded.
CONFIG: Final = {
    # Milliseconds between two runs of the cleaner; with the default, every case that needs it would take 15 s.
    "log.cleaner.backoff.ms": "100",
    # Producers of cases are old; they expire at a restart, and not at any moment before.
    "producer.id.expiration.check.interval.ms": "86400000",
}


def measure(
    release: str, cases: Sequence[Case], folder: Path, start: Callable[..., JvmBroker] = jvm.start_jvm
) -> dict[str, tuple[Case, ReachResult]]:
    """Results of a broker of *release* for the inputs of *cases*, by id; each answer is written to *folder* at once.

    Raises:
        NoBroker: it cannot be started.
    """
    by_id = {case.id: case for case in cases}
    requests = [ScenarioRequest(case.id, content_hash(case), scenario_for(case)) for case in cases]
    lines = replay_cases(release, requests, folder, start)
    return {id_: (by_id[id_], _result_of(by_id[id_], line)) for id_, line in lines.items() if line.steps}


def replay_cases(
    release: str, requests: Sequence[ScenarioRequest], folder: Path, start: Callable[..., JvmBroker] = jvm.start_jvm
) -> dict[str, RecordedAnswer]:
    """Answers of a broker of *release* to scenarios, by id; each is written to *folder* at once.

    Raises:
        NoBroker: it cannot be started.
    """
    with progress(release, "restarts") as on_progress, ExitStack() as started:

        def new() -> JvmBroker:
            return started.enter_context(start(release, config=CONFIG))

        recorder = Recorder(new(), new_broker=new)
        try:
            return record_answers(recorder, requests, answer_file_of(folder, release), on_progress)
        finally:
            recorder.close()


def _result_of(case: Case, line: RecordedAnswer) -> ReachResult:
    given = input_of(case)
    assert isinstance(given, bytes)
    return reach_result(case, given, line.steps[0])
