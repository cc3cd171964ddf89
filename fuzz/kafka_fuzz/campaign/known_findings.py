"""Known findings: lists, inputs that are skipped, and the results of the last replay.

What a testee does wrong in a case of the corpus has a case that says so; a
campaign looks for what no case asks for.  `corpus_known.json` holds the keys of
the finds that decode cases show in the releases that we know, each with its case;
`kafkaproof fuzz corpus` asks again.  Of another release it says nothing.

[[known]]
    id = "inner sizes of kafka-python"
    target = "kafka-python"
    keys = ["kafka-python|hang||kafka.record.legacy_records.*"]   # finds that are no news, as shell patterns
    lies = ["inner_size_leads_nowhere"]                           # inputs that are stepped over
    cell = { nesting = "packed" }                                 # of those, the ones in such cells
    canary = { cell = [1, "gzip", "size", "here", "inner_size_leads_nowhere", "packed", "only"] }

What comes about in many ways is told by its bytes: `shape` names one of `shapes.SHAPES`.  Beside `lies`, it is
looked at in inputs of which nobody knows how they were made.

The list that comes with the package is about the releases that it was made
with; a campaign's own is `DIR/known.toml`.  The canary (a cell, or `hex`) is run
at the start of each campaign: on the day that it shows nothing any more, the
find is gone and nothing is stepped over for it.  `asked = "differential"` is for
finds of a testee in a process of its own, whose canary is asked there; of one that
writes (`encode`), `hex` is a batch in JSON, as finds keep it; to a broker a payload is
`sent` again as it was: version of the request, settings, earlier payloads.  What cases
of the corpus show is no news either (see `corpus_known`), and is in no list.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from random import Random
from typing import Any, Final, Literal

import msgspec

from kafka_fuzz.broker.replay import Sent
from kafka_fuzz.campaign.known_shapes import SHAPES
from kafka_fuzz.findings import TargetMode, write_atomically
from kafka_fuzz.mutate import Mutant, MutantCell, for_cell
from kafka_fuzz.mutate.model import AFTER_ODDITY
from kafka_fuzz.targets.outcome import Outcome

PACKAGED_CORPUS: Final = Path(__file__).with_name("corpus_known.json")
CORPUS_FILE: Final = "corpus-known.json"


class CorpusResult(msgspec.Struct, frozen=True):
    """Findings that corpus cases show for one testee.

    Attributes:
        version: of the testee.
        corpus: which corpus that was.
        keys: of finds, each with the id of the first case that shows it.
    """

    version: str
    corpus: str
    keys: dict[str, str]


def read_corpus_results(path: Path) -> dict[str, CorpusResult]:
    """Read corpus results by testee; ValueError if the file is malformed."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, CorpusResult])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} does not say what the corpus shows: {error}") from None


def corpus_results(directory: Path) -> dict[str, CorpusResult]:
    """Corpus results of the package and of *directory*; those of *directory* take precedence."""
    return read_corpus_results(PACKAGED_CORPUS) | read_corpus_results(directory / CORPUS_FILE)


def write_corpus_results(path: Path, shown: dict[str, CorpusResult]) -> None:
    """Keep it beside what is known of other testees, by name."""
    text = msgspec.json.encode(dict(sorted((read_corpus_results(path) | shown).items())))
    write_atomically(path, msgspec.json.format(text, indent=1) + b"\n")


PACKAGED_KNOWN: Final = Path(__file__).with_name("known.toml")
KNOWN_FILE: Final = "known.toml"
# So dear that it pays to step over inputs that are likely to show it again.
EXPENSIVE: Final = frozenset({"hang", "crash", "memory", "amplification"})
# An input that is like so many dear ones before it is rarely run again.
ENOUGH: Final = 2
# The field of what was changed blindly, or by nobody: others may have nothing in common with it.
ANYWHERE: Final = "bytes"
# The labels of an input that nobody changed.
UNKNOWN: Final = ("seed",)
ANYWAY: Final = 64


class ReplayInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The reproducer of a known find: a cell or bytes; and for a broker, how it is *sent*."""

    cell: MutantCell | None = None
    hex: str = ""
    sent: Sent | None = None

    def mutant(self) -> Mutant:
        """The input."""
        if self.cell is not None:
            return for_cell(Random(0), self.cell)
        return Mutant(
            bytes.fromhex(self.hex), "bytes", ("canary",), None, MutantCell(-1, "", "", "", "", "entry", "only")
        )


class KnownFinding(
    msgspec.Struct,
    frozen=True,
    forbid_unknown_fields=True,
    rename={"faults": "lies", "reproducer": "canary", "mode": "asked"},
):
    """One known find, as the file has it."""

    id: str
    target: str
    keys: tuple[str, ...]
    about: str = ""
    faults: tuple[str, ...] = ()
    cell: dict[str, Any] = {}
    shape: str = ""
    reproducer: ReplayInput | None = None
    mode: TargetMode = ""

    def explains(self, key: str) -> bool:
        """Whether the find *key* is no news."""
        return any(fnmatchcase(key, pattern) for pattern in self.keys)

    def matches(self, mutant: Mutant) -> bool:
        """Whether *mutant* would show it again; never, if nothing says which inputs do."""
        if self.shape and (not self.faults or mutant.labels == UNKNOWN):
            return SHAPES[self.shape](mutant.data)
        if fault_in(mutant) not in self.faults:
            return False
        fields = mutant.cell._asdict()
        return all(fields.get(name) == value for name, value in self.cell.items())

    def __post_init__(self) -> None:
        """Refuse names that do not exist."""
        if self.shape and self.shape not in SHAPES:
            raise ValueError(f"there is no shape {self.shape!r}")


class KnownFindingList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A list of known finds."""

    known: tuple[KnownFinding, ...] = ()


def read_known_findings(directory: Path) -> list[KnownFinding]:
    """The package's list and that of *directory*; ValueError for a list that is none."""
    own = directory / KNOWN_FILE
    return [*read_known_list(PACKAGED_KNOWN), *(read_known_list(own) if own.exists() else [])]


def read_known_list(path: Path) -> list[KnownFinding]:
    """The entries of one list; ValueError where it is none, FileNotFoundError where there is no file."""
    try:
        return list(msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), KnownFindingList).known)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{path} is no list of known finds: {error}") from None


@dataclass(frozen=True, slots=True)
class AlreadyKnown:
    """Says which finds are none.

    Attributes:
        rules: of the lists.
        corpus: what cases of the corpus show, by testee.
    """

    rules: tuple[KnownFinding, ...]
    corpus: dict[str, CorpusResult]

    def reason(self, key: str, version: str) -> str:
        """Why the find *key* in that *version* of its target is no news; empty where it is."""
        rule = next((rule for rule in self.rules if rule.explains(key)), None)
        if rule is not None:
            return f"listed: {rule.id}"
        shown = self.corpus.get(key.partition("|")[0])
        case = shown.keys.get(key) if shown is not None and shown.version == version else None
        return f"the corpus shows it: {case}" if case else ""


def already_known(directory: Path, gone: Sequence[str] = ()) -> AlreadyKnown:
    """Known findings of *directory* without the ids in *gone*.  ValueError for a malformed list."""
    return AlreadyKnown(
        tuple(rule for rule in read_known_findings(directory) if rule.id not in gone), corpus_results(directory)
    )


class InputSkips:
    """Says which inputs are not worth running."""

    def __init__(self, target: str, known: Iterable[KnownFinding], gone: Sequence[str] = ()) -> None:
        self.rules: dict[str, list[KnownFinding]] = {}
        ours = [rule for rule in known if rule.target == target and rule.id not in gone]
        self.shapes = [SHAPES[rule.shape] for rule in ours if rule.shape and not rule.faults]
        self.shapes_of_unknown = [SHAPES[rule.shape] for rule in ours if rule.shape and rule.faults]
        for rule in ours:
            for fault in rule.faults:
                self.rules.setdefault(fault, []).append(rule)
        self.expensive: dict[tuple[str, ...], int] = {}

    def skips(self, mutant: Mutant) -> bool:
        """Whether to step over *mutant*."""
        rules = self.rules.get(fault_in(mutant))
        if rules is not None and any(rule.matches(mutant) for rule in rules):
            return True
        if any(shape(mutant.data) for shape in self.shapes):
            return True
        if mutant.labels == UNKNOWN and any(shape(mutant.data) for shape in self.shapes_of_unknown):
            return True
        return bool(self.expensive) and self._is_like_expensive(mutant)

    def learn(self, mutant: Mutant, outcome: Outcome) -> None:
        """Take note of what an input cost, where something is known of it that others have in common with it."""
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
    """The label of its lie, whatever else is odd; what was done to it where nobody knows of one."""
    label = next(iter(mutant.labels), "")
    return mutant.cell.fault if label == AFTER_ODDITY else label


def input_kind(mutant: Mutant) -> tuple[str, ...]:
    """Properties that inputs with the same outcome usually share."""
    cell = mutant.cell
    return (fault_in(mutant), str(cell.magic), cell.codec, cell.field, cell.boundary)


# Below the folder of a campaign: what it remembers between runs.
STATE: Final = "state"
REPLAY_FILE: Final = "canaries.json"
State = Literal["gone", "still there", "not replayed"]


class ReplayResult(msgspec.Struct, frozen=True):
    """The replay result of one known finding.

    Attributes:
        target, id: of the known find.
        key: of the outcome; empty if it is no find.
        gone: whether that is no longer the known find.
        why: why it could not be sung; empty where it was.
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
    try:
        return msgspec.json.decode((directory / STATE / REPLAY_FILE).read_bytes(), type=list[ReplayResult])
    except (FileNotFoundError, msgspec.MsgspecError):
        return []


def gone_ids(directory: Path) -> list[str]:
    """The ids of the known finds that are gone."""
    return [replay.id for replay in read_replay_results(directory) if replay.gone]
