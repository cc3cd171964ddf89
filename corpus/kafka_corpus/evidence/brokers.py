"""What real brokers answered to the cases, by release: the ledger.

`brokers.ndjson.gz` holds one line for each case that brokers were asked,
`{"id", "sha256", "answers": [{"releases", "steps"}]}`: releases that answered alike
share a line's entry, and most do.  The hash is that of the case's content, so
answers to a case that has changed do not count.

`brokers.toml` lists where the reference is known to predict something else than a
broker answers, with the rule and the reason; the list is strict.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Final

import msgspec
from msgspec import UNSET

from kafka_corpus import pack
from kafka_corpus.case import Case
from kafka_corpus.played import difference, scenario_of
from kafka_corpus.prediction import predict, silence
from kafka_corpus.scenario import Scenario, StepAnswer, release_number
from kafka_corpus.vectors import BriefStep, BrokerAnswer, matches

FOLDER: Final = "evidence"
FILE: Final = "brokers.ndjson"
REVIEWED: Final = "brokers.toml"

# Whose answers the reference has to predict; of others a slow test says how far it does.
PREDICTED: Final = ("2.8.2", "4.4.0")

Answers = tuple[StepAnswer, ...]


class Disk(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was on the broker's disk behind the answers, as far as it is something else.

    `segment` is what the files hold, if that is not what was fetched back; `dump` is in what DumpLogSegments reads
    other than their headers say.
    """

    segment: bytes = b""
    dump: str = ""


class Given(msgspec.Struct, frozen=True, omit_defaults=True):
    """The same answers, and the releases that gave them; `disk` where that was looked at."""

    releases: list[str]
    steps: Answers
    disk: Disk | None = None


class Line(msgspec.Struct, frozen=True):
    """What brokers answered to one case."""

    id: str
    sha256: str
    answers: list[Given]

    def by_release(self) -> dict[str, Answers]:
        """The answers, releases in order."""
        found = {release: given.steps for given in self.answers for release in given.releases}
        return dict(sorted(found.items(), key=lambda item: release_number(item[0])))

    def seen(self) -> dict[str, tuple[Answers, Disk | None]]:
        """The answers and what was on the disk."""
        return {release: (given.steps, given.disk) for given in self.answers for release in given.releases}


Ledger = dict[str, Line]
NOTHING_SEEN: Final[Mapping[str, Disk]] = MappingProxyType({})

_encoder = msgspec.json.Encoder()
_lines = msgspec.json.Decoder(Line)


def load(root: Path) -> Ledger:
    """The ledger below *root*; empty if nothing was ever recorded."""
    folder = root / FOLDER
    if not (folder / (FILE + pack.SUFFIX)).exists():
        return {}
    return {line.id: line for line in _lines.decode_lines(pack.read(folder, FILE))}


def text(ledger: Ledger) -> bytes:
    """The ledger as the file holds it, sorted by id."""
    return b"".join(_encoder.encode(ledger[id_]) + b"\n" for id_ in sorted(ledger))


def write(root: Path, ledger: Ledger) -> None:
    """Replace the ledger below *root*."""
    pack.write(root / FOLDER / FILE, text(ledger))


def with_answers(
    ledger: Ledger,
    release: str,
    content: Mapping[str, str],
    answers: Mapping[str, Answers],
    disks: Mapping[str, Disk] = NOTHING_SEEN,
) -> Ledger:
    """*ledger* with the *answers* of *release* and what was on its *disks*; *content* has the hashes of the cases."""
    merged = dict(ledger)
    for id_, given in answers.items():
        old = ledger.get(id_)
        known = old.seen() if old is not None and old.sha256 == content[id_] else {}
        merged[id_] = line_of(id_, content[id_], {**known, release: (given, disks.get(id_))})
    return merged


def line_of(id_: str, content: str, seen: Mapping[str, tuple[Answers, Disk | None]]) -> Line:
    """The line of a case, what is equal together, oldest release first."""
    together: dict[tuple[Answers, Disk | None], list[str]] = {}
    for release in sorted(seen, key=release_number):
        together.setdefault(seen[release], []).append(release)
    return Line(id_, content, [Given(releases, *given) for given, releases in together.items()])


def pruned(ledger: Ledger, contents: Mapping[str, str]) -> Ledger:
    """*ledger* without answers to cases that have changed or gone."""
    return {id_: line for id_, line in ledger.items() if contents.get(id_) == line.sha256}


def as_evidence(line: Line, case: Case) -> dict[str, BrokerAnswer]:
    """The answers to *case* as its vector holds them: hashes for bytes, and a word for what is as expected."""
    return {release: _brief(case, steps) for release, steps in line.by_release().items()}


def _brief(case: Case, steps: Answers) -> BrokerAnswer:
    if case.expect.answers and not difference(case.expect.answers, steps, case.expect.compare):
        return BrokerAnswer(as_expected=True)
    return BrokerAnswer(steps=list(map(_brief_step, steps)))


def _brief_step(step: StepAnswer) -> BriefStep:
    return BriefStep(
        error_code=step.error_code,
        base_offset=step.base_offset,
        log_append_time=step.log_append_time,
        data_sha256=sha256(step.data).hexdigest() if step.data else UNSET,
        record_errors=step.record_errors,
        closed=step.closed,
        ended=step.ended,
    )


@dataclass(frozen=True, slots=True)
class Reviewed:
    """Where the reference is known to say something else than brokers.

    Attributes:
        ids: cases, as in `vectors.matches`.
        releases: those that it is about.
        rule: the rule that covers it.
        why: the reason.
    """

    ids: tuple[str, ...]
    releases: tuple[str, ...]
    rule: str
    why: str

    def covers(self, id_: str, release: str) -> bool:
        """Whether this is about that case on that release."""
        return release in self.releases and any(matches(pattern, id_) for pattern in self.ids)


def load_reviewed(root: Path) -> list[Reviewed]:
    """The list below *root*."""
    path = root / FOLDER / REVIEWED
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("reviewed", []) if path.exists() else []
    return [Reviewed(tuple(each["ids"]), tuple(each["releases"]), each["rule"], each["why"]) for each in entries]


def newest_asked(scenario: Scenario, releases: Iterable[str]) -> str:
    """The newest of *releases* that *scenario* concerns; empty if there is none."""
    return max(filter(scenario.concerns, releases), key=release_number, default="")


def contradictions(root: Path, cases: Sequence[Case], contents: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """What is wrong with the ledger: (case id, reason).

    Expectations that the newest broker contradicts, or that none was asked about; predictions
    that a broker contradicts, unless they are listed; entries of the list that nothing needs.
    """
    ledger, reviewed = load(root), load_reviewed(root)
    releases = {release for line in ledger.values() for release in line.by_release()}
    for id_ in sorted(ledger.keys() - pruned(ledger, contents).keys()):
        yield id_, "brokers were asked before the case changed (`broker record` asks again)"
    needed: set[Reviewed] = set()
    for case in cases:
        scenario, line = scenario_of(case), ledger.get(case.id)
        if scenario is None:
            continue
        recorded = line.by_release() if line is not None and line.sha256 == contents[case.id] else {}
        if case.expect.answers and (reason := _newest_difference(case, scenario, recorded, releases)):
            yield case.id, reason
        strict: dict[str, Answers] = {release: recorded[release] for release in PREDICTED if release in recorded}
        for release, reason in unpredicted(scenario, strict):
            entries = [entry for entry in reviewed if entry.covers(case.id, release)]
            needed.update(entries)
            if not entries:
                yield case.id, f"the reference predicts for {release} what the broker does not answer: {reason}"
    for entry in reviewed:
        if entry not in needed:
            yield ", ".join(entry.ids), f"{REVIEWED} covers nothing any more on {', '.join(entry.releases)}: remove it"


def silences(cases: Iterable[Case]) -> Counter[str]:
    """What the reference predicts nothing about, and in how many answers of the releases that it is held to."""
    scenarios = [scenario for case in cases if (scenario := scenario_of(case)) is not None]
    reasons = (silence(each, release) for each in scenarios for release in PREDICTED if each.concerns(release))
    return Counter(filter(None, reasons))


def _newest_difference(case: Case, scenario: Scenario, recorded: Mapping[str, Answers], releases: Iterable[str]) -> str:
    newest = newest_asked(scenario, releases)
    if newest not in recorded:
        return f"no broker {newest or 'at all'} was asked (`kafkaproof broker record` does)"
    reason = difference(case.expect.answers, recorded[newest], case.expect.compare)
    return reason and f"the broker {newest} answers something else: {reason}"


def unpredicted(scenario: Scenario, recorded: Mapping[str, Answers]) -> Iterator[tuple[str, str]]:
    """Each release whose recorded answer the reference does not predict, and the first difference."""
    for release, given in recorded.items():
        said = predict(scenario, release)
        if said is not None and (reason := difference(said, given, "masked")):
            yield release, reason
