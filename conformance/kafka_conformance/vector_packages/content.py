"""The content that all vector packages share: cases as lines of JSON, rules, a manifest; and raw inputs for fuzzers.

A line is a vector of `kafka_corpus.vector_format` without recorded answers, with every field written out, and with
`facts`: what the judge knows of the case (profile, reach, strength, formats), so that a test suite can choose cases
and weigh findings without any code of this project.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kafka_conformance.judge.grading import own_strength
from kafka_conformance.judge.reach import case_reach
from kafka_conformance.reports.profiles import case_role
from kafka_conformance.runner.requests import needed_formats
from kafka_corpus.case import Case, Recipe
from kafka_corpus.scenario import Produce, Scenario
from kafka_corpus.vector_format import (
    CORPUS_VERSION,
    SCHEMA_VERSION,
    UNRELEASED,
    content_hash,
    to_vector,
)
from kafka_corpus.vectors import VECTORS, corpus_hash, load_vectors, package_root
from kafka_records import Batch
from kafka_records.constants import MAGIC_VALUE_V2
from kafka_records.rules import all_rules

FORMAT: Final = "kafkaproof vector package"
CASES: Final = "cases.ndjson"
RULES: Final = "rules.json"
MANIFEST: Final = "manifest.json"
_SHORT_HASH: Final = 12
_ID_HASH: Final = 6
# Fields of a batch that an invalid encode case may set to any number.
_NUMBERS: Final = ("base_offset", "last_offset", "max_timestamp", "producer_id")


@dataclass(frozen=True, slots=True)
class PackageVersion:
    """The corpus version in the forms of the registries.

    Ids are append-only, so the number of ids that were ever added or retired grows with each change of the corpus.
    It is the last part of the version; before the corpus is released, it counts alphas.

    Attributes:
        release: the corpus version, as `1.0`.
        number: ids that were added, plus ids that were retired.
        sha256: the corpus hash.
        unreleased: whether ids may still change.
    """

    release: str
    number: int
    sha256: str
    unreleased: bool

    @property
    def plain(self) -> str:
        """Semantic version without build metadata: npm, Maven, and Go after a `v`.

        >>> PackageVersion("1.0", 5838, "34a2" * 16, unreleased=True).plain
        '1.0.0-alpha.5838'
        >>> PackageVersion("1.0", 5838, "34a2" * 16, unreleased=False).plain
        '1.0.5838'
        """
        return f"{self.release}.0-alpha.{self.number}" if self.unreleased else f"{self.release}.{self.number}"

    @property
    def semantic(self) -> str:
        """Semantic version with the corpus hash as build metadata, for Cargo."""
        return f"{self.plain}+corpus.{self.sha256[:_SHORT_HASH]}"

    @property
    def python(self) -> str:
        """The form of PEP 440, without a local part, which PyPI refuses.

        >>> PackageVersion("1.0", 5838, "34a2" * 16, unreleased=True).python
        '1.0.0a5838'
        """
        return self.plain.replace("-alpha.", "a")

    @property
    def go_suffix(self) -> str:
        """The end that Go requires of a module path from major version 2 on.

        >>> PackageVersion("2.1", 7, "34a2" * 16, unreleased=False).go_suffix
        '/v2'
        """
        major = int(self.release.partition(".")[0])
        return f"/v{major}" if major > 1 else ""


def package_version() -> PackageVersion:
    """The version of packages of the installed corpus."""
    root = package_root()
    number = sum(2 if line.retired else 1 for line in VECTORS.read(root))
    return PackageVersion(CORPUS_VERSION, number, corpus_hash(root), UNRELEASED)


@dataclass(frozen=True, slots=True)
class SharedContent:
    """The files that each package has, and the cases in them.

    Attributes:
        version: see `PackageVersion`.
        cases: the packaged cases, sorted by id.
        facts: see `case_facts`, by id.
        left_out: the other cases, as id and reason.
        files: content by name: cases, rules, manifest.
    """

    version: PackageVersion
    cases: tuple[Case, ...]
    facts: dict[str, dict[str, Any]]
    left_out: dict[str, str]
    files: dict[str, bytes]


@cache
def shared_content() -> SharedContent:
    """The content of packages of the installed corpus."""
    every = load_vectors()
    left_out = {case.id: reason for case in every if (reason := _reason_to_leave_out(case))}
    cases = tuple(case for case in every if case.id not in left_out)
    version = package_version()
    facts = {case.id: case_facts(case) for case in cases}
    files = {CASES: b"".join(case_line(case, facts[case.id]) for case in cases), RULES: _rules(cases)}
    manifest = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "version": version.plain,
        "corpus_version": version.release,
        "unreleased": version.unreleased,
        "corpus_sha256": version.sha256,
        "cases": len(cases),
        "ops": _counted([case.op for case in cases]),
        "verdicts": _counted([case.expect.verdict for case in cases]),
        "areas": _counted([case.area for case in cases]),
        "sha256": {name: sha256(data).hexdigest() for name, data in files.items()},
        "left_out": left_out,
    }
    return SharedContent(version, cases, facts, left_out, files | {MANIFEST: _pretty(manifest)})


def _counted(names: Sequence[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _pretty(document: Any) -> bytes:
    return json.dumps(document, indent=2, ensure_ascii=False).encode() + b"\n"


def _reason_to_leave_out(case: Case) -> str:
    """The reason not to package *case*: a recipe makes its bytes, or the types of the packages do not hold a value."""
    match case.input:
        case Recipe() as recipe:
            return f"its input is made by the recipe {_call(recipe.name, recipe.args)}"
        case Scenario() as scenario:
            made = [step.recipe for step in scenario.produces() if step.recipe is not UNSET]
            return f"a payload is made by the recipe {_call(made[0].name, made[0].args)}" if made else ""
        case Batch() as batch:
            wide = [name for name in _NUMBERS if not -(2**63) <= getattr(batch, name) < 2**63]
            if any(header.key is None for record in batch.records for header in record.headers):
                return "a header key is null"
            return f"{wide[0]} is beyond 64 bits" if wide else ""
    return ""


def _call(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())})"


def case_line(case: Case, facts: Mapping[str, Any]) -> bytes:
    """The case with its *facts* as one line of JSON, newline included."""
    vector = msgspec.to_builtins(to_vector(replace(case, evidence={})))
    line = {
        "id": case.id,
        "sha256": content_hash(case),
        "title": case.title,
        "area": case.area,
        "op": case.op,
        "rules": list(case.rules),
        "refs": list(case.refs),
        "since": case.since,
        "facts": facts,
        "input": vector["input"],
        "expect": vector["expect"],
    }
    if case.supersedes:
        line["supersedes"] = case.supersedes
    if isinstance(case.input, Scenario):
        # With the values of fields that a vector leaves out, so that a reader needs no defaults.
        line["input"] = {"scenario": vector["input"]["scenario"] | {"steps": list(map(_written_out, case.input.steps))}}
        line["expect"]["answers"] = list(map(_written_out, case.expect.answers))
    return msgspec.json.encode(line) + b"\n"


def _written_out(struct: msgspec.Struct) -> dict[str, Any]:
    """The fields of *struct* that are set, defaults included."""
    config = struct.__struct_config__
    tag = {str(config.tag_field): config.tag} if config.tag_field else {}
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    given = {name: msgspec.to_builtins(value) for name, value in fields.items() if value is not UNSET}
    return tag | given


def case_facts(case: Case) -> dict[str, Any]:
    """Facts of the judge about *case* besides the right answer."""
    reach = case_reach(case)
    role = case_role(case, reach.reach)
    formats = set(_formats(case))
    return {
        "profile": role.profile,
        "required": role.required,
        "reach": reach.reach,
        "strength": own_strength(case),
        "magics": sorted({magic for magic, _ in formats if magic <= MAGIC_VALUE_V2}),
        "compressions": sorted({compression for _, compression in formats if compression}),
    }


def _formats(case: Case) -> Iterator[tuple[int, str]]:
    """Magic and compression of each batch of the input, as far as its bytes can be believed."""
    match case.input:
        case Batch(magic=magic, compression=compression):
            yield magic, compression
        case bytes(data):
            yield from needed_formats(data)
        case Scenario() as scenario:
            for step in scenario.produces():
                if step.data is not UNSET:
                    yield from needed_formats(step.data)


def _rules(cases: Sequence[Case]) -> bytes:
    """The rules that *cases* name: statement, strength, outcome and sources, by id."""
    named = {rule for case in cases for rule in case.rules}
    return _pretty(
        {
            rule.id: {
                "statement": rule.statement,
                "strength": rule.strength,
                "outcome": rule.outcome,
                "sources": list(rule.sources),
            }
            for rule in sorted(all_rules(), key=lambda rule: rule.id)
            if rule.id in named
        }
    )


def raw_input(case: Case) -> bytes | None:
    """The bytes that *case* gives to a decoder or produces on a broker; None if it has no single input."""
    if isinstance(case.input, bytes):
        return case.input
    if case.op == "append" and isinstance(case.input, Scenario) and case.input.is_plain():
        (step,) = case.input.steps
        assert isinstance(step, Produce)
        return None if step.data is UNSET else step.data
    return None


def file_name_of(id_: str) -> str:
    """The id as a file name: lower case, hyphens for other characters, and a hash where that changed the id.

    >>> file_name_of("v2_batch.crc"), file_name_of("v2_headers.key_is_not_utf_8[0xff]")
    ('v2_batch.crc', 'v2_headers.key_is_not_utf_8-0xff-b6ef3d')
    """
    name = re.sub(r"[^a-z0-9_.]+", "-", id_.lower()).strip("-.")
    return name if name == id_ else f"{name}-{sha256(id_.encode()).hexdigest()[:_ID_HASH]}"


def go_fuzz_entry(data: bytes) -> bytes:
    """A file of Go's own fuzz corpus, for a target that takes one `[]byte`."""
    text = "".join(f"\\x{byte:02x}" for byte in data)
    return f'go test fuzz v1\n[]byte("{text}")\n'.encode()


def seed_files() -> Iterator[tuple[str, bytes]]:
    """Raw inputs for fuzzers and other languages: path and content, the index first."""
    content = shared_content()
    inputs = [(case, data) for case in content.cases if (data := raw_input(case)) is not None]
    yield "index.json", _index(content, inputs)
    for case, data in inputs:
        name = file_name_of(case.id)
        yield f"seeds/{name}.bin", data
        yield f"go/testdata/fuzz/FuzzDecode/{name}", go_fuzz_entry(data)


def _index(content: SharedContent, inputs: Sequence[tuple[Case, bytes]]) -> bytes:
    """One line for each raw input, in one JSON document."""
    entries = [
        {
            "file": f"seeds/{file_name_of(case.id)}.bin",
            "id": case.id,
            "op": case.op,
            "verdict": case.expect.verdict,
            "kinds": list(case.expect.kinds),
            "title": case.title,
            "size": len(data),
            "sha256": sha256(data).hexdigest(),
        }
        | content.facts[case.id]
        for case, data in inputs
    ]
    version = content.version
    head = {"format": FORMAT, "version": version.plain, "corpus_sha256": version.sha256}
    lines = ",\n".join("  " + json.dumps(entry, ensure_ascii=False) for entry in entries)
    return f'{json.dumps(head)[:-1]}, "inputs": [\n{lines}\n]}}\n'.encode()
