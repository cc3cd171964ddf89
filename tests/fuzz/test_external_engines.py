"""External engines: corpora go in and out, with the same checksum fix-up as in the engines' harnesses."""

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from kafka_conformance.testees.connection import CannotRun
from kafka_fuzz.campaign import external_engines
from kafka_fuzz.campaign.external_engines import (
    ENGINES,
    LAST,
    Engine,
    build_engine,
    fix_up_log,
    go_entry,
    harness,
    inputs_for,
    quoted,
    run_engine,
)
from kafka_fuzz.campaign.replay import replay_target, replay_targets
from kafka_fuzz.campaign.store import CORPUS_FOLDER, LONGEST, Corpus
from kafka_fuzz.campaign.worker import unchanged_mutant
from kafka_fuzz.differential.outcome_tuples import first_place
from kafka_fuzz.findings import read_findings
from kafka_fuzz.mutate import corpus_seeds, own_seeds
from kafka_records import RecordFormatError, decode
from kafka_records.layout import CRC_OFFSET_V2
from kafkaproof.cli import kafkaproof


def test_corpus_files_of_go() -> None:
    """Any bytes survive being written as Go writes them, and what Go itself writes is read."""
    rng = Random(1)
    for length in (0, 1, 40, 300):
        data = rng.randbytes(length)
        assert quoted(go_entry(data).splitlines()[1]) == data
    assert quoted(rb'[]byte("\xff\x00 \"\\ \n\t)")') == b'\xff\x00 "\\ \n\t)'
    # What cannot be printed, it names as a character where the bytes are one; a backslash before a u is none of these.
    assert quoted(rb'[]byte("\u200b\U000e0001\a\v\\u12 \\\u0085")') == "\u200b\U000e0001\a\v\\u12 \\\u0085".encode()


@pytest.mark.slow
@pytest.mark.testees
def test_what_go_writes_is_read(tmp_path: Path) -> None:
    """Go itself quotes any bytes, characters of all kinds among them, and they are had back."""
    if shutil.which("go") is None:
        pytest.skip("there is no go")
    rng = Random(3)
    characters = "".join(
        chr(rng.choice((rng.randrange(0x20), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))))
        for _ in range(9000)
    )
    data = [characters.encode(), rng.randbytes(9000), characters.encode()[1:]]
    (tmp_path / "main.go").write_text(
        'package main\nimport ("fmt"; "io"; "os")\n'
        'func main() { data, _ := io.ReadAll(os.Stdin); fmt.Printf("[]byte(%q)", string(data)) }\n'
    )
    for each in data:
        done = subprocess.run(["go", "run", "main.go"], cwd=tmp_path, input=each, capture_output=True, check=True)
        assert quoted(done.stdout) == each


def test_logs_after_a_fix_up() -> None:
    """A valid log stays as it is; a damaged one gets true sizes and checksums, and a second fix-up changes nothing."""
    rng, log = Random(2), b"".join(own_seeds()[:5])
    assert fix_up_log(log) == log
    batches = [seed for seed in own_seeds() if seed[16] == 2]
    for _ in range(200):
        broken = bytearray(rng.choice(batches))
        broken[rng.randrange(21, len(broken))] ^= 0xFF
        broken[8:12] = rng.randbytes(4)
        fixed = fix_up_log(bytes(broken))
        assert fix_up_log(fixed) == fixed
        assert kind(fixed) != "corrupt"


def kind(log: bytes) -> str:
    """The kind of error that *log* has; none if it is read."""
    try:
        decode(log)
    except RecordFormatError as error:
        return error.kind
    return ""


def test_every_engine_has_a_harness(tmp_path: Path) -> None:
    """Each engine has its source in the package or beside it, and refuses a testee that is not of its language."""
    assert harness("go/fuzz_test.go").is_file()
    assert harness("jazzer/FuzzDecode.java").is_file()
    assert harness("jazzer/pom.xml").is_file()
    for engine in ENGINES:
        with pytest.raises(CannotRun, match="no external engine for kafkajs"):
            build_engine(engine, "kafkajs", tmp_path)


@pytest.mark.slow
@pytest.mark.testees
@pytest.mark.parametrize(
    ("engine", "testee", "program"), [("go", "sarama", "go"), ("jazzer", "java-kafka-clients", "mvn")]
)
def test_both_ways(engine: str, testee: str, program: str, tmp_path: Path) -> None:
    """A campaign's inputs go into the engine; the inputs that it keeps get a checksum fix-up and enter the corpus."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    report = run_engine(engine, testee, 15.0, tmp_path)
    assert report.fed > 100
    assert report.starts >= 1
    assert report.executions > 0
    assert not report.failure
    kept = Corpus(tmp_path, f"engine:{testee}")
    assert len(kept.entries) == report.kept
    assert all(fix_up_log(data := path.read_bytes()) == data for path in (tmp_path / CORPUS_FOLDER).glob("*/*.bin"))


def test_an_engine_gets_what_it_can_run(tmp_path: Path) -> None:
    """An engine gets all built-in seeds and its own inputs, and a sample of all others up to the given count."""
    own, others = Corpus(tmp_path, "engine:sarama"), Corpus(tmp_path, "explain")
    mine = [bytes((1, number)) for number in range(5)]
    for corpus, inputs in ((own, mine), (others, [number.to_bytes(2, "big") * 4 for number in range(900)])):
        for data in inputs:
            corpus.keep(unchanged_mutant(data), "b")
    others.keep(unchanged_mutant(bytes(LONGEST + 1)), "b")
    given = inputs_for(own, 900)
    assert given == inputs_for(own, 900)
    assert 890 <= len(given) <= 900
    assert {*mine, *own_seeds()} <= {*given}
    others.keep(unchanged_mutant(b"one more"), "b")
    assert {*inputs_for(own, 900)} != {*given}
    whole = {*inputs_for(own, 10**6)}
    assert {*given} | {*corpus_seeds()} <= whole
    assert max(map(len, whole)) <= LONGEST


def engine_of(folder: Path, script: str) -> Engine:
    """An engine that is a shell script."""
    for name in ("corpus", "crashes"):
        (folder / name).mkdir()
    return Engine(folder / "corpus", folder / "crashes", ["sh", "-c", script], folder, is_go=False)


def test_an_engine_that_executes_nothing(tmp_path: Path) -> None:
    """One that ends with an error before its first input is not started again and again until the time is over."""
    engine = engine_of(tmp_path, f"head -c 4 /dev/zero > crashes/{LAST}; echo no such flag; exit 2")
    with pytest.raises(CannotRun, match="ended with 2, and executed nothing: no such flag"):
        engine.run(60.0)
    assert engine.suspects() == []


def test_executions_are_those_of_all_starts(tmp_path: Path) -> None:
    """An engine that ends over an input is started again, and what it ran before counts."""
    (tmp_path / "last").write_bytes(b"\0\0\0\2ab")
    engine = engine_of(
        tmp_path, f"cp last crashes/{LAST}; echo '#2 INITED'; echo 'Done 40 runs in 1 second(s)'; exit 1"
    )
    assert engine.run(600.0, most_starts=3) == 3
    assert engine.executions == 3 * 40
    assert engine.suspects() == [b"ab"]


def test_an_engine_that_dies_of_what_it_is_fed_gets_our_seeds_only(tmp_path: Path) -> None:
    """After some starts; what it found itself stays in its corpus."""
    engine = engine_of(tmp_path, f"ls corpus | wc -l >> counts; touch corpus/found; cp last crashes/{LAST}; exit 1")
    (tmp_path / "last").write_bytes(b"\0\0\0\2ab")
    seeds = own_seeds()
    assert engine.feed([*seeds, b"deadly"]) == len(seeds) + 1
    starts = engine.run(600.0, most_starts=external_engines.MAX_SEED_FAILURES + 2)
    counts = [int(line) for line in (tmp_path / "counts").read_text().split()]
    assert counts[: external_engines.MAX_SEED_FAILURES] == [
        len(seeds) + 1,
        *[len(seeds) + 2] * (external_engines.MAX_SEED_FAILURES - 1),
    ]
    assert counts[external_engines.MAX_SEED_FAILURES :] == [len(seeds) + 1] * 2
    assert len(counts) == starts


@pytest.mark.slow
@pytest.mark.parametrize(("output", "code"), [("Done 9 runs in 1 second(s)", 1), ("it waited", 3)])
def test_what_an_engine_gives_is_the_testees(
    output: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finds are those of a testee that reads, as of `differential`; where nothing was executed, that is said."""
    name = "planted:ignores-crc"
    bad = bytearray(next(data for data in own_seeds() if first_place(data) == "v2 none"))
    bad[CRC_OFFSET_V2] ^= 1
    (tmp_path / "work").mkdir()
    engine = engine_of(tmp_path / "work", f"echo '{output}'; sleep 3")
    (engine.crash_folder / "leak-1.bin").write_bytes(bad)
    monkeypatch.setattr(external_engines, "build_engine", lambda *_: engine)
    monkeypatch.setitem(ENGINES, "go", (name,))
    done = CliRunner().invoke(kafkaproof, ["fuzz", "engine", "go", "--seconds", "2", "--dir", str(tmp_path)])
    assert done.exit_code == code, done.output
    assert ("executed nothing: it waited" in done.output) is (code == 3)
    assert {(find.outcome.target, find.mode) for find in read_findings(tmp_path)} == {(name, "differential")}


def test_findings_of_a_testee_without_a_mode() -> None:
    """Older corpora of external engines have no mode: a name that is no in-process target is a testee that decodes."""
    assert replay_target("sarama", "") in replay_targets("differential:sarama")
    assert replay_target("kafka-python", "") not in replay_targets("differential:kafka-python")
    assert replay_target("sarama", "encode") in replay_targets("encode:sarama")
    assert replay_target("broker:4.4.0", "") in replay_targets("broker:4.4.0")


@pytest.mark.parametrize("name", ["engine", "side"])
def test_the_command_refuses_other_languages(name: str) -> None:
    """A testee of another language is refused in one line, with exit code 3; the former name works with a warning."""
    done = CliRunner().invoke(kafkaproof, ["fuzz", name, "go", "--testee", "kafkajs", "--dir", "unused"])
    assert done.exit_code == 3
    assert ("warning: fuzz side is now fuzz engine" in done.output) == (name == "side")
    assert "no external engine for kafkajs" in done.output
