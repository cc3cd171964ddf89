"""Profiles: the parts that a codec can play, and the cases that each of them requires; pure.

A case belongs to one profile, by its operation, its bytes and its reach.  A
codec plays the profiles that it announces.  A required case of a profile is one
that any API for the profile can express: whoever skips it has an incomplete
profile.  Cases beyond that are asked where the API can express them, and count
if they are answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, get_args

from kafka_conformance.judge.canonical import has_usual_times
from kafka_conformance.judge.grade import Reach
from kafka_conformance.judge.grading import is_unusual
from kafka_corpus.case import Case
from kafka_corpus.vectors import input_of
from kafka_records import Batch, encode
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, NO_PRODUCER_ID
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ATTRIBUTES_OFFSET_V2, MAGIC_OFFSET
from kafka_records.rules import rule

Profile = Literal[
    "consumer",
    "consumer-legacy",  # v0 and v1
    "consumer-transactions",  # markers, and what a read_committed consumer delivers
    "producer",
    "producer-legacy",
    "integrity",  # damage is detected
    "hostile",  # no input stops the process
]
PROFILES: Final[tuple[Profile, ...]] = get_args(Profile)
CONSUMERS: Final[tuple[Profile, ...]] = ("consumer", "consumer-legacy", "consumer-transactions")
PRODUCERS: Final[tuple[Profile, ...]] = ("producer", "producer-legacy")
# A broker's own operations: `append` and scenarios.  No codec is certified for them, and no API plays them in part.
BROKER: Final = "broker"
CaseProfile = Profile | Literal["broker"]
NO_LEADER_EPOCH: Final = -1
# The reaches that a FAIL can have.
FAILING: Final[tuple[Reach, ...]] = ("any_producer", "broker_itself", "old_logs", "rot", "as_writer")
_CODEC_BITS: Final = 0x07


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
    return rule(case.rules[0]).strength == "must" and not is_unusual(case)


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
    return plain and usual and counted and bool(offsets) and _has_plain_headers(batch) and _shrinks(batch)


def _has_plain_headers(batch: Batch) -> bool:
    """Whether a map from text to bytes can hold the headers."""
    for record in batch.records:
        keys = [header.key for header in record.headers]
        if len(set(keys)) < len(keys) or any(header.value is None for header in record.headers):
            return False
        if any(not key.isascii() or not key.decode().isidentifier() for key in keys):
            return False
    return True


def _shrinks(batch: Batch) -> bool:
    """Whether a compression saves a tenth: some producers leave it out where it saves little."""
    return batch.compression == "none" or 10 * len(encode(batch)) < 9 * len(encode(replace(batch, compression="none")))


@dataclass(frozen=True, slots=True)
class Announced:
    """What a testee announces about itself, as far as profiles depend on it."""

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
        """The profiles that the testee plays."""
        legacy = {0, 1}
        plays: dict[Profile, bool] = {
            "consumer": MAGIC_VALUE_V2 in self.decode_magics,
            "consumer-legacy": bool(legacy & self.decode_magics),
            "consumer-transactions": MAGIC_VALUE_V2 in self.decode_magics,
            "producer": MAGIC_VALUE_V2 in self.encode_magics,
            "producer-legacy": bool(legacy & self.encode_magics),
            "integrity": bool(self.decode_magics),
            "hostile": bool(self.decode_magics),
        }
        return tuple(profile for profile in PROFILES if plays[profile])

    def compressions(self, profile: Profile) -> tuple[str, ...]:
        """The columns of a profile."""
        given = self.encode_compressions if profile in PRODUCERS else self.decode_compressions
        return tuple(name for name in COMPRESSIONS if name in given)


ProfileGrade = Literal["pass", "fail", "incomplete"]


@dataclass(slots=True)
class AnswerCounts:
    """Counts of the cases of a profile, or of one compression in it.

    Attributes:
        asked: cases that are for the testee: the runner sent them.
        answered: of these, those that it did not skip.
        skipped: of these, those that it skipped and that are not required.
        required: cases without which the profile is incomplete.
        failed: of these, those with a finding that fails the profile.
        missing: of these, the number without an answer by reason.
    """

    asked: int = 0
    answered: int = 0
    skipped: int = 0
    required: int = 0
    failed: int = 0
    missing: dict[str, int] = field(default_factory=dict)

    def add(self, *, required: bool, skipped: str = "", failed: bool = False) -> None:
        """Count one case; *skipped* is the testee's reason not to answer it."""
        self.asked += 1
        self.required += required
        self.failed += required and failed
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
        return self.required - self.lacking - self.failed


def profile_grade(answers: AnswerCounts, fail_causes: int) -> ProfileGrade:
    """The grade of a profile: a cause of FAIL fails it, and a required case without an answer leaves it open."""
    if fail_causes:
        return "fail"
    return "pass" if answers.required and not answers.lacking else "incomplete"


def deciding_profiles(announced: Announced, chosen: Collection[str] = ()) -> tuple[Profile, ...]:
    """The profiles that decide the exit code: those *chosen*, else all but `hostile`, which no codec announces."""
    if chosen:
        return tuple(profile for profile in PROFILES if profile in chosen)
    return tuple(profile for profile in announced.profiles() if profile != "hostile")
