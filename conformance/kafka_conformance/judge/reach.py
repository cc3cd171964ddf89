"""The reach of every case: who can bring its bytes before a codec.

Recorded answers of brokers decide: a release that stored the bytes of a decode
case and served them brings them to every consumer.  Bytes that no client may
send (markers, append time, gaps that the cleaner leaves) come from brokers
themselves.  A checksum that does not match is damage.  What is left takes a
hostile peer, or a release that nobody runs.

`source` says on what a reach rests: recorded or measured answers, the
reference's prediction of them, or the shape of the bytes alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from kafka_brokers.releases import RELEASES
from kafka_conformance.judge.broker_reach import BROKERS_OWN, ReachResult, load_reach, reach_of, reach_result
from kafka_conformance.judge.canonical import is_canonical
from kafka_conformance.judge.grade import Reach
from kafka_conformance.judge.supported import OLDEST_INVALID_LOGS, OLDEST_LOGS, SUPPORTED, SupportedReleases
from kafka_corpus.case import Case
from kafka_corpus.prediction import predict
from kafka_corpus.scenario import Edit, Produce, Scenario, release_number
from kafka_corpus.vectors import content_hash, input_of
from kafka_records import Batch, RecordFormatError
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import LOG_OVERHEAD, MAGIC_VALUE_V2, RECORD_OVERHEAD_V0
from kafka_records.layout import ENTRY, MAGIC_OFFSET

Source = Literal["recorded", "measured", "predicted", "shape"]
NO_OFFSET: Final = bytes(8)


@dataclass(frozen=True, slots=True)
class CaseReach:
    """Who can bring the bytes of one case before a codec.

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
    if case.expect.verdict != "valid" and is_damaged(data, len(case.expect.batches)):
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
    if case.rules[0].partition("-")[0] == "CNV" and supported.covers("3.9.2"):
        # KIP-896: fetches of v0 and v1 ended with 4.0.
        return CaseReach("broker_itself", ("3.9.2",), "shape", "A broker converts batches for old fetches.")
    if magics != {MAGIC_VALUE_V2} or not is_canonical(data, batches):
        return None
    if case.rules[0].partition("-")[0] in BROKERS_OWN or any(map(_is_brokers, batches)):
        return CaseReach("broker_itself", (), "shape", "Brokers write such batches: clients may not send them.")
    if case.aborted is not None or any(batch.transactional for batch in batches):
        return CaseReach("any_producer", (), "shape", "A transactional producer sends the batches, one a request.")
    if len(batches) > 1:
        return CaseReach("any_producer", (), "shape", "A producer sends the batches, one a request.")
    if len(data) > _size_of(data):
        return CaseReach("broker_itself", (), "shape", "A broker cuts a fetch response at its size limit.")
    return None


def _size_of(data: bytes) -> int:
    """The end of the last complete entry in *data*."""
    return max((end for _, end in entries(data)), default=0)


def _is_brokers(batch: Batch) -> bool:
    """Whether only brokers write such batches: they accept them from no client."""
    span = batch.last_offset - batch.base_offset + 1
    stamped = batch.timestamp_type == "append" or batch.delete_horizon is not None
    return stamped or batch.control or len(batch.records) != span


def is_damaged(data: bytes, sound: int) -> bool:
    """Whether the entry after the first *sound* ones has a checksum or a size that cannot be right."""
    found = list(entries(data))
    if len(found) <= sound:
        rest = data[found[-1][1] if found else 0 :]
        return len(rest) >= LOG_OVERHEAD and ENTRY.values(rest)["size"] < RECORD_OVERHEAD_V0
    start, end = found[sound]
    return has_bad_checksum(data[start:end])


def has_bad_checksum(entry: bytes) -> bool:
    """Whether the checksum in a complete entry is not that of its bytes; false for an unknown magic."""
    magic = entry[MAGIC_OFFSET]
    if magic > MAGIC_VALUE_V2:
        return False
    at, compute = (17, checksum_v2) if magic == MAGIC_VALUE_V2 else (12, checksum_legacy)
    return len(entry) < at + 4 or int.from_bytes(entry[at : at + 4], "big") != compute(entry)


def entries(data: bytes) -> Iterator[tuple[int, int]]:
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
    found = list(entries(data))
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


def _of_the_past(case: Case, data: bytes, stored: Iterable[str], source: Source) -> CaseReach:
    """The reach of bytes that no supported broker stores."""
    is_valid = case.expect.verdict == "valid"
    oldest = OLDEST_LOGS if is_valid else OLDEST_INVALID_LOGS
    then = tuple(stored)
    kept = tuple(name for name in then if release_number(name) >= release_number(oldest))
    if kept:
        return CaseReach("old_logs", kept, source, f"A log that {kept[0]} to {kept[-1]} wrote has the bytes.")
    if is_legacy(data):
        return CaseReach("retired", then, source, "No release that is still served stores the bytes.")
    return CaseReach("hostile", (), source, "No broker stores the bytes: only a broken or malicious peer sends them.")


def is_legacy(data: bytes) -> bool:
    """Whether the first entry is one of v0 or v1."""
    return len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] < MAGIC_VALUE_V2


def _names() -> list[str]:
    return [each.name for each in RELEASES]
