"""A report on a terminal: profiles, the gravest causes, and what to do next in ten lines; then details.

Text comes as `rich.text.Text`, never as markup, since a testee may have had a
hand in it.  Piped, the same goes out as plain lines, wide enough not to wrap.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import IO, Final

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from kafka_conformance.judge.grade import GRADES, PROFILES, Grade
from kafka_conformance.judge.verdict import OPEN, OUTCOMES, Outcome, outcome_rank
from kafka_conformance.reports.collection import certify_command
from kafka_conformance.reports.profiles import ProfileGrade, ProfileResult, percent_passed, profile_line, row_name
from kafka_conformance.reports.summary import Finding, Report
from kafka_conformance.runner.results import ResultLine, VariantCheck
from kafka_conformance.sanitize import printable
from kafka_conformance.testees.known import split_version

# Lines are not wrapped when the output is a pipe.
PIPED_WIDTH: Final = 4000
# Columns that it takes to say a finding on one line.
WIDE: Final = 140
MOST_FINDINGS: Final = 20
MOST_UNLIKE: Final = 5
OUTCOME_OF_NOT_SENT: Final = "not_asked"

# Causes that a result shows, so that title, profiles, causes and the next step are ten lines.
MOST_CAUSES: Final = 5
LEGEND: Final = (
    "cells: required cases that pass, and the number of FAIL causes in brackets; –: not announced, or not run"
)
GRADE_STYLES: Final[dict[Grade, str]] = {
    "FAIL": "bold red",
    "HOSTILE": "magenta",
    "NON_STRICT": "yellow",
    "INFO": "dim",
}
PROFILE_STYLES: Final[dict[ProfileGrade, str]] = {"pass": "green", "fail": "red", "incomplete": "yellow"}
STYLES: Final[dict[Outcome, str]] = {
    "wrong_data": "bold red",
    "crash": "bold magenta",
    "hang": "bold magenta",
    "memory": "bold magenta",
    "accepts_invalid": "red",
    "rejects_valid": "yellow",
    "wrong_error": "cyan",
    "lossy": "blue",
    "agree": "green",
    "flaky": "yellow",
    "skipped": "dim",
    "not_asked": "yellow",
}


def console(file: IO[str] | None = None) -> Console:
    """The console to render on; standard output, or *file* as plain text."""
    made = Console(file=file, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(file=file, highlight=False, width=PIPED_WIDTH, no_color=True)


@contextmanager
def trimmed(on: Console) -> Iterator[None]:
    """Print *on* a terminal as ever, and elsewhere without the spaces that tables fill their last column with."""
    if on.is_terminal:
        yield
        return
    with on.capture() as captured:
        yield
    on.file.writelines(f"{line.rstrip()}\n" for line in captured.get().splitlines())


def show_result(report: Report, on: Console, most: int = MOST_FINDINGS, *, details: bool = False) -> None:
    """Print *report*; with *details*, also all causes, the table by area, and at most *most* findings."""
    with trimmed(on):
        _show(report, on, most, details=details)


def _show(report: Report, on: Console, most: int, *, details: bool) -> None:
    on.print(_title(report, on))
    for line in _verdict(report):
        on.print(line, soft_wrap=not on.is_terminal)
    on.print(_causes(report, most if details else MOST_CAUSES))
    for line in _next(report):
        on.print(line, soft_wrap=True)
    if details:
        for line in _coverage(report):
            on.print(line)
        on.print()
        on.print(_table(report, on))
        _show_findings(report, on, most)
    for line in _ending(report):
        on.print(line, soft_wrap=True)


def show_together(reports: Sequence[Report], not_run: Mapping[str, str], folder: Path, on: Console) -> None:
    """Print one line for each testee, with a column for each profile."""
    with trimmed(on):
        on.print(_side_by_side(reports, on))
        on.print(Text(LEGEND, style="dim"))
        for name, why in not_run.items():
            on.print(Text(f"not run  {name}: {printable(why)}", style="yellow"))
        on.print()
        on.print(Text(f"full results     {folder}/*/summary.txt"))
        on.print(Text(f"as a page        kafkaproof report {folder} --out DIR"))


def _side_by_side(reports: Sequence[Report], on: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD if on.is_terminal else None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("testee", no_wrap=True)
    present = {result.profile for report in reports for result in report.profiled.profiles}
    shown = [profile for profile in (*PROFILES, "broker") if profile in present]
    for profile in shown:
        # One word below the other keeps columns narrow, but plain lines plain.
        heading = profile.replace("-", "\n" if on.is_terminal else "-")
        table.add_column(heading, justify="right", vertical="bottom", no_wrap=True)
    table.add_column("s", justify="right", no_wrap=True)
    for report in reports:
        table.add_row(*_in_a_line(report, shown))
    return table


def _in_a_line(report: Report, shown: Sequence[str]) -> Iterator[Text]:
    testee, footer = report.results.header.testee, report.results.footer
    results: dict[str, ProfileResult] = {result.profile: result for result in report.profiled.profiles}
    _, request, newest = split_version(str(testee.get("connect", "")))
    through = "" if newest is None else f" {request.capitalize()} {newest}"
    yield Text(printable(f"{row_name(testee)} {str(testee['version']).partition(' ')[0]}{through}"))
    for profile in shown:
        ran = profile in results and results[profile].required
        yield _cell(results[profile]) if ran else Text("–", style="dim")
    yield Text("" if footer is None else f"{footer.seconds:.1f}", style="dim")


def _cell(result: ProfileResult) -> Text:
    text = f"{percent_passed(result)}%"
    return Text(f"{text} ({result.fail_causes})" if result.fail_causes else text, style=PROFILE_STYLES[result.grade])


def _title(report: Report, on: Console) -> Rule | Text:
    header = report.results.header
    testee = header.testee
    name = Text(printable(f"{testee['name']} {testee['version']}"), style="bold")
    about = printable(", ".join(filter(None, (testee["language"], testee["runtime"]))))
    name.append(f"  {about}  ·  corpus {header.corpus[:12]}, {header.cases:,} cases", style="dim not bold")
    return Rule(name, align="left", style="dim") if on.is_terminal else name


def _table(report: Report, on: Console) -> Table:
    table = Table(box=box.SIMPLE_HEAD if on.is_terminal else None, pad_edge=False, show_footer=True)
    counts = report.results.counts()
    # Severities without a finding need no column.
    shown = [outcome for outcome in OUTCOMES if counts[outcome] or outcome in ("wrong_data", "agree")]
    table.add_column("area", footer=Text("all", style="bold"))
    for outcome in shown:
        # One word below the other keeps columns narrow, but plain lines plain.
        heading = outcome.replace("_", "\n" if on.is_terminal else " ")
        footer = _number(counts[outcome], outcome)
        table.add_column(heading, footer=footer, justify="right", vertical="bottom", no_wrap=True)
    scored = not report.results.header.only
    if scored:
        table.add_column("informedness", footer=Text(f"{report.certificate.score:.3f}", style="bold"), justify="right")
    for area, numbers in report.by_area().items():
        cells = [_number(numbers[outcome], outcome) for outcome in shown]
        table.add_row(area, *cells, *[_area_score(report, area, numbers)] * scored)
    return table


def _area_score(report: Report, area: str, numbers: Mapping[str, int]) -> Text:
    if not any(count for outcome, count in numbers.items() if outcome not in OPEN):
        return Text("–", style="dim")  # no case was answered
    return Text(f"{report.certificate.areas[area]:.3f}")


def _number(count: int, outcome: Outcome) -> Text:
    return Text(f"{count:,}", style=STYLES[outcome]) if count else Text("·", style="dim")


def _verdict(report: Report) -> Iterator[Text]:
    yield Text(profile_line(report.profiled.profiles) or "no format is announced", style="bold")
    if not_sent := _lines_with(report, OUTCOME_OF_NOT_SENT):
        what = OUTCOME_OF_NOT_SENT.replace("_", " ")
        yield Text(f"{_counted(len(not_sent), 'case')} {what}: {not_sent[0].why}", style="bold red")
    certificate = report.certificate
    if report.results.header.only:
        yield Text("a part of the corpus, so no certificate", style="dim")
    elif certificate.certified_for:
        known = len(report.findings) - len(report.fresh)
        aside = f"  with {_counted(known, 'known deviation')}" if known else ""
        certified = Text(f"CERTIFIED for {', '.join(certificate.certified_for)}", style="bold green")
        yield certified.append(aside, style="not bold")
    else:
        why = f"  {'; '.join(certificate.unfit)}" if certificate.unfit else " for any profile"
        yield Text("NOT CERTIFIED", style="bold red").append(why, style="not bold")


def _causes(report: Report, most: int) -> Table | Text:
    """The gravest causes, one line for each, and the number of the others."""
    causes, infos = report.profiled.causes, sum(each.graded.grade == "INFO" for each in report.profiled.findings)
    if not causes:
        return Text("no cause of FAIL, HOSTILE or NON_STRICT" + (f"; {infos:,} findings of INFO" if infos else ""))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("grade", "profile"):
        table.add_column(name, no_wrap=True)
    table.add_column("cases", justify="right", no_wrap=True)
    table.add_column("title", no_wrap=True, overflow="ellipsis")
    for cause in causes[:most]:
        title = Text(printable(cause.title))
        if not cause.reviewed:
            title.append("  unreviewed", style="dim")
        table.add_row(Text(cause.grade, style=GRADE_STYLES[cause.grade]), cause.profile, f"{len(cause.cases):,}", title)
    rest = Counter(cause.grade for cause in causes[most:])
    counts = ", ".join(f"{rest[grade]:,} {grade}" for grade in GRADES if rest[grade])
    parts = [f"{rest.total():,} more causes: {counts}"] * bool(rest) + [f"{infos:,} findings of INFO"] * bool(infos)
    if parts:
        table.add_row("and", "", "", Text("; ".join(parts), style="dim"))
    return table


def _next(report: Report) -> Iterator[Text]:
    causes, findings = report.profiled.causes, report.fresh or report.findings
    if not causes and not findings:
        return
    case = causes[0].smallest if causes else findings[0].line.case
    line = Text(f"next             kafkaproof explain --case '{case}'")
    if command := certify_command(report.results.header):
        where = "" if report.results.header.testee.get("broker") else " --report one-case"
        line.append(f"\n                 {command} --only '{case}'{where}")
    yield line


def _lines_with(report: Report, outcome: Outcome) -> list[ResultLine]:
    return [line for line in report.results.lines if line.outcome == outcome]


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _coverage(report: Report) -> Iterator[Text]:
    left_out = report.left_out()
    if left_out:
        fields = ", ".join(f"{name} ({count:,} cases)" for name, count in left_out.items())
        yield Text(f"not exposed, so not compared: {fields}", style="dim")


def _show_findings(report: Report, on: Console, most: int) -> None:
    on.print()
    for entry in report.applied.stale:
        stale = Text("stale deviation", style="bold red")
        on.print(stale.append(f"  {entry.staleness}", style="not bold"))
    if not report.findings:
        on.print(Text("no findings", style="green"))
        return
    groups = alike_findings(report.fresh)
    known = len(report.findings) - len(report.fresh)
    heading = f"{len(report.fresh):,} findings, worst first" + (f"; {known:,} known deviations" if known else "")
    on.print(Text(heading, style="bold"))
    if on.width >= WIDE:
        on.print(Padding(_in_columns(groups[:most]), (0, 0, 0, 2)))
    else:
        for first, others in groups[:most]:
            severity, case, rule, why = _finding(first, others)
            on.print(Text.assemble("  ", severity, "  ", case, "  ", rule), soft_wrap=True)
            on.print(Padding(why, (0, 0, 0, 6)), style="dim")
    if len(groups) > most:
        rest = sum(1 + len(others) for _, others in groups[most:])
        on.print(Text(f"  and {rest:,} more in the full result", style="dim"))


def _in_columns(alike: Sequence[tuple[Finding, list[Finding]]]) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("severity", "case", "rule"):
        table.add_column(name, no_wrap=True)
    table.add_column("what differed", overflow="fold")
    for first, others in alike:
        table.add_row(*_finding(first, others))
    return table


def _finding(first: Finding, others: Sequence[Finding]) -> tuple[Text, ...]:
    line = first.line
    why = Text(printable(line.why))
    if others:
        why.append(f"  and {len(others):,} alike", style="dim")
    return (
        Text(line.outcome, style=STYLES[line.outcome]),
        Text(line.case),
        Text(line.rules[0] if line.rules else ""),
        why,
    )


def alike_findings(findings: Iterable[Finding]) -> list[tuple[Finding, list[Finding]]]:
    """Findings that show the same thing, under the first of them; worst first, many before few."""

    def key(finding: Finding) -> tuple[int, tuple[str, ...], str]:
        line = finding.line
        # What an API leaves out is the same thing whatever the rule.
        rules = () if line.outcome == "lossy" else line.rules[:1]
        return outcome_rank(line.outcome), rules, _shape(line.field or line.why)

    groups = [list(group) for _, group in groupby(sorted(findings, key=key), key=key)]
    groups.sort(key=lambda group: (outcome_rank(group[0].line.outcome), -len(group)))
    return [(group[0], group[1:]) for group in groups]


def _shape(text: str) -> str:
    """A field path or a message without its numbers."""
    return re.sub(r"-?\d+", "0", text)


def _ending(report: Report) -> Iterator[Text]:
    yield Text()
    yield Text(f"full result      {report.path}")
    footer = report.results.footer
    if footer is None:
        yield Text("incomplete       kafkaproof certify … --resume goes on with it", style="bold red")
        return
    spent = f"{footer.seconds:.1f} s, {report.case_ms():.3f} ms a case with the pipe"
    yield Text(f"time             {spent}; {footer.starts} starts", style="dim")
    heavy = report.heavy_seconds()
    if footer.waited or heavy > 1:
        waited = f"{footer.waited:.1f} s waiting for cases that hang, {heavy:.1f} s for inputs made to take long"
        yield Text(f"                 of it, counting every worker: {waited}", style="dim")
    if footer.variants is not None:
        yield from _variant_lines(footer.variants)
    unstable = [
        line.case for line in report.results.lines if line.deaths and line.outcome not in ("crash", "memory", "hang")
    ]
    if unstable:
        yield Text(f"unstable         {len(unstable)} answered only when sent again, as {unstable[0]}", style="yellow")
    if footer.strays:
        strays = f"{footer.strays:,} lines on standard output that are no replies, as: {printable(footer.first_stray)}"
        yield Text(f"stray lines      {strays}", style="yellow")
    if footer.detached:
        ended = f"{footer.detached:,} that it left in groups of their own were ended"
        yield Text(f"processes        {ended}", style="yellow")
    if footer.late_ends:
        ends = f"{footer.late_ends:,} with no question to blame, as: {printable(footer.first_late_end)}"
        yield Text(f"ends             {ends}", style="yellow")
    for line in _lines_with(report, "flaky"):
        yield Text(f"flaky            {line.case}: {printable(line.why)}", style="yellow")


def _variant_lines(checked: VariantCheck) -> Iterable[Text]:
    again = f"--seed {printable(checked.seed)} repeats them"
    if not checked.unlike:
        text = f"variants         {checked.sent:,} cases, with other numbers and texts, were answered alike; {again}"
        yield Text(text, style="dim")
        return
    text = (
        f"variants         {len(checked.unlike):,} of {checked.sent:,} cases were answered worse with other numbers or"
    )
    yield Text(f"{text} texts; {again}", style="bold red")
    for id_, how in islice(checked.unlike.items(), MOST_UNLIKE):
        yield Text(f"                 {printable(id_)}: {printable(how)}", style="red")


def write_summary(report: Report, path: Path) -> None:
    """The same as plain text, with every finding, in *path*."""
    with path.open("w", encoding="utf-8") as file:
        show_result(report, console(file), most=len(report.findings), details=True)
