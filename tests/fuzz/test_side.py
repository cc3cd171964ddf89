"""Side targets: other engines' corpora in and out, mended as their harnesses mend them."""

import shutil
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from kafka_conformance.cli import kafkaproof
from kafka_conformance.connect import CannotRun
from kafka_fuzz import side
from kafka_fuzz.campaign.canary import singer, singers_of
from kafka_fuzz.campaign.store import FOLDER, Corpus
from kafka_fuzz.finds import read_all
from kafka_fuzz.mutate import own_seeds
from kafka_fuzz.prepared import first_place
from kafka_fuzz.side import LAST, TESTEES, Engine, go_entry, make, mend_log, quoted, run_side
from kafka_records import RecordFormatError, decode
from kafka_records.layout import CRC_OFFSET_V2


def test_corpus_files_of_go() -> None:
    """Any bytes survive being written as Go writes them, and what Go itself writes is read."""
    rng = Random(1)
    for length in (0, 1, 40, 300):
        data = rng.randbytes(length)
        assert quoted(go_entry(data).splitlines()[1]) == data
    assert quoted(rb'[]byte("\xff\x00 \"\\ \n\t)")') == b'\xff\x00 "\\ \n\t)'


def test_mended_logs() -> None:
    """A log that is right stays as it is; one that is not gets sizes and checksums, and is right from then on."""
    rng, log = Random(2), b"".join(own_seeds()[:5])
    assert mend_log(log) == log
    batches = [seed for seed in own_seeds() if seed[16] == 2]
    for _ in range(200):
        broken = bytearray(rng.choice(batches))
        broken[rng.randrange(21, len(broken))] ^= 0xFF
        broken[8:12] = rng.randbytes(4)
        mended = mend_log(bytes(broken))
        assert mend_log(mended) == mended
        assert kind(mended) != "corrupt"


def kind(log: bytes) -> str:
    """The kind of error that *log* has; none if it is read."""
    try:
        decode(log)
    except RecordFormatError as error:
        return error.kind
    return ""


def test_every_side_target_has_a_harness(tmp_path: Path) -> None:
    """Each engine has its source in the checkout, and refuses a testee that is not of its language."""
    harnesses = Path(__file__).parents[2] / "fuzz" / "side"
    assert (harnesses / "go" / "fuzz_test.go").is_file()
    assert (harnesses / "jazzer" / "Side.java").is_file()
    for engine in TESTEES:
        with pytest.raises(CannotRun, match="no side target kafkajs"):
            make(engine, "kafkajs", tmp_path)


@pytest.mark.slow
@pytest.mark.testees
@pytest.mark.parametrize(
    ("engine", "testee", "program"), [("go", "sarama", "go"), ("jazzer", "java-kafka-clients", "mvn")]
)
def test_both_ways(engine: str, testee: str, program: str, tmp_path: Path) -> None:
    """Inputs of a campaign go into the engine, what it keeps comes out mended and is kept for everybody."""
    if shutil.which(program) is None:
        pytest.skip(f"there is no {program}")
    report = run_side(engine, testee, 15.0, tmp_path)
    assert report.fed > 100
    assert report.starts >= 1
    assert report.executions > 0
    assert not report.failure
    kept = Corpus(tmp_path, f"side:{testee}")
    assert len(kept.entries) == report.kept
    assert all(mend_log(data := path.read_bytes()) == data for path in (tmp_path / FOLDER).glob("*/*.bin"))


def engine_of(folder: Path, script: str) -> Engine:
    """An engine that is a shell script."""
    for name in ("corpus", "said"):
        (folder / name).mkdir()
    return Engine(folder / "corpus", folder / "said", ["sh", "-c", script], folder, is_go=False)


def test_an_engine_that_executes_nothing(tmp_path: Path) -> None:
    """One that ends with an error before its first input is not started again and again until the time is over."""
    engine = engine_of(tmp_path, f"head -c 4 /dev/zero > said/{LAST}; echo no such flag; exit 2")
    with pytest.raises(CannotRun, match="ended with 2, and executed nothing: no such flag"):
        engine.run(60.0)
    assert engine.suspects() == []


def test_executions_are_those_of_all_starts(tmp_path: Path) -> None:
    """An engine that ends over an input is started again, and what it ran before counts."""
    (tmp_path / "last").write_bytes(b"\0\0\0\2ab")
    engine = engine_of(tmp_path, f"cp last said/{LAST}; echo '#2 INITED'; echo 'Done 40 runs in 1 second(s)'; exit 1")
    starts = engine.run(1.1)
    assert starts >= 2
    assert engine.executions == starts * 40
    assert engine.suspects() == [b"ab"]


@pytest.mark.slow
@pytest.mark.parametrize(("said", "code"), [("Done 9 runs in 1 second(s)", 1), ("it waited", 3)])
def test_what_an_engine_gives_is_the_testees(
    said: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Finds are those of a testee that reads, as of `differential`; where nothing was executed, that is said."""
    name = "miniature:ignores-crc"
    bad = bytearray(next(data for data in own_seeds() if first_place(data) == "v2 none"))
    bad[CRC_OFFSET_V2] ^= 1
    (tmp_path / "work").mkdir()
    engine = engine_of(tmp_path / "work", f"echo '{said}'; sleep 3")
    (engine.said / "leak-1.bin").write_bytes(bad)
    monkeypatch.setattr(side, "make", lambda *_: engine)
    monkeypatch.setitem(TESTEES, "go", (name,))
    done = CliRunner().invoke(kafkaproof, ["fuzz", "side", "go", "--seconds", "2", "--dir", str(tmp_path)])
    assert done.exit_code == code, done.output
    assert ("executed nothing: it waited" in done.output) is (code == 3)
    assert {(find.outcome.target, find.asked) for find in read_all(tmp_path)} == {(name, "differential")}


def test_finds_of_a_testee_without_a_word_of_how_it_was_asked() -> None:
    """Earlier side targets left that out: what is no target in process was a testee, that reads."""
    assert singer("sarama", "") in singers_of("differential:sarama")
    assert singer("kafka-python", "") not in singers_of("differential:kafka-python")
    assert singer("sarama", "encode") in singers_of("encode:sarama")
    assert singer("broker:4.4.0", "") in singers_of("broker:4.4.0")


def test_the_command_says_why_not() -> None:
    """A testee of another language is refused in one line, with exit code 3."""
    done = CliRunner().invoke(kafkaproof, ["fuzz", "side", "go", "--testee", "kafkajs", "--dir", "unused"])
    assert done.exit_code == 3
    assert "no side target kafkajs" in done.output
