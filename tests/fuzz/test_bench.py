"""`fuzz bench` measures what it says, in processes of its own."""

import json
import re
import time
from random import Random

import pytest
from benchmarks.fuzz import (
    COLUMNS,
    CannotMeasure,
    broker_rate,
    crash_summary,
    first_crashes,
    measure_outcomes,
    measure_planted,
    planted_line,
)
from benchmarks.fuzz_outcomes import Ends, bucket_of, drawn, plain_seeds, profile_seeds
from click.testing import CliRunner
from msgspec.structs import replace

from kafka_conformance.judge.compare import Difference
from kafka_fuzz.campaign.plan import OnProgress, Progress, RoundPlan, RoundReport, round_report
from kafka_fuzz.mutate import for_cell, mutate, own_seeds
from kafka_fuzz.mutate.entries import CODECS
from kafka_fuzz.mutate.model import all_cells
from kafka_fuzz.targets import make_target
from kafka_fuzz.targets.outcome import GOOD, Outcome, value_relation
from kafka_records import decode
from kafkaproof.commands.fuzz import fuzz


@pytest.mark.slow
def test_bench() -> None:
    """Every profile runs, and the one that knows the format finds more in kafka-python than the one that does not."""
    done = CliRunner().invoke(fuzz, ["bench", "--repeats", "1", "--seconds", "1", "--target", "kafka-python", "--json"])
    repeats = {each["profile"]: each for each in json.loads(done.stdout)["repeats"]}
    assert done.exit_code == 0
    assert set(repeats) == set(COLUMNS)
    assert all(each["executions"] > 0 and each["lines"] > 0 for each in repeats.values())
    for counted in ("firsts", "findings"):
        assert len(repeats["model"][counted]) > len(repeats["plain"][counted])
    for each in repeats.values():
        # Both keys have target, class and detail; then comes the function, or the fault and the rule.
        assert {find.rpartition("|")[0] for find in each["findings"]} == {
            one.rpartition("|")[0] for one in each["firsts"]
        }


@pytest.mark.slow
def test_buckets_of_inputs_without_a_known_fault() -> None:
    """Faults that break one rule share a bucket, and rules have different buckets, independent of the mutator."""
    rng, taken = Random(1), Outcome("t", "accepts_invalid", "error", fault="a", why="expected malformed, got 1 batch")
    mutants = {cell.fault: for_cell(rng, cell) for cell in all_cells() if cell.magic == 2}
    by_fault = {fault: bucket_of(mutant, replace(taken, fault=fault)) for fault, mutant in mutants.items()}
    blind = {fault: bucket_of(mutant._replace(expected=None, labels=()), taken) for fault, mutant in mutants.items()}
    assert by_fault == blind
    assert by_fault["crc_wrong"] == "t|accepts_invalid|error|CRC-07"
    assert by_fault["crc_wrong"] != by_fault["magic_unknown"]
    assert len({*by_fault.values()}) < len(by_fault)


def test_buckets_of_wrong_data_have_the_difference() -> None:
    """A rounded timestamp and one out of nowhere have different causes; an exception has its function."""
    mutant, path = for_cell(Random(1), next(iter(all_cells()))), "batches.records.timestamp"
    rounded, other = (
        bucket_of(
            mutant,
            Outcome("t", "wrong_data", path, relation=value_relation(Difference(path, 1700395339065, given))),
        )
        for given in (1700395339000, 7)
    )
    assert (rounded, other) == (f"t|wrong_data|{path}|rounded", f"t|wrong_data|{path}|other")
    assert bucket_of(mutant, Outcome("t", "hang", function="t.loop")) == "t|hang||t.loop"


@pytest.mark.slow
def test_a_target_that_is_not_there() -> None:
    """A repeat that ends without a result is an error, never a zero in a table."""
    with pytest.raises(CannotMeasure, match="no-such-target"):
        list(measure_outcomes(1, 0.5, ["no-such-target"]))


def test_planted_bugs() -> None:
    """A planted bug is found, and how long plain mutation took is said beside it, or that it did not."""
    (found,) = measure_planted(1, 400, ["batch_crc_skipped"])
    assert found.found == 1
    assert 0 < found.executions <= 400
    assert found.seconds > 0
    assert found.plain_seconds > 0
    assert found.plain_found == int(found.plain_executions <= 400)
    assert planted_line(found).startswith("batch_crc_skipped")


def test_a_documented_error_is_no_unexpected_end() -> None:
    """A checksum that is wrong is refused with the exception that kafka-python has for it."""
    ends = Ends.of(make_target("kafka-python"))
    mutant = for_cell(Random(1), next(cell for cell in all_cells() if cell.fault == "crc_wrong"))
    outcome = ends.watched.run(mutant)
    ends.saw(outcome, 0.5)
    assert outcome.kind in GOOD
    assert not ends.firsts


def test_unexpected_ends_have_type_and_line() -> None:
    """Leaked exceptions count by type and line of the codec."""
    ends, rng = Ends.of(make_target("kafka-python")), Random(1)
    for _ in range(300):
        ends.saw(ends.watched.run(mutate(rng, own_seeds(), "fixup")), 1.5)
    assert ends.firsts
    assert all(re.fullmatch(r"\w+ at kafka\.[\w.]+:\d+|(hang|memory) in kafka\.[\w.]+", end) for end in ends.firsts)


def test_who_has_no_ends_to_count() -> None:
    """A promise of the reference is no codec, and cannot be compared with other people's fuzzing."""
    with pytest.raises(TypeError, match="roundtrip"):
        Ends.of(make_target("roundtrip"))


def test_plain_mutation_has_what_a_first_target_has() -> None:
    """Plain mutation has 15 valid logs, with control and transactional batches, no dictionary, and no known fault."""
    assert len({*plain_seeds()}) == len(plain_seeds()) == 15
    batches = [batch for seed in plain_seeds() for batch in decode(seed)]
    assert {(batch.magic, batch.compression) for batch in batches} == {
        (magic, codec) for magic, codecs in CODECS.items() for codec in codecs
    }
    assert any(batch.control for batch in batches)
    assert any(batch.transactional for batch in batches)
    rng = Random(2)
    made = [drawn(rng, profile_seeds("plain"), "plain") for _ in range(500)]
    assert {mutant.profile for mutant in made} == {"bytes"}
    assert not any("put_word" in mutant.labels for mutant in made)


@pytest.mark.slow
def test_the_rate_of_a_pipe() -> None:
    """Inputs through a testee's pipe, as one JSON document; a testee that there is not is no zero."""
    done = CliRunner().invoke(
        fuzz,
        ["bench", "pipe", "--repeats", "1", "--seconds", "0.5", "--target", "planted:ignores-crc", "--json"],
    )
    assert done.exit_code == 0
    (rate,) = json.loads(done.stdout)["rates"]
    assert rate["inputs"] > 0
    assert rate["seconds"] > 0
    assert CliRunner().invoke(fuzz, ["bench", "pipe", "--target", "no-such"]).exit_code == 3


def test_the_rate_of_a_round() -> None:
    """The rate covers the time between the first and the last report, without the start; an idle round has no rate."""

    def run(plan: RoundPlan, on_progress: OnProgress) -> RoundReport:
        for number in (0, 100, 400):
            time.sleep(0.01)
            on_progress(Progress(executions=number, cpu_seconds=number / 100))
        return round_report(plan, Progress(), version="4.4.0")

    rate = broker_rate("broker:", 1.0, 1, run)
    assert (rate.who, rate.inputs, rate.cpu_seconds) == ("Kafka 4.4.0", 300, 3.0)
    assert rate.seconds < 0.3
    with pytest.raises(ValueError, match="did not run long enough"):
        broker_rate("broker:", 1.0, 1, lambda plan, _: round_report(plan, Progress()))
    with pytest.raises(ValueError, match="no disk"):
        broker_rate("broker:", 1.0, 1, lambda plan, _: round_report(plan, Progress(), failure="no disk"))


@pytest.mark.slow
def test_the_first_crash_is_timed() -> None:
    """Compiled aiokafka crashes, and the time until the crash is measured."""
    found = list(first_crashes(3))
    assert any(found)
    assert "median" in crash_summary(found)
