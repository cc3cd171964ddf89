"""`fuzz bench` measures what it says, in processes of its own."""

import json

import pytest
from click.testing import CliRunner

from kafka_fuzz.bench.tables import COLUMNS, CannotMeasure, outcomes
from kafka_fuzz.commands import fuzz


@pytest.mark.slow
def test_bench() -> None:
    """Every profile runs, and the one that knows the format finds more in kafka-python than the one that does not."""
    done = CliRunner().invoke(fuzz, ["bench", "--repeats", "1", "--seconds", "1", "--target", "kafka-python", "--json"])
    repeats = {each["profile"]: each for each in json.loads(done.stdout)["repeats"]}
    assert done.exit_code == 0
    assert set(repeats) == set(COLUMNS)
    assert all(each["executions"] > 0 and each["lines"] > 0 for each in repeats.values())
    assert len(repeats["model"]["firsts"]) > len(repeats["bytes"]["firsts"])


def test_a_target_that_is_not_there() -> None:
    """A repeat that ends without a result is an error, never a zero in a table."""
    with pytest.raises(CannotMeasure, match="no-such-target"):
        list(outcomes(1, 0.5, ["no-such-target"]))
