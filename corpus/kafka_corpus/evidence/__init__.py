"""Evidence: answers of other implementations to the cases, recorded.

`evidence/<area>.ndjson` has one line for each case that has answers: of clients (`kafka_corpus.evidence.clients`)
and of brokers (`kafka_corpus.evidence.brokers`).  Releases with equal answers share an entry.  The line has the
content hash of the case, so answers to a case that has changed do not count.  A vector shows the answers to its case
(`RecordedEvidence`), which are read when they are first used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kafka_corpus import line_files
from kafka_corpus.answer_diff import difference
from kafka_corpus.line_files import AreaFolder
from kafka_corpus.scenario import StepAnswer, release_number
from kafka_corpus.vector_format import Answer, BriefStep, BrokerAnswer, Expect

Answers = tuple[StepAnswer, ...]


class ClientAnswer(msgspec.Struct, frozen=True):
    """One answer of an implementation, and the versions that gave it."""

    name: str
    versions: list[str]
    answer: Answer


class Disk(msgspec.Struct, frozen=True, omit_defaults=True):
    """Content of the broker's disk after the answers, where it is not what the answers say.

    `segment` has the bytes of the files, if they are not the bytes that were fetched; `dump` names the fields in
    which DumpLogSegments differs from their headers.
    """

    segment: bytes = b""
    dump: str = ""


class BrokerAnswers(msgspec.Struct, frozen=True, omit_defaults=True):
    """Equal answers, and the releases that gave them.

    `disk` is set if the disk was read.  `cannot` is the reason, and there are no steps, where a case
    cannot be sent to a release that does not know a setting of the topic.
    """

    releases: list[str]
    steps: Answers = ()
    disk: Disk | None = None
    cannot: str = ""

    def given(self) -> tuple[Answers, Disk | None, str]:
        """Everything but the releases."""
        return self.steps, self.disk, self.cannot


class CaseEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """All recorded answers to one case; `sha256` is its content hash."""

    id: str
    sha256: str
    clients: list[ClientAnswer] = []
    brokers: list[BrokerAnswers] = []

    def by_release(self) -> dict[str, Answers]:
        """The answers of brokers, releases in order; those that the case cannot be sent to are left out."""
        found = {release: given.steps for given in self.brokers for release in given.releases if not given.cannot}
        return dict(sorted(found.items(), key=lambda item: release_number(item[0])))

    def recorded(self) -> dict[str, tuple[Answers, Disk | None, str]]:
        """All that is recorded of brokers, by release: see `BrokerAnswers.given`."""
        return {release: given.given() for given in self.brokers for release in given.releases}

    def by_client(self) -> dict[tuple[str, str], Answer]:
        """The answers of clients, by name and version."""
        return {(given.name, version): given.answer for given in self.clients for version in given.versions}


Evidence = dict[str, CaseEvidence]

EVIDENCE: Final = AreaFolder("evidence", msgspec.json.Decoder(CaseEvidence))


def load_evidence(root: Path, areas: Iterable[str] | None = None) -> Evidence:
    """The evidence below *root*, of *areas* or of all, by case id; raises as `line_files.read_lines`."""
    return {line.id: line for line in EVIDENCE.read(root, areas)}


def write_evidence(evidence: Evidence, root: Path) -> list[str]:
    """Write the files of the areas in *evidence* that differ below *root*; their paths."""
    files = line_files.changed_files(EVIDENCE.texts(evidence.values()), root)
    line_files.write_files(files, root)
    return sorted(files)


def pruned(evidence: Evidence, contents: Mapping[str, str]) -> Evidence:
    """*evidence* without answers to cases that have changed or gone; *contents* has the hashes by id."""
    return {id_: line for id_, line in evidence.items() if contents.get(id_) == line.sha256}


def line_for(evidence: Evidence, id_: str, content: str) -> CaseEvidence:
    """The line of the case with that content; one without answers if there is none."""
    found = evidence.get(id_)
    return found if found is not None and found.sha256 == content else CaseEvidence(id_, content)


class RecordedEvidence(Mapping[str, Any]):
    """Plain JSON values: `{"reference": …, "java": {"4.4.0": …}, "brokers": {"4.4.0": …}}`.

    The files below *root* are read on first use: most runs never look at these answers.
    """

    __slots__ = ("_content", "_expect", "_found", "_id", "_reference", "_root")

    def __init__(self, root: Path, id_: str, content: str, reference: msgspec.Raw, expect: Expect) -> None:
        self._root = root
        self._id = id_
        self._content = content
        self._reference = bytes(reference)
        self._expect = expect
        self._found: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._answers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers())

    def __len__(self) -> int:
        return len(self._answers())

    def __repr__(self) -> str:
        return repr(self._answers())

    def _answers(self) -> dict[str, Any]:
        if self._found is None:
            line = _area(self._root, self._id.partition(".")[0]).get(self._id)
            self._found = {"reference": msgspec.json.decode(self._reference)}
            if line is not None and line.sha256 == self._content:
                self._found |= shown(line, self._expect)
        return self._found


def shown(line: CaseEvidence, expect: Expect) -> dict[str, Any]:
    """The answers in *line* by implementation and release, as plain JSON values."""
    found: dict[str, Any] = {}
    for (name, version), answer in line.by_client().items():
        found.setdefault(name, {})[version] = answer
    if brokers := line.by_release():
        found["brokers"] = {release: broker_answer(expect, steps) for release, steps in brokers.items()}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


def broker_answer(expect: Expect, steps: Answers) -> BrokerAnswer:
    """*steps* with hashes for bytes, or one word where they are what the case expects."""
    if expect.answers and not difference(expect.answers, steps, expect.compare):
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


def _area(root: Path, area: str) -> Evidence:
    file = root / EVIDENCE.path(area)
    return _loaded(root, area, *line_files.file_state(file)) if file.exists() else {}


@cache
def _loaded(root: Path, area: str, _changed: int, _size: int) -> Evidence:
    return load_evidence(root, [area])
