"""`kafkaproof refresh`: runs what is missing and nothing else, and survives being killed."""

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from kafka_brokers.releases import RELEASES
from kafka_conformance.reports import picture
from kafka_conformance.reports.collection import files, read_collection
from kafka_conformance.runner.kept_results import CorpusContents, KeptResult, kept_path, read_kept, write_kept
from kafka_conformance.runner.results import encode_results
from kafka_conformance.testees.known import find_testee
from kafka_corpus.evidence import CaseEvidence, load_evidence, write_evidence
from kafka_corpus.vectors import load_vectors, package_root
from kafka_fuzz.campaign.known_findings import CorpusResult, read_corpus_results, write_corpus_results
from kafkaproof.commands.refresh import SCRATCH, refresh
from kafkaproof.refresh.corpus import BROKERS
from kafkaproof.refresh.results import RESULTS

NEWEST = RELEASES[-1].name
TESTEE = "kafka-python"
TIME_LIMIT = 600


def release_of(name: str) -> str:
    """The version of a known testee."""
    known = find_testee(name)
    assert known is not None
    return known.version() or ""


class Checkout:
    """A folder laid out like a checkout, with the vectors and evidence of some areas."""

    def __init__(self, root: Path, *areas: str) -> None:
        self.root = root
        self.number = sum(len(load_vectors(area)) for area in areas)
        self.package = root / "corpus" / "kafka_corpus"
        self.results = kept_path(root / "results", TESTEE, release_of(TESTEE))
        self.known = root / "fuzz" / "kafka_fuzz" / "campaign" / "corpus_known.json"
        (root / "tox.ini").touch()
        self.known.parent.mkdir(parents=True)
        for folder in ("vectors", "evidence"):
            (self.package / folder).mkdir(parents=True)
            for area in areas:
                data = (package_root() / folder / f"{area}.ndjson").read_bytes()
                (self.package / folder / f"{area}.ndjson").write_bytes(data)

    def refresh(self, *arguments: str, code: int = 0) -> Result:
        """Run the command in this process; it ends with *code*."""
        before = signal.getsignal(signal.SIGTERM)
        try:
            done = CliRunner().invoke(refresh, [*arguments, "--root", str(self.root)])
        finally:
            signal.signal(signal.SIGTERM, before)
        assert done.exit_code == code, done.output
        return done

    def tasks(self, *arguments: str) -> list[dict[str, Any]]:
        """The tasks that the command plans or does."""
        found: list[dict[str, Any]] = json.loads(self.refresh(*arguments, "--json").stdout)["tasks"]
        return found

    def killed(self, file: Path, lines: int, *arguments: str) -> None:
        """Kill the command as soon as *file* has *lines*."""
        command = (sys.executable, "-m", "kafkaproof", "refresh", *arguments, "--root", str(self.root))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            end = time.monotonic() + TIME_LIMIT
            while not (file.exists() and file.read_bytes().count(b"\n") >= lines):
                assert process.poll() is None, "it was done before it could be killed"
                assert time.monotonic() < end, f"{file} never had {lines} lines"
                time.sleep(0.005)
            process.kill()

    def evidence(self) -> dict[str, bytes]:
        """The evidence files."""
        return {path.name: path.read_bytes() for path in (self.package / "evidence").iterdir()}

    def without(self, drop: Callable[[CaseEvidence], CaseEvidence]) -> dict[str, bytes]:
        """Take away recorded answers; the evidence files as they were before."""
        before = self.evidence()
        recorded = {id_: drop(line) for id_, line in load_evidence(self.package).items()}
        write_evidence(recorded, self.package)
        assert self.evidence() != before
        return before


@pytest.fixture
def sizes(tmp_path: Path) -> Checkout:
    """A small area, all recorded."""
    return Checkout(tmp_path, "sizes")


def without_newest(line: CaseEvidence) -> CaseEvidence:
    """*line* without the answer of the newest broker."""
    kept = [msgspec.structs.replace(each, releases=[name for name in each.releases if name != NEWEST])
            for each in line.brokers]  # fmt: skip
    return msgspec.structs.replace(line, brokers=[each for each in kept if each.releases])


def without_clients(line: CaseEvidence) -> CaseEvidence:
    """*line* without the answers of clients."""
    return msgspec.structs.replace(line, clients=[])


def test_no_checkout(tmp_path: Path) -> None:
    """A folder that is no checkout is a usage error, and nothing is written into it."""
    done = CliRunner().invoke(refresh, ["--root", str(tmp_path)])
    assert done.exit_code == 2
    assert "no checkout of this project" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_unknown_testee(sizes: Checkout) -> None:
    """A testee that is none is a usage error, which names a near one."""
    assert "did you mean kafka-python" in sizes.refresh("--testee", "kafka-pyton", code=2).stderr


def test_up_to_date(sizes: Checkout) -> None:
    """Where every answer is recorded there is nothing to do."""
    steps = ("--step", "clients", "--step", "brokers")
    assert sizes.tasks(*steps, "--dry-run") == []
    assert sizes.refresh(*steps).stdout == "everything is up to date\n"


def test_only_what_is_missing_is_planned(sizes: Checkout) -> None:
    """A dry run counts the cases without an answer to their content, by release, and writes nothing."""
    first, second = [case.id for case in load_vectors("sizes")[:2]]
    steps = ("--step", "clients", "--step", "brokers", "--dry-run")
    sizes.without(lambda line: without_clients(line) if line.id == first else line)
    (task,) = sizes.tasks(*steps)
    assert (task["step"], task["name"], task["number"]) == ("clients", f"answers of java {NEWEST}", 1)
    sizes.without(lambda line: msgspec.structs.replace(line, sha256="0" * 64) if line.id == second else line)
    (task,) = sizes.tasks(*steps)
    assert task["number"] == 2
    assert not (sizes.root / SCRATCH).exists()


def test_what_cannot_run_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Java brokers are skipped with the reason, and the command still ends with 0."""
    checkout = Checkout(tmp_path, "goldens")
    checkout.without(without_newest)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    if any(each.get("skipped") is None for each in checkout.tasks("--step", "brokers", "--dry-run")):
        pytest.skip("a Java that needs no path is installed")
    done = checkout.refresh("--step", "brokers")
    assert re.match(rf"answers of broker {NEWEST}: \d+ cases, skipped: Kafka {NEWEST} needs Java", done.stdout)
    assert done.stdout.endswith("0 tasks done, 1 skipped\n")


def test_one_at_a_time(sizes: Checkout) -> None:
    """A second refresh of one checkout is refused; a dry run is not."""
    folder = sizes.root / SCRATCH
    folder.mkdir(parents=True)
    with (folder / "lock").open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert "another refresh" in sizes.refresh("--step", "brokers", code=2).stderr
        assert sizes.tasks("--step", "brokers", "--dry-run") == []
    assert sizes.tasks("--step", "brokers") == []


@pytest.mark.slow
def test_results(sizes: Checkout) -> None:
    """A testee is run on all cases once, then on those that its kept result lacks, or on all with --again."""
    wanted = ("--step", RESULTS, "--testee", TESTEE)
    (task,) = sizes.tasks(*wanted)
    assert (task["number"], task["outcome"].split(",")[0]) == (sizes.number, f"{sizes.number} cases run")
    assert sizes.tasks(*wanted) == []
    whole = read_kept(sizes.results)
    corpus = CorpusContents.of(load_vectors("sizes"))
    assert whole.results(corpus).complete
    gone, changed, marked, *_ = sorted(whole.lines)
    lines = {id_: line for id_, line in whole.lines.items() if id_ != gone}
    lines[changed] = msgspec.structs.replace(lines[changed], content="0" * 16)
    lines[marked] = msgspec.structs.replace(lines[marked], ms=12345.0)
    write_kept(KeptResult(whole.header, lines), sizes.results)
    assert [each["number"] for each in sizes.tasks(*wanted, "--dry-run")] == [2]
    assert [each["outcome"].split(",")[0] for each in sizes.tasks(*wanted)] == ["2 cases run"]
    again = read_kept(sizes.results).lines
    assert {id_: line.content for id_, line in again.items()} == {
        id_: line.content for id_, line in whole.lines.items()
    }
    assert again[marked].ms == 12345.0
    assert [each["number"] for each in sizes.tasks("--step", RESULTS, "--again", TESTEE)] == [sizes.number]
    assert read_kept(sizes.results).lines[marked].ms != 12345.0


@pytest.mark.slow
def test_results_survive_a_kill(tmp_path: Path) -> None:
    """A run that is killed continues with the cases that have no line yet; no case is run twice."""
    checkout = Checkout(tmp_path, "backwards", "goldens")
    wanted = ("--step", RESULTS, "--testee", TESTEE)
    earned = checkout.root / SCRATCH / RESULTS / f"{TESTEE}-{release_of(TESTEE)}" / "result.ndjson"
    checkout.killed(earned, 10, *wanted)
    whole = [line for line in earned.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    ids = {json.loads(line)["case"] for line in whole[1:]}
    assert 9 <= len(ids) < checkout.number
    marked = [whole[0], *(json.dumps(json.loads(line) | {"ms": 12345.0}).encode() + b"\n" for line in whole[1:])]
    earned.write_bytes(b"".join(marked))
    checkout.refresh(*wanted)
    lines = read_kept(checkout.results).lines
    assert len(lines) == checkout.number
    assert {id_ for id_, line in lines.items() if line.ms == 12345.0} == ids
    assert not earned.exists()


@pytest.mark.slow
def test_known_findings(sizes: Checkout) -> None:
    """Keys of findings are kept case by case, and the list of campaigns is made from them."""
    wanted = ("--step", "known", "--testee", TESTEE)
    (task,) = sizes.tasks(*wanted)
    assert task["skipped"] == "it has no kept result"
    sizes.refresh("--step", RESULTS, "--testee", TESTEE)
    assert sizes.tasks(*wanted)[0]["number"] == task["number"] > 0
    shown = read_corpus_results(sizes.known)
    kept = read_kept(sizes.results)
    assert set(shown) == {TESTEE}
    assert set(shown[TESTEE].keys) == {key for line in kept.lines.values() for key in line.keys or ()}
    assert sizes.tasks(*wanted) == []
    first = min(kept.lines)
    extra = CorpusResult(shown[TESTEE].version, "0" * 64, {"flaky": first, "gone": "sizes.no_case"})
    write_corpus_results(sizes.known, {TESTEE: extra})
    write_kept(kept.with_keys({first: ["a key"]}), sizes.results)
    assert sizes.tasks(*wanted)[0]["outcome"].startswith("0 inputs run, ")
    again = read_corpus_results(sizes.known)[TESTEE].keys
    assert (again["flaky"], again["a key"]) == (first, first)
    assert "gone" not in again
    sizes.refresh("--step", RESULTS, "--again", TESTEE)
    assert [each["number"] for each in sizes.tasks(*wanted, "--dry-run")] == [task["number"]]


@pytest.mark.slow
def test_reports_and_the_matrix_are_made_of_kept_results(tmp_path: Path) -> None:
    """A kept result is a result for reports; the matrix is drawn from all of them, but never loses a testee."""
    checkout = Checkout(tmp_path, "sizes", "goldens")
    docs = tmp_path / "docs"
    docs.mkdir()
    assert checkout.tasks("--step", "matrix") == []
    checkout.refresh("--step", RESULTS, "--testee", TESTEE)
    assert files([tmp_path / "results"]) == [checkout.results]
    (report,) = read_collection([tmp_path / "results"])
    assert len(report.results.lines) == checkout.number
    empty = picture.Counts(corpus="0" * 64, testees=[])
    (docs / "matrix.json").write_bytes(picture.encode_counts(empty))
    (task,) = checkout.tasks("--step", "matrix")
    assert task["outcome"] == "drawn from 1 results"
    drawn = picture.decoded((docs / "matrix.json").read_bytes())
    assert [column.testee for column in drawn.testees] == [TESTEE]
    assert (docs / "matrix.svg").read_text(encoding="utf-8") == picture.matrix_svg(drawn)
    assert checkout.tasks("--step", "matrix") == []
    kept = read_kept(checkout.results)
    fewer = {id_: line for id_, line in kept.lines.items() if id_ != min(kept.lines)}
    write_kept(KeptResult(kept.header, fewer), checkout.results)
    matrix, both = ("--step", "matrix"), ("--step", RESULTS, "--step", "matrix", "--testee", TESTEE)
    assert [task["skipped"] for task in checkout.tasks(*matrix)] == [f"there is no complete kept result of {TESTEE}"]
    assert [(task["step"], task.get("skipped")) for task in checkout.tasks(*both, "--dry-run")] == [
        (RESULTS, None),
        ("matrix", None),
    ]
    write_kept(kept, checkout.results)
    renamed = msgspec.structs.replace(drawn.testees[0], testee="gone")
    (docs / "matrix.json").write_bytes(picture.encode_counts(msgspec.structs.replace(drawn, testees=[renamed])))
    (task,) = checkout.tasks("--step", "matrix")
    assert task["skipped"] == "there is no complete kept result of gone"


@pytest.mark.slow
def test_keep(sizes: Checkout, tmp_path: Path) -> None:
    """A complete result of the whole corpus can be kept; one of another corpus cannot."""
    sizes.refresh("--step", RESULTS, "--testee", TESTEE)
    kept = read_kept(sizes.results)
    full = tmp_path / "result.ndjson"
    full.write_bytes(encode_results(kept.results(CorpusContents.of(load_vectors("sizes")))))
    sizes.results.unlink()
    assert (
        f"{sizes.number} cases kept" in sizes.refresh("--keep", str(full), "--step", RESULTS, "--testee", TESTEE).stdout
    )
    assert read_kept(sizes.results) == kept
    (tmp_path / "other").mkdir()
    other = Checkout(tmp_path / "other", "goldens")
    assert "not a complete result of all cases" in other.refresh("--keep", str(full), code=2).stderr


@pytest.mark.java
def test_clients(tmp_path: Path) -> None:
    """Answers of the Java client that are missing are recorded as they were, and only they."""
    checkout = Checkout(tmp_path, "sizes", "goldens")
    before = checkout.without(lambda line: without_clients(line) if line.id.endswith("]") else line)
    (task,) = checkout.tasks("--step", "clients")
    assert 0 < task["number"] < checkout.number
    assert task["outcome"] == f"{task['number']} answers recorded"
    assert checkout.evidence() == before


@pytest.mark.broker
def test_brokers_survive_a_kill(tmp_path: Path) -> None:
    """A recording that is killed continues; answers that came are not requested again, and the rest are as before."""
    checkout = Checkout(tmp_path, "produce_crc")
    before = checkout.without(without_newest)
    earned = checkout.root / SCRATCH / BROKERS / f"{NEWEST}.ndjson"
    checkout.killed(earned, 5, "--step", "brokers")
    kept = [line for line in earned.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]
    assert len(kept) < checkout.number
    first = json.loads(kept[0])
    marked = first | {"steps": [*first["steps"][:-1], {"error_code": 99}]}
    earned.write_bytes(b"".join([json.dumps(marked).encode() + b"\n", *kept[1:]]))
    (task,) = checkout.tasks("--step", "brokers")
    assert task["name"] == f"answers of broker {NEWEST}"
    recorded = load_evidence(checkout.package)
    assert recorded[first["id"]].by_release()[NEWEST][-1].error_code == 99
    assert {line for line in lines_of(checkout.evidence()) if first["id"] not in line} == {
        line for line in lines_of(before) if first["id"] not in line
    }
    assert not earned.exists()
    assert checkout.tasks("--step", "brokers", "--dry-run") == []


def lines_of(found: dict[str, bytes]) -> Iterable[str]:
    """The lines of all evidence files."""
    return [line for data in found.values() for line in data.decode().splitlines()]


@pytest.mark.slow
def test_interrupted(tmp_path: Path) -> None:
    """SIGTERM ends a refresh with 130, and the answers that came are kept."""
    checkout = Checkout(tmp_path, "backwards", "goldens")
    arguments = ("--step", RESULTS, "--testee", TESTEE)
    earned = checkout.root / SCRATCH / RESULTS / f"{TESTEE}-{release_of(TESTEE)}" / "result.ndjson"
    command = (sys.executable, "-m", "kafkaproof", "refresh", *arguments, "--root", str(tmp_path))
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + TIME_LIMIT
        while not (earned.exists() and earned.read_bytes().count(b"\n") >= 5):
            assert process.poll() is None
            assert time.monotonic() < end
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGTERM)
        said = process.communicate(timeout=TIME_LIMIT)[1]
    assert process.returncode == 130, said
    assert "the same command continues" in said
    assert earned.read_bytes().count(b"\n") >= 5
    assert not checkout.results.exists()
