"""The rule catalogue: every rule by which Kafka takes, refuses or rewrites record data.

The rules are data, one TOML file per group, and ``RecordFormatError.rule`` and
``explain`` point into them.  A file is read once, with the first rule of its
group that is needed: decoding must not pay for the catalogue.

>>> rule("FRM-01").sources
('Records#LOG_OVERHEAD', 'seed 002:564')
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

__all__ = [
    "GROUPS",
    "Erratum",
    "Group",
    "Rule",
    "Saying",
    "Seed",
    "all_rules",
    "errata",
    "groups",
    "rule",
    "seeds",
]

Strength = Literal["must", "should", "may"]
Check = Literal["decode", "encode", "produce", "fetch"]
Scope = Literal["both", "uncompressed", "compressed", "any"]
Evidence = Literal["broker", "client", "source"]

# In the order of the catalogue: from the outermost bytes to the consumer.
GROUPS: Final = (
    *("FRM", "LEG", "NST", "HDR", "ATT", "VAR", "REC", "CRC"),  # layout
    *("CMP", "GZP", "SNP", "LZ4", "ZST"),  # compression
    *("TIM", "OFF", "PID", "TXN", "KRF", "SIZ"),  # meaning of the fields
    *("PRD", "RWR", "CLN", "CNV", "SEG", "CON"),  # what brokers and clients do
    "TOP",  # what brokers keep in their own topics
)


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of the catalogue.

    Attributes:
        id: as in ``FRM-05``.
        group: the prefix of the id.
        statement: the rule in one sentence or a few.
        strength: how binding it is: *must* is fixed by the layout or enforced by
            code, *should* a convention of writers that is not enforced, *may*
            tolerated or accidental.  None for a bare fact.
        checked_by: what can show it; empty if nothing from outside can.
        applies_to: the batches that it can be checked with; ``any`` if their
            compression does not matter.
        outcome: what brokers, decoders or writers do, with error codes; may be empty.
        sources: one public source at least (a KIP, an issue, Kafka's documentation, a class or
            method of Kafka), and lines of the seeds (``seed 002:564``).
        evidence: seen on live brokers, seen in the Java client, or only read in
            the source.  For *broker* on a rule of several clauses the main one was seen.
        evidence_note: on which releases only, or empty.
    """

    id: str
    group: str
    statement: str
    strength: Strength | None
    checked_by: tuple[Check, ...]
    applies_to: Scope
    outcome: str
    sources: tuple[str, ...]
    evidence: Evidence
    evidence_note: str


@dataclass(frozen=True, slots=True)
class Group:
    """A chapter of the catalogue: its prefix, its title, its rules in order."""

    prefix: str
    title: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Saying:
    """The text of one source, in our words.  *source* is written as in ``Rule.sources``."""

    source: str
    text: str


@dataclass(frozen=True, slots=True)
class Erratum:
    """A point on which the seeds contradict one another or the code.

    Attributes:
        id: ``A01`` to ``A45``.
        topic: what it is about.
        says: the sides.
        verdict: what holds.
        evidence: for the verdict, as in ``Rule``.
        evidence_note: as in ``Rule``.
        rules: ids of the rules that state the verdict.
    """

    id: str
    topic: str
    says: tuple[Saying, ...]
    verdict: str
    evidence: Evidence
    evidence_note: str
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seed:
    """One of the five documents that the catalogue started from.

    `seed_NNN.tsv` has its sentences; `kafka_corpus.traceability` reads it.
    """

    number: str
    title: str
    description: str
    lines: int
    sha256: str


def rule(id: str) -> Rule:
    """The rule of that id; KeyError if there is none."""
    prefix = id.partition("-")[0]
    if prefix not in GROUPS:
        raise KeyError(f"no rule {id!r} in the catalogue: no group {prefix!r}")
    if id not in _by_id(prefix):
        last = _group(prefix).rules[-1].id
        raise KeyError(f"no rule {id!r} in the catalogue: its group ends at {last}")
    return _by_id(prefix)[id]


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, in the order of ``GROUPS``."""
    return tuple(each for group in groups() for each in group.rules)


@cache
def groups() -> tuple[Group, ...]:
    """Every group with its title and rules, in the order of ``GROUPS``."""
    return tuple(map(_group, GROUPS))


@cache
def errata() -> tuple[Erratum, ...]:
    """Every erratum, A01 first."""
    return tuple(map(_erratum, _table("errata")["erratum"]))


@cache
def seeds() -> tuple[Seed, ...]:
    """The seed documents 000 to 004; ``seed 002:564`` is line 564 of the one numbered 002."""
    return tuple(Seed(**entry) for entry in _table("seeds")["seed"])


@cache
def _group(prefix: str) -> Group:
    table = _table(prefix.lower())
    return Group(rules=tuple(_rule(prefix, entry) for entry in table["rule"]), **table["group"])


@cache
def _by_id(prefix: str) -> dict[str, Rule]:
    return {each.id: each for each in _group(prefix).rules}


def _rule(prefix: str, entry: dict[str, Any]) -> Rule:
    optional = {"strength": None, "evidence_note": ""}
    lists = {name: tuple(entry[name]) for name in ("checked_by", "sources")}
    return Rule(**{**optional, **entry, **lists, "group": prefix})


def _erratum(entry: dict[str, Any]) -> Erratum:
    lists = {"says": tuple(map(_saying, entry["says"])), "rules": tuple(entry["rules"])}
    return Erratum(**{"evidence_note": "", **entry, **lists})


def _saying(entry: dict[str, str]) -> Saying:
    source = f"seed {entry['seed']}" if "seed" in entry else entry["code"]
    return Saying(source, entry["text"])


def _table(name: str) -> dict[str, Any]:
    # Not at the top: an import of this package pays for a parser only when it needs a rule.
    import tomllib
    from importlib.resources import files

    text = files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
