"""Check the corpus: the committed files are those that the case functions make, and they are consistent.

Each drift names the place and the difference, or the command that corrects it.  `waiting` lists the cases that wait
for recorded answers.  A client or broker release counts if the evidence has any answer of it.  Cases that do not
concern it are not counted: scenarios for clients, cases of other releases for brokers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from kafka_corpus import evidence, id_registry, line_files
from kafka_corpus.answer_diff import scenario_of
from kafka_corpus.answers import disagreement
from kafka_corpus.case import Case
from kafka_corpus.compiler import Compiled, compile_corpus, stored_files
from kafka_corpus.evidence import Evidence, brokers, clients
from kafka_corpus.scenario import Scenario, release_number
from kafka_corpus.traceability import unshown
from kafka_corpus.vector_format import Answer, content_hash, input_of, to_vector
from kafka_corpus.vectors import VECTORS, case_in, content_hashes, load_vectors
from kafka_corpus.wire import to_wire
from kafka_records import Batch
from kafka_records.rules import Check, all_rules

COMPILE: Final = "run `kafkaproof corpus compile`"
# How a rule can be checked: each way needs a case that uses it.
DIRECTIONS: Final[tuple[Check, ...]] = ("decode", "encode", "produce", "fetch")


# Rules that no scenario can show; tests/brokers/test_beyond_scenarios.py tests them on a broker.
BEYOND_SCENARIOS: Final[Mapping[str, str]] = {
    "PRD-21": "a setting of the broker's decides, not one of the topic's",
    "SIZ-14": "the batch is larger than what a vector holds",
}


class Drift(NamedTuple):
    """A failed check: its name, the place, and the difference."""

    check: str
    where: str
    what: str

    def __str__(self) -> str:
        return f"{self.check}: {self.where}: {self.what}"


def check(cases: Sequence[Case], root: Path) -> list[Drift]:
    """Every failed check of *cases* and the files below *root*."""
    try:
        compiled = compile_corpus(cases, root, reuse=False)
        frozen = list(id_registry.frozen_breaches(root))
    except line_files.BadFileError as error:
        return [Drift("files", error.name, f"cannot be read ({error.reason}); correct it, then {COMPILE}")]
    except ValueError as error:
        return [Drift("compile", str(root), str(error))]
    return [
        *(Drift("ids", id_, why) for id_, why in compiled.breaches),
        *(Drift("frozen", id_, why) for id_, why in frozen),
        *retired_drifts(root),
        *file_drifts(compiled, root),
        *disagreements(compiled.cases, compiled.answers),
        *missing_rules(compiled.cases),
        *(Drift("rules", id_, "no case shows which source is right") for id_ in unshown(compiled.cases)),
        *repeated_inputs(compiled.cases),
        *(
            Drift("brokers", where, why)
            for where, why in brokers.broker_contradictions(root, compiled.cases, compiled.contents)
        ),
        *(
            Drift("evidence", where, why)
            for where, why in clients.client_contradictions(root, compiled.cases, compiled.contents)
        ),
    ]


def retired_drifts(root: Path) -> Iterator[Drift]:
    """Lines of retired ids that do not have the content that their hash is of."""
    for line in VECTORS.read(root):
        if line.retired and content_hash(case_in(line, root)) != line.sha256:
            yield Drift("ids", line.id, "is retired, and its line was changed since")


def file_drifts(compiled: Compiled, root: Path) -> Iterator[Drift]:
    """Files that are not what compiling gives; of vector files, the cases."""
    stored = stored_files(root)
    for name in sorted(compiled.files.keys() | stored.keys()):
        wanted, found = compiled.files.get(name), stored.get(name)
        if wanted == found:
            continue
        if name.startswith(evidence.EVIDENCE.name):
            yield from evidence_drifts(name, found or b"", root)
        elif wanted is None:
            yield Drift("files", name, f"has no area any more; {COMPILE}")
        elif found is None:
            yield Drift("files", name, f"is missing; {COMPILE}")
        elif name.startswith(VECTORS.name):
            yield from line_drifts(name, wanted, found)
        else:
            yield Drift("files", name, f"is out of date; {COMPILE}")


def evidence_drifts(name: str, found: bytes, root: Path) -> Iterator[Drift]:
    """An evidence file in another form; `contradictions` find answers to cases that have changed."""
    if found and found != evidence.EVIDENCE.text(evidence.EVIDENCE.read(root, [Path(name).stem])):
        yield Drift("files", name, f"is not in canonical form; {COMPILE}")


def line_drifts(name: str, wanted: bytes, found: bytes) -> Iterator[Drift]:
    """The cases in which a vector file differs."""
    new, old = by_id(wanted), by_id(found)
    drifted = [id_ for id_ in sorted(new.keys() | old.keys()) if new.get(id_) != old.get(id_)]
    for id_ in drifted:
        yield Drift("vectors", id_, drift_text(new.get(id_), old.get(id_)))
    if not drifted:
        yield Drift("files", name, f"is not in canonical form; {COMPILE}")


def by_id(lines: bytes) -> dict[str, dict[str, object]]:
    """The lines of a vector file as plain JSON, by id."""
    parsed = msgspec.json.Decoder(dict[str, object]).decode_lines(lines)
    return {str(vector["id"]): vector for vector in parsed}


def drift_text(new: dict[str, object] | None, old: dict[str, object] | None) -> str:
    """The fields in which two vectors differ."""
    if old is None:
        return f"is not compiled; {COMPILE}"
    if new is None:
        return f"is compiled, but no function makes it; {COMPILE}"
    fields = [name for name in new.keys() | old.keys() if new.get(name) != old.get(name)]
    return f"{', '.join(sorted(fields))} differ from what is compiled; {COMPILE}"


def disagreements(cases: Sequence[Case], answers: Mapping[str, Answer]) -> Iterator[Drift]:
    """Cases with which the reference does not agree."""
    for case in cases:
        if reason := disagreement(case, answers[case.id]):
            yield Drift("reference", case.id, f"the reference does not agree: {reason}")


def missing_rules(cases: Sequence[Case]) -> Iterator[Drift]:
    """Rules that can be checked by decoding or encoding and have no such case; rules that are none."""
    known = {rule.id for rule in all_rules()}
    for case in cases:
        for id_ in case.rules:
            if id_ not in known:
                yield Drift("rules", case.id, f"cites {id_}, which is not in the catalogue")
    for direction, id_ in uncovered(cases):
        yield Drift("rules", id_, f"can be checked by {direction}, and no {direction} case cites it")


def uncovered(cases: Sequence[Case]) -> list[tuple[str, str]]:
    """(direction, rule id) of each rule that wants a case and has none."""
    cited = {(direction, id_) for case in cases for direction in directions(case) for id_ in case.rules}
    wanted = [(direction, rule.id) for rule in all_rules() for direction in DIRECTIONS if direction in rule.checked_by]
    elsewhere = {(direction, id_) for direction in ("produce", "fetch") for id_ in BEYOND_SCENARIOS}
    return [pair for pair in wanted if pair not in cited and pair not in elsewhere]


def directions(case: Case) -> Iterator[Check]:
    """The ways in which *case* checks its rules: a payload is fetched back if it was stored."""
    if not isinstance(case.input, Scenario):
        yield "decode" if case.op == "decode" else "encode"
        return
    yield "produce"
    if case.op != "append" or any(answer.data for answer in case.expect.answers):
        yield "fetch"


def question_in(case: Case) -> bytes:
    """The question as bytes."""
    if isinstance(case.input, Scenario):
        return msgspec.json.encode(to_vector(case).input)
    given = input_of(case)
    return msgspec.json.encode(to_wire(given)) if isinstance(given, Batch) else given


def repeated_inputs(cases: Sequence[Case]) -> Iterator[Drift]:
    """Cases with the same question as another one."""
    seen: dict[tuple[str, bytes], str] = {}
    for case in cases:
        question = question_in(case)
        key = (case.op, sha256(question).digest())
        if key in seen:
            yield Drift("inputs", case.id, f"has the same question as {seen[key]}")
        seen.setdefault(key, case.id)


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
    contents, recorded = dict(content_hashes(root)), evidence.load_evidence(root)
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
