"""Profiles: the parts that a codec can play, and the cases that each of them requires; pure.

A case belongs to one profile, by its operation, its bytes and its reach.  A
codec has the profiles of the formats that it announces.  A required case of a
profile is one that any API for the profile can express: a codec that skips it
has an incomplete profile.  Other cases count if the codec answers them.

`Certification.profiles` and `Certification.causes` are what `certify --json` writes
under these names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Literal, get_args

import msgspec

from kafka_brokers.releases import SUPPORTED, SupportedReleases
from kafka_conformance.causes import CauseKey, ReviewedCause, cause_key, causes_of, reviewed_causes
from kafka_conformance.judge.api_limits import contradicted
from kafka_conformance.judge.grade import GRADES, PROFILES, REACHES, UNSAFE, Effect, Grade, Profile, Reach, grade_rank
from kafka_conformance.judge.grading import FindingGrade, effect_of, grade_finding, own_strength
from kafka_conformance.judge.reach import CaseReach, case_reach, magics_of
from kafka_conformance.judge.usual_form import has_usual_times, is_unusual
from kafka_conformance.judge.verdict import OPEN, Outcome
from kafka_conformance.runner.deviations import FindingCauses
from kafka_conformance.runner.results import ResultLine, Results
from kafka_conformance.testees.known import plain_name
from kafka_corpus.case import Case, Recipe, Verdict, once_per_case
from kafka_corpus.scenario import Scenario
from kafka_corpus.vector_format import CODEC_OPS, input_of
from kafka_records import Batch, encode
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, NO_PRODUCER_ID
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ATTRIBUTES_OFFSET_V2, MAGIC_OFFSET

PRODUCERS: Final[tuple[Profile, ...]] = ("producer", "producer-legacy")
CONSUMERS: Final[tuple[Profile, ...]] = ("consumer", "consumer-legacy", "consumer-transactions")
# The share of what consumers have to read without which `integrity` and `hostile` say nothing.
MIN_READ: Final = 0.5
# The share of the required cases that declared deviations may cover.
MAX_DECLARED: Final = 0.1
# A broker's own operations: `append` and scenarios.  No codec is certified for them, and no API plays them in part.
BROKER: Final = "broker"
CaseProfile = Profile | Literal["broker"]
NO_LEADER_EPOCH: Final = -1
# The reaches that a FAIL can have.
FAILING: Final[tuple[Reach, ...]] = ("any_producer", "broker_itself", "old_logs", "rot", "as_writer")
_CODEC_BITS: Final = 0x07
# Outcomes of valid cases that were read or written.
EXPRESSED: Final[tuple[Outcome, ...]] = ("agree", "lossy", "wrong_data")
# The beginning of the reason of a skip that no limit of the API explains, or that other answers contradict.
NO_LIMIT: Final = "skipped, though it is no limit of its API"


@dataclass(frozen=True, slots=True)
class CaseRole:
    """The place of a case in the profiles.

    Attributes:
        profile: the profile that it belongs to.
        compression: the column in it.
        required: whether any API for the profile can express it, and its answer decides.
    """

    profile: CaseProfile
    compression: str
    required: bool


def case_role(case: Case, reach: Reach) -> CaseRole:
    """The role of *case*, whose bytes have this *reach*."""
    profile = case_profile(case, reach)
    return CaseRole(profile, case_compression(case), is_required(case, profile, reach))


def case_profile(case: Case, reach: Reach) -> CaseProfile:
    """The profile that *case* belongs to."""
    if isinstance(case.input, Batch):
        return "producer" if case.input.magic >= MAGIC_VALUE_V2 else "producer-legacy"
    if case.op != "decode":
        return BROKER
    if reach == "rot":
        return "integrity"
    if reach == "hostile" or (reach == "retired" and case.expect.verdict != "valid"):
        return "hostile"
    if case.aborted is not None or any(batch.control or batch.transactional for batch in case.expect.batches):
        return "consumer-transactions"
    return "consumer-legacy" if _is_legacy(case) else "consumer"


def _is_legacy(case: Case) -> bool:
    batches = case.expect.batches
    if batches:
        return any(batch.magic < MAGIC_VALUE_V2 for batch in batches)
    data = input_of(case)
    assert isinstance(data, bytes)
    return len(data) > MAGIC_OFFSET and data[MAGIC_OFFSET] < MAGIC_VALUE_V2


@once_per_case
def case_compression(case: Case) -> str:
    """The compression of the first batch of *case*; `none` if it has no batch or another codec's bits."""
    if isinstance(case.input, Batch):
        return case.input.compression
    if case.op != "decode":
        return "none"
    data = input_of(case)
    assert isinstance(data, bytes)
    if len(data) <= ATTRIBUTES_OFFSET_V2 + 1:
        return "none"
    at = ATTRIBUTES_OFFSET_V2 + 1 if data[MAGIC_OFFSET] == MAGIC_VALUE_V2 else ATTRIBUTES_OFFSET_LEGACY
    codec = data[at] & _CODEC_BITS
    return COMPRESSIONS[codec] if codec < len(COMPRESSIONS) else "none"


def is_required(case: Case, profile: CaseProfile, reach: Reach) -> bool:
    """Whether the profile cannot be passed without an answer to *case*."""
    if profile == BROKER:
        return case.expect.verdict != "acceptable"
    if profile == "hostile":
        return case.expect.verdict == "invalid"
    if case.expect.verdict == "acceptable" or reach not in FAILING:
        return False
    if isinstance(case.input, Batch):
        return case.expect.verdict == "valid" and is_plain_request(case.input)
    return own_strength(case) == "must" and not is_unusual(case) and not _has_several_formats(case)


def _has_several_formats(case: Case) -> bool:
    """Whether a log changes its format within the bytes: decoders of one format leave the rest to another call."""
    data = input_of(case)
    return isinstance(data, bytes) and len(magics_of(data)) > 1


def is_plain_request(batch: Batch) -> bool:
    """Whether every producer can send these records: offsets from 0, create time, no state that a broker gives."""
    offsets = [record.offset for record in batch.records]
    plain = (
        batch.timestamp_type == "create"
        and batch.delete_horizon is None
        and batch.partition_leader_epoch == NO_LEADER_EPOCH
        and batch.producer_id == NO_PRODUCER_ID
        and not (batch.control or batch.transactional)
    )
    usual = has_usual_times((batch,)) and all(record.timestamp > 0 for record in batch.records)
    counted = batch.base_offset == 0 and batch.last_offset == len(offsets) - 1 and offsets == list(range(len(offsets)))
    # kafka-python's and aiokafka's producers document that a record has a key or a value.
    filled = all(record.key is not None or record.value is not None for record in batch.records)
    return plain and usual and counted and filled and bool(offsets) and _has_plain_headers(batch) and _shrinks(batch)


def _has_plain_headers(batch: Batch) -> bool:
    """Whether a map from text to bytes can hold the headers, also one that sorts its keys."""
    for record in batch.records:
        keys = [header.key or b"" for header in record.headers]
        if len(set(keys)) < len(keys) or keys != sorted(keys) or any(header.value is None for header in record.headers):
            return False
        if any(not key.isascii() or not key.decode().isidentifier() for key in keys):
            return False
    return True


def _shrinks(batch: Batch) -> bool:
    """Whether a compression saves a tenth: some producers leave it out where it saves little."""
    return batch.compression == "none" or 10 * len(encode(batch)) < 9 * len(encode(replace(batch, compression="none")))


@dataclass(frozen=True, slots=True)
class Announced:
    """The formats that a testee announces."""

    decode_magics: frozenset[int]
    decode_compressions: tuple[str, ...]
    encode_magics: frozenset[int]
    encode_compressions: tuple[str, ...]

    @classmethod
    def of(cls, testee: Mapping[str, Any]) -> Announced:
        """From the `testee` of a result's header."""
        decode, encode = testee.get("decode") or {}, testee.get("encode") or {}
        return cls(
            decode_magics=frozenset(decode.get("magics", ())),
            decode_compressions=tuple(decode.get("compressions", ())),
            encode_magics=frozenset(encode.get("magics", ())),
            encode_compressions=tuple(encode.get("compressions", ())),
        )

    def profiles(self) -> tuple[Profile, ...]:
        """The profiles of these formats, in order."""
        legacy = {0, 1}
        announced: dict[Profile, bool] = {
            "consumer": MAGIC_VALUE_V2 in self.decode_magics,
            "consumer-legacy": bool(legacy & self.decode_magics),
            "consumer-transactions": MAGIC_VALUE_V2 in self.decode_magics,
            "producer": MAGIC_VALUE_V2 in self.encode_magics,
            "producer-legacy": bool(legacy & self.encode_magics),
            "integrity": bool(self.decode_magics),
            "hostile": bool(self.decode_magics),
        }
        return tuple(profile for profile in PROFILES if announced[profile])

    def compressions(self, profile: Profile) -> tuple[str, ...]:
        """The columns of a profile."""
        given = self.encode_compressions if profile in PRODUCERS else self.decode_compressions
        return tuple(name for name in COMPRESSIONS if name in given)


ProfileGrade = Literal["pass", "fail", "incomplete"]


@dataclass(slots=True)
class AnswerCounts:
    """Counts of the cases of a profile, or of one compression in it.

    Attributes:
        sent: cases that the runner sent to the testee.
        answered: of these, those that it did not skip.
        skipped: of these, those that it skipped and that are not required.
        required: cases without which the profile is incomplete.
        failed: of these, those with a finding that fails the profile.
        declared: of these, those with a declared deviation that would fail it.
        missing: of these, the number without an answer by reason.
    """

    sent: int = 0
    answered: int = 0
    skipped: int = 0
    required: int = 0
    failed: int = 0
    declared: int = 0
    missing: dict[str, int] = field(default_factory=dict)

    def add(self, *, required: bool, skipped: str = "", failed: bool = False, declared: bool = False) -> None:
        """Count one case; *skipped* is the testee's reason not to answer it."""
        self.sent += 1
        self.required += required
        self.failed += required and failed
        self.declared += required and declared
        if not skipped:
            self.answered += 1
        elif required:
            self.missing[skipped] = self.missing.get(skipped, 0) + 1
        else:
            self.skipped += 1

    @property
    def lacking(self) -> int:
        """The number of required cases without an answer."""
        return sum(self.missing.values())

    @property
    def passed(self) -> int:
        """The number of required cases that were answered without such a finding."""
        return self.required - self.lacking - self.failed - self.declared


def profile_grade(answers: AnswerCounts, fail_causes: int) -> ProfileGrade:
    """The grade of a profile: a cause of FAIL fails it, and a required case without an answer leaves it open.

    So do declared deviations in more than `MAX_DECLARED` of the required cases.
    """
    if fail_causes or answers.declared > MAX_DECLARED * answers.required:
        return "fail"
    return "pass" if answers.required and not answers.lacking else "incomplete"


def deciding_profiles(announced: Announced, chosen: Collection[str] = ()) -> tuple[Profile, ...]:
    """The profiles that decide the exit code: those *chosen*, else all but `hostile`, which no codec announces."""
    if chosen:
        return tuple(profile for profile in PROFILES if profile in chosen)
    return tuple(profile for profile in announced.profiles() if profile != "hostile")


_EXPECTATIONS: Final[tuple[Verdict, ...]] = get_args(Verdict)


@dataclass(frozen=True, slots=True)
class PassCriteria:
    """The conditions for exit code 0.

    Attributes:
        profiles: those that decide; empty for those that the testee announces.
        strict: whether NON_STRICT causes count as well.
        supported: the releases that count as supported.
    """

    profiles: tuple[str, ...] = ()
    strict: bool = False
    supported: SupportedReleases = SUPPORTED


DEFAULT_CRITERIA: Final = PassCriteria()


@dataclass(frozen=True, slots=True)
class GradedFinding:
    """A finding with its grade, the profile that it counts in, and its cause."""

    case: Case
    line: ResultLine
    graded: FindingGrade
    profile: CaseProfile
    cause: CauseKey
    known: bool = False

    @property
    def fails(self) -> bool:
        """Whether its profile cannot be passed with it; a declared deviation does not count."""
        return self.is_grave and not self.known

    @property
    def is_grave(self) -> bool:
        """The same without regard to declared deviations."""
        if self.profile == "hostile":
            return self.graded.grade == "HOSTILE" and self.graded.effect in UNSAFE
        return self.graded.grade == "FAIL"

    def document(self) -> dict[str, str]:
        """The fields that a finding has in JSON beside those of its result line."""
        graded = self.graded
        return {
            "grade": graded.grade,
            "effect": graded.effect,
            "reach": graded.reach,
            "profile": self.profile,
            "cause": self.cause.id,
            "reason": graded.reason,
        }


class CompressionResult(msgspec.Struct, frozen=True):
    """One compression of a profile: a column of the matrix.

    `passed` of `required` cases were answered without a finding that fails the profile.
    """

    compression: str
    grade: ProfileGrade
    fail_causes: int
    required: int
    passed: int


class ProfileResult(msgspec.Struct, frozen=True):
    """The result of one profile: see `kafka_conformance.reports.profiles`.

    `missing` has the number of required cases without an answer by reason.
    """

    profile: CaseProfile
    grade: ProfileGrade
    compressions: list[CompressionResult]
    fail_causes: int
    non_strict_causes: int
    info: int
    asked: int
    answered: int
    skipped: int
    missing: dict[str, int]
    required: int
    passed: int


class FoundCause(msgspec.Struct, frozen=True):
    """One cause, and the findings that it explains; `cases` are ids, the smallest first."""

    id: str
    title: str
    grade: Grade
    profile: CaseProfile
    effect: Effect
    reach: Reach
    cases: list[str]
    smallest: str
    source: str
    upstream: str
    reviewed: bool


@dataclass(frozen=True)
class Certification:
    """The profiles and causes of one testee."""

    announced: Announced
    findings: tuple[GradedFinding, ...]
    counts: Mapping[CaseProfile, Mapping[str, AnswerCounts]] = field(repr=False)

    @cached_property
    def profiles(self) -> tuple[ProfileResult, ...]:
        """The result of each profile that the testee announces, in order."""
        names: list[CaseProfile] = [*self.announced.profiles()]
        names += ["broker"] if "broker" in self.counts else []
        return tuple(self._profile(profile) for profile in names)

    def _profile(self, profile: CaseProfile) -> ProfileResult:
        columns = self.counts.get(profile, {})
        total = _total(columns.values())
        found = [finding for finding in self.findings if finding.profile == profile]
        fail, others = _causes_by_weight(found)
        passed = total.passed
        if not fail and profile in ("integrity", "hostile") and (unread := self._unread()):
            total.missing[f"less than {MIN_READ:.0%} of what consumers have to read is read"] = unread
            passed = 0
        names = self.announced.compressions(profile) if profile != "broker" else ("none",)
        return ProfileResult(
            profile=profile,
            grade=profile_grade(total, len(fail)),
            compressions=[_column(name, columns.get(name, AnswerCounts()), found) for name in names],
            fail_causes=len(fail),
            non_strict_causes=len(others),
            info=sum(finding.graded.grade == "INFO" for finding in found),
            asked=total.sent,
            answered=total.answered,
            skipped=total.skipped,
            missing=total.missing,
            required=total.required,
            passed=passed,
        )

    def _unread(self) -> int:
        """The number of required cases of consumers that do not pass, if most do not.

        A testee that refuses everything detects all damage, and no input stops it.
        """
        totals = [_total(self.counts.get(profile, {}).values()) for profile in CONSUMERS]
        required, passed = sum(each.required for each in totals), sum(each.passed for each in totals)
        return required - passed if passed < MIN_READ * required or not required else 0

    @cached_property
    def by_case(self) -> dict[str, GradedFinding]:
        """The findings by case id."""
        return {finding.case.id: finding for finding in self.findings}

    @cached_property
    def causes(self) -> tuple[FoundCause, ...]:
        """All causes but those of INFO alone, the gravest first."""
        grouped: dict[tuple[Grade, str], list[GradedFinding]] = defaultdict(list)
        for finding in self.findings:
            if finding.graded.grade != "INFO":
                grouped[finding.graded.grade, finding.cause.id].append(finding)
        made = [_found_cause(findings) for findings in grouped.values()]
        order = {name: index for index, name in enumerate((*PROFILES, "broker"))}
        return tuple(
            sorted(made, key=lambda each: (grade_rank(each.grade), order[each.profile], -len(each.cases), each.id))
        )

    def failed(self, chosen: Sequence[str] = (), *, strict: bool = False) -> tuple[CaseProfile, ...]:
        """The profiles that make the exit code 1: those *chosen*, or all that decide; *strict* counts NON_STRICT."""
        return tuple(
            each.profile for each in self.deciding(chosen) if each.fail_causes or (strict and each.non_strict_causes)
        )

    def deciding(self, chosen: Sequence[str] = ()) -> tuple[ProfileResult, ...]:
        """The results of the profiles that decide the exit code: those *chosen*, or see `deciding_profiles`."""
        names: set[str] = {*deciding_profiles(self.announced, chosen), *(() if chosen else ("broker",))}
        return tuple(each for each in self.profiles if each.profile in names)


def certify_profiles(
    done: Results,
    cases: Mapping[str, Case],
    supported: SupportedReleases = SUPPORTED,
    testee: str = "",
    known: Collection[str] = (),
) -> Certification:
    """Grade the findings of *done*, and count its cases by profile.

    Args:
        done: the result of one testee.
        cases: the corpus, by id.
        supported: the releases that count as supported.
        testee: the row's name; empty for that in the result.
        known: ids of the cases whose finding is a declared deviation.
    """
    row = testee or row_name(done.header.testee)
    causes = causes_of(row)
    announced = Announced.of(done.header.testee)
    without_reason = contradicted_skips(done.lines, cases)
    findings: list[GradedFinding] = []
    counts: dict[CaseProfile, dict[str, AnswerCounts]] = defaultdict(lambda: defaultdict(AnswerCounts))
    for line in done.lines:
        case = cases.get(line.case)
        if case is None or is_left_out(line):
            continue
        reach, role = placed_case(case, supported)
        finding = _graded(case, line, reach, role, supported, row, causes, line.case in known)
        if finding is not None:
            findings.append(finding)
        fails = finding is not None and finding.fails
        declared = finding is not None and finding.known and finding.is_grave
        skipped = (line.why or "no reason") if line.outcome in OPEN else ""
        if line.case in without_reason:
            skipped = f"{NO_LIMIT}: {skipped}"
        counted_in = finding.profile if finding is not None and finding.is_grave else role.profile
        required = role.required or fails or declared or line.case in without_reason
        counts[counted_in][role.compression].add(required=required, skipped=skipped, failed=fails, declared=declared)
    return Certification(announced, tuple(findings), counts)


def contradicted_skips(lines: Iterable[ResultLine], cases: Mapping[str, Case]) -> frozenset[str]:
    """The ids of cases that a testee skipped without a limit, or for one that it does not have in other cases."""
    expressed: list[Case] = []
    skipped: list[Case] = []
    for line in lines:
        case = cases.get(line.case)
        if case is None or case.op not in CODEC_OPS or is_left_out(line):
            continue
        if line.outcome == "skipped":
            skipped.append(case)
        elif line.outcome in EXPRESSED:
            expressed.append(case)
    return contradicted(expressed, skipped)


def finding_causes(done: Results, cases: Mapping[str, Case], supported: SupportedReleases = SUPPORTED) -> FindingCauses:
    """The causes of all findings of *done*, those of INFO included."""
    row = row_name(done.header.testee)
    findings = certify_profiles(done, cases, supported).findings
    ordered = sorted(findings, key=lambda each: (grade_rank(each.graded.grade), not each.cause.reviewed, each.cause.id))
    titles: dict[str, str] = {}
    for finding in ordered:
        titles.setdefault(finding.cause.id, f"{finding.graded.grade}: {finding.cause.title}")
    own = {cause.id for cause in causes_of(row)}
    former = {cause.id: cause.formerly for cause in causes_of(row) if cause.formerly}
    return FindingCauses(
        by_case={finding.case.id: finding.cause.id for finding in findings},
        titles=titles,
        foreign={cause.id for causes in reviewed_causes().values() for cause in causes} - own,
        complete=done.complete and not done.header.only,
        former=former,
    )


def line_cause(case: Case, line: ResultLine, row: str) -> str:
    """The id of the cause of one finding of *row*; empty if *line* is none."""
    effect = effect_of(case, line)
    return "" if effect is None else cause_key(causes_of(row), row, case.id, line, case.rules, effect).id


def row_name(testee: Mapping[str, Any]) -> str:
    """The row of the matrix that a testee is: its known name without a release, else its own name.

    >>> row_name({"name": "librdkafka", "connect": "confluent-kafka-crc@2.16.1"})
    'confluent-kafka-crc'
    """
    connect = str(testee.get("connect", ""))
    return plain_name(connect) if connect and ":" not in connect else str(testee.get("name", ""))


def is_left_out(line: ResultLine) -> bool:
    """Whether the runner did not send the case, since the testee does not announce it or cannot follow it."""
    return line.outcome == "skipped" and bool(line.observation.get("by_runner"))


@once_per_case
def placed_case(case: Case, supported: SupportedReleases) -> tuple[CaseReach, CaseRole]:
    """Reach and role of *case*."""
    reach = case_reach(case, supported)
    return reach, case_role(case, reach.reach)


def _graded(
    case: Case,
    line: ResultLine,
    reach: CaseReach,
    role: CaseRole,
    supported: SupportedReleases,
    row: str,
    causes: Sequence[ReviewedCause],
    known: bool,
) -> GradedFinding | None:
    graded = grade_finding(case, line, supported, reach)
    if graded is None:
        return None
    cause = cause_key(causes, row, case.id, line, case.rules, graded.effect)
    graded = _lowered(graded, cause.reviewed)
    profile: CaseProfile = "hostile" if graded.grade == "HOSTILE" and role.profile != "broker" else role.profile
    return GradedFinding(case, line, graded, profile, cause, known)


def _lowered(graded: FindingGrade, entry: ReviewedCause | None) -> FindingGrade:
    """The grade of a finding, or a lower one where the reviewer of its cause has given a reason."""
    if entry is None or not entry.lowered or graded.effect in UNSAFE:
        return graded
    most = GRADES.index(entry.grade)
    if grade_rank(graded.grade) >= most:
        return graded
    return replace(graded, grade=GRADES[most], reason=entry.lowered)


def _total(columns: Iterable[AnswerCounts]) -> AnswerCounts:
    total = AnswerCounts()
    for column in columns:
        total.sent += column.sent
        total.answered += column.answered
        total.skipped += column.skipped
        total.required += column.required
        total.failed += column.failed
        total.declared += column.declared
        for reason, count in column.missing.items():
            total.missing[reason] = total.missing.get(reason, 0) + count
    return total


def _column(name: str, counts: AnswerCounts, found: Iterable[GradedFinding]) -> CompressionResult:
    fail, _ = _causes_by_weight([each for each in found if case_compression(each.case) == name])
    return CompressionResult(name, profile_grade(counts, len(fail)), len(fail), counts.required, counts.passed)


def _causes_by_weight(found: Iterable[GradedFinding]) -> tuple[set[str], set[str]]:
    """Ids of the causes that fail the profile, and of those that do not."""
    found = list(found)
    fail = {finding.cause.id for finding in found if finding.fails}
    others = {finding.cause.id for finding in found if finding.graded.grade != "INFO" and not finding.known}
    return fail, others - fail


def _found_cause(findings: Sequence[GradedFinding]) -> FoundCause:
    ordered = sorted(findings, key=smallness)
    first, reviewed = ordered[0], ordered[0].cause.reviewed
    return FoundCause(
        id=first.cause.id,
        title=first.cause.title,
        grade=first.graded.grade,
        profile=first.profile,
        effect=first.graded.effect,
        reach=first.graded.reach,
        cases=[finding.case.id for finding in ordered],
        smallest=first.case.id,
        source="" if reviewed is None else reviewed.source,
        upstream="" if reviewed is None else reviewed.upstream,
        reviewed=reviewed is not None,
    )


def smallness(finding: GradedFinding) -> tuple[int, int, int, str]:
    """The order of the cases of a cause: reach, valid before invalid, size, id."""
    case = finding.case
    return (
        REACHES.index(finding.graded.reach),
        _EXPECTATIONS.index(case.expect.verdict),
        _size(case),
        case.id,
    )


def _size(case: Case) -> int:
    given: Any = case.input
    if isinstance(given, bytes):
        return len(given)
    if isinstance(given, Batch):
        return sum(len(record.key or b"") + len(record.value or b"") + 1 for record in given.records)
    return len(given.steps) if isinstance(given, Scenario) else 1 << 40 if isinstance(given, Recipe) else 0


def percent_passed(result: ProfileResult) -> int:
    """The share of the required cases that pass, in whole percent: 100 only if all do."""
    return 100 * result.passed // result.required if result.required else 0


def profile_line(profiles: Iterable[ProfileResult]) -> str:
    """All profiles in one line, as `consumer: 2 causes · producer: pass · hostile: 3 of 41 unsafe`."""
    return " · ".join(f"{each.profile}: {profile_text(each)}" for each in profiles)


def profile_text(result: ProfileResult) -> str:
    """The result in words, as `pass`, `2 causes`, `3 of 41 unsafe` or `incomplete`."""
    if result.grade != "fail":
        return result.grade
    if result.profile == "hostile":
        return f"{result.required - result.passed - sum(result.missing.values()):,} of {result.required:,} unsafe"
    if not result.fail_causes:
        return "too many declared deviations"
    return f"{result.fail_causes:,} cause{'' if result.fail_causes == 1 else 's'}"
