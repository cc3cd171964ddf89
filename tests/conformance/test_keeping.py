"""No command replaces a full result by a partial one, nor a complete one by one that was stopped."""

import hashlib
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from kafka_conformance import check_codec
from kafka_conformance.cross import results as cross_results
from kafka_conformance.dossiers.folder import FINDINGS
from kafka_conformance.reports.collection import certify_command, folder_name
from kafka_conformance.runner import results
from kafka_conformance.runner.history import check_covers_history, history, history_document
from kafka_conformance.runner.keeping import PART, WHOLE, WouldReplace, check_covers_result, reserved
from kafka_conformance.runner.results import ResultHeader
from kafka_conformance.sanitize import indented_json
from kafka_corpus.vectors import corpus_hash
from kafka_records import decode
from kafkaproof.cli import kafkaproof
from kafkaproof.commands import broker

ONLY = "produce_crc.*"

AREA = "v1_message"
ALL = 3721
BROKER = "127.0.0.1:9"


def header(
    connect: str = "reference", only: tuple[str, ...] = (), cases: int = ALL, start: str = "", **more: Any
) -> ResultHeader:
    """The header of a result, of all cases unless *only* says which."""
    testee = {"name": connect, "version": "1", "connect": connect} | more
    settings = {"against": "4.4.0"} | ({"start": start} if start else {})
    return ResultHeader(testee=testee, corpus=corpus_hash(), cases=cases, only=list(only), settings=settings)


def written(path: Path, of: ResultHeader) -> bytes:
    """A complete result in *path*: its bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = results.ResultWriter(path, of)
    writer.finish(seconds=1.0, waited=0.0, starts=1, strays=0)
    writer.close()
    return path.read_bytes()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run a command in an empty directory."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: CliRunner().invoke(kafkaproof, arguments)


@pytest.mark.parametrize(
    ("there", "only", "cases", "refused"),
    [
        ((), ["a"], 3, True),
        ((), ["a"], ALL, False),
        ((), [], ALL - 1, False),
        (("b",), ["a"], 3, False),
        (("whole",), ["a"], 3, True),
        (("whole",), ["whole"], 3, False),
        ((), ["whole"], 3, True),
    ],
)
def test_only_a_part_of_all_is_refused(
    there: tuple[str, ...], only: list[str], cases: int, refused: bool, tmp_path: Path
) -> None:
    """A result of all cases is not replaced by one of fewer; a part replaces another, and all replace all."""
    path = tmp_path / results.FILE
    check_covers_result(path, only, cases, whole=["whole"])
    written(path, header(only=there))
    if refused:
        with pytest.raises(WouldReplace, match="the result of all 3,721 cases"):
            check_covers_result(path, only, cases, whole=["whole"])
    else:
        check_covers_result(path, only, cases, whole=["whole"])


@pytest.mark.parametrize(
    ("connect", "arguments"),
    [
        ("reference", ("certify", "reference", "--only", AREA, "--report", "out")),
        ("reference", ("certify", "reference", "--only", AREA, "--report", "out", "--resume")),
        (BROKER, ("broker", "certify", "--bootstrap", BROKER, "--only", "produce_*", "--report", "out")),
    ],
)
def test_a_full_result_is_not_replaced(
    connect: str, arguments: tuple[str, ...], run: Callable[..., Result], tmp_path: Path
) -> None:
    """A part of a run that would replace a full result is exit code 2, and says where it can go."""
    path = tmp_path / "out" / folder_name(connect) / results.FILE
    full = written(path, header(connect, broker=connect == BROKER))
    done = run(*arguments)

    assert done.exit_code == 2, done.output
    assert "is the result of all 3,721 cases" in done.output
    assert "--report DIR" in done.output
    assert path.read_bytes() == full
    assert [each.name for each in path.parent.iterdir()] == [results.FILE]


@pytest.mark.slow
def test_the_command_of_a_page_works_and_does_no_harm(run: Callable[..., Result], tmp_path: Path) -> None:
    """The printed command that repeats a case works, and keeps the full result."""
    path = tmp_path / WHOLE / "reference" / results.FILE
    full = written(path, header())
    program, *arguments = shlex.split(f"{certify_command(header())} --only 'v1_message.*'")
    assert program == "kafkaproof"
    for _ in range(2):
        done = run(*arguments)
        assert done.exit_code == 0, done.output

    assert path.read_bytes() == full
    part = results.read_results(tmp_path / PART / "reference" / results.FILE)
    assert part.complete
    assert part.header.only == ["v1_message.*"]


@pytest.mark.parametrize(
    ("of", "printed"),
    [
        (header("kafka-python@2.0.2"), "kafkaproof certify kafka-python@2.0.2"),
        (header(f"process:python {'x' * 99}.py"), f"kafkaproof certify 'process:python {'x' * 99}.py'"),
        (header(BROKER, broker=True), f"kafkaproof broker certify --bootstrap {BROKER} --against 4.4.0"),
        (
            header(BROKER, broker=True, start="./b {port}"),
            "kafkaproof broker certify --start './b {port}' --against 4.4.0",
        ),
        (header("in-process"), ""),
    ],
)
def test_commands_that_ask_again(of: ResultHeader, printed: str) -> None:
    """The command is whole and quoted, that for brokers where it is one; what ran in a test has none."""
    assert certify_command(of) == printed


CROSSED = ("cross", "reference", "--broker", "none", "--only", "writers.timestamps_with_more_digits")


@pytest.mark.slow
def test_a_whole_cross_run_is_not_replaced(run: Callable[..., Result], tmp_path: Path) -> None:
    """Neither where it is by default nor in a directory that is named; a part replaces a part."""
    batches = [f"b.{number}" for number in range(900)]
    of = cross_results.CrossHeader(testees=[{"label": name} for name in "ab"], corpus="c", batches=batches)
    paths = [folder / cross_results.FILE for folder in (tmp_path / WHOLE / "cross", tmp_path / "out")]
    for path in paths:
        writer = cross_results.CrossWriter(path, of)
        writer.finish(1.0)
        writer.close()
    full = paths[0].read_bytes()
    refused = run(*CROSSED, "--report", "out")

    assert refused.exit_code == 2, refused.output
    assert "a whole run (2 testees, 900 batches)" in refused.output
    for _ in range(2):
        done = run(*CROSSED)
        assert done.exit_code == 0, done.output
    assert [path.read_bytes() for path in paths] == [full, full]
    assert cross_results.read_cross_results(tmp_path / PART / "cross" / cross_results.FILE).header.part


@pytest.mark.slow
def test_reports_keep_the_full_result(run: Callable[..., Result], tmp_path: Path) -> None:
    """`report` copies results into DIR, and does not replace a full one there."""
    assert run("certify", "reference", "--only", AREA, "--report", "part").exit_code == 0
    assert run("report", "part", "--out", "out").exit_code == 0
    (copied,) = (tmp_path / "out").glob(f"*/{results.FILE}")
    full = written(copied, header())
    done = run("report", "part", "--out", "out")

    assert done.exit_code == 2, done.output
    assert "--out names another directory" in done.output
    assert copied.read_bytes() == full


@pytest.mark.slow
@pytest.mark.parametrize("formats", ["html", "sarif,json", "markdown"])
def test_a_page_about_more_testees_is_not_replaced(formats: str, run: Callable[..., Result], tmp_path: Path) -> None:
    """`certify` of two testees does not replace the page about three; another directory or all three work."""
    certify = ("certify", "--only", AREA, "--format", formats, "--report", "out")
    planted = [f"planted:{name}" for name in ("swaps-key-and-value", "null-is-empty")]
    assert run(*certify, "reference", *planted).exit_code == 1
    pages = {path: path.read_bytes() for path in (tmp_path / "out").iterdir() if path.is_file()}
    done = run(*certify, *planted)

    assert done.exit_code == 2, done.output
    assert "is about 3 testees, and one about 2 would replace it, without reference" in done.output
    assert "--report DIR" in done.output
    assert {path: path.read_bytes() for path in pages} == pages
    assert run(*certify[:-1], "other", *planted).exit_code == 1
    assert run(*certify, "reference", *planted).exit_code == 1


@pytest.mark.slow
def test_reports_of_fewer_testees_replace_no_page(run: Callable[..., Result], tmp_path: Path) -> None:
    """`report` of one testee does not replace the pages about two."""
    assert run("certify", "reference", "planted:swaps-key-and-value", "--only", AREA, "--report", "part").exit_code == 1
    assert run("report", "part", "--out", "out").exit_code == 0
    before = {path: path.read_bytes() for path in (tmp_path / "out").rglob("*") if path.is_file()}
    done = run("report", "part/reference", "--out", "out")

    assert done.exit_code == 2, done.output
    assert "index.html is about 2 testees" in done.output
    assert "--out names another directory" in done.output
    assert {path: path.read_bytes() for path in before} == before
    assert run("report", "part", "--out", "out").exit_code == 0


@pytest.mark.slow
def test_reports_of_part_of_a_cross_run_replace_no_page(run: Callable[..., Result], tmp_path: Path) -> None:
    """`report` of a cross run of one batch does not replace the page about two."""
    cross = ("cross", "reference", "--broker", "none", "--only", "writers.timestamps_with_more_digits")
    assert run(*cross, "--report", "one").exit_code == 0
    assert run(*cross, "--only", "writers.timestamps_far_back", "--report", "two").exit_code == 0
    assert run("report", "two", "--out", "out").exit_code == 0
    page = (tmp_path / "out" / "cross.html").read_bytes()
    done = run("report", "one", "--out", "out")

    assert done.exit_code == 2, done.output
    assert "--out names another directory" in done.output
    assert (tmp_path / "out" / "cross.html").read_bytes() == page
    assert run("report", "two", "--out", "out").exit_code == 0


def test_a_history_of_fewer_releases_is_refused(run: Callable[..., Result], tmp_path: Path) -> None:
    """`certify --history 2` does not replace a history of three releases, of which one did not run."""
    path = tmp_path / "out" / "history.json"
    path.parent.mkdir()
    runs = [(release, results.Results(header(), (), None)) for release in ("1", "2")]
    made = history("kafka-python", runs, {"3": "it does not build"})
    path.write_bytes(indented_json(history_document(made)))
    full = path.read_bytes()
    done = run("certify", "kafka-python", "--history", "2", "--report", "out")

    assert done.exit_code == 2, done.output
    assert "is the history of 3 releases, and one of 2 would replace it; --report DIR" in done.output
    assert path.read_bytes() == full
    check_covers_history(path, "kafka-python", 3)
    check_covers_history(path, "another", 2)
    check_covers_history(tmp_path / "none.json", "kafka-python", 1)


@pytest.mark.slow
def test_dossiers_are_kept_when_a_run_is_partial(run: Callable[..., Result], tmp_path: Path) -> None:
    """`dossier` of a part of the cases does not drop the findings of others."""
    assert run("certify", "kafka-python", "--only", "v2_headers.*", "--report", "part").exit_code == 1
    assert run("dossier", "part", "--out", "out").exit_code == 0
    assert run("dossier", "part", "--out", "out").exit_code == 0
    (path,) = (tmp_path / "out").glob(f"*/{FINDINGS}")
    there = msgspec.json.decode(path.read_bytes())
    there["dossiers"][0]["cases"]["kafka-python"]["v0_message.of_another_run"] = "wrong_data"
    path.write_bytes(msgspec.json.encode(there))
    before = {each: each.read_bytes() for each in (tmp_path / "out").rglob("*") if each.is_file()}
    done = run("dossier", "part", "--out", "out")

    assert done.exit_code == 2, done.output
    assert "has findings in 1 cases" in done.output
    assert {each: each.read_bytes() for each in (tmp_path / "out").rglob("*") if each.is_file()} == before


def test_check_codec_keeps_the_full_result(tmp_path: Path) -> None:
    """A test of some cases that would replace the result of all is a ValueError."""
    path = tmp_path / results.FILE
    full = written(path, header("in-process", only=("in-process",)))
    with pytest.raises(ValueError, match="name another file"):
        check_codec(decode, only=AREA, result=path)
    assert path.read_bytes() == full


def test_deviations_of_a_part_replace_no_file(run: Callable[..., Result], tmp_path: Path) -> None:
    """--write-deviations with --only writes a new file only: it sees a part of what one that is there may declare."""
    (tmp_path / "known.toml").write_text("# all of them\n")
    done = run("certify", "reference", "--only", AREA, "--write-deviations", "known.toml")

    assert done.exit_code == 2, done.output
    assert (tmp_path / "known.toml").read_text() == "# all of them\n"


def test_a_complete_result_is_kept_until_another_is(tmp_path: Path) -> None:
    """A run that is stopped leaves the complete result from before; one that ends lets go of it."""
    path = tmp_path / results.FILE
    full = written(path, header())
    for _ in range(2):  # the second begins over what the first has left
        results.ResultWriter(path, header()).close()
        assert not results.read_results(path).complete
        assert results.previous_result(path).read_bytes() == full
    assert hashlib.sha256(written(path, header())).hexdigest() == hashlib.sha256(full).hexdigest()
    assert [each.name for each in tmp_path.iterdir()] == [results.FILE]


def test_a_folder_without_a_result_is_removed(tmp_path: Path) -> None:
    """Only one that was made for the run, and only if nothing was written."""
    mine = tmp_path / "mine"
    mine.mkdir()
    for folder in (tmp_path / "a" / "b" / "c", mine):
        with reserved(folder):
            assert folder.is_dir()
    assert list(tmp_path.iterdir()) == [mine]
    with reserved(tmp_path / "a" / "b"):
        (tmp_path / "a" / "kept").touch()
    assert sorted((tmp_path / "a").iterdir()) == [tmp_path / "a" / "kept"]


@pytest.mark.parametrize("earned", [False, True])
def test_a_stopped_broker_run_names_what_there_is(
    earned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an answer there is no file to name, and no folder is left; a file from before is not of this run."""
    folder = tmp_path / "out"
    path = folder / folder_name("x") / results.FILE

    def stop(*_: object) -> None:
        if earned:
            writer = results.ResultWriter(path, header("x", only=(ONLY,), cases=2))
            line = results.ResultLine(case="a", outcome="agree", area="", op="append", expected="valid", rules=())
            writer.write([line])
            writer.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(broker, "_run", stop)
    words = ["broker", "certify", "--bootstrap", "localhost:1", "--name", "x", "--only", ONLY, "--report", str(folder)]
    done = CliRunner().invoke(kafkaproof, words)
    assert done.exit_code == 130, done.output
    assert (f"what was earned is in {path}" in done.output, "stopped before any answer" in done.output) == (
        earned,
        not earned,
    )
    assert folder.exists() == earned
    if earned:
        earned = False
        assert "stopped before any answer" in CliRunner().invoke(kafkaproof, words).output
