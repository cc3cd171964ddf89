"""Results of one client through several Fetch or Produce versions, side by side: which cases depend on the version.

A case that has no place in a version was not run in it, and is compared in the others.  The comparison of a client is
a column of the table of edges `fetch-versions` or `produce-versions`, with a row for each version.  One of fewer
versions does not replace it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_brokers.fake_broker import check_version
from kafka_conformance.edges import FORMAT, EdgeCell, EdgeHeader, EdgeWriter, result_path, said
from kafka_conformance.judge.grade import Grade, grade_rank
from kafka_conformance.judge.verdict import OPEN, SEVERITIES
from kafka_conformance.runner.keeping import REPORT_HINT, WouldReplace
from kafka_conformance.runner.requests import needed_formats
from kafka_conformance.runner.results import Results
from kafka_conformance.sanitize import indented_json, printable
from kafka_conformance.testees.known import REQUESTS, split_version
from kafka_corpus.case import Case, Op
from kafka_corpus.vector_format import input_of
from kafka_records import Batch

# Outcomes of cases that were not run.
NOT_RUN: Final = frozenset(OPEN) - {"flaky"}
# The operation whose cases a client gets in the versions of a request.
_OPERATIONS: Final[Mapping[str, Op]] = {"fetch": "decode", "produce": "encode"}
# Lines of the table on a terminal.
SHOWN: Final = 20


class BadVersions(ValueError):
    """Not a list of versions of the request."""


@dataclass(frozen=True, slots=True)
class ClientByVersion:
    """One client.

    Attributes:
        name: its connect string without a version.
        request: `fetch` or `produce`.
        versions: those that were wanted, ascending.
        compared: how many cases ran in each version.
        differing: by case the outcome in each version in which it ran, where they are not all the same.
    """

    name: str
    request: str
    versions: tuple[int, ...]
    compared: dict[int, int]
    differing: dict[str, dict[int, str]]

    @property
    def spoken(self) -> tuple[int, ...]:
        """The versions in which any case ran."""
        return tuple(version for version in self.versions if self.compared[version])

    @property
    def is_compared(self) -> bool:
        """Whether cases ran in two versions."""
        return len(self.spoken) > 1


def parse_versions(request: str, text: str) -> tuple[int, ...]:
    """Versions of *request* separated by commas, ascending and each once; `4-7` is a range.

    >>> parse_versions("fetch", "12,4-6,4")
    (4, 5, 6, 12)

    Raises:
        BadVersions: it is none, or no release has such a version.
    """
    found: set[int] = set()
    for part in filter(None, map(str.strip, text.split(","))):
        match = re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part)
        if match is None:
            raise BadVersions(f"{part!r} is no version")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise BadVersions(f"{part!r} is an empty range")
        try:
            check_version(REQUESTS[request][0], last)
        except ValueError as error:
            raise BadVersions(str(error)) from None
        found.update(range(first, last + 1))
    if not found:
        raise BadVersions(f"{text!r} names no version")
    return tuple(sorted(found))


def with_versions(names: Sequence[str], request: str, versions: Sequence[int]) -> list[str]:
    """The connect strings of each client in each version of *request*."""
    return [f"{name}+{request}{version}" for name in names for version in versions]


def version_cases(cases: Sequence[Case], request: str, per_group: int | None = None) -> list[Case]:
    """The cases of *cases* that *request* carries, in order.

    With *per_group*, at most so many of each area, set of formats and verdict; always the same ones.
    """
    carried = [case for case in cases if case.op == _OPERATIONS[request]]
    if per_group is None:
        return carried
    groups: dict[object, list[Case]] = defaultdict(list)
    for case in carried:
        groups[case.area, formats_of(case), case.expect.verdict].append(case)
    drawn = {case.id for group in groups.values() for case in sorted(group, key=_drawing_order)[:per_group]}
    return [case for case in carried if case.id in drawn]


def formats_of(case: Case) -> frozenset[tuple[int, str]]:
    """Magic and compression of what *case* carries."""
    data = input_of(case)
    if isinstance(data, Batch):
        return frozenset({(data.magic, data.compression)})
    return frozenset(needed_formats(data))


def _drawing_order(case: Case) -> bytes:
    return sha256(case.id.encode()).digest()


def compare_versions(results: Sequence[tuple[str, Results | None]]) -> list[ClientByVersion]:
    """Each client of *results*: connect strings with versions, and None for one that could not be run."""
    rows = [(split_version(connect), made) for connect, made in results]
    wanted = sorted(
        (((name, request), version, made) for (name, request, version), made in rows if version is not None),
        key=lambda row: row[:2],
    )
    return [
        _compared(key[0], key[1], [(version, made) for _, version, made in group])
        for key, group in groupby(wanted, key=lambda row: row[0])
    ]


def _compared(name: str, request: str, rows: Sequence[tuple[int, Results | None]]) -> ClientByVersion:
    by_case: dict[str, dict[int, str]] = {}
    compared = {version: 0 for version, _ in rows}
    for version, made in rows:
        for line in made.lines if made else ():
            outcome = str(line.outcome)
            if outcome not in NOT_RUN:
                compared[version] += 1
                by_case.setdefault(line.case, {})[version] = outcome
    differing = {case: outcomes for case, outcomes in sorted(by_case.items()) if len(set(outcomes.values())) > 1}
    return ClientByVersion(name, request, tuple(compared), compared, differing)


def steady_versions(
    clients: Sequence[ClientByVersion], again: Sequence[tuple[str, Results | None]]
) -> list[ClientByVersion]:
    """The comparison without outcomes that are other ones in a second run, *again*: chance, not the version."""
    second = {
        split_version(connect): {line.case: str(line.outcome) for line in made.lines} for connect, made in again if made
    }
    return [
        replace(
            each,
            differing={
                case: steady
                for case, outcomes in each.differing.items()
                if len(set((steady := _steady(each, case, outcomes, second)).values())) > 1
            },
        )
        for each in clients
    ]


def _steady(
    client: ClientByVersion,
    case: str,
    outcomes: Mapping[int, str],
    second: Mapping[tuple[str, str, int | None], Mapping[str, str]],
) -> dict[int, str]:
    """Those of *outcomes* that are the same in the second run, or that it did not reach."""
    return {
        version: outcome
        for version, outcome in outcomes.items()
        if second.get((client.name, client.request, version), {}).get(case, outcome) == outcome
    }


def write_version_column(
    folder: Path,
    client: ClientByVersion,
    release: str,
    grades: Mapping[int, Mapping[str, Grade]],
    whys: Mapping[int, str],
) -> None:
    """Write the comparison of one client as a column of the table of edges; *grades* and *whys* as `version_cells`."""
    kind, date = f"{client.request}-versions", datetime.now(UTC).date().isoformat()
    header = EdgeHeader(format=FORMAT, kind=kind, column=client.name, version=release, date=date)
    writer = EdgeWriter(result_path(folder, kind, client.name), header, again=True)
    for cell in version_cells(client, grades, whys):
        writer.add(cell)


def version_cells(
    client: ClientByVersion, grades: Mapping[int, Mapping[str, Grade]], whys: Mapping[int, str]
) -> Iterator[EdgeCell]:
    """A cell of the table of edges for each version: cases that are worse in it than in another version.

    Args:
        client: the comparison.
        grades: by version, the grades of the findings by case.
        whys: by version, why it was not run.
    """
    for version in client.versions:
        row = f"{client.request}-{version}"
        compared, worse = client.compared[version], dict(_worse_cases(client, version))
        observed: dict[str, Any] = {"compared": compared, "worse": len(worse)}
        if not compared:
            yield EdgeCell(row=row, grade="not run", outcome="not spoken", detail=said(whys.get(version, "")))
        elif not client.is_compared:
            detail = "No case ran in another version."
            yield EdgeCell(
                row=row, grade="not run", outcome="not compared", detail=detail, observed={"compared": compared}
            )
        elif not worse:
            yield EdgeCell(row=row, grade="PASS", outcome="same", observed=observed)
        else:
            first, other = next(iter(worse.items()))
            names = sorted({grades[version].get(case, "INFO") for case in worse}, key=grade_rank)
            outcomes = client.differing[first]
            detail = f"{first}: {outcomes[version]} in {version}, {outcomes[other]} in {other}"
            observed["cases"] = list(worse)[:SHOWN]
            yield EdgeCell(
                row=row, grade=names[0], outcome=f"worse on {len(worse):,}", detail=said(detail), observed=observed
            )


def _worse_cases(client: ClientByVersion, version: int) -> Iterator[tuple[str, int]]:
    """Cases that are worse in *version* than in another version, and the one in which they are best."""
    for case, outcomes in client.differing.items():
        best = max(outcomes, key=lambda other: _rank(outcomes[other]))
        if version in outcomes and _rank(outcomes[version]) < _rank(outcomes[best]):
            yield case, best


def _rank(outcome: str) -> int:
    return SEVERITIES.index(outcome) if outcome in SEVERITIES else len(SEVERITIES)


def versions_document(clients: Sequence[ClientByVersion]) -> dict[str, Any]:
    """The comparison as JSON: versions as text, since they are keys."""
    return {
        "clients": [
            {
                "connect": each.name,
                "versions": list(each.versions),
                "spoken": list(each.spoken),
                "compared": {str(version): count for version, count in each.compared.items()},
                "differing": {
                    case: {str(version): outcome for version, outcome in outcomes.items()}
                    for case, outcomes in each.differing.items()
                },
            }
            for each in clients
        ]
    }


class _WrittenClient(msgspec.Struct, frozen=True):
    connect: str
    versions: list[int]
    spoken: list[int]
    compared: dict[str, int]
    differing: dict[str, dict[str, str]]


class _WrittenVersions(msgspec.Struct, frozen=True):
    clients: list[_WrittenClient]


def _written_comparisons(path: Path) -> dict[str, _WrittenClient]:
    """The clients in *path* whose versions were compared."""
    try:
        written = msgspec.json.decode(path.read_bytes(), type=_WrittenVersions)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}  # there is none
    return {each.connect: each for each in written.clients if len(each.spoken) > 1}


def check_covers_versions(path: Path, names: Sequence[str], versions: Sequence[int]) -> None:
    """Raise `WouldReplace` if *path* compares one of the clients *names* in versions beside *versions*."""
    for name, old in _written_comparisons(path).items():
        if name in names and not set(old.spoken) <= set(versions):
            raise WouldReplace(
                f"{printable(str(path), 500)} compares versions {', '.join(map(str, old.spoken))} of "
                f"{printable(name, 80)}, and a comparison of {', '.join(map(str, versions))} would replace it; "
                f"{REPORT_HINT}"
            )


def write_versions(path: Path, clients: Sequence[ClientByVersion]) -> list[ClientByVersion]:
    """Write the comparisons as JSON beside those of other clients in *path*; give the clients that were written.

    One without a comparison does not replace its earlier one.
    """
    before = _written_comparisons(path)
    written = [each for each in clients if each.is_compared or each.name not in before]
    for each in written:
        before.pop(each.name, None)
    path.parent.mkdir(parents=True, exist_ok=True)
    document = versions_document(written)
    document["clients"] += msgspec.to_builtins(list(before.values()))
    path.write_bytes(indented_json(document))
    return written


def versions_lines(clients: Sequence[ClientByVersion]) -> Iterator[str]:
    """The comparison for a terminal."""
    for each in clients:
        name, request = printable(each.name, 80), each.request.capitalize()
        yield f"{name}: " + ", ".join(
            f"{count:,} cases in {request} {version}" for version, count in each.compared.items()
        )
        if silent := [version for version in each.versions if not each.compared[version]]:
            yield f"  no case ran in {request} {', '.join(map(str, silent))}"
        if not each.is_compared:
            yield "  nothing to compare: cases ran in fewer than two versions"
            continue
        if not each.differing:
            yield "  no outcome depends on the version"
            continue
        yield f"  {len(each.differing):,} outcomes depend on the version:"
        for case, outcomes in list(each.differing.items())[:SHOWN]:
            yield f"  {case}: " + ", ".join(
                f"{outcome} in {_spans(outcomes, outcome)}" for outcome in _unique(outcomes)
            )
        if len(each.differing) > SHOWN:
            yield f"  and {len(each.differing) - SHOWN:,} more"


def _unique(outcomes: dict[int, str]) -> list[str]:
    return list(dict.fromkeys(outcomes[version] for version in sorted(outcomes)))


def _spans(outcomes: dict[int, str], wanted: str) -> str:
    return ", ".join(str(version) for version in sorted(outcomes) if outcomes[version] == wanted)
