"""Cases that wait for recorded answers.

A client or broker release counts if the evidence has any answer of it.  Cases that do not concern it are not
counted: scenarios for clients, cases of other releases for brokers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka_corpus import evidence
from kafka_corpus.answer_diff import scenario_of
from kafka_corpus.case import Case
from kafka_corpus.evidence import Evidence, brokers, clients
from kafka_corpus.scenario import release_number
from kafka_corpus.vectors import area_files, load_vectors


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ids of the cases without an answer, by client (name and version) and by broker release."""

    clients: dict[tuple[str, str], list[str]]
    brokers: dict[str, list[str]]

    def ids(self) -> list[str]:
        """Every case that waits for an answer."""
        return sorted({id_ for ids in (*self.clients.values(), *self.brokers.values()) for id_ in ids})

    def as_json(self) -> list[dict[str, Any]]:
        """The same as JSON values, those without a waiting case too."""
        of_clients = [{"client": name, "version": version, "ids": ids} for (name, version), ids in self.clients.items()]
        return [*of_clients, *({"broker": release, "ids": ids} for release, ids in self.brokers.items())]

    def lines(self, *, with_ids: bool) -> Iterator[str]:
        """A line for each client and release, and the ids if wanted."""
        named = [(f"{name} {version}", ids) for (name, version), ids in self.clients.items()]
        for name, ids in [*named, *((f"broker {release}", ids) for release, ids in self.brokers.items())]:
            yield f"{name}: {f'{len(ids):,} cases wait' if ids else 'all cases have an answer'}"
            if with_ids:
                yield from (f"  {id_}" for id_ in ids)


def waiting(root: Path) -> Waiting:
    """The cases below *root* that wait for answers.

    Raises:
        line_files.BadFileError: a file below *root* cannot be read.
    """
    contents, recorded = dict(area_files.content_hashes(root)), evidence.load_evidence(root)
    current, cases = evidence.pruned(recorded, contents), load_vectors(root=root)
    return Waiting(_of_clients(recorded, current, cases), _of_brokers(recorded, current, cases))


def _of_clients(recorded: Evidence, current: Evidence, cases: list[Case]) -> dict[tuple[str, str], list[str]]:
    known = sorted({key for line in recorded.values() for key in line.by_client()})
    ids = [case.id for case in cases if clients.is_request(case)]
    answered = {id_: line.by_client() for id_, line in current.items()}
    return {key: [id_ for id_ in ids if key not in answered.get(id_, {})] for key in known}


def _of_brokers(recorded: Evidence, current: Evidence, cases: list[Case]) -> dict[str, list[str]]:
    known = sorted(brokers.recorded_releases(recorded), key=release_number)
    answered = {id_: line.recorded() for id_, line in current.items()}
    scenarios = [(case.id, scenario) for case in cases if (scenario := scenario_of(case)) is not None]
    return {
        release: [id_ for id_, scene in scenarios if scene.concerns(release) and release not in answered.get(id_, {})]
        for release in known
    }
