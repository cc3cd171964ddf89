"""Reproducers: programs that need the library and the bytes only.

There is a text for each testee and operation in `reproducers`, with places in
capitals between `@`; lines that end in `large` after a comment sign are for
inputs that are deflated.
"""

from __future__ import annotations

import re
import textwrap
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

from kafka_conformance.dossiers.causes import Cause, CauseGroup, testee_of
from kafka_conformance.reports.profiles import GradedFinding
from kafka_conformance.runner.results import Results
from kafka_corpus.case import Case
from kafka_corpus.vector_format import input_of
from kafka_records import Batch, Record
from kafka_records.constants import COMPRESSIONS

# Bytes: longer inputs repeat themselves, and become a few lines when they are deflated twice.
MOST_PLAIN: Final = 2048
_LARGE: Final = re.compile(r" *(?://|#)(large)((?:: .*)?)$")
_SMALL: Final = re.compile(r" *//small$")


@dataclass(frozen=True, slots=True)
class Reproducer:
    """A program, and what it takes to run it.

    Attributes:
        language: its language.
        files: texts by file name; the program is the first.
        setup: commands for once, in the folder of the files.
        run: the command.
    """

    language: str
    files: Mapping[str, str]
    setup: tuple[str, ...]
    run: str


def reproducer(group: CauseGroup, case: Case | None = None) -> Reproducer | None:
    """The program for a case of *group*, the first if none is given; None if there is no text for its testee."""
    known = _index().get(group.testee.name)
    case = case or group.case
    if case.aborted is not None:
        return None  # the programs decode bytes, and this is about the response around them
    text = None if known is None else _text(known.get("texts", group.testee.name), case.op)
    if known is None or text is None:
        return None
    for place, name in known.get("parts", {}).items():
        text = text.replace(place, _read(name).rstrip())
    places = {"@TITLE@": group.cause.title, "@VERSION@": group.testee.version, **known.get("places", {})}
    program = _decode(text, case, places) if case.op == "decode" else _encode(text, case, places, known["language"])
    version = group.testee.version.split()[0]  # after it a testee may list its parts
    extra = {name: body.replace("{version}", version) for name, body in known.get("extra", {}).items()}
    setup = tuple(
        command.replace("{version}", version) for command in known.get(f"setup_{case.op}", known.get("setup", ()))
    )
    return Reproducer(known["language"], {known["file"]: program} | extra, setup, known["run"])


def finding_program(done: Results, finding: GradedFinding) -> Reproducer | None:
    """The program for one finding of *done*; None if there is no text for its testee."""
    cause = Cause(0, finding.cause.id, finding.cause.title, "")
    return reproducer(CauseGroup(testee_of(done), cause, (finding.line,), finding.case))


def programs() -> set[tuple[str, str]]:
    """The testees and operations that there is a program for."""
    names = {testee: known.get("texts", testee) for testee, known in _index().items()}
    return {(testee, op) for testee, name in names.items() for op in ("decode", "encode") if _text(name, op)}


@cache
def _index() -> Mapping[str, dict[str, Any]]:
    return tomllib.loads(_read("index.toml"))


@cache
def _text(testee: str, op: str) -> str | None:
    names = sorted(each.name for each in files(__package__).joinpath("reproducers").iterdir())
    name = next((name for name in names if name.startswith(f"{testee}.{op}.")), None)
    return None if name is None else _read(name)


def _read(name: str) -> str:
    return files(__package__).joinpath("reproducers", name).read_text(encoding="utf-8")


def _decode(text: str, case: Case, places: Mapping[str, str]) -> str:
    data = input_of(case)
    assert isinstance(data, bytes)
    large = len(data) > MOST_PLAIN
    digits = (zlib.compress(zlib.compress(data, 9), 9) if large else data).hex()
    lines = "\n".join(textwrap.wrap(digits, 96))
    chosen = "\n".join(_lines(text, large=large))
    return _filled(chosen, {**places, "@HEX@": lines})


def _lines(text: str, *, large: bool) -> Iterator[str]:
    for line in text.rstrip().split("\n"):
        marked, small = _LARGE.search(line), _SMALL.search(line)
        if not marked and not small:
            yield line
        elif marked and large:
            remark, sign = marked[2].removeprefix(": "), "#" if "#large" in line else "//"
            yield line[: marked.start()] + (f"  {sign} {remark}" if remark else "")
        elif small and not large:
            yield line[: small.start()]


def _filled(text: str, places: Mapping[str, str]) -> str:
    for place, given in places.items():
        text = text.replace(place, given)
    return text + "\n"


def _encode(text: str, case: Case, places: Mapping[str, str], language: str) -> str:
    batch = input_of(case)
    assert isinstance(batch, Batch)
    words = {True: "True", False: "False"} if language == "Python" else {True: "true", False: "false"}
    codec = COMPRESSIONS.index(batch.compression)
    return _filled(text.rstrip(), {
        **places,
        "@MAGIC@": str(batch.magic), "@CODEC@": str(codec), "@COMPRESSION@": batch.compression,
        "@PRODUCER_ID@": str(batch.producer_id), "@PRODUCER_EPOCH@": str(batch.producer_epoch),
        "@BASE_SEQUENCE@": str(batch.base_sequence), "@LEADER_EPOCH@": str(batch.partition_leader_epoch),
        "@BASE_OFFSET@": str(batch.base_offset), "@LAST_OFFSET@": str(batch.last_offset),
        "@MAX_TIMESTAMP@": str(batch.max_timestamp), "@TRANSACTIONAL@": words[batch.transactional],
        "@CONTROL@": words[batch.control], "@APPEND@": words[batch.timestamp_type == "append"],
        "@RECORDS@": "\n".join(LITERALS[language].line(record) for record in batch.records),
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Literals:
    """How a language writes records down, each a format string: no bytes, some bytes, headers, a record."""

    none: str
    some: str
    header: str
    headers: str
    no_headers: str
    record: str

    def line(self, record: Record) -> str:
        """*record* as a line of source."""
        listed = ", ".join(self._header(key, value) for key, value in record.headers)
        headers = self.headers.format(listed) if listed else self.no_headers
        key, value = self._text(record.key), self._text(record.value)
        return self.record.format(record.offset, record.timestamp, key, value, headers)

    def _header(self, key: bytes, value: bytes | None) -> str:
        return self.header.format(key.hex(), self._text(value), name=repr(key.decode(errors="replace")))

    def _text(self, data: bytes | None) -> str:
        return self.none if data is None else self.some.format(data.hex())


LITERALS: Final[Mapping[str, Literals]] = {
    "Python": Literals(
        none="None", some="bytes.fromhex('{}')", header="({name}, {1})", headers="[{}]", no_headers="[]",
        record="    ({}, {}, {}, {}, {}),",
    ),
    "Go": Literals(
        none="nil", some='unhex("{}")', header='{{unhex("{}"), {}}}', headers="[]header{{{}}}", no_headers="nil",
        record="\t{{{}, {}, {}, {}, {}}},",
    ),
    "Rust": Literals(
        none="None", some='Some(unhex("{}"))', header='(unhex("{}"), {})', headers="vec![{}]", no_headers="vec![]",
        record="        ({}, {}, {}, {}, {}),",
    ),
    "JavaScript": Literals(
        none="null", some="unhex('{}')", header="[unhex('{}').toString(), {}]", headers="[{}]", no_headers="[]",
        record="  {{ timestamp: {1}n, key: {2}, value: {3}, headers: {4} }},",
    ),
    "Java": Literals(
        none="null", some='"{}"', header='header("{}", {})', headers=", {}", no_headers="",
        record="        given({}L, {}L, {}, {}{}),",
    ),
}  # fmt: skip
