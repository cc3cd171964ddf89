"""Dossiers: findings by cause, what brokers do with them, what may be said, and the folder that keeps them."""

import json
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.conformance import reproducer_runs

from kafka_conformance.causes import reviewed_causes
from kafka_conformance.dossiers import folder, pages
from kafka_conformance.dossiers.grouping import PUBLISHED, CauseGroup, LibraryDossier, is_sensitive
from kafka_conformance.dossiers.reproduce import (
    Reproducer,
    case_program,
    expected_line,
    programs,
    reproducer,
)
from kafka_conformance.judge import reach
from kafka_conformance.judge.grade import GRADES, REACHES
from kafka_conformance.judge.verdict import Verdict
from kafka_conformance.process.time_limits import HEAVY_MOST
from kafka_conformance.runner.results import ResultHeader, ResultLine, ResultWriter, result_line
from kafka_conformance.testees.known import find_testee
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch
from kafkaproof.commands.site import dossier

RESULTS = Path(__file__).resolve().parents[2] / "results"
CRC = "v2_crc.crc_of_an_empty_batch"
STORED = "gzip.reserved_flags[bit-7]"
OVERLONG = "varint.fifth_byte_continues[none-header_count]"
# Findings of kafka-python with a reviewed cause: an outcome and the text of the verdict.
NOT_UTF8 = ("v2_headers.key_is_not_utf_8[0xff]", "rejects_valid", "UnicodeDecodeError: invalid start byte")
WRAPPER = ("history.wrapper_converted_by_the_cleaner", "rejects_valid", "CorruptRecordError: no message")
LOOPS = ("backwards.inner_message_at_the_one_before[v1-gzip]", "hang", "no answer in 0.5 s")


@pytest.fixture(scope="module")
def cases() -> Mapping[str, Case]:
    """The codec cases, by id."""
    return {case.id: case for case in load_vectors(ops=("decode", "encode"))}


def line(case: Case, outcome: str, why: str = "expected corrupt, got 1 batch", field: str = "error") -> ResultLine:
    """A finding of *case*."""
    return result_line(case, Verdict(outcome, field, why), {}, 0.001, 0)  # type: ignore[arg-type]  # a name of the list


Write = Callable[..., Path]


@pytest.fixture
def found(tmp_path: Path, cases: Mapping[str, Case]) -> Write:
    """Write a result with these findings: case, outcome, text of the verdict."""

    def write(*findings: tuple[str, str, str], row: str = "kafka-python", version: str = "3.0.12") -> Path:
        testee = {"name": row, "version": version, "language": "python", "connect": row}
        path = tmp_path / f"{row}.ndjson"
        writer = ResultWriter(
            path, ResultHeader(testee=testee, corpus="0" * 64, cases=len(findings), only=[], settings={})
        )
        writer.write(line(cases[case], outcome, why) for case, outcome, why in findings)
        writer.finish(seconds=0.0, waited=0.0, starts=1, strays=0)
        return path

    return write


def groups(*paths: Path) -> tuple[CauseGroup, ...]:
    """The groups of the only library in these result files."""
    (library,) = folder.read_dossiers(paths)
    return library.groups


def test_findings_of_one_cause_are_one_group(found: Write, cases: Mapping[str, Case]) -> None:
    """All cases of one reviewed cause are one dossier; the reviewer's case goes first among equals."""
    ids = [id_ for id_ in cases if id_.startswith("v2_headers.key_is_not_utf_8[")]
    made = groups(found(*((id_, *NOT_UTF8[1:]) for id_ in ids), WRAPPER))

    assert [group.id for group in made] == [
        "kafka-python/header-key-not-utf8",
        "kafka-python/inner-magic-ignored",
    ]
    assert len(made[0].findings) == len(ids) > 5
    assert made[0].case.id == made[0].cause.smallest


def test_rows_of_a_library_share_a_page(found: Write) -> None:
    """aiokafka and its pure form have one dossier, which names both rows."""
    paths = [found(NOT_UTF8, row=row, version="0.14.0") for row in ("aiokafka", "aiokafka-pure")]
    (group,) = groups(*paths)
    page = pages.dossier_page(group, folder.UNDISCLOSED, whole=True)

    assert group.id.startswith("aiokafka/")
    assert [row.name for row in group.rows] == ["aiokafka", "aiokafka-pure"]
    assert "| Rows | aiokafka (1 cases), aiokafka-pure (1 cases) |" in page
    assert group.row.name == "aiokafka"


def test_unreviewed_findings_are_counted(found: Write, tmp_path: Path) -> None:
    """A finding of FAIL that no entry explains has no page; the index counts it. INFO is not counted."""
    path = found(
        NOT_UTF8,
        ("v2_crc.edge_of_the_covered_bytes[first byte]", "accepts_invalid", "expected corrupt, got 1 batch"),
        ("writers.timestamps_far_back[none-2^31 - 1 ms]", "lossy", "equivalent: another base timestamp"),
    )
    (library,) = folder.read_dossiers([path])
    assert [group.cause.id for group in library.groups] == ["header-key-not-utf8"]
    assert library.unreviewed == {"FAIL": 1, "HOSTILE": 0}

    index = folder.build_pages([library], tmp_path / "out", full=True)[Path(folder.INDEX)].decode()
    assert "Causes: 1 FAIL, 0 HOSTILE. Unreviewed findings, without a page: 1 FAIL." in index


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("lib.F(0xc000123, {0x1, 0x2}) +0x1f", "lib.F(…)"),
        ("goroutine 17 [running]", "goroutine [running]"),
        ("got 1795249460121", "got 1795249460121"),
        ("in /root/.cache/x/lib.py line 3", "in …/lib.py line 3"),
        ("batches[0].records[1].offset", "batches[0].records[1].offset"),
    ],
)
def test_details_of_the_machine_are_left_out(text: str, same: str) -> None:
    """Addresses and folders go; every value of a record stays."""
    assert pages.without_machine_details(text) == same


def test_reach_is_what_brokers_answered(cases: Mapping[str, Case]) -> None:
    """A payload that 4.4.0 stored reaches consumers by any producer, and one that it refused does not."""
    stored, refused = reach.reach_of(cases[STORED]), reach.reach_of(cases[OVERLONG])

    assert "4.4.0" in stored.stored()
    assert not stored.predicted
    assert reach.input_origin(cases[STORED], stored) == "producers"
    assert refused.answers["4.4.0"].error_code == 87
    assert reach.input_origin(cases[OVERLONG], refused) == "hostile"


def test_who_ends_a_transaction(cases: Mapping[str, Case]) -> None:
    """Any producer can have one aborted; a marker of a newer version, or what was cleaned, comes from a broker."""
    names = ("two_producers", "marker_with_a_newer_key", "nothing_but_what_was_cleaned[one]")
    found = [
        reach.input_origin(case, reach.reach_of(case)) for case in (cases[f"read_committed.{name}"] for name in names)
    ]
    assert found == ["producers", "brokers", "brokers"]


@pytest.mark.slow
def test_inputs_that_are_made_were_measured(cases: Mapping[str, Case]) -> None:
    """Cases without a recorded answer were measured on every release they concern, in their present form."""
    kept = reach.load_reach()
    assert kept
    for case in (case for case in cases.values() if case.op == "decode" and case.id in kept):
        assert list(reach.unmeasured([case], "4.4.0")) == []
        assert "2.8.2" in reach.reach_of(case).answers


def test_a_broker_may_place_a_batch(cases: Mapping[str, Case]) -> None:
    """Offset and leader epoch do not count as a change, any other byte does."""
    data = cases[CRC].input
    assert isinstance(data, bytes)
    placed = (7).to_bytes(8, "big") + data[8:12] + bytes(4) + data[16:]

    assert reach.placed(placed) == reach.placed(data)
    assert reach.placed(data[:30] + b"\x55" + data[31:]) != reach.placed(data)


def test_more_answers_are_kept_beside_those_before(tmp_path: Path, cases: Mapping[str, Case]) -> None:
    """A measurement adds a release to a case; releases stay in order, and the file is read back."""
    id_ = "resources.flood_of_headers[large]"
    kept = reach.merge_reach("0.11.0.3", {id_: (cases[id_], reach.ReachResult(error_code=2))})
    reach.write_reach(kept, tmp_path / "reach.ndjson")
    again = [json.loads(row) for row in (tmp_path / "reach.ndjson").read_bytes().splitlines()]

    entry = next(row for row in again if row["case"] == id_)
    assert list(entry["answers"]) == reach.order(entry["answers"])
    assert entry["answers"]["0.11.0.3"] == {"error_code": 2}
    assert "4.4.0" in entry["answers"]


def test_what_maintainers_do_not_know_is_a_summary(found: Write) -> None:
    """A page about a loop has bytes, source and reproducer only when it may be whole."""
    (group,) = groups(found(LOOPS))
    assert group.sensitive
    withheld, whole = (pages.dossier_page(group, "undisclosed", whole=whole) for whole in (False, True))

    assert LOOPS[0] in withheld
    assert "undisclosed" in withheld
    assert group.cause.source not in withheld
    assert "## Reproducer" not in withheld
    assert "```text" not in withheld
    assert "## Reproducer" in whole
    assert "repro.py" in whole


def test_the_folder_follows_the_states(found: Write, tmp_path: Path) -> None:
    """A state that is kept by hand survives writing, and opens the dossier once it is public."""
    out, runner = tmp_path / "out", CliRunner()
    result = found(LOOPS, NOT_UTF8)
    assert runner.invoke(dossier, [str(result), "--out", str(out)]).exit_code == 0
    (group,) = (each for each in groups(result) if each.sensitive)
    page = out / "kafka-python-3.0.12" / group.file
    assert "## Reproducer" not in page.read_text()

    states = out / folder.FILE
    states.write_text(states.read_text().replace('"undisclosed"', '"fixed in 3.1"'))
    assert runner.invoke(dossier, [str(result), "--out", str(out), "--check"]).exit_code == 1
    assert runner.invoke(dossier, [str(result), "--out", str(out)]).exit_code == 0
    assert "## Reproducer" in page.read_text()
    assert '"fixed in 3.1"' in states.read_text()


def test_check_reports_differing_pages(found: Write, tmp_path: Path) -> None:
    """Written twice it is the same; a page that was changed, or is left from before, is named."""
    out, runner = tmp_path / "out", CliRunner()
    arguments = [str(found(NOT_UTF8)), "--out", str(out)]
    assert runner.invoke(dossier, arguments).exit_code == 0
    assert runner.invoke(dossier, [*arguments, "--check"]).exit_code == 0

    old = out / "kafka-python-3.0.12" / "gone.md"
    old.write_text("old")
    result = runner.invoke(dossier, [*arguments, "--check"])
    assert result.exit_code == 1
    assert "gone.md" in result.output
    assert runner.invoke(dossier, arguments).exit_code == 0
    assert not old.exists()


def test_a_row_is_not_dropped(found: Write, tmp_path: Path) -> None:
    """The result of one row does not replace a folder that holds two; a folder of another layout is named."""
    out, runner = tmp_path / "out", CliRunner()
    both = [str(found(NOT_UTF8, row=row, version="0.14.0")) for row in ("aiokafka", "aiokafka-pure")]
    assert runner.invoke(dossier, [*both, "--out", str(out)]).exit_code == 0
    result = runner.invoke(dossier, [both[0], "--out", str(out)])
    assert result.exit_code == 2
    assert "aiokafka-pure" in result.output

    (out / "aiokafka-0.14.0" / folder.FINDINGS).write_text('{"testee": "aiokafka"}')
    result = runner.invoke(dossier, [*both, "--out", str(out)])
    assert result.exit_code == 2
    assert "another release" in result.output


def test_bad_states_are_named(found: Write, tmp_path: Path) -> None:
    """A state that is none is a usage error, which names the dossier."""
    (tmp_path / folder.FILE).write_text('[[issue]]\nid = "a/b"\nstate = "sent to them"\n')
    result = CliRunner().invoke(dossier, [str(found(NOT_UTF8)), "--out", str(tmp_path)])

    assert result.exit_code == 2
    assert "a/b" in result.output


def test_json_has_every_group(found: Write) -> None:
    """`--json` prints one document with ids, grades, cases and reach."""
    result = CliRunner().invoke(dossier, [str(found(NOT_UTF8)), "--json"])
    (group,) = json.loads(result.output)["libraries"][0]["dossiers"]

    assert group["id"] == "kafka-python/header-key-not-utf8"
    assert group["cases"] == {"kafka-python": {NOT_UTF8[0]: "rejects_valid"}}
    assert (group["grade"], group["reach"]) == ("FAIL", "any_producer")


def test_what_a_testee_says_stays_code(cases: Mapping[str, Case]) -> None:
    """Backticks, line ends and pipes of an error message do not get out of their place."""
    result = pages.observation_text(line(cases[CRC], "rejects_valid", "a`b\n# head | <script>"))

    assert result.count("`") == 2
    assert "\n" not in result
    assert pages.table_cell(result).count("\\|") == 1


@pytest.mark.parametrize("id_", [CRC, "resources.flood_of_headers[small]", "resources.many_pieces[gzip]"])
def test_a_reproducer_holds_the_bytes(id_: str, cases: Mapping[str, Case]) -> None:
    """Short inputs are there as they are, long ones deflated; no place is left unfilled."""
    made = case_program("kafka-python", "3.0.12", "a title", cases[id_])
    assert made is not None
    program = made.files["repro.py"]
    given = cases[id_].input

    assert ("zlib" in program) == (not isinstance(given, bytes) and "small" not in id_)
    assert not re.search(r"@[A-Z_]+@|#large", program)
    if isinstance(given, bytes):
        assert given.hex() in program.replace("\n", "")


def test_every_program_prints_what_is_expected(cases: Mapping[str, Case]) -> None:
    """The program of every row and operation prints the expected result of every kind of case."""
    for row, op in sorted(programs()):
        for verdict in ("valid", "invalid"):
            chosen = (case for case in cases.values() if case.op == op and case.expect.verdict == verdict)
            case = next(each for each in chosen if each.aborted is None and isinstance(each.input, bytes | Batch))
            made = case_program(row, "1", "a title", case)
            assert made is not None
            text = next(iter(made.files.values()))
            assert text.count(f"expected: {expected_line(case)}") == 1, (row, op)
            assert "actual: error:" in text


def test_expected_lines_are_plain(cases: Mapping[str, Case]) -> None:
    """No expected result ends the string of any language that it is printed from."""
    lines = [expected_line(case) for case in cases.values()]
    assert len(lines) > 3000
    assert [
        text for text in lines if not text.isascii() or not text.isprintable() or set("\"'`\\{}%$") & set(text)
    ] == []
    assert max(map(len, lines)) < 3000


@pytest.mark.slow
def test_a_python_reproducer_shows_it(tmp_path: Path, found: Write) -> None:
    """A program for what kafka-python refuses runs with nothing of ours, and prints the error."""
    (group,) = groups(found(NOT_UTF8))
    made = reproducer(group)
    assert made is not None
    reproducer_runs.prepare(made, tmp_path)

    ran = reproducer_runs.run(made, tmp_path)
    assert reproducer_runs.shows(group.findings[0].finding.line, ran)
    assert "expected: error: none, 1 record; offset " in ran.output
    assert "actual: error: CorruptRecordError" in ran.output


@pytest.mark.slow
@pytest.mark.parametrize("library", ["aiokafka", "confluent-kafka", "kafka-python"])
def test_python_reproducers_show_their_causes(library: str, libraries: list[LibraryDossier], tmp_path: Path) -> None:
    """The program of every cause of a Python library that tests install prints `actual` as the kept result has it."""
    # Of a library with results of two releases, the newer one.
    one = max((each for each in libraries if each.name == library), key=lambda each: each.release)
    known = find_testee(one.groups[0].row.name)
    assert known is not None
    if known.missing() or known.version() != one.release:
        pytest.skip(f"{library} {one.release} is not installed")
    failed = list(filter(None, reproducer_runs.differences(one.groups, tmp_path)))
    assert failed == []


@pytest.mark.slow
def test_an_answer_after_the_time_limit_shows_a_hang(tmp_path: Path, found: Write) -> None:
    """The runner would not have waited for it, even where a fast machine runs the program to its end."""
    kept = groups(found(NOT_UTF8))[0].findings[0].finding.line
    line = msgspec.structs.replace(kept, outcome="hang", why="no answer within 10.7 s", heavy=True)
    made = Reproducer("Shell", {}, (), "echo 'expected: error: none'; sleep 0.5; echo 'actual: error: none'")

    ran = reproducer_runs.run(made, tmp_path, hangs=True)
    late = replace(ran, seconds=HEAVY_MOST)
    assert 0 < ran.seconds < HEAVY_MOST
    assert reproducer_runs.shows(line, late)
    assert not reproducer_runs.shows(line, ran)
    assert not reproducer_runs.shows(msgspec.structs.replace(line, heavy=False), late)
    assert not reproducer_runs.shows(line, replace(late, output="expected: error: none\n"))


@pytest.mark.slow
def test_a_hang_is_timed_from_the_line_expected(tmp_path: Path) -> None:
    """Compilation and start come before it, and no limit of a hang is about them."""
    made = Reproducer("Shell", {}, (), "sleep 0.5; echo 'expected: error: none'; echo 'actual: error: none'")
    assert reproducer_runs.run(made, tmp_path, hangs=True).seconds == 0.0
    assert reproducer_runs.run(made, tmp_path).seconds > 0


@pytest.mark.slow
def test_a_program_that_hangs_is_killed(tmp_path: Path) -> None:
    """When the time of a program is over, what it started ends with it."""
    late = tmp_path / "late"
    made = Reproducer("Python", {}, (), f"(sleep 3; touch {late}) & sleep 600")
    ran = reproducer_runs.run(made, tmp_path, limit=0.5)
    time.sleep(4)

    assert ran.exit_code is None
    assert not late.exists()


@pytest.fixture(scope="module")
def libraries() -> list[LibraryDossier]:
    """The dossiers of the kept results."""
    return folder.read_dossiers([RESULTS])


@pytest.fixture(scope="module")
def dossiers(libraries: list[LibraryDossier], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of dossiers, built from the kept results."""
    directory = tmp_path_factory.mktemp("dossiers")
    folder.write_dossier_pages(folder.build_pages(libraries, directory, full=False), directory)
    return directory


def written_findings(directory: Path) -> list[folder.Findings]:
    """The findings of each library in a folder of dossiers."""
    return [folder.load_written_findings(path) for path in sorted(directory.glob(f"*/{folder.FINDINGS}"))]


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_the_folder_is_whole(dossiers: Path) -> None:
    """Every cause has its page, no page is left over, and the index links to each, FAIL first, by reach."""
    index = (dossiers / folder.INDEX).read_text(encoding="utf-8")
    known = written_findings(dossiers)
    assert len(known) >= 10
    for one in known:
        place = dossiers / folder.dossier_folder(one)
        assert {path.name for path in place.glob("*.md")} == {each.file for each in one.dossiers}
        links = [index.index(f"({place.name}/{each.file})") for each in one.dossiers]
        order = [(each.grade != "FAIL", REACHES.index(each.reach)) for each in one.dossiers]
        assert links == sorted(links)
        assert order == sorted(order)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_only_reviewed_causes_have_pages(libraries: list[LibraryDossier]) -> None:
    """Every page is an entry, with its words; every row that it names is one of the entry's."""
    entries = {(library, cause.id): cause for library, causes in reviewed_causes().items() for cause in causes}
    for group in (group for library in libraries for group in library.groups):
        cause = entries[group.library, group.cause.id]
        page = pages.dossier_page(group, folder.UNDISCLOSED, whole=True)
        assert page.startswith(f"# {group.library}: {pages.plain_text(cause.title)}\n")
        assert pages.plain_text(cause.source) in page
        assert {row.name for row in group.rows} <= set(cause.testees)
        assert group.sensitive == is_sensitive(cause)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_every_kept_finding_is_reviewed(libraries: list[LibraryDossier]) -> None:
    """No FAIL or HOSTILE finding of a kept result is without a reviewed cause."""
    assert {one.name: one.unreviewed for one in libraries if any(one.unreviewed.values())} == {}


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_entries_are_graded_as_their_findings(libraries: list[LibraryDossier]) -> None:
    """An entry has the gravest grade of its findings, and the effect and reach of its smallest case."""
    written = {}
    for group in (group for library in libraries for group in library.groups):
        grade = min((each.finding.graded.grade for each in group.findings), key=GRADES.index)
        smallest = [
            each.finding.graded
            for each in group.findings
            if each.finding.case.id == group.cause.smallest and each.finding.graded.grade == grade
        ]
        written[group.id] = (group.cause.grade, group.cause.effect, group.cause.reach)
        assert written[group.id] in {(grade, each.effect, each.reach) for each in smallest}, group.id
    published = {
        f"{name}/{cause.id}"
        for name, causes in reviewed_causes().items()
        for cause in causes
        if cause.grade in PUBLISHED
    }
    assert published == written.keys()


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_pages_are_short(libraries: list[LibraryDossier]) -> None:
    """A page has at most 400 words before its bytes, and the list of FAIL causes is read in 20 minutes."""
    found = [group for library in libraries for group in library.groups]
    heads = {group.id: pages.dossier_page(group, folder.UNDISCLOSED, whole=True) for group in found}
    words = {id_: len(page.partition(pages.BYTES_TITLE)[0].split()) for id_, page in heads.items()}
    assert len(words) > 100
    assert {id_: count for id_, count in words.items() if count > pages.MOST_WORDS} == {}

    listed = sum(len(f"{group.cause.title} {group.cause.effect} {group.reach}".split()) for group in found)
    assert listed < 20 * 200  # words; 200 a minute


def test_long_explanations_are_cut(cases: Mapping[str, Case]) -> None:
    """A page shows the first rows of an explanation, and says that there are more; a short one is whole."""
    (block,) = [
        part.splitlines()
        for part in "\n".join(pages._bytes(cases["v2_batch.count_stands_before_the_compressed_records[none]"])).split(
            "```"
        )
        if pages.CUT in part
    ]
    assert (block[0], len(block), block[-1]) == ("text", 1 + pages.MOST_ROWS + 1, pages.CUT_INPUT)
    assert block[1]
    assert pages.CUT not in "\n".join(pages._bytes(cases["v2_batch.all_fields_at_once"]))


def is_client_alone(row: str) -> bool:
    """Whether the library of *row* has no codec that a program could call, or *row* is its client."""
    known = find_testee(row)
    library = find_testee(known.recipe.project) if known and known.recipe else None
    return row.endswith("-client") or bool(library and library.recipe and library.recipe.client)


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_every_program_is_that_of_its_row(libraries: list[LibraryDossier]) -> None:
    """Each smallest case has a program, except for aborted transactions, clients alone, and what history decides."""
    for group in (group for library in libraries for group in library.groups):
        program = reproducer(group)
        if program is None:
            needs_more = group.case.aborted is not None
            assert needs_more or is_client_alone(group.row.name), group.id
        else:
            assert group.case.aborted is None, group.id


@pytest.mark.slow
@pytest.mark.timeout(900)  # the kept results are read
def test_the_folder_withholds_undisclosed_findings(dossiers: Path) -> None:
    """Pages of sensitive dossiers that are not open hold no reproducer and no bytes; their states are listed."""
    states = folder.load_states(dossiers)
    sensitive = [(one, each) for one in written_findings(dossiers) for each in one.dossiers if each.sensitive]
    assert sensitive
    for one, each in sensitive:
        assert each.id in states
        text = (dossiers / folder.dossier_folder(one) / each.file).read_text(encoding="utf-8")
        assert (pages.BYTES_TITLE in text) == folder.is_state_open(states, each.id)


def test_packaged_states_are_those_of_entries(tmp_path: Path) -> None:
    """Each state of the package is about a reviewed cause that stops a consumer, by its id."""
    stopping = {
        f"{library}/{cause.id}"
        for library, causes in reviewed_causes().items()
        for cause in causes
        if is_sensitive(cause)
    }
    packaged = {id_ for id_, state in folder.load_states(tmp_path).items() if state != folder.UNDISCLOSED}
    assert packaged
    assert packaged <= stopping


def test_states_of_the_package_hold_without_a_file(tmp_path: Path) -> None:
    """A folder without states starts with those of the package, which are of known dossiers."""
    packaged = folder.load_states(tmp_path)
    (tmp_path / folder.FILE).write_text('[states]\n"some/cause" = "public"\n')
    assert packaged
    assert folder.load_states(tmp_path) == {"some/cause": "public"}
    (tmp_path / folder.FILE).write_text('[[issue]]\nid = "some/cause"\nstate = "public"\n')
    assert folder.load_states(tmp_path) == {"some/cause": "public"}
