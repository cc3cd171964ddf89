"""Dossiers: findings by cause, what brokers do with them, what may be said, and the folder that keeps them."""

import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.conformance import reproducer_runs

from kafka_conformance.dossiers import folder, pages
from kafka_conformance.dossiers.causes import SENSITIVE, CauseGroup, catalogue, cause_of, grouped, steady
from kafka_conformance.dossiers.reproduce import Reproducer, programs, reproducer
from kafka_conformance.judge import reach
from kafka_conformance.judge.verdict import SEVERITIES, Verdict
from kafka_conformance.runner.results import ResultHeader, ResultLine, ResultWriter, result_line
from kafka_conformance.runner.results import read_results as read_result
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors
from kafka_records.rules import GROUPS, rule
from kafkaproof.commands.dossier import dossier

RESULTS = Path(__file__).resolve().parents[2] / "results"
CRC = "v2_crc.crc_of_an_empty_batch"
CLAIM = "resources.snappy_block_claims[v2-1-gib]"
STORED = "gzip.reserved_flags[bit-7]"
OVERLONG = "varint.fifth_byte_continues[none-header_count]"
PANIC = (
    "ended with exit code 2: panic: runtime error: slice bounds out of range [:{at}] | goroutine 1 [running]: | "
    "github.com/segmentio/kafka-go/protocol.(*decoder).Read(0x{at}0d60?, {{0x29{at}, 0x40?}}) | \\tdecode.go:46 +0x110"
)


@pytest.fixture(scope="module")
def cases() -> Mapping[str, Case]:
    """The codec cases, by id."""
    return {case.id: case for case in load_vectors(ops=("decode", "encode"))}


def line(case: Case, outcome: str, why: str = "expected corrupt, got 1 batch", field: str = "error") -> ResultLine:
    """A finding of *case*."""
    return result_line(case, Verdict(outcome, field, why), {}, 0.001, 0)  # type: ignore[arg-type]  # a name of the list


@pytest.fixture
def found(tmp_path: Path, cases: Mapping[str, Case]) -> Callable[..., Path]:
    """Write a result of kafka-python with these findings."""

    def write(*findings: tuple[str, str], version: str = "3.0.12") -> Path:
        testee = {"name": "kafka-python", "version": version, "language": "python", "connect": "kafka-python"}
        path = tmp_path / "result.ndjson"
        writer = ResultWriter(
            path, ResultHeader(testee=testee, corpus="0" * 64, cases=len(findings), only=[], settings={})
        )
        writer.write(line(cases[case], outcome) for case, outcome in findings)
        writer.finish(counts={}, seconds=0.0, waited=0.0, starts=1, strays=0)
        return path

    return write


def groups(path: Path, cases: Mapping[str, Case]) -> list[CauseGroup]:
    """The groups of a result file."""
    return grouped(read_result(path), cases)


def test_a_number_is_one_cause() -> None:
    """Numbers and slugs of the catalogue belong together, and every cause has words."""
    pairs = {(entry.cause.number, entry.cause.slug) for entry in catalogue()}
    assert len({number for number, _ in pairs}) == len({slug for _, slug in pairs}) == len(pairs)
    assert all(entry.cause.title and entry.cause.about.endswith(".") for entry in catalogue())


def test_causes_name_rules_that_there_are() -> None:
    """Rules and severities in the catalogue exist."""
    for entry in catalogue():
        assert set(entry.outcomes) <= set(SEVERITIES)
        for id_ in entry.rules:
            assert id_ in GROUPS or rule(id_).statement


def test_what_stops_a_consumer_has_causes_of_its_own() -> None:
    """No cause takes findings that maintainers hear of first together with others."""
    for entry in catalogue():
        sensitive = [outcome in SENSITIVE for outcome in entry.outcomes or SEVERITIES]
        assert all(sensitive) or not any(sensitive) or "encode" in entry.ops, entry.cause.slug


def test_findings_of_one_cause_are_one_group(found: Callable[..., Path], cases: Mapping[str, Case]) -> None:
    """All cases of one unverified checksum are one dossier, and its case has the smallest input."""
    crc = [id_ for id_, case in cases.items() if case.rules[0] == "CRC-01" and case.expect.verdict == "invalid"]
    made = groups(found(*((id_, "accepts_invalid") for id_ in crc), (OVERLONG, "accepts_invalid")), cases)

    assert [group.cause.slug for group in made] == ["crc-of-batch-not-verified", "varint-too-long-accepted"]
    assert len(made[0].lines) == len(crc) > 5
    sizes = {id_: len(case.input) for id_ in crc if isinstance((case := cases[id_]).input, bytes)}
    assert sizes[made[0].case.id] == min(sizes.values())


def test_crashes_are_grouped_by_function(cases: Mapping[str, Case]) -> None:
    """A panic is named by its message and the innermost function of a library, whatever the numbers in it."""
    first, second = (cause_of(line(cases[CRC], "crash", PANIC.format(at=at))) for at in ("12", "77"))

    assert first == second
    assert first.slug == "crash-protocol-decoder-read"
    assert first.title == "The process ends in protocol.decoder.Read: runtime error: slice bounds out of range […]"


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("lib.F(0xc000123, {0x1, 0x2}) +0x1f", "lib.F(…)"),
        ("got 1795249460121", "got (the time of the run)"),
        ("got 1700000000000", "got 1700000000000"),
        ("in /root/.cache/x/lib.py line 3", "in …/lib.py line 3"),
        ("batches[0].records[1].offset", "batches[0].records[1].offset"),
    ],
)
def test_what_differs_from_run_to_run_is_left_out(text: str, same: str) -> None:
    """Addresses, the clock and folders go; what a case says stays."""
    assert steady(text) == same


def test_reach_is_what_brokers_answered(cases: Mapping[str, Case]) -> None:
    """A payload that 4.4.0 stored reaches consumers by any producer, and one that it refused does not."""
    stored, refused = reach.reach_of(cases[STORED]), reach.reach_of(cases[OVERLONG])

    assert "4.4.0" in stored.stored()
    assert not stored.predicted
    assert reach.input_origin(cases[STORED], stored) == "producers"
    assert refused.answers["4.4.0"].error_code == 87
    assert reach.input_origin(cases[OVERLONG], refused) == "hostile"


@pytest.mark.parametrize("field", ["records.length", "records[0].offset", "records[0].timestamp", "records[0].key"])
def test_aborted_records_have_one_cause(field: str, cases: Mapping[str, Case]) -> None:
    """In whatever field a wrong record shows first, it is about aborted transactions."""
    case = cases["read_committed.two_producers"]
    assert cause_of(line(case, "wrong_data", f"{field}: expected 1, got 0", field)).slug == "aborted-transactions"


def test_who_ends_a_transaction(cases: Mapping[str, Case]) -> None:
    """Any producer can have one aborted; a marker of a newer version, or what was cleaned, comes from a broker."""
    names = ("two_producers", "marker_with_a_newer_key", "nothing_but_what_was_cleaned[one]")
    found = [
        reach.input_origin(case, reach.reach_of(case)) for case in (cases[f"read_committed.{name}"] for name in names)
    ]
    assert found == ["producers", "brokers", "brokers"]


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


def test_what_maintainers_do_not_know_is_a_summary(found: Callable[..., Path], cases: Mapping[str, Case]) -> None:
    """A page about memory has bytes and reproducer only when it may be whole."""
    (group,) = groups(found((CLAIM, "memory")), cases)
    withheld, whole = (pages.dossier_page(group, "undisclosed", whole=whole) for whole in (False, True))

    assert CLAIM in withheld
    assert "undisclosed" in withheld
    assert "## Reproducer" not in withheld
    assert "```text" not in withheld
    assert "## Reproducer" in whole
    assert "repro.py" in whole


def test_the_folder_follows_the_states(found: Callable[..., Path], tmp_path: Path) -> None:
    """A state that is kept by hand survives writing, and opens the dossier once it is public."""
    out, runner = tmp_path / "out", CliRunner()
    result = found((CLAIM, "memory"), (CRC, "accepts_invalid"))
    assert runner.invoke(dossier, [str(result), "--out", str(out)]).exit_code == 0
    page = next(out.glob("kafka-python-3.0.12/011-*.md"))
    assert "## Reproducer" not in page.read_text()

    states = out / folder.FILE
    states.write_text(states.read_text().replace('"undisclosed"', '"fixed in 3.1"'))
    assert runner.invoke(dossier, [str(result), "--out", str(out), "--check"]).exit_code == 1
    assert runner.invoke(dossier, [str(result), "--out", str(out)]).exit_code == 0
    assert "## Reproducer" in page.read_text()
    assert '"fixed in 3.1"' in states.read_text()


def test_check_reports_differing_pages(found: Callable[..., Path], tmp_path: Path) -> None:
    """Written twice it is the same; a page that was changed, or is left from before, is named."""
    out, runner = tmp_path / "out", CliRunner()
    arguments = [str(found((CRC, "accepts_invalid"))), "--out", str(out)]
    assert runner.invoke(dossier, arguments).exit_code == 0
    assert runner.invoke(dossier, [*arguments, "--check"]).exit_code == 0

    old = out / "kafka-python-3.0.12" / "777-gone.md"
    old.write_text("old")
    result = runner.invoke(dossier, [*arguments, "--check"])
    assert result.exit_code == 1
    assert "777-gone.md" in result.output
    assert runner.invoke(dossier, arguments).exit_code == 0
    assert not old.exists()


def test_bad_states_are_named(found: Callable[..., Path], tmp_path: Path) -> None:
    """A state that is none is a usage error, which names the dossier."""
    (tmp_path / folder.FILE).write_text('[[issue]]\nid = "a/b"\nstate = "sent to them"\n')
    result = CliRunner().invoke(dossier, [str(found((CRC, "accepts_invalid"))), "--out", str(tmp_path)])

    assert result.exit_code == 2
    assert "a/b" in result.output


def test_json_has_every_group(found: Callable[..., Path]) -> None:
    """`--json` prints one document with ids, cases and reach."""
    result = CliRunner().invoke(dossier, [str(found((CRC, "accepts_invalid"))), "--json"])
    (group,) = json.loads(result.output)["testees"][0]["dossiers"]

    assert group["id"] == "kafka-python/crc-of-batch-not-verified"
    assert group["cases"] == [CRC]
    assert group["reach"] == "hostile"


def test_what_a_testee_says_stays_code(cases: Mapping[str, Case]) -> None:
    """Backticks, line ends and pipes of an error message do not get out of their place."""
    result = pages.observation_text(line(cases[CRC], "rejects_valid", "a`b\n# head | <script>"))

    assert result.count("`") == 2
    assert "\n" not in result
    assert pages.table_cell(result).count("\\|") == 1


@pytest.mark.parametrize("id_", [CRC, "resources.flood_of_headers[small]", "resources.many_pieces[gzip]"])
def test_a_reproducer_holds_the_bytes(id_: str, found: Callable[..., Path], cases: Mapping[str, Case]) -> None:
    """Short inputs are there as they are, long ones deflated; no place is left unfilled."""
    (group,) = groups(found((id_, "accepts_invalid")), cases)
    made = reproducer(group)
    assert made is not None
    program = made.files["repro.py"]
    given = cases[id_].input

    assert ("zlib" in program) == (not isinstance(given, bytes) and "small" not in id_)
    assert not re.search(r"@[A-Z_]+@|#large", program)
    if isinstance(given, bytes):
        assert given.hex() in program.replace("\n", "")


def test_a_python_reproducer_shows_it(tmp_path: Path, found: Callable[..., Path], cases: Mapping[str, Case]) -> None:
    """A program for what kafka-python takes runs with nothing of ours, and says that there was no error."""
    (group,) = groups(found((OVERLONG, "accepts_invalid")), cases)
    made = reproducer(group)
    assert made is not None
    reproducer_runs.prepare(made, tmp_path)

    assert reproducer_runs.shows(group.lines[0], reproducer_runs.run(made, tmp_path))


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
def dossiers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of dossiers, built from the kept results."""
    directory = tmp_path_factory.mktemp("dossiers")
    done = CliRunner().invoke(dossier, [str(RESULTS), "--out", str(directory)])
    assert done.exit_code == 0, done.output
    return directory


def written_findings(directory: Path) -> list[folder.Findings]:
    """The findings of each testee in a folder of dossiers."""
    found = sorted(directory.glob(f"*/{folder.FINDINGS}"))
    return [msgspec.json.decode(path.read_bytes(), type=folder.Findings) for path in found]


def test_the_folder_is_whole(dossiers: Path) -> None:
    """Every dossier has its page, no page is left over, and the index links to each."""
    index = (dossiers / folder.INDEX).read_text(encoding="utf-8")
    known = written_findings(dossiers)
    assert len(known) >= 10
    for one in known:
        place = dossiers / folder.dossier_folder(one)
        assert {path.name for path in place.glob("*.md")} == {each.file for each in one.dossiers}
        assert all(f"({place.name}/{each.file})" in index for each in one.dossiers)


def test_every_dossier_has_a_program(dossiers: Path, cases: Mapping[str, Case]) -> None:
    """There is a program for every testee and operation that dossiers are about."""
    about = {(one.testee, cases[each.case].op) for one in written_findings(dossiers) for each in one.dossiers}

    assert len(about) > 25
    assert about <= programs()


def test_every_reach_is_a_whole_phrase(dossiers: Path) -> None:
    """No dossier's head breaks off in a bracket, or in what is bold."""
    found = [line for page in dossiers.glob("*/*.md") for line in page.read_text("utf-8").splitlines()[:12]]
    reached = [line for line in found if line.startswith("| Reach |")]

    assert len(reached) > 100
    assert [line for line in reached if line.count("(") != line.count(")") or line.count("**") % 2] == []


def test_the_folder_withholds_undisclosed_findings(dossiers: Path) -> None:
    """Pages of sensitive dossiers that are not open hold no reproducer and no bytes; their states are listed."""
    states = folder.load_states(dossiers)
    sensitive = [(one, each) for one in written_findings(dossiers) for each in one.dossiers if each.sensitive]
    assert sensitive
    for one, each in sensitive:
        assert each.id in states
        text = (dossiers / folder.dossier_folder(one) / each.file).read_text(encoding="utf-8")
        assert ("## Reproducer" in text) == folder.is_state_open(states, each.id)


def test_states_of_the_package_hold_without_a_file(tmp_path: Path) -> None:
    """A folder without states starts with those of the package, which are of known dossiers."""
    packaged = folder.load_states(tmp_path)
    (tmp_path / folder.FILE).write_text('[states]\n"some/cause" = "public"\n')
    assert packaged
    assert folder.load_states(tmp_path) == {"some/cause": "public"}
    (tmp_path / folder.FILE).write_text('[[issue]]\nid = "some/cause"\nstate = "public"\n')
    assert folder.load_states(tmp_path) == {"some/cause": "public"}
