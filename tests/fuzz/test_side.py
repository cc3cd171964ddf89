"""Side targets: other engines' corpora in and out, mended as their harnesses mend them."""

import shutil
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from kafka_conformance.cli import kafkaproof
from kafka_conformance.connect import CannotRun
from kafka_fuzz.campaign.store import FOLDER, Corpus
from kafka_fuzz.mutate import own_seeds
from kafka_fuzz.side import TESTEES, go_entry, make, mend_log, quoted, run_side
from kafka_records import RecordFormatError, decode


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
    kept = Corpus(tmp_path, f"side:{testee}")
    assert len(kept.entries) == report.kept
    assert all(mend_log(data := path.read_bytes()) == data for path in (tmp_path / FOLDER).glob("*/*.bin"))


def test_the_command_says_why_not() -> None:
    """A testee of another language is refused in one line, with exit code 3."""
    done = CliRunner().invoke(kafkaproof, ["fuzz", "side", "go", "--testee", "kafkajs", "--dir", "unused"])
    assert done.exit_code == 3
    assert "no side target kafkajs" in done.output
