"""Kept results: the last full result of a testee in one version, compact and in the tree.

`<testee>-<version>.ndjson` has a header and one line for each case, sorted by id.  A line has the content hash of its
case, so a case that is new or has changed since is one without a line; it does not have what the case says itself.
`kafkaproof refresh` adds the lines that lack; `kafkaproof report` and `kafkaproof dossier` read these files as results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from kafka_conformance.judge.verdict import Outcome, Verdict
from kafka_conformance.runner import results
from kafka_conformance.runner.requests import is_relevant, unsupported
from kafka_conformance.runner.results import ResultFooter, ResultHeader, ResultLine, Results, Unusable, result_line
from kafka_conformance.sanitize import without_folders
from kafka_conformance.testees.protocol import PROTOCOL, HelloReply
from kafka_corpus.case import Case
from kafka_corpus.vector_format import content_hash, corpus_hash_of

FORMAT: Final = "kafkaproof-kept-results"
VERSION: Final = 1
SUFFIX: Final = ".ndjson"
# Hexadecimal digits of a content hash that a line has: enough for two contents of one case.
CONTENT: Final = 16


class KeptHeader(msgspec.Struct, kw_only=True):
    """The testee as it described itself, its name and the version of its codec, and the settings of the run.

    `date` is the day of the newest lines, as YYYY-MM-DD; unset in files of earlier releases.
    """

    format: str = FORMAT
    version: int = VERSION
    name: str
    release: str
    testee: dict[str, Any]
    settings: dict[str, Any]
    date: str | UnsetType = UNSET


class KeptLine(msgspec.Struct, kw_only=True, omit_defaults=True, frozen=True):
    """One case, as judged; `results.ResultLine` says what the fields mean.

    `keys` are the keys of the findings that a campaign would report for the input; unset if that was never determined.
    """

    case: str
    content: str
    outcome: Outcome = "agree"
    field: str = ""
    why: str = ""
    also: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    observation: dict[str, Any] = {}
    ms: float = 0.0
    deaths: int = 0
    keys: tuple[str, ...] | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class CorpusContents:
    """All cases, and their content hashes by id."""

    cases: Sequence[Case]
    contents: Mapping[str, str]

    @classmethod
    def of(cls, cases: Sequence[Case]) -> CorpusContents:
        """The corpus of *cases*."""
        return cls(cases, {case.id: content_hash(case) for case in cases})

    @property
    def sha256(self) -> str:
        """The hash of the corpus."""
        return corpus_hash_of(self.contents.items())


@dataclass(frozen=True, slots=True)
class KeptResult:
    """One file: its header, and its lines by case id."""

    header: KeptHeader
    lines: Mapping[str, KeptLine]

    def missing(self, corpus: CorpusContents) -> list[Case]:
        """The cases for the testee that have no line with today's content.

        Which cases a run skips may change without a change of a case; those whose line says otherwise are missing too.
        """
        hello = hello_of(self.header.testee)
        return [
            case
            for case in cases_for(corpus.cases, self.header.testee)
            if not self.has(case.id, corpus) or self._was_left_out(case) != bool(unsupported(case, hello))
        ]

    def _was_left_out(self, case: Case) -> bool:
        return bool(self.lines[case.id].observation.get("by_runner"))

    def has(self, id_: str, corpus: CorpusContents) -> bool:
        """Whether there is a line with today's content of the case."""
        line = self.lines.get(id_)
        return line is not None and line.content == corpus.contents.get(id_, "")[:CONTENT]

    def merged(self, done: Results, corpus: CorpusContents) -> KeptResult:
        """With the lines of *done*, and without those of ids that have changed or gone."""
        new = {line.case: kept_line(line, corpus) for line in done.lines if line.case in corpus.contents}
        old = {id_: line for id_, line in self.lines.items() if self.has(id_, corpus)}
        header = msgspec.structs.replace(self.header, testee=done.header.testee, settings=done.header.settings)
        return replace(self, header=header, lines=old | new)

    def dated(self, day: str) -> KeptResult:
        """With the day of its newest lines."""
        # The day stands in `date` alone.
        settings = {key: value for key, value in self.header.settings.items() if key != "date"}
        return replace(self, header=msgspec.structs.replace(self.header, date=day, settings=settings))

    def with_keys(self, keys: Mapping[str, Collection[str]]) -> KeptResult:
        """With the keys of findings, by case id."""
        new = {id_: msgspec.structs.replace(self.lines[id_], keys=tuple(sorted(found))) for id_, found in keys.items()}
        return replace(self, lines={**self.lines, **new})

    def results(self, corpus: CorpusContents) -> Results:
        """The result over *corpus*, complete if each case has a line; its date is the day of the newest lines."""
        chosen = cases_for(corpus.cases, self.header.testee)
        lines = tuple(_line(self.lines[case.id], case) for case in chosen if self.has(case.id, corpus))
        settings = self.header.settings
        if self.header.date is not UNSET:
            settings = settings | {"date": self.header.date}
        header = ResultHeader(
            testee=self.header.testee, corpus=corpus.sha256, cases=len(chosen), only=[], settings=settings
        )
        found = Results(header, lines, None)
        return replace(found, footer=_footer(found)) if len(lines) == len(chosen) else found


def hello_of(testee: Mapping[str, Any]) -> HelloReply:
    """The hello in the description of a testee."""
    return msgspec.convert({"protocol": PROTOCOL, **testee}, HelloReply)


def cases_for(cases: Iterable[Case], testee: Mapping[str, Any]) -> list[Case]:
    """Those of *cases* that are for a testee that describes itself like this."""
    deaf = bool(testee.get("consumer")) and not testee.get("committed")
    return [case for case in cases if is_relevant(case, append=bool(testee.get("append")), deaf=deaf)]


def kept_line(line: ResultLine, corpus: CorpusContents) -> KeptLine:
    """The line of a full result as it is kept: the machine's own folders are left out of paths."""
    fields = {name: getattr(line, name) for name in KeptLine.__struct_fields__ if name not in ("content", "keys")}
    observation, why = without_folders(line.observation), without_folders(line.why)
    also = tuple(map(without_folders, line.also))
    content = corpus.contents[line.case][:CONTENT]
    return KeptLine(**fields | {"content": content, "observation": observation, "why": why, "also": also})


def _line(kept: KeptLine, case: Case) -> ResultLine:
    verdict = Verdict(kept.outcome, kept.field, kept.why, kept.also, kept.left_out)
    return result_line(case, verdict, kept.observation, kept.ms / 1000, kept.deaths)


def _footer(found: Results) -> ResultFooter:
    return ResultFooter(counts=found.counts(), seconds=0.0, waited=0.0, starts=0, strays=0, sha256="")


def kept_of(done: Results, name: str, release: str, corpus: CorpusContents) -> KeptResult:
    """A full result as it is kept."""
    header = KeptHeader(name=name, release=release, testee=done.header.testee, settings=done.header.settings)
    return KeptResult(header, {}).merged(done, corpus)


_encoder = msgspec.json.Encoder()
_headers = msgspec.json.Decoder(KeptHeader)
_lines = msgspec.json.Decoder(KeptLine)


def kept_path(folder: Path, name: str, release: str) -> Path:
    """The file of a testee in a version."""
    return folder / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', f'{name}-{release}')}{SUFFIX}"


def is_kept(file: Path) -> bool:
    """Whether *file* starts like a kept result."""
    with file.open("rb") as opened:
        return opened.read(len(_START)) == _START


_START: Final = f'{{"format":"{FORMAT}"'.encode()


def kept_files(folder: Path) -> list[Path]:
    """The kept results in *folder*, by name."""
    return [file for file in sorted(folder.glob(f"*{SUFFIX}")) if is_kept(file)]


def read_kept(file: Path) -> KeptResult:
    """The kept result in *file*.

    Raises:
        Unusable: it is none, or a line is broken.
    """
    try:
        first, _, rest = results.read_limited(file, results.MOST_BYTES).partition(b"\n")
        return KeptResult(_headers.decode(first), {line.case: line for line in _lines.decode_lines(rest)})
    except (OSError, ValueError) as error:
        raise Unusable(f"{file}: not a kept result: {error}") from error


_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")


def kept_date(file: Path) -> str:
    """The day of the newest lines of a kept result; empty if it is not recorded."""
    with file.open("rb") as opened:
        day = _headers.decode(opened.readline()).date
    return day if day is not UNSET and _DAY.fullmatch(day) else ""


def write_kept(kept: KeptResult, file: Path) -> None:
    """Replace *file*, as a whole or not at all."""
    lines: list[msgspec.Struct] = [kept.header, *(kept.lines[id_] for id_ in sorted(kept.lines))]
    file.parent.mkdir(parents=True, exist_ok=True)
    partial = file.with_name(f"{file.name}.partial")
    partial.write_bytes(b"".join(_encoder.encode(line) + b"\n" for line in lines))
    partial.replace(file)


def read_any_results(file: Path, corpus: Callable[[], CorpusContents]) -> Results:
    """The result in *file*, be it kept or as a run writes it; a kept one is joined with *corpus*.

    Raises:
        Unusable: it is neither.
    """
    if file.is_file() and is_kept(file):
        return read_kept(file).results(corpus())
    return results.read_results(file)
