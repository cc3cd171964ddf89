"""The reach of every case: the parties that can bring its bytes before a codec.

Most of it is in the corpus's evidence, which has the answers of all releases to the
inputs of decode cases.  What it lacks (inputs that are made when they are
needed) is measured by `kafkaproof dossier --measure RELEASE` and kept in
`reach.ndjson`; the reference predicts the rest.

Recorded answers of brokers decide: a release that stored the bytes of a decode
case and served them brings them to every consumer.  Bytes that no client may
send (markers, append time, gaps that the cleaner leaves) come from brokers
themselves.  Messages of v0 and v1 that an older release stored are in logs that
supported releases still serve: recorded, too.  A checksum that does not match is
damage, and so is an unknown magic as the only wrong byte.  What is left takes a
hostile peer, or a release that is no longer supported.

`source` says on what a reach rests: recorded or measured answers, the
reference's prediction of them, or the shape of the bytes alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

import msgspec

from kafka_brokers import jvm
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.progress import progress
from kafka_brokers.releases import OLDEST_LOGS, RELEASES, SUPPORTED, SupportedReleases
from kafka_brokers.scenarios.recorder import RecordedAnswer, Recorder, ScenarioRequest, answer_file_of, record_answers
from kafka_brokers.wire.errors import ERROR_NAMES
from kafka_conformance.judge.grade import Reach
from kafka_conformance.judge.usual_form import (
    form_of_writer,
    has_list_of_brokers,
    has_markers_of_brokers,
    has_right_maximum,
    has_usual_offsets,
    is_canonical,
)
from kafka_conformance.judge.written import opened_payload
from kafka_corpus import evidence
from kafka_corpus.answer_diff import scenario_of
from kafka_corpus.case import Case, Recipe
from kafka_corpus.prediction import predict
from kafka_corpus.scenario import LAST_OF_V1, NEWEST, Edit, Made, Produce, Scenario, StepAnswer, release_number
from kafka_corpus.vector_format import content_hash, input_of
from kafka_corpus.vectors import package_root
from kafka_records import Batch, Record, RecordFormatError, decode
from kafka_records import attributes as bits
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import (
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_VALUE_V2,
    RECORD_OVERHEAD_V0,
)
from kafka_records.layout import ENTRY, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message import decode_message

FILE: Final = "reach.ndjson"
# Answers of a broker that is being measured.
MEASURED: Final = Path("kafkaproof-reach")
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
    "without the part of an entry at its end",
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
            "rewritten": "stores the records again in a form of its own",
            "without the part of an entry at its end": "stores its whole entries, without the part of one at its end",
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


def _is_of_a_log(batch: Batch) -> bool:
    """Whether its largest time is that of its records, and data with a producer id have a sequence.

    Brokers and the cleaner compute the one, and brokers refuse data without the other (PID-03, PID-04).
    """
    return has_right_maximum(batch) and (batch.control or batch.producer_id < 0 or batch.base_sequence >= 0)


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
    if _complete_size(given) < len(given) and _complete_size(stored) == len(stored):
        return "without the part of an entry at its end"
    alike = _prefix_of(case) not in _OF_BYTES and _content(given) == _content(stored)
    return "with other offsets" if alike else "rewritten"


def _content(data: bytes) -> list[object] | None:
    """The content of batches without offsets, but with what a wrapper has of its own; None if they cannot be read."""
    try:
        return [
            (
                batch.magic,
                batch.compression,
                batch.timestamp_type,
                [record._replace(offset=0) for record in batch.records],
                _of_wrapper(data[start:end]) if batch.magic < MAGIC_VALUE_V2 and batch.compression != "none" else (),
            )
            for batch, (start, end) in zip(decode(data), split_entries(data), strict=True)
        ]
    except RecordFormatError:
        return None


def _of_wrapper(entry: bytes) -> tuple[bytes | None, list[bytes], int]:
    """The key, relative offsets as they are written inside of v1 (NST-08), and the number of bytes inside.

    A broker may have written the first two again, and have left out a message at the end that is cut.
    """
    message, inner = decode_message(entry), opened_payload(entry)
    offsets = [inner[start : start + 8] for start, _ in split_entries(inner)]
    return message.key, offsets if message.magic == 1 else [], len(inner)


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


def measure_missing(release: str, cases: Iterable[Case], folder: Path = MEASURED) -> int:
    """Send the *cases* without an answer of *release* to a broker, keep the answers, and return the number sent.

    Each answer is in *folder* at once, so a run that was stopped continues.

    Raises:
        NoBroker: it cannot be started.
    """
    todo = list(unmeasured(cases, release))
    if todo:
        write_reach(merge_reach(release, measure(release, todo, folder)))
    return len(todo)


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


Source = Literal["recorded", "measured", "predicted", "shape"]
# Sources other than a broker's answer to the bytes.
INFERRED: Final[tuple[Source, ...]] = ("predicted", "shape")
NO_OFFSET: Final = bytes(8)


@dataclass(frozen=True, slots=True)
class CaseReach:
    """The parties that can bring the bytes of one case before a codec.

    Attributes:
        reach: see `kafka_conformance.judge.grade.Reach`.
        releases: those that store and serve the bytes, oldest first; of `old_logs`, those that wrote them.
        source: what this rests on.
        reason: one sentence for reports.
    """

    reach: Reach
    releases: tuple[str, ...] = ()
    source: Source = "recorded"
    reason: str = ""

    def span(self) -> str:
        """The releases in short, as `0.10.0.1 to 3.9.2`; empty without one."""
        if len(self.releases) < 2:
            return "".join(self.releases)
        return f"{self.releases[0]} to {self.releases[-1]}"


AS_WRITER: Final = CaseReach("as_writer", source="shape", reason="The codec writes the bytes itself.")


def case_reach(case: Case, supported: SupportedReleases = SUPPORTED) -> CaseReach:
    """The reach of *case*, by recorded answers of brokers."""
    if case.op == "encode":
        return AS_WRITER
    if isinstance(case.input, Scenario):
        return _of_scenario(case.input, supported)
    data = input_of(case)
    assert isinstance(data, bytes)
    answers = reach_of(case)
    source: Source = "predicted" if answers.predicted else "measured" if _is_measured(case) else "recorded"
    return bytes_reach(case, data, answers.answers, source, supported)


def _is_measured(case: Case) -> bool:
    found = load_reach().get(case.id)
    return found is not None and found.sha256 == content_hash(case)


def _of_scenario(scenario: Scenario, supported: SupportedReleases) -> CaseReach:
    releases = tuple(name for name in _names() if scenario.concerns(name))
    now = tuple(name for name in releases if supported.covers(name))
    if any(isinstance(step, Edit) for step in scenario.steps):
        return CaseReach("rot", now, "shape", "Bytes on the broker's disk are changed.")
    if now:
        return CaseReach("any_producer", now, "shape", "A client sends the requests.")
    return CaseReach("retired", releases, "shape", "No supported release takes such requests.")


def bytes_reach(
    case: Case, data: bytes, answers: Mapping[str, ReachResult], source: Source, supported: SupportedReleases
) -> CaseReach:
    """The reach of the bytes *data* of a decode case that brokers gave *answers* to."""
    stored = tuple(release for release, answer in answers.items() if answer.reaches)
    now = tuple(release for release in stored if supported.covers(release))
    if now:
        return CaseReach("any_producer", now, source, "A supported broker stores and serves the bytes.")
    if case.expect.verdict == "valid" and (found := _of_valid(case, data, supported)) is not None:
        return found
    if case.expect.verdict != "invalid" and (found := _of_old_log(case, data, stored, source, supported)) is not None:
        return found
    if _prefix_of(case) == "CNV" and magics_of(data) & {0, 1} and case.expect.verdict == "valid":
        # KIP-896: these versions ended with 4.0.
        return CaseReach("retired", (), "shape", "Brokers convert to v0 and v1 only for Fetch versions 0 to 3.")
    if case.expect.verdict != "valid" and is_damaged(data, len(case.expect.batches)):
        if case.id.partition("[")[0] in FORGED:
            return CaseReach("hostile", (), "shape", "No fault of a disk or wire makes such a checksum or size.")
        return CaseReach("rot", (), "shape", "A checksum or a size does not match the bytes.")
    if alone := _stored_alone(case, data, supported):
        return CaseReach("any_producer", alone, "predicted", "A supported broker stores the entry if it comes alone.")
    return _of_the_past(case, data, stored, source)


def _of_valid(case: Case, data: bytes, supported: SupportedReleases) -> CaseReach | None:
    """The reach of valid bytes that no supported broker stored as one request; None if they need a hostile peer."""
    batches = case.expect.batches
    if not batches:
        return None  # KIP-74: a broker sends one whole batch at least
    magics = {batch.magic for batch in batches}
    if magics != {MAGIC_VALUE_V2} or not (is_canonical(data, batches) and has_markers_of_brokers(batches)):
        return None
    if not has_list_of_brokers(batches, case.aborted or ()):
        return None
    if not (all(map(_is_of_a_log, batches)) and has_usual_offsets(batches)):
        return None
    if case.rules[0].partition("-")[0] in BROKERS_OWN or any(map(_of_broker, batches)):
        return CaseReach("broker_itself", (), "shape", "Brokers write such batches: clients may not send them.")
    if len(data) > _complete_size(data):
        return CaseReach("broker_itself", (), "shape", "A broker cuts a fetch response at its size limit.")
    if case.aborted is not None or any(batch.transactional for batch in batches):
        return CaseReach("any_producer", (), "shape", "A transactional producer sends the batches, one a request.")
    if len(batches) > 1:
        return CaseReach("any_producer", (), "shape", "A producer sends the batches, one a request.")
    return None


def _complete_size(data: bytes) -> int:
    """The end of the last complete entry in *data*."""
    return max((end for _, end in complete_entries(data)), default=0)


# Case functions whose checksum or size is wrong in a way that no fault of a disk or wire has a chance to hit: a
# checksum of other bytes, by another polynomial, or over bytes that no broker stores; a size that leads back to the
# start of an entry; more in front.
FORGED: Final = frozenset(
    {
        "backwards.batch_at_itself",
        "backwards.batch_at_the_one_before",
        "backwards.message_at_itself",
        "backwards.message_at_the_one_before",
        "compression.crc_over_compressed_bytes",
        "framing.array_count_in_front",
        "v0_message.crc_is_not_castagnoli",
        "v0_message.crc_over_the_wrong_bytes",
        "v0_message.crc_placeholder",
        "v2_crc.crc_before_the_codec_id",
        "v2_crc.crc_of_an_empty_batch",
        "v2_crc.crc_of_records_behind_a_count_of_zero",
        "v2_crc.crc_over_the_plain_records",
        "v2_crc.message_with_crc32c",
        "v2_crc.wrong_checksum",
    }
)


def is_damaged(data: bytes, sound: int) -> bool:
    """Whether the entry after the first *sound* ones has a checksum or a size that cannot be right."""
    found = list(complete_entries(data))
    if len(found) <= sound:
        return _ends_with_low_size(data)
    start, end = found[sound]
    return has_bad_checksum(data[start:end])


def has_low_size(case: Case) -> bool:
    """Whether the entry after the sound ones has a size below that of any entry.

    A broker looks for the entry at which a fetch starts, and answers CORRUPT_MESSAGE to one with such a size
    (`FileLogInputStream.nextBatch`): it cannot be fetched again and again.
    """
    if case.op != "decode" or isinstance(case.input, Scenario):
        return False
    data = input_of(case)
    assert isinstance(data, bytes)
    return len(list(complete_entries(data))) <= len(case.expect.batches) and _ends_with_low_size(data)


def _ends_with_low_size(data: bytes) -> bool:
    rest = data[_complete_size(data) :]
    # A broker does not look at the last 17 bytes of a log (FileLogInputStream), and no fetch begins with them.
    return len(rest) > HEADER_SIZE_UP_TO_MAGIC and ENTRY.values(rest)["size"] < RECORD_OVERHEAD_V0


def has_bad_checksum(entry: bytes) -> bool:
    """Whether the checksum in a complete entry is not that of its bytes.

    An unknown magic counts if it is the only damage: with another magic the checksum is right.  That of v2 does not
    cover the magic, so that brokers serve such a batch from their disk (`log_segments.unknown_magic_is_served`).
    """
    magic = entry[MAGIC_OFFSET]
    if magic > MAGIC_VALUE_V2:
        known = (entry[:MAGIC_OFFSET] + bytes([each]) + entry[MAGIC_OFFSET + 1 :] for each in range(MAGIC_VALUE_V2 + 1))
        return not all(map(has_bad_checksum, known))
    at, compute = (17, checksum_v2) if magic == MAGIC_VALUE_V2 else (12, checksum_legacy)
    return len(entry) < at + 4 or int.from_bytes(entry[at : at + 4], "big") != compute(entry)


def complete_entries(data: bytes) -> Iterator[tuple[int, int]]:
    """Where each complete entry starts and ends, up to one whose size cannot be; any magic."""
    at = 0
    while at + LOG_OVERHEAD <= len(data):
        size = ENTRY.values(data, at)["size"]
        end = at + LOG_OVERHEAD + size
        if size < RECORD_OVERHEAD_V0 or end > len(data):
            return
        yield at, end
        at = end


def _stored_alone(case: Case, data: bytes, supported: SupportedReleases) -> tuple[str, ...]:
    """The supported releases that store the broken entry of a log of several if it is sent alone, as predicted."""
    found = list(complete_entries(data))
    broken = len(case.expect.batches)
    if len(found) < 2 or broken >= len(found) or case.expect.verdict == "valid":
        return ()
    start, end = found[broken]
    if data[start + MAGIC_OFFSET] != MAGIC_VALUE_V2:
        return ()
    entry = NO_OFFSET + data[start + len(NO_OFFSET) : end]
    scenario = Scenario(steps=(Produce(data=entry),)).bounded()
    return tuple(
        release for release in _names() if supported.covers(release) and _stores(case, scenario, entry, release)
    )


def _stores(case: Case, scenario: Scenario, entry: bytes, release: str) -> bool:
    try:
        answers = predict(scenario, release)
    except RecordFormatError:
        return False
    return answers is not None and reach_result(case, entry, answers[0]).reaches


# Scenarios that put messages of an old format on a broker's disk and fetch them, by magic.
FROM_DISK: Final = {0: "log_segments.mixed_formats[v0]", 1: "log_segments.mixed_formats[v1]"}
# The first release with each format (KIP-31 and KIP-32, KIP-98); older ones stored any magic without a look at it.
FIRST_OF_MAGIC: Final = {0: "0.8", 1: "0.10.0", 2: "0.11.0"}
# Entries that the cleaner of an old release wrote and no producer could: the releases.
OLD_CLEANERS: Final[Mapping[str, tuple[str, ...]]] = {"history.wrapper_converted_by_the_cleaner": ("0.10.0.1",)}


@cache
def serving_releases(magic: int) -> tuple[str, ...]:
    """The releases that serve messages of *magic* 0 or 1 from their disk as they are, as recorded; oldest first."""
    recorded = _recorded().get(FROM_DISK[magic])
    by_release = {} if recorded is None else recorded.by_release()
    return tuple(order(name for name, steps in by_release.items() if magic in magics_of(steps[0].data)))


def magics_of(data: bytes) -> set[int]:
    """The magics of the complete entries in *data*."""
    return {data[start + MAGIC_OFFSET] for start, _ in complete_entries(data)}


def _of_old_log(
    case: Case, data: bytes, stored: Sequence[str], source: Source, supported: SupportedReleases
) -> CaseReach | None:
    """The reach of messages of v0 and v1 that older releases stored, and supported ones serve from their disk."""
    old = {magic for magic in magics_of(data) if magic < MAGIC_VALUE_V2}
    now = [name for name in _names() if supported.covers(name) and all(name in serving_releases(each) for each in old)]
    if not old or not now or not _has_offsets_of_a_broker(data) or not _is_part_of_a_log(case.expect.batches):
        return None
    writers = tuple(name for name in stored if release_number(name) >= release_number(FIRST_OF_MAGIC[max(old)]))
    if not writers and case.expect.verdict == "valid":
        writers, source = (OLD_CLEANERS[case.id], "shape") if case.id in OLD_CLEANERS else _writers(case, data)
    if not writers:
        return None
    wrote = CaseReach("old_logs", writers).span()
    what = "the bytes" if magics_of(data) == old else "the messages"
    return CaseReach(
        "old_logs", writers, source, f"A log that {wrote} wrote has {what}; {now[0]} to {now[-1]} serve it."
    )


def _has_offsets_of_a_broker(data: bytes) -> bool:
    """Whether each old message has the offset of its last record, which brokers write over a producer's."""
    old = [entry for start, end in complete_entries(data) if (entry := data[start:end])[MAGIC_OFFSET] < MAGIC_VALUE_V2]
    return all(
        not (records := _records_of(entry)) or records[-1].offset == ENTRY.values(entry)["offset"] for entry in old
    )


def _is_part_of_a_log(batches: Sequence[Batch]) -> bool:
    """Whether a log can get to the offsets of *batches*, each of which is after the one before."""
    return has_usual_offsets(batches) and all(
        before.last_offset < after.base_offset for before, after in pairwise(batches)
    )


def _records_of(entry: bytes) -> tuple[Record, ...]:
    try:
        return decode(entry)[0].records
    except RecordFormatError:
        return ()


def _writers(case: Case, data: bytes) -> tuple[tuple[str, ...], Source]:
    """The releases that store the old messages of *data*, each sent alone; none if one of them is stored by none.

    Brokers set the bit and the time of LogAppendTime themselves (`fetch_conversion.v1_on_an_append_time_topic`).
    Where an entry has the form of Kafka's own writer, the releases are those whose newest format it is.
    """
    found: set[str] = set()
    source: Source = "shape"
    for start, end in complete_entries(data):
        entry = data[start:end]
        if entry[MAGIC_OFFSET] >= MAGIC_VALUE_V2:
            if not is_canonical(entry, decode(entry)):
                return (), source
            continue
        sent = _with_create_time(entry)
        if _is_as_kafka_writes(sent, of_bytes=_prefix_of(case) in _OF_BYTES):
            found.update(name for name in _names() if _writes(name, entry[MAGIC_OFFSET]))
            continue
        scenario = Scenario(steps=(Produce(data=sent, api_version=_LAST_PRODUCE_OF_V1),), until=LAST_OF_V1).bounded()
        writers = {name for name in _names() if scenario.concerns(name) and _stores(case, scenario, sent, name)}
        if not writers:
            return (), source
        found |= writers
        source = "predicted"
    return tuple(order(found)), source


def _is_as_kafka_writes(entry: bytes, *, of_bytes: bool) -> bool:
    """Whether a message is as Kafka's writer makes it; compressed bytes may differ if the case is not *of_bytes*."""
    batch = decode(entry)[0]
    written = form_of_writer(batch)
    if of_bytes or batch.compression == "none" or not written:
        return written == entry
    # Kafka's writer gives no wrapper a key.
    return opened_payload(written) == opened_payload(entry) and decode_message(entry).key is None


def _writes(release: str, magic: int) -> bool:
    """Whether *magic* is the newest format of *release*."""
    first, after = (release_number(FIRST_OF_MAGIC[each]) for each in (magic, magic + 1))
    return first <= release_number(release) < after


def _with_create_time(entry: bytes) -> bytes:
    """A message of v0 or v1 as its producer sent it: without the bit of LogAppendTime in v1."""
    at = MAGIC_OFFSET + 1
    if entry[MAGIC_OFFSET] != 1 or not entry[at] & bits.TIMESTAMP_TYPE_MASK:
        return entry
    sent = entry[:at] + bytes([entry[at] & ~bits.TIMESTAMP_TYPE_MASK]) + entry[at + 1 :]
    return sent[:LOG_OVERHEAD] + checksum_legacy(sent).to_bytes(4, "big") + sent[MAGIC_OFFSET:]


def _of_the_past(case: Case, data: bytes, stored: Iterable[str], source: Source) -> CaseReach:
    """The reach of bytes that no supported broker stores."""
    then = tuple(stored)
    kept = tuple(name for name in then if release_number(name) >= release_number(OLDEST_LOGS))
    if kept:
        return CaseReach("old_logs", kept, source, f"A log that {kept[0]} to {kept[-1]} wrote has the bytes.")
    if starts_with_legacy(data):
        return CaseReach("retired", then, source, "No supported release takes such bytes, or wrote them to a log.")
    return CaseReach("hostile", (), source, "No broker stores the bytes: only a broken or malicious peer sends them.")


def starts_with_legacy(data: bytes) -> bool:
    """Whether the first entry is one of v0 or v1."""
    return len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] < MAGIC_VALUE_V2


def _names() -> list[str]:
    return [each.name for each in RELEASES]
