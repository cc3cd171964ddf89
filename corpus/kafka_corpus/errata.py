"""The page of errata: the text of each seed, the facts, and outcomes on brokers of each release."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import msgspec

from kafka_corpus.case import Case
from kafka_corpus.scenario import release_number
from kafka_records.broker import errors
from kafka_records.rules import Erratum, errata, seeds

# Most cases that are listed of a group that all brokers answer alike.
MOST_CASES: Final = 6
INTRODUCTION: Final = """\
# Errata: the seeds against one another, and against brokers

The formats were described in five documents, the seeds, which contradict one another on {count} points. For each point
this page has what each of them says, what holds, and the cases that show it, with what real brokers answered to them.
It is written by `kafkaproof corpus errata` from the rule catalogue and the recorded answers of brokers.

{seeds}
"""
CODES: Final = {
    value: name for name, value in vars(errors).items() if name.isupper() and isinstance(value, int) and value
}


def errata_page(cases: Sequence[Case]) -> str:
    """The page, in Markdown; *cases* have their evidence."""
    listed = "\n".join(f"- seed {seed.number}: {seed.title}" for seed in seeds())
    parts = [INTRODUCTION.format(count=len(errata()), seeds=listed)]
    parts += [_section(erratum, showing(erratum, cases)) for erratum in errata()]
    return "\n".join(parts)


def showing(erratum: Erratum, cases: Iterable[Case]) -> list[Case]:
    """The cases that show which text is right: those that refer to it."""
    return [case for case in cases if erratum.id in case.refs]


def unshown(cases: Sequence[Case]) -> list[str]:
    """The errata without a case."""
    return [erratum.id for erratum in errata() if not showing(erratum, cases)]


def _section(erratum: Erratum, cases: Sequence[Case]) -> str:
    lines = [f"## {erratum.id}: {erratum.topic}", "", "| source | says |", "|---|---|"]
    lines += [f"| {saying.source} | {_cell(saying.text)} |" for saying in erratum.says]
    rules = ", ".join(f"`{rule}`" for rule in erratum.rules)
    lines += ["", f"**What holds:** {erratum.verdict} ({rules})", "", "| case | tests | brokers |", "|---|---|---|"]
    lines += [_row(case) for case in cases[:MOST_CASES]]
    if len(cases) > MOST_CASES:
        lines.append(f"| and {len(cases) - MOST_CASES} more like these | | |")
    return "\n".join([*lines, ""])


def _row(case: Case) -> str:
    return f"| `{_cell(case.id)}` | {_cell(case.title)} | {'; '.join(outcomes(case)) or 'no answer recorded'} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def outcomes(case: Case) -> Iterator[str]:
    """Outcomes on brokers, as `0.11.0.3 to 4.4.0: INVALID_RECORD`, releases with the same outcome together."""
    answers: Mapping[str, Any] = case.evidence.get("brokers", {})
    said = [(release, _outcome(case, msgspec.to_builtins(answers[release]))) for release in sorted_releases(answers)]
    for outcome, group in groupby(said, key=lambda pair: pair[1]):
        releases = [release for release, _ in group]
        span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
        yield f"{span}: {outcome}"


def sorted_releases(names: Iterable[str]) -> list[str]:
    """Release names, oldest first."""
    return sorted(names, key=release_number)


def _outcome(case: Case, answer: Mapping[str, Any]) -> str:
    """The outcome of the last step."""
    expected = answer.get("as_expected", False)
    last = msgspec.to_builtins(case.expect.answers[-1]) if expected else answer["steps"][-1]
    if last.get("ended"):
        return "the broker ended"
    if last.get("closed"):
        return "connection closed"
    code = last.get("error_code", 0)
    if code:
        return CODES.get(code, f"error {code}")
    return "taken as the case says" if expected else "taken"
