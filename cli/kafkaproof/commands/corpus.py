"""`kafkaproof corpus`: compile, check, list, show, trace, export and package the cases, and record answers to them.

Each command imports what it needs, so that the group itself is imported at once.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafkaproof.cli import need_own_sources

if TYPE_CHECKING:
    from kafka_corpus.case import Case
    from kafka_corpus.compiler import Compiled
    from kafka_corpus.traceability import Trace


def _package_root() -> Path:
    from kafka_corpus.vectors import package_root

    return package_root()


def _check_writable(root: Path, command: str) -> None:
    if root == _package_root():
        need_own_sources(f"kafkaproof {command}", "--root DIR writes into a copy")


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document and nothing else.")
root_option = click.option(
    "--root",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=_package_root,
    help="The folder of vectors, evidence and schema; the package itself if not given.",
)
only_option = click.option("--only", metavar="GLOB", help="An id, function or area, or a pattern with * and ?.")


@click.group()
def corpus() -> None:
    """Compile, check, list, show and export the cases."""


@corpus.command("compile")
@click.argument("areas", nargs=-1, metavar="[AREA]…")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; the same as `corpus check`.")
@click.option("--all", "everything", is_flag=True, help="Also run the reference on cases that have not changed.")
@click.option("--rewrite-ids", is_flag=True, help="Let ids change what they ask that are not frozen yet.")
@click.option("--retire", metavar="ID", multiple=True, help="End an id that nothing replaces.")
@root_option
@json_option
@click.pass_context
def compile_command(
    context: click.Context,
    /,
    *,
    areas: tuple[str, ...],
    only_check: bool,
    everything: bool,
    rewrite_ids: bool,
    retire: tuple[str, ...],
    root: Path,
    as_json: bool,
) -> None:
    """Write the vectors of each AREA, or of all, and the schema.

    The reference runs on cases that are new or have changed.
    """
    if only_check:
        context.invoke(check_command, root=root, as_json=as_json)
        return
    from kafka_corpus import compiler, id_registry

    _check_writable(root, "corpus compile")
    compiled = _compiled(root, areas, reuse=not everything, rewrite_ids=rewrite_ids, retire=retire)
    if rewrite_ids and (frozen := id_registry.frozen_changes(root, compiled.contents, areas or None)):
        raise click.ClickException("\n".join(f"{id_} is frozen, and stays as it is" for id_ in frozen))

    written = compiler.write_compiled(compiled, root, areas=areas or None)
    text = f"{len(compiled.cases)} cases, " + (f"wrote {', '.join(written)}" if written else "nothing has changed")
    print_document({"cases": len(compiled.cases), "written": written}, as_json, lambda: [text])


def _compiled(place: Path, areas: Sequence[str], **how: Any) -> Compiled:
    """The cases of *areas* compiled, unless that breaks a promise about ids."""
    from kafka_corpus import cases, compiler

    try:
        made = cases.cases_of(areas) if areas else cases.all_cases()
        compiled = compiler.compile_corpus(made, place, areas=areas or None, **how)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if compiled.breaches:
        raise click.ClickException("\n".join(f"{id_} {why}" for id_, why in compiled.breaches))
    return compiled


@corpus.command("check")
@root_option
@json_option
def check_command(root: Path, as_json: bool) -> None:
    """Fail if anything that is committed is not what the case functions make, or a frozen case has changed.

    Also: the reference agrees with every case, every rule has its cases, no two
    cases ask the same, and no recorded answer contradicts a case unreviewed.  Cases
    without recorded answers pass; `corpus status` counts them.
    """
    from kafka_corpus import cases, check, id_registry
    from kafka_corpus.evidence import brokers

    every = cases.all_cases()
    drifts = check.check(every, root)
    silent = brokers.silences(every)
    waiting = len(check.waiting(root).ids()) if not drifts else 0
    thawed = len(id_registry.not_frozen(root)) if not drifts else 0
    document = {"ok": not drifts, "cases": len(every), "drifts": [drift._asdict() for drift in drifts]}
    document |= {"unpredicted": dict(silent), "waiting": waiting, "not_frozen": thawed}
    lines = [f"{count} answers of brokers have no prediction: {reason}" for reason, count in sorted(silent.items())]
    if waiting:
        lines.append(f"{waiting} cases wait for recorded answers (`kafkaproof corpus status`)")
    if thawed:
        lines.append(f"{thawed} ids are not frozen yet (`kafkaproof corpus freeze`)")
    result = f"{len(drifts)} drifts" if drifts else "and everything holds"
    lines += [*map(str, drifts), f"{len(every)} cases, {result}"]
    print_document(document, as_json, lambda: lines)
    sys.exit(1 if drifts else 0)


@corpus.command("freeze")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail if an id is not frozen as it is.")
@root_option
@json_option
def freeze_command(*, only_check: bool, root: Path, as_json: bool) -> None:
    """Freeze the content of every id in `frozen/AREA.ndjson`, under the corpus version.

    From then on `corpus check` fails if an id is gone, has another question or right answer, or is retired
    without the version that this takes.
    """
    from kafka_corpus import id_registry, line_files

    try:
        breaches = [f"{id_} {why}" for id_, why in id_registry.frozen_breaches(root)]
        new, files = id_registry.not_frozen(root), id_registry.frozen_files(root)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    if breaches:
        raise click.ClickException("\n".join(breaches))
    changed = line_files.changed_files(files, root)
    document = {"ok": not changed, "ids": sum(data.count(b"\n") for data in files.values()), "new": new}
    document["files"] = sorted(changed)
    state = "not up to date" if only_check else "written"
    lines = [f"{document['ids']:,} ids, {len(new):,} of them new; {len(changed)} files {state}", *sorted(changed)]
    if not only_check and changed:
        _check_writable(root, "corpus freeze")
        line_files.write_files(changed, root)
    print_document(document, as_json, lambda: lines)
    sys.exit(1 if only_check and changed else 0)


@corpus.command("status")
@click.option("--ids", "with_ids", is_flag=True, help="List the cases too.")
@root_option
@json_option
def status_command(*, with_ids: bool, root: Path, as_json: bool) -> None:
    """Count the cases, and those that wait for answers of clients and brokers.

    A client or a release is one that has answers to other cases.
    """
    from kafka_corpus import check
    from kafka_corpus.vectors import corpus_hash, load_vectors

    try:
        number, waiting = len(load_vectors(root=root)), check.waiting(root)
        document = {"corpus": corpus_hash(root), "cases": number, "waiting": waiting.as_json()}
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    heading = f"corpus {document['corpus']}, {number:,} cases"
    print_document(document, as_json, lambda: [heading, *waiting.lines(with_ids=with_ids)])


@corpus.command("errata")
def errata_command() -> None:
    """Print the points on which the format's descriptions disagree, with brokers' answers, as Markdown."""
    from kafka_corpus.traceability import errata_page
    from kafka_corpus.vectors import load_vectors

    click.echo(errata_page(load_vectors()), nl=False)


@corpus.command("trace")
@click.argument("id_", metavar="[ID]", required=False)
@click.option("--check", "only_check", is_flag=True, help="List what is not tied; exit code 1 if there is any.")
@click.option(
    "--documents", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="With --check: also compare the tables with the documents in DIR, sentence by sentence.",
)  # fmt: skip
@json_option
def trace_command(id_: str | None, *, only_check: bool, documents: Path | None, as_json: bool) -> None:
    """Trace sentences of the seeds, rules, errata and cases to one another, to reference code and recorded answers.

    ID is a rule (CRC-02), an erratum (A18), a line of a seed (002:97) or a case; without one, the documents are
    counted.
    """
    from kafka_corpus import traceability
    from kafka_corpus.trace_check import document_gaps, trace_gaps

    if (documents and not only_check) or (id_ and only_check):
        raise click.UsageError("--documents goes with --check, and an ID does not")
    try:
        trace = traceability.load_trace()
        if not only_check:
            _print_trace(trace, id_, as_json)
            return
        gaps = trace_gaps(trace) + (list(document_gaps(trace, documents)) if documents else [])
    except (traceability.BadRowError, OSError) as error:
        raise click.ClickException(str(error)) from error
    made = {"ok": not gaps} | traceability.trace_counts(trace) | {"gaps": [gap._asdict() for gap in gaps]}
    lines = [*map(str, gaps), f"{traceability.counts_line(trace)}: {len(gaps)} gaps"]
    print_document(made, as_json, lambda: lines)
    sys.exit(1 if gaps else 0)


def _print_trace(trace: Trace, id_: str | None, as_json: bool) -> None:
    from kafka_corpus import traceability

    if id_ is None:
        print_document(traceability.trace_document(trace), as_json, lambda: traceability.trace_summary(trace))
        return
    found = traceability.find_traced(trace, id_)
    if found is None:
        near = traceability.near_traced(trace, id_)
        hint = f"; there are {', '.join(near)}" if near else ", as CRC-02, A18 or 002:97"
        raise click.UsageError(f"there is no rule, erratum, case or sentence {id_}{hint}")
    print_document(found, as_json, lambda: traceability.traced_lines(found))


@corpus.command("list")
@click.option("--area", help="Cases of one area, as v2_batch.")
@click.option("--rule", help="Cases that cite a rule, as CRC-02.")
@only_option
@json_option
def list_command(area: str | None, rule: str | None, only: str | None, as_json: bool) -> None:
    """List the cases."""
    from kafka_corpus.show import print_list
    from kafka_corpus.vectors import corpus_hash, load_vectors

    cases = [case for case in load_vectors(only) if area in (None, case.area)]
    if rule is not None:
        cases = [case for case in cases if rule.upper() in case.rules]
    document = {"corpus": corpus_hash(), "cases": [case_summary(case) for case in cases]}
    print_document(document, as_json, lambda: list_lines(cases), lambda: print_list(cases))


def case_summary(case: Case) -> dict[str, Any]:
    """A case in a line's worth of fields."""
    fields = {"id": case.id, "title": case.title, "area": case.area, "op": case.op}
    return fields | {"verdict": case.expect.verdict, "rules": list(case.rules), "since": case.since}


def list_lines(cases: list[Case]) -> list[str]:
    """Plain columns, for pipes: every line a case."""
    width = max((len(case.id) for case in cases), default=0)
    return [
        f"{case.id:{width}}  {case.op:6}  {case.expect.verdict:10}  {','.join(case.rules)}  {case.title}"
        for case in cases
    ]


@corpus.command("reach")
@only_option
@click.option("--supported", metavar="RANGE", help="Kafka releases that count as supported, as 2.8..4.4.")
@click.option("--inferred", is_flag=True, help="Only cases whose reach rests on no broker's answer to their bytes.")
@click.option(
    "--measure", metavar="RELEASE", multiple=True,
    help="First send cases without an answer of RELEASE to a broker; a run that was stopped continues.",
)  # fmt: skip
@json_option
def reach_command(
    only: str | None, supported: str | None, inferred: bool, measure: tuple[str, ...], as_json: bool
) -> None:
    """List the reach of decode cases: the parties that can bring their bytes, and the releases that serve them."""
    from kafka_brokers.releases import SUPPORTED, BadRangeError, find_release, parse_supported
    from kafka_conformance.judge.reach import INFERRED, case_reach, measure_missing
    from kafka_corpus.vectors import load_vectors

    try:
        releases = SUPPORTED if supported is None else parse_supported(supported)
    except BadRangeError as error:
        raise click.UsageError(f"--supported: {error}") from error
    cases = [case for case in load_vectors(only) if case.op == "decode"]
    for release in measure:
        click.echo(f"{release}: {measure_missing(find_release(release).name, cases):,} cases sent", err=True)
    found = [(case.id, case_reach(case, releases)) for case in cases]
    shown = [(id_, reach) for id_, reach in found if not inferred or reach.source in INFERRED]
    rows = [
        {"case": id_, "reach": reach.reach, "source": reach.source, "releases": reach.releases, "reason": reach.reason}
        for id_, reach in shown
    ]
    lines = [
        f"{reach.reach:14} {reach.source:9}  {id_}  {reach.span()}  {reach.reason}".rstrip() for id_, reach in shown
    ]
    document = {"supported": str(releases), "cases": rows}
    print_document(document, as_json, lambda: [*lines, f"{len(lines):,} cases, supported releases {releases}"])


@corpus.command("show")
@click.argument("id_", metavar="ID")
@click.option("--raw", is_flag=True, help="Write the bytes alone: those to decode, or those to be written.")
@json_option
def show_command(id_: str, raw: bool, as_json: bool) -> None:
    """Show one case: question, right answer, rules and evidence."""
    from kafka_corpus import show
    from kafka_corpus.vector_format import line_of

    case = find_case(id_)
    if raw:
        click.echo(show.raw_bytes(case), nl=False)
        return
    print_document(json.loads(line_of(case)), as_json, lambda: show.lines(case), lambda: show.print_case(case))


def find_case(id_: str) -> Case:
    """The case of that id, or a usage error that names near ones."""
    import difflib

    from kafka_corpus.vectors import load_vectors

    by_id = {case.id: case for case in load_vectors()}
    if id_ in by_id:
        return by_id[id_]
    near = [other for other in by_id if other.partition("[")[0] == id_][:5] or difflib.get_close_matches(id_, by_id, 3)
    hint = f"; there are {', '.join(near)}" if near else ""
    raise click.UsageError(f"there is no case {id_}{hint}")


@corpus.command("export")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--inputs", is_flag=True, help="Also write the bytes that recipes stand for.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail if DIR is not what would be written.")
@json_option
def export_command(folder: Path, inputs: bool, only_check: bool, as_json: bool) -> None:
    """Write what another project would vendor: vectors, schema, a page on the format."""
    from kafka_corpus import export

    if only_check:
        found = export.differences(folder, with_inputs=inputs)
        print_document({"ok": not found, "differences": found}, as_json, lambda: found or [f"{folder} is up to date"])
        sys.exit(1 if found else 0)
    written = export.export(folder, with_inputs=inputs)
    text = f"{len(written)} files in {folder}; read README.md there first"
    print_document({"folder": str(folder), "written": written}, as_json, lambda: [text])


@corpus.command("packages")
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--ecosystem",
    "chosen",
    metavar="NAME",
    multiple=True,
    help="One of go, cargo, npm, maven, pypi and bin (raw files, for fuzzers); may be repeated. All if not given.",
)
@click.option("--module-path", metavar="PATH", help="Path of the Go module; a place to fill in if not given.")
@click.option("--group-id", metavar="ID", help="Group id of the Maven artifact; `kafkaproof` if not given.")
@click.option("--check", "only_check", is_flag=True, help="Write nothing; fail if DIR is not what would be written.")
@json_option
def packages_command(
    folder: Path,
    *,
    chosen: tuple[str, ...],
    module_path: str | None,
    group_id: str | None,
    only_check: bool,
    as_json: bool,
) -> None:
    """Write the corpus as packages for Go, Rust, Node.js, Java and Python, and as raw files for fuzzers.

    Each is a folder DIR/NAME that is ready to publish, with cases, types, a loader, an example and tests.
    """
    from kafka_conformance import vector_packages
    from kafka_fuzz.mutate.dictionary import dictionary_text

    try:
        ecosystems = vector_packages.known_ecosystems(chosen)
        names = vector_packages.package_names(module_path, group_id)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    if only_check:
        found = list(vector_packages.package_differences(folder, ecosystems, names, dictionary_text()))
        print_document({"ok": not found, "differences": found}, as_json, lambda: found or [f"{folder} is up to date"])
        sys.exit(1 if found else 0)
    written = vector_packages.write_packages(folder, ecosystems, names, dictionary_text())
    lines = [f"{folder / name}: {count} files" for name, count in written.items()]
    print_document({"folder": str(folder), "files": written}, as_json, lambda: [*lines, "read README.md there first"])


@corpus.group("evidence")
def evidence_group() -> None:
    """Record what other implementations answer."""


@evidence_group.command("requests")
@only_option
def requests_command(only: str | None) -> None:
    """Print every case as a request of the testee protocol, for `evidence add` to read the replies."""
    from kafka_corpus.evidence.clients import requests
    from kafka_corpus.vectors import load_vectors

    for line in requests(load_vectors(only)):
        click.echo(line, nl=False)


@evidence_group.command("add")
@click.option("--name", required=True, help="The implementation, as java.")
@click.option("--version", required=True, help="Its release, as 4.4.0.")
@click.argument("replies", type=click.File("rb"))
@root_option
@json_option
def add_command(name: str, version: str, replies: Iterable[bytes], root: Path, as_json: bool) -> None:
    """Record the answers in a file of REPLIES.

    Recorded answers to other cases stay.
    """
    from kafka_corpus import evidence
    from kafka_corpus.evidence import clients
    from kafka_corpus.vectors import load_vectors

    _check_writable(root, "corpus evidence add")
    try:
        recording = clients.record_replies(replies, load_vectors(root=root), name=name, version=version)
        whole = clients.with_recording(evidence.load_evidence(root), recording)
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    written = evidence.write_evidence(whole, root)
    answers, in_all = len(recording.answers), clients.number_of_answers(whole, name, version)
    text = f"{answers} answers of {name} {version}, {in_all} in all; wrote {', '.join(written) or 'nothing new'}"
    print_document({"written": written, "answers": answers, "in_all": in_all}, as_json, lambda: [text])


def print_document(
    document: Any,
    as_json: bool,
    lines: Callable[[], Iterable[str]],
    on_terminal: Callable[[], None] | None = None,
) -> None:
    """Print *document* as JSON, or for people: *on_terminal* where there is one, else *lines*."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
    elif on_terminal is not None and sys.stdout.isatty():
        on_terminal()
    else:
        for line in lines():
            click.echo(line)
