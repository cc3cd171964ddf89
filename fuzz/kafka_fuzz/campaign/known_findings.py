"""Known findings: the lists, the inputs that are skipped, and the results of the last replay.

A list of known findings is a list of known issues (`kafka_corpus.known_issues`) with these fields besides:

    [[issue]]
    id = "inner sizes of kafka-python"
    testee = "kafka-python"
    reason = "3.0.12: ..."
    keys = ["kafka-python|hang||kafka.record.legacy_records.*"]   # keys of findings that it explains, with * and ?
    faults = ["inner_size_leads_nowhere"]                         # inputs with such a fault are skipped
    cell = { nesting = "packed" }                                 # only those in such cells
    shape = "inner_sizes_lead_back"                               # a function in `SHAPES`
    reproducer = { cell = [1, "gzip", "size", "here", "inner_size_leads_nowhere", "packed", "only"] }

`shape` detects inputs by their bytes: all inputs, or, beside `faults`, inputs of unknown origin.

The package's list is about the releases that it was made with; a campaign's own list is `DIR/known.toml`.
Each campaign first replays the reproducers: a cell, or `hex`.  If a reproducer no longer shows its finding,
the finding is gone, and nothing is skipped for it.  `mode = "differential"` is for findings of a testee in a
process of its own, which runs the reproducer there; with `mode = "encode"`, `hex` is a batch in JSON; for a
broker, `sent` in the reproducer has the request's version, the settings and the earlier payloads.

Findings that cases of the corpus show are already known, too, without an entry: `corpus_known.json` has their
keys for each testee and version, each with a case, as `kafkaproof fuzz corpus` measured them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from struct import Struct
from typing import Any, Final, Literal

import msgspec

from kafka_corpus.known_issues import KnownIssue, load_issues
from kafka_fuzz.broker.confirming import Sent
from kafka_fuzz.findings import KNOWN_FINDINGS, REPLAYS, TargetMode, write_atomically
from kafka_fuzz.mutate import Mutant, MutantCell, for_cell
from kafka_fuzz.mutate.model import AFTER_ODDITY
from kafka_fuzz.targets.outcome import Outcome, corpus_key
from kafka_records import RecordFormatError
from kafka_records.compression import decompress
from kafka_records.compression.snappy import HEADER, MAGIC
from kafka_records.constants import COMPRESSIONS, LOG_OVERHEAD, MAGIC_VALUE_V0
from kafka_records.layout import BATCH_V2, MAGIC_OFFSET, MESSAGE_V0, MESSAGE_V1
from kafka_records.varint import decode_unsigned

SNAPPY: Final = 2
LEGACY_CODECS: Final = (1, 2, 3)
CODEC_MASK: Final = 0x07
# Far more than a mutant holds; less than what workers have.
LARGE: Final = 256 << 20
# Of what inputs unpack to, this much is looked at: far more than they hold.
LARGEST_INNER: Final = 1 << 20
SMALLEST: Final = MESSAGE_V0.size
SIZE: Final = Struct(">8xi")


def snappy_claims(data: bytes) -> bool:
    """Whether a snappy block says that hundreds of megabytes will come out of it.

    Entries are taken at their word: a decoder that gets as far as the block has done so too.
    """
    return any(claim > LARGE for payload in payloads(data, SNAPPY) for claim in claims_of(payload))


def payloads(data: bytes, codec: int, magics: Collection[int] = (0, 1, 2)) -> Iterator[bytes]:
    """Payloads that entries of *data* with one of *magics* compressed with *codec*, up to the first broken frame."""
    at, length = 0, len(data)
    while at + SMALLEST <= length:
        (size,) = SIZE.unpack_from(data, at)
        end = min(at + LOG_OVERHEAD + max(size, 0), length)
        magic = data[at + MAGIC_OFFSET] if at + MAGIC_OFFSET < end else 0
        if magic not in magics:
            pass
        elif magic == 2 and end - at > BATCH_V2.size and data[at + 22] & CODEC_MASK == codec:
            yield data[at + BATCH_V2.size : end]
        elif magic < 2 and end - at > SMALLEST and data[at + 17] & CODEC_MASK == codec:
            yield from value_of(data[at:end], (MESSAGE_V1 if magic else MESSAGE_V0).size)
        if size <= 0:
            return
        at += LOG_OVERHEAD + size


def value_of(entry: bytes, at: int) -> Iterator[bytes]:
    """The value of a v0 or v1 message whose key begins at *at*."""
    key = int.from_bytes(entry[at : at + 4], "big", signed=True)
    at += 4 + max(key, 0) + 4
    if at < len(entry):
        yield entry[at:]


def claims_of(payload: bytes) -> Iterator[int]:
    """Claimed sizes of the blocks of a snappy stream: xerial blocks or one raw block."""
    if not payload.startswith(MAGIC):
        yield claim_at(payload, 0)
        return
    at = HEADER.size
    while at + 4 < len(payload):
        yield claim_at(payload, at + 4)
        length = int.from_bytes(payload[at : at + 4], "big", signed=True)
        if length <= 0:
            return
        at += 4 + length


def claim_at(data: bytes, at: int) -> int:
    """The varint at *at*; 0 where there is none."""
    try:
        return decode_unsigned(data, at, 5, "claim")[0]
    except RecordFormatError:
        return 0


def inner_sizes_lead_back(data: bytes) -> bool:
    """Whether who adds up the sizes of packed messages without looking at them comes to one of them again."""
    return any(leads_back(inner) for codec in LEGACY_CODECS for inner in unpacked(data, codec))


def unpacked(data: bytes, codec: int) -> Iterator[bytes]:
    """Decompressed v0 and v1 entries of *data* that use *codec*; entries that fail are left out."""
    for payload in payloads(data, codec, magics=(0, 1)):
        with suppress(RecordFormatError):
            # As v0 has it: lz4's header is not checked, which old producers got wrong.
            yield decompress(COMPRESSIONS[codec], payload, magic=MAGIC_VALUE_V0, most=LARGEST_INNER)


def leads_back(messages: bytes) -> bool:
    """Whether a size in a message set is that of nothing, or less.

    >>> leads_back(bytes(8) + (100).to_bytes(4, "big")), leads_back(bytes(8) + (-12).to_bytes(4, "big", signed=True))
    (False, True)
    """
    at = 0
    while at + LOG_OVERHEAD <= len(messages):
        (size,) = SIZE.unpack_from(messages, at)
        if size <= -LOG_OVERHEAD:
            return True
        at += LOG_OVERHEAD + size
    return False


SHAPES: Final[dict[str, Callable[[bytes], bool]]] = {
    "inner_sizes_lead_back": inner_sizes_lead_back,
    "snappy_claims": snappy_claims,
}


PACKAGED_CORPUS: Final = Path(__file__).with_name("corpus_known.json")
CORPUS_FILE: Final = "corpus-known.json"


class CorpusResult(msgspec.Struct, frozen=True):
    """Findings that corpus cases show for one testee.

    Attributes:
        version: of the testee.
        corpus: hash of the corpus.
        keys: of the findings, each with the id of the first case that shows it.
    """

    version: str
    corpus: str
    keys: dict[str, str]

    def case_of(self, key: str) -> str:
        """The case that shows the finding *key*, or one of the same rule; empty if none does."""
        if key in self.keys:
            return self.keys[key]
        plain = corpus_key(key)
        return next((case for known, case in self.keys.items() if corpus_key(known) == plain), "")


def read_corpus_results(path: Path) -> dict[str, CorpusResult]:
    """Read corpus results by testee; empty without a file, ValueError if the file is malformed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, CorpusResult])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} holds no results of corpus cases: {error}") from None


def corpus_results(directory: Path) -> dict[str, CorpusResult]:
    """Corpus results of the package and of *directory*; those of *directory* take precedence."""
    return read_corpus_results(PACKAGED_CORPUS) | read_corpus_results(directory / CORPUS_FILE)


def write_corpus_results(path: Path, shown: dict[str, CorpusResult]) -> None:
    """Write the results of some testees; those of others stay in the file."""
    text = msgspec.json.encode(dict(sorted((read_corpus_results(path) | shown).items())))
    write_atomically(path, msgspec.json.format(text, indent=1) + b"\n")


PACKAGED_KNOWN: Final = Path(__file__).with_name("known.toml")
KNOWN_FILE: Final = "known.toml"
# Findings so expensive that inputs which are likely to show them again are skipped.
EXPENSIVE: Final = frozenset({"hang", "crash", "memory", "amplification"})
# Expensive inputs of one kind after which further ones are rarely run: one in ANYWAY.
ENOUGH: Final = 2
ANYWAY: Final = 64
# The field of inputs with random changes or none: two of them need not have anything in common.
ANYWHERE: Final = "bytes"
# The labels of an unchanged input.
UNKNOWN: Final = ("seed",)


class ReplayInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The reproducer of a known finding: a cell or bytes; for a broker also how it was *sent*."""

    cell: MutantCell | None = None
    hex: str = ""
    sent: Sent | None = None

    def mutant(self) -> Mutant:
        """The input."""
        if self.cell is not None:
            return for_cell(Random(0), self.cell)
        cell = MutantCell(-1, "", "", "", "", "entry", "only")
        return Mutant(bytes.fromhex(self.hex), "bytes", ("replay",), None, cell)


class KnownFinding(KnownIssue, frozen=True, kw_only=True):
    """One known finding."""

    id: str
    testee: str
    keys: tuple[str, ...]
    faults: tuple[str, ...] = ()
    cell: dict[str, Any] = msgspec.field(default_factory=dict)
    shape: str = ""
    reproducer: ReplayInput | None = None
    mode: TargetMode = ""

    def explains(self, key: str) -> bool:
        """Whether the finding *key* is this one."""
        return any(fnmatchcase(key, pattern) for pattern in self.keys)

    def matches(self, mutant: Mutant) -> bool:
        """Whether *mutant* would show it again; False if the entry has neither faults nor a shape."""
        if self.shape and (not self.faults or mutant.labels == UNKNOWN):
            return SHAPES[self.shape](mutant.data)
        if fault_in(mutant) not in self.faults:
            return False
        fields = mutant.cell._asdict()
        return all(fields.get(name) == value for name, value in self.cell.items())

    def __post_init__(self) -> None:
        """Refuse names of shapes that do not exist."""
        if self.shape and self.shape not in SHAPES:
            raise ValueError(f"there is no shape {self.shape!r}")


def read_known_findings(directory: Path) -> list[KnownFinding]:
    """The package's list and that of *directory*; BadIssueList if one is malformed."""
    return [*read_known_list(PACKAGED_KNOWN), *own_known_list(directory / KNOWN_FILE)]


def own_known_list(path: Path) -> list[KnownFinding]:
    """The entries of one list; empty without a file, BadIssueList if the file is malformed."""
    return read_known_list(path) if path.exists() else []


def read_known_list(path: Path) -> list[KnownFinding]:
    """The entries of one list; BadIssueList if the file is missing or malformed."""
    return list(load_issues(path, KnownFinding, KNOWN_FINDINGS))


@dataclass(frozen=True, slots=True)
class AlreadyKnown:
    """Decides which findings are already known.

    Attributes:
        rules: entries of the lists.
        corpus: findings that cases of the corpus show, by testee.
    """

    rules: tuple[KnownFinding, ...]
    corpus: dict[str, CorpusResult]

    def reason(self, key: str, version: str) -> str:
        """Why the finding *key* in that *version* of its target is already known; empty if it is not."""
        rule = next((rule for rule in self.rules if rule.explains(key)), None)
        if rule is not None:
            return f"listed: {rule.id}"
        shown = self.corpus.get(key.partition("|")[0])
        case = shown.case_of(key) if shown is not None and shown.version == version else None
        return f"the corpus shows it: {case}" if case else ""


def already_known(directory: Path, gone: Sequence[str] = ()) -> AlreadyKnown:
    """Known findings of *directory* without the ids in *gone*.  BadIssueList or ValueError for a malformed list."""
    return AlreadyKnown(
        tuple(rule for rule in read_known_findings(directory) if rule.id not in gone), corpus_results(directory)
    )


class InputSkips:
    """Decides which inputs are not worth running."""

    def __init__(self, target: str, known: Iterable[KnownFinding], gone: Sequence[str] = ()) -> None:
        ours = [rule for rule in known if rule.testee == target and rule.id not in gone]
        # Only entries with a shape may match an input without one of these faults.
        self.by_fault: dict[str, list[KnownFinding]] = {}
        for rule in ours:
            for fault in rule.faults:
                self.by_fault.setdefault(fault, []).append(rule)
        self.by_shape = [rule for rule in ours if rule.shape]
        self.expensive: dict[tuple[str, ...], int] = {}

    def skips(self, mutant: Mutant) -> bool:
        """Whether *mutant* is to be skipped."""
        rules = (*self.by_fault.get(fault_in(mutant), ()), *self.by_shape)
        return any(rule.matches(mutant) for rule in rules) or (bool(self.expensive) and self._is_like_expensive(mutant))

    def learn(self, mutant: Mutant, outcome: Outcome) -> None:
        """Count an expensive input, unless its cell says nothing that others could have in common with it."""
        if outcome.kind in EXPENSIVE and mutant.cell.field != ANYWHERE:
            kind = input_kind(mutant)
            self.expensive[kind] = self.expensive.get(kind, 0) + 1

    def _is_like_expensive(self, mutant: Mutant) -> bool:
        kind = input_kind(mutant)
        count = self.expensive.get(kind, 0)
        if count < ENOUGH:
            return False
        self.expensive[kind] = count + 1
        return count % ANYWAY != 0


def fault_in(mutant: Mutant) -> str:
    """The fault of *mutant* if one is known, else its first edit."""
    label = next(iter(mutant.labels), "")
    return mutant.cell.fault if label == AFTER_ODDITY else label


def input_kind(mutant: Mutant) -> tuple[str, ...]:
    """Properties that inputs with the same outcome usually share."""
    cell = mutant.cell
    return (fault_in(mutant), str(cell.magic), cell.codec, cell.field, cell.boundary)


# Folder of what a campaign remembers between runs.
STATE: Final = "state"
REPLAY_FILE: Final = "replays.json"
State = Literal["gone", "still there", "not replayed"]


class ReplayResult(msgspec.Struct, frozen=True):
    """The replay result of one known finding.

    Attributes:
        target, id: of the known finding.
        key: of the outcome; empty if it is no finding.
        gone: whether the outcome is no longer the known finding.
        why: why it could not be replayed; empty if it was.
    """

    target: str
    id: str
    key: str
    gone: bool
    why: str = ""

    @property
    def state(self) -> State:
        """The state of the known finding."""
        return "not replayed" if self.why else "gone" if self.gone else "still there"


def read_replay_results(directory: Path) -> list[ReplayResult]:
    """Latest replay results of this folder's known findings."""
    for name in (REPLAY_FILE, REPLAYS):
        try:
            return msgspec.json.decode((directory / STATE / name).read_bytes(), type=list[ReplayResult])
        except (FileNotFoundError, msgspec.MsgspecError):
            continue
    return []


def gone_ids(directory: Path) -> list[str]:
    """The ids of the known findings that are gone."""
    return [replay.id for replay in read_replay_results(directory) if replay.gone]
