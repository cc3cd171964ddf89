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

from kafka_conformance.dossiers.grouping import CauseGroup, library_row
from kafka_conformance.reports.profiles import GradedFinding
from kafka_conformance.runner.results import Results
from kafka_corpus.case import Case
from kafka_corpus.vector_format import input_of
from kafka_records import Batch, Record, encode
from kafka_records.constants import COMPRESSIONS

# Bytes: longer inputs repeat themselves, and become a few lines when they are deflated twice.
MOST_PLAIN: Final = 2048
# Of the expected result, in the line that a program prints.
MOST_EXPECTED: Final = 512  # bytes
MOST_RECORDS: Final = 5
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


def reproducer(group: CauseGroup) -> Reproducer | None:
    """The program for the smallest case of *group*; None if there is no text for its row."""
    return case_program(group.row.name, group.row.release, group.cause.title, group.case)


def case_program(row: str, release: str, title: str, case: Case) -> Reproducer | None:
    """The program that shows *case* with *release* of the library of *row*; None if there is no text for it.

    It prints a line `expected`, and lines `actual` with what the library does.
    """
    if not has_program(row, case):
        return None
    known = _index()[row]
    text = _text(known.get("texts", row), case.op)
    assert text is not None
    for place, name in known.get("parts", {}).items():
        text = text.replace(place, _read(name).rstrip())
    places = {"@TITLE@": title, "@VERSION@": release, "@EXPECTED@": expected_line(case), **known.get("places", {})}
    program = _decode(text, case, places) if case.op == "decode" else _encode(text, case, places, known["language"])
    extra = {name: body.replace("{version}", release) for name, body in known.get("extra", {}).items()}
    setup = tuple(
        command.replace("{version}", release) for command in known.get(f"setup_{case.op}", known.get("setup", ()))
    )
    return Reproducer(known["language"], {known["file"]: program} | extra, setup, known["run"])


def finding_program(done: Results, finding: GradedFinding) -> Reproducer | None:
    """The program for one finding of *done*; None if there is no text for its testee."""
    row = library_row(done)
    return case_program(row.name, row.release, finding.cause.title, finding.case)


def has_program(row: str, case: Case) -> bool:
    """Whether there is a program for *case*: programs read or write bytes alone, without the response around them."""
    known = _index().get(row)
    if known is None or case.aborted is not None:
        return False
    return _text(known.get("texts", row), case.op) is not None


def expected_line(case: Case) -> str:
    """Kafka's result for *case*, as the programs print it: plain ASCII without quotes or backslashes."""
    expect = case.expect
    if expect.verdict == "invalid":
        return f"error: {' or '.join(expect.kinds) or 'any'}"
    if isinstance(case.input, Batch):
        data = expect.data if expect.data is not None else _encoded(case.input)
        shown = data.hex() if len(data) <= MOST_EXPECTED else f"{len(data)} bytes"
        return f"written: {shown}" + ("" if case.input.compression == "none" else " (compressed bytes may differ)")
    records = [record for batch in expect.batches if not batch.control for record in batch.records]
    listed = [f"offset {each.offset}, timestamp {each.timestamp}, {_content(each)}" for each in records[:MOST_RECORDS]]
    more = ["..."] if len(records) > MOST_RECORDS else []
    head = f"error: none, {len(records)} record{'' if len(records) == 1 else 's'}"
    return "; ".join([head, *listed, *more]) + (" (or an error)" if expect.verdict == "acceptable" else "")


def _content(record: Record) -> str:
    return f"key {_shown(record.key)}, value {_shown(record.value)}, {len(record.headers)} headers"


def _shown(data: bytes | None) -> str:
    return "null" if data is None else f"{len(data)} bytes {data[:24].hex()}".rstrip()


def _encoded(batch: Batch) -> bytes:
    try:
        return encode(batch)
    except ValueError:  # a writer has to refuse it
        return b""


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
    """How a language writes records down, each a format string: no bytes, bytes, header keys, headers, a record."""

    none: str
    some: str
    key: str
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

    def _header(self, key: bytes | None, value: bytes | None) -> str:
        written = self.none if key is None else self.key.format(key.hex(), name=repr(key.decode(errors="replace")))
        return self.header.format(written, self._text(value))

    def _text(self, data: bytes | None) -> str:
        return self.none if data is None else self.some.format(data.hex())


LITERALS: Final[Mapping[str, Literals]] = {
    "Python": Literals(
        none="None", some="bytes.fromhex('{}')", key="{name}", header="({}, {})", headers="[{}]", no_headers="[]",
        record="    ({}, {}, {}, {}, {}),",
    ),
    "Go": Literals(
        none="nil", some='unhex("{}")', key='unhex("{}")', header="{{{}, {}}}", headers="[]header{{{}}}",
        no_headers="nil", record="\t{{{}, {}, {}, {}, {}}},",
    ),
    "Rust": Literals(
        none="None", some='Some(unhex("{}"))', key='unhex("{}")', header="({}, {})", headers="vec![{}]",
        no_headers="vec![]", record="        ({}, {}, {}, {}, {}),",
    ),
    "JavaScript": Literals(
        none="null", some="unhex('{}')", key="unhex('{}').toString()", header="[{}, {}]", headers="[{}]",
        no_headers="[]", record="  {{ timestamp: {1}n, key: {2}, value: {3}, headers: {4} }},",
    ),
    "Java": Literals(
        none="null", some='"{}"', key='"{}"', header="header({}, {})", headers=", {}", no_headers="",
        record="        given({}L, {}L, {}, {}{}),",
    ),
}  # fmt: skip
