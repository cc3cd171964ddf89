"""A certificate: what a run says of one testee and version, bound to corpus and result by hash.

    {"format": "kafkaproof-certificate", "version": 2,
     "testee": {…}, "corpus": {"sha256": …}, "result": {"file": …, "sha256": …},
     "origin": …, "date": …, "variants": {…}, "certified": …, "certified_for": […], "reasons": […], "supported": …,
     "profiles": […], "causes": […], "informedness": …, "answered_informedness": …,
     "skipped": {…}, "areas": {…}, "nulls": {…}, "findings": {…}, "deviations": […],
     "sha256": of everything above}

`origin` says who ran the testee, and `date` on which day (UTC); no field proves it.  A certificate whose `date` is
null does not hold as current, since it would never expire.  `variants` has the seed of
the variants that were sent, and which of them were answered worse than their cases.

`problems` works all of it out again from the result file and the corpus of
this installation, without a network.  It finds a statement, a result, or a
selection of cases that was changed afterwards.  It cannot find a result whose
outcomes were made up: who doubts them runs the testee again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from kafka_brokers.releases import BadRangeError, parse_supported
from kafka_conformance import installed_version
from kafka_conformance.judge.verdict import OPEN, SEVERITIES
from kafka_conformance.reports.collection import remade
from kafka_conformance.reports.profiles import FoundCause, PassCriteria, is_left_out
from kafka_conformance.reports.summary import Report
from kafka_conformance.runner import results
from kafka_conformance.runner.deviations import Deviation
from kafka_conformance.runner.requests import is_relevant, select, unsupported
from kafka_conformance.runner.results import Results, Unusable
from kafka_conformance.sanitize import indented_json, printable
from kafka_conformance.testees.protocol import PROTOCOL, HelloReply
from kafka_corpus.case import Case
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import corpus_hash

FORMAT: Final = "kafkaproof-certificate"
VERSION: Final = 2
FILE: Final = "certificate.json"
DIGITS: Final = 6
MOST_REASONS: Final = 20
MOST_BYTES: Final = 1024 * 1024
# The names of `certify --origin`, and the words of the certificate for them.
SELF: Final = "self"
ORIGINS: Final[Mapping[str, str]] = {
    SELF: "self-reported",
    "ci": "re-run by CI",
    "kafkaproof": "re-run by Kafkaproof",
}

# Kinds of observation that an outcome `agree` can have, by operation and expectation.  Records before a fault may be
# delivered, so a decoder of invalid bytes may have answered with some.
_READ: Final = frozenset({"decoded", "consumed"})
_APPENDED: Final = frozenset({"appended"})
AGREEING: Final[Mapping[str, Mapping[str, frozenset[str]]]] = {
    "decode": {"valid": _READ, "acceptable": _READ | {"refused"}, "invalid": _READ | {"refused"}},
    "encode": {
        "valid": frozenset({"encoded"}),
        "acceptable": frozenset({"encoded", "refused"}),
        "invalid": frozenset({"refused"}),
    },
    "append": dict.fromkeys(("valid", "acceptable", "invalid"), _APPENDED),
}


class BadCertificate(ValueError):
    """The file is no certificate."""


def statement(made: Report, file: str, data: bytes | None = None) -> dict[str, Any]:
    """The certificate of *made*, whose result file is *file* in the same directory; *data* is its content."""
    data = made.path.read_bytes() if data is None else data
    testee = made.results.header.testee
    content = {
        "format": FORMAT,
        "version": VERSION,
        "kafkaproof": installed_version(),
        "testee": testee,
        "corpus": {"sha256": made.results.header.corpus, "cases": made.results.header.cases},
        "result": {"file": file, "sha256": sha256(data).hexdigest()},
        "origin": origin_of(made.results),
        "date": date_of(made.results),
        **_worked_out(made),
        "deviations": [msgspec.to_builtins(each) for each in made.declared],
    }
    return content | {"sha256": statement_hash(content)}


def _worked_out(made: Report) -> dict[str, Any]:
    """The statement that follows from the lines of the result."""
    certificate, counted = made.certificate, made.results.counts()
    return {
        "certified": certificate.certified,
        "certified_for": list(certificate.certified_for),
        "reasons": list(certificate.reasons),
        "supported": str(made.criteria.supported),
        "profiles": [msgspec.to_builtins(each) for each in made.profiled.profiles],
        "causes": [_cause(each) for each in made.profiled.causes],
        "complete": made.results.complete,
        "variants": _variants(made.results),
        "only": made.results.header.only,
        "informedness": round(certificate.score, DIGITS),
        "answered_informedness": round(certificate.answered_score, DIGITS),
        "skipped": {
            "cases": sum(counted[name] for name in OPEN),
            "share": round(certificate.skipped, DIGITS),
            "why": _skips(made),
        },
        "areas": {
            area: {
                "informedness": round(certificate.areas[area], DIGITS),
                **{name: counts[name] for name in sorted(counts)},
            }
            for area, counts in made.by_area().items()
        },
        "nulls": {name: round(value, DIGITS) for name, value in certificate.nulls.items()},
        "findings": {name: counted[name] for name in SEVERITIES},
        "known": sorted(made.applied.known),
        "not_exposed": made.left_out(),
    }


def origin_of(done: Results) -> str:
    """The word of `ORIGINS` for the person or service that ran the testee."""
    return ORIGINS.get(str(done.header.settings.get("origin")), ORIGINS[SELF])


def date_of(done: Results) -> str | None:
    """The day on which the run began, as in 2026-11-25; None for results that do not say.

    For a kept result it is the day of its newest lines.
    """
    day = done.header.settings.get("date")
    return day if is_day(day) else None


def is_day(value: Any) -> bool:
    """Whether *value* is the text of a day, as in 2026-11-25."""
    try:
        return isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        return False


def _variants(done: Results) -> dict[str, Any] | None:
    checked = None if done.footer is None else done.footer.variants
    return None if checked is None else msgspec.to_builtins(checked)


def _cause(cause: FoundCause) -> dict[str, Any]:
    return {
        "id": cause.id,
        "title": cause.title,
        "grade": cause.grade,
        "profile": cause.profile,
        "cases": len(cause.cases),
    }


def _skips(made: Report) -> dict[str, int]:
    counter = Counter(printable(line.why) for line in made.results.lines if line.outcome in OPEN)
    most = sorted(counter.items(), key=lambda each: (-each[1], each[0]))
    return dict(most[:MOST_REASONS])


def statement_hash(content: Mapping[str, Any]) -> str:
    """The hash of the fields of a certificate, its own hash left out."""
    return sha256(msgspec.json.encode(content, order="sorted")).hexdigest()


def hash_problem(content: Mapping[str, Any]) -> str:
    """That the certificate's own hash does not fit; empty if it does."""
    if content.get("sha256") == statement_hash({name: value for name, value in content.items() if name != "sha256"}):
        return ""
    return "the certificate was changed after it was made: its own hash does not fit"


def encode_certificate(content: Mapping[str, Any]) -> bytes:
    """The certificate as a file."""
    return indented_json(content)


def load_certificate(path: Path) -> dict[str, Any]:
    """The certificate in *path*.  Raises `BadCertificate`."""
    return decode_certificate(read_certificate(path), path)


def read_certificate(path: Path) -> bytes:
    """The bytes of the certificate in *path*.  Raises `BadCertificate` for what is no regular file, or too large."""
    try:
        return results.read_limited(path, MOST_BYTES)
    except ValueError as error:
        raise BadCertificate(str(error)) from error


def decode_certificate(data: bytes, path: Path) -> dict[str, Any]:
    """The certificate *data*, which was in *path*.  Raises `BadCertificate`."""
    try:
        content = msgspec.json.decode(data)
        json.loads(data, object_pairs_hook=_refuse_repeated_keys)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise BadCertificate(f"{path}: not JSON: {error}") from error
    if not isinstance(content, dict) or (content.get("format"), content.get("version")) != (FORMAT, VERSION):
        raise BadCertificate(f"{path}: not a certificate of version {VERSION}")
    return content


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> None:
    """Programs differ in which of two values they take."""
    for name, times in Counter(name for name, _ in pairs).items():
        if times > 1:
            raise ValueError(f"the key {printable(name, 100)} is there more than once")


def result_of(content: Mapping[str, Any], path: Path) -> Path:
    """Where the result of the certificate in *path* should be: in its directory, wherever the file says.

    Raises:
        BadCertificate: it names none.
    """
    result = content.get("result")
    name = result.get("file") if isinstance(result, dict) else None
    if not isinstance(name, str) or not PurePath(name).name:
        raise BadCertificate(f"{path}: it names no result")
    return path.parent / PurePath(name.replace("\\", "/")).name


def problems(content: Mapping[str, Any], result: Path, cases: Mapping[str, Case]) -> Iterator[str]:
    """Statements of a certificate that do not hold, one line each; none if all hold."""
    if problem := hash_problem(content):
        yield problem
    try:
        done = results.read_results(result)
    except Unusable as error:
        yield f"the result cannot be read: {error}"
        return
    try:
        declared = msgspec.convert(content.get("deviations"), tuple[Deviation, ...])
    except msgspec.ValidationError as error:
        yield f"its deviations are none: {printable(str(error))}"
        return
    try:
        criteria = PassCriteria(supported=parse_supported(str(content.get("supported"))))
    except BadRangeError as error:
        yield f"its supported releases are none: {printable(str(error))}"
        return
    if content.get("kafkaproof") != installed_version():
        yield f"Kafkaproof {printable(str(content.get('kafkaproof')), 100)} made it, and here is {installed_version()}"
    for number in islice(results.rewritten_lines(done, result), 1):
        yield f"{result}:{number}: the line is not as a run writes it"
    yield from _of_result(done, cases)
    if done.header.corpus == corpus_hash():
        yield from _different(content, remade(done, cases, declared, result, criteria))


def _of_result(done: Results, cases: Mapping[str, Case]) -> Iterator[str]:
    if done.header.corpus != corpus_hash():
        yield (
            f"it is about corpus {printable(done.header.corpus, 12)}, and here is {corpus_hash()[:12]};"
            " the Kafkaproof that made it can check it"
        )
        return
    yield from coverage(done, cases)
    wrong = [line.case for line in done.lines if line.case in cases and not _fits(line, cases[line.case])]
    if wrong:
        yield f"{_cases(wrong)} not as the corpus has it: {printable(wrong[0])}"
    if contrary := [line.case for line in done.lines if not _agrees(line)]:
        yield f"{_cases(contrary)} said to agree, with an observation that does not: {printable(contrary[0])}"
    yield from _not_as_announced(done, cases)


def _agrees(line: results.ResultLine) -> bool:
    """Whether the observation is of a kind that can agree; always for other outcomes, and for cases of brokers."""
    kinds = AGREEING.get(line.op, {}).get(line.expected)
    return line.outcome != "agree" or kinds is None or line.observation.get("kind") in kinds


def _not_as_announced(done: Results, cases: Mapping[str, Case]) -> Iterator[str]:
    """Cases that the runner would have sent to a testee with this hello and did not, or the other way round."""
    fields = {name: value for name, value in done.header.testee.items() if name in HelloReply.__struct_fields__}
    try:
        hello = msgspec.convert({"protocol": PROTOCOL, **fields}, HelloReply)
    except msgspec.ValidationError:
        return  # of a broker, which announces nothing
    lines = [line for line in done.lines if line.case in cases]
    announced = {line.case: unsupported(cases[line.case], hello) is None for line in lines}
    if unsent := [line.case for line in lines if is_left_out(line) and announced[line.case]]:
        yield f"{_cases(unsent)} left out, although the testee announces its formats: {printable(unsent[0])}"
    if sent := [line.case for line in lines if not is_left_out(line) and not announced[line.case]]:
        yield f"{_cases(sent)} answered, although the testee does not announce its formats: {printable(sent[0])}"


def coverage(done: Results, cases: Mapping[str, Case]) -> Iterator[str]:
    """Cases that are missing from a result that says it is complete, or that are no cases, or are there twice."""
    present = [line.case for line in done.lines]
    twice = [case for case, times in Counter(present).items() if times > 1]
    if twice:
        yield f"{_cases(twice)} in it more than once: {printable(twice[0])}"
    strange = sorted(set(present) - cases.keys())
    if strange:
        yield f"{_cases(strange)} not in the corpus: {printable(strange[0])}"
    chosen = {case.id for case in select(list(cases.values()), done.header.only)}
    if unchosen := [case for case in present if case in cases and case not in chosen]:
        yield f"{_cases(unchosen)} not of the cases that were selected: {printable(unchosen[0])}"
    if done.complete and not done.header.testee.get("broker"):
        missing = sorted(_due(done, cases.values()) - set(present))
        if missing:
            yield f"{_cases(missing)} missing: {missing[0]}"


def _cases(ids: Sequence[str]) -> str:
    return "1 case is" if len(ids) == 1 else f"{len(ids):,} cases, as this one, are"


def _due(done: Results, cases: Any) -> set[str]:
    append = bool(done.header.testee.get("append"))
    of_codecs: Sequence[Case] = [case for case in cases if case.op in (*CODEC_OPS, "append")]
    return {case.id for case in select(of_codecs, done.header.only) if is_relevant(case, append=append)}


def _fits(line: results.ResultLine, case: Case) -> bool:
    said = (line.area, line.op, line.expected, line.rules)
    return said == (case.area, case.op, case.expect.verdict, case.rules)


def _different(content: Mapping[str, Any], made: Report) -> Iterator[str]:
    """Fields that do not follow from the result."""
    expected = statement(made, "")
    for name in sorted(content.keys() - expected.keys()):
        yield f"there is no field {printable(name, 100)} in a certificate"
    for name in expected.keys() - {"sha256", "kafkaproof"}:
        stated, follows = content.get(name), expected[name]
        if name == "result":
            stated, follows = (_sha256_of(stated), _sha256_of(follows))
        if stated != follows:
            yield f"{name}: it says {_short(stated)}, from the result follows {_short(follows)}"


def _sha256_of(value: Any) -> Any:
    return value.get("sha256") if isinstance(value, dict) else None


def _short(value: Any) -> str:
    return printable(msgspec.json.encode(value), 100)
