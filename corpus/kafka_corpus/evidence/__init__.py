"""Evidence: answers of other implementations to the cases, recorded.

`evidence/<area>.ndjson` has one line for each case that has answers: of clients (`kafka_corpus.evidence.clients`)
and of brokers (`kafka_corpus.evidence.brokers`).  Releases with equal answers share an entry.  The line has the
content hash of the case, so answers to a case that has changed do not count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kafka_corpus import line_files
from kafka_corpus.line_files import AreaFolder
from kafka_corpus.scenario import StepAnswer, release_number
from kafka_corpus.vector_format import Answer

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
