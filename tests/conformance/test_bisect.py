"""`certify --bisect`: order of releases, the search over planted outcomes, and what it reports."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_conformance.judge.verdict import Outcome
from kafka_conformance.runner.bisect import (
    FEW,
    PLAIN_CASE,
    SAMPLE,
    ReleaseOutcome,
    append_outcome,
    between,
    bisect,
    bisection,
    bisection_document,
    bisection_lines,
    read_outcomes,
    release_key,
    release_outcome,
)
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results
from kafkaproof.cli import kafkaproof

OUTCOMES = {"g": "agree", "b": "wrong_data", "u": ""}


@pytest.mark.parametrize(
    "ordered",
    [
        ["1.0.dev1", "1.0a1", "1.0b2", "1.0rc1", "1.0", "1.0.post1", "1.0.1", "1.4.7", "1.10", "2.0.2"],  # PEP 440
        ["1.16.0-beta.7", "1.16.0-beta.10", "1.16.0", "1.16.1-alpha", "2.0.0"],
        ["v0.0.0-20191109021931-daa7c04131f5", "v0.0.0-20200101000000-000000000000", "v0.0.1", "v1.2.3"],
        ["v1.2.4-0.20191109021931-daa7c04131f5", "v1.2.4", "v1.2.5+incompatible"],
        ["0.8.2.2", "0.9.0.1", "0.11.0.3", "1.1.1"],
    ],
)
def test_order_of_releases(ordered: list[str]) -> None:
    """Pre-releases come before their release, post-releases after it, and numbers count as numbers."""
    assert sorted(map(release_key, ordered)) == [release_key(version) for version in ordered]
    assert release_key("1.0") == release_key("v1.0.0")


def test_what_is_no_version_has_no_order() -> None:
    """A name in place of a version is an error that shows it."""
    with pytest.raises(ValueError, match="'newest' is no version"):
        release_key("newest")


def searched(states: Sequence[str]) -> tuple[list[ReleaseOutcome], list[str]]:
    """The outcomes that a search over releases with such *states* comes to, and the releases."""
    releases = [f"1.{at}" for at in range(len(states))]
    planted = {
        release: ReleaseOutcome(release=release, outcome=OUTCOMES[state])
        for release, state in zip(releases, states, strict=True)
    }
    return list(bisect(releases, planted.__getitem__)), releases


@given(st.lists(st.sampled_from("gbu"), max_size=FEW))
def test_few_releases_are_all_run(states: list[str]) -> None:
    """Whatever the order of outcomes, the first and the last bad one of few releases are found."""
    found, releases = searched(states)
    made = bisection("t", "a.b", releases, found)
    bad = [release for release, state in zip(releases, states, strict=True) if state == "b"]

    assert [each.release for each in made.outcomes] == releases
    assert (made.first_bad, made.last_bad) == ((bad[0], bad[-1]) if bad else (None, None))
    if made.fixed_in is not None:
        assert states[releases.index(made.fixed_in)] == "g"


@settings(max_examples=60)
@given(st.data(), st.integers(FEW + 1, 90))
def test_one_span_of_many_releases_is_found(data: st.DataObject, count: int) -> None:
    """Both ends of a span as long as the distances of the sample are found, though some releases cannot be built."""
    length = data.draw(st.integers(-(-count // (SAMPLE - 1)), count))
    start = data.draw(st.integers(0, count - length))
    states = ["b" if start <= at < start + length else "g" for at in range(count)]
    found, releases = searched(states)
    made = bisection("t", "a.b", releases, found)

    assert (made.first_bad, made.last_bad) == (releases[start], releases[start + length - 1])
    assert made.fixed_in == (releases[start + length] if start + length < count else None)
    assert len(found) <= SAMPLE + 2 * 6 + 4


@settings(max_examples=60)
@given(st.lists(st.sampled_from("gggbbbu"), min_size=FEW + 1, max_size=60))
def test_reported_changes_are_changes(states: list[str]) -> None:
    """Of any sequence, no release is run twice, and beside the reported ends no release is left that was not run."""
    found, releases = searched(states)
    made = bisection("t", "a.b", releases, found)
    run = {each.release for each in found}

    assert len(run) == len(found)
    assert {each.release for each in found if each.state == "bad"} <= {
        release for release, state in zip(releases, states, strict=True) if state == "b"
    }
    if made.first_bad is not None:
        at = releases.index(made.first_bad)
        assert at == 0 or releases[at - 1] in run
    assert set(made.uncertain) <= {release for release, state in zip(releases, states, strict=True) if state == "u"}


def test_an_unknown_release_is_not_good() -> None:
    """A release that cannot be built is listed, and is neither the fix nor the last good one."""
    found, releases = searched("guubug")
    made = bisection("t", "a.b", releases, found)
    document = bisection_document(made)

    assert (document["first_bad"], document["last_bad"], document["fixed_in"]) == ("1.3", "1.3", "1.5")
    assert document["unknown"] == document["uncertain"] == ["1.1", "1.2", "1.4"]
    assert list(bisection_lines(made))[-1] == "not known  1.1, 1.2, 1.4: a change may be in one of them"


def test_unknown_releases_after_the_last_bad_one() -> None:
    """After the last known release, which is bad, a change may be in those that could not be run."""
    found, releases = searched("gbuu")
    made = bisection("t", "a.b", releases, found)

    assert (made.last_bad, made.fixed_in, made.uncertain) == ("1.1", None, ("1.2", "1.3"))


def test_right_between_bad_releases() -> None:
    """A defect that came back is reported as such, and fixed only after its last release."""
    found, releases = searched("gbgbg")
    made = bisection("t", "a.b", releases, found)

    assert made.fixed_between
    assert (made.first_bad, made.last_bad, made.fixed_in) == ("1.1", "1.3", "1.4")


def test_a_defect_that_is_still_there() -> None:
    """Without a good release after the bad ones nothing is said to be fixed."""
    found, releases = searched("ggb")
    made = bisection("t", "a.b", releases, found)

    assert "fixed in   no release of them" in list(bisection_lines(made))


def run_of(outcomes: dict[str, Outcome], version: str = "1.2") -> Results:
    """A run of such cases by a testee of *version*."""
    lines = tuple(
        ResultLine(case=case, outcome=outcome, area="a", op="decode", expected="valid", rules=("X",))
        for case, outcome in outcomes.items()
    )
    header = ResultHeader(testee={"version": version}, corpus="c", cases=len(lines), only=[], settings={})
    return Results(header, lines, None)


@pytest.mark.parametrize(
    ("run", "state", "why"),
    [
        (run_of({"a.b": "hang", PLAIN_CASE: "agree"}), "bad", ""),
        (run_of({"a.b": "hang", PLAIN_CASE: "lossy"}), "bad", ""),
        (run_of({"a.b": "agree", PLAIN_CASE: "hang"}), "good", ""),
        (run_of({"a.b": "hang", PLAIN_CASE: "hang"}), "unknown", "it does not read a plain batch either: hang"),
        (run_of({"a.b": "skipped"}), "unknown", ""),
        (run_of({PLAIN_CASE: "agree"}), "unknown", "it does not have what the case needs"),
        (run_of({"a.b": "agree"}, "9.9"), "unknown", "the testee says that it is 9.9"),
        (run_of({"a.b": "agree"}, "11.2"), "unknown", "the testee says that it is 11.2"),
        (run_of({"a.b": "agree"}, "1.2.3"), "unknown", "the testee says that it is 1.2.3"),
        (run_of({"a.b": "agree"}, "2.16.1 (librdkafka 1.2)"), "unknown", "the testee says that it is 2.16.1 ("),
        (run_of({"a.b": "agree"}, "codec v1.2.0 (librdkafka 2.16.0)"), "good", ""),
    ],
)
def test_what_an_outcome_counts_as(run: Results, state: str, why: str) -> None:
    """A release that reads nothing, or is another one than requested, is neither good nor bad."""
    made = release_outcome("1.2", "a.b", run)

    assert (made.state, made.corpus) == (state, "c")
    assert made.why.startswith(why) if why else not made.why


def test_outcomes_are_resumed(tmp_path: Path) -> None:
    """Outcomes of the same corpus are read again; of a build that failed and of half a line nothing is kept."""
    path = tmp_path / "t" / "outcomes.ndjson"
    kept = ReleaseOutcome(release="1.0", outcome="agree", corpus="c")
    for each in (
        kept,
        ReleaseOutcome(release="1.1", why="no compiler", corpus="c"),
        ReleaseOutcome(release="1.2", outcome="crash", corpus="other"),
    ):
        append_outcome(path, each)
    with path.open("ab") as file:
        file.write(b'{"release":"1.3","outc')

    assert read_outcomes(path, "c") == {"1.0": kept}
    # The first outcome of the resumed run has a line of its own.
    append_outcome(path, ReleaseOutcome(release="1.3", outcome="crash", corpus="c"))
    assert list(read_outcomes(path, "c")) == ["1.0", "1.3"]
    assert read_outcomes(tmp_path / "none", "c") == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("kafka-python", "--from", "1.4.4"), "--from and --to go with --bisect"),
        (("kafka-python", "--bisect", "v2_crc", "--only", "v2_crc"), "neither --only nor --history goes with it"),
        (("kafka-python", "--bisect", "v2_crc"), "--bisect takes one case"),
        (("reference", "--bisect", PLAIN_CASE), "--bisect takes the name of one known testee that has releases"),
        (("kafka-python@2.0.2", "--bisect", PLAIN_CASE), "--bisect takes the name of one known testee"),
        (("kafka-python-client+fetch4", "--bisect", PLAIN_CASE), "--bisect takes the name of one known testee"),
        (("kafka-python-client+fetch4", "--history", "2"), "--history takes the name of one known testee"),
        (("kafka-python-client", "--history", "2", "--fetch-versions", "4,12"), "--history compares releases"),
        (("kafka-python-client", "--bisect", "x", "--fetch-versions", "4"), "--bisect compares releases"),
        (("kafka-python", "--history", "2", "--write-deviations", "x.toml"), "--write-deviations is for one run"),
        (("kafka-python", "--bisect", "nosuch"), "--bisect: no case matches 'nosuch'"),
        (("kafka-python", "--bisect", ""), "--bisect: no case matches ''"),
        (("kafka-python", "--bisect", PLAIN_CASE, "--from", "2", "--to", "1"), "--from, --to: 2 comes after 1"),
        (("kafka-python", "--bisect", PLAIN_CASE, "--to", ""), "--from, --to: '' is no version"),
    ],
)
def test_what_cannot_be_bisected(arguments: Sequence[str], message: str) -> None:
    """A search takes one codec with releases, one case, and a range; a history takes one codec with releases."""
    done = CliRunner().invoke(kafkaproof, ["certify", *arguments])

    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


# Each release is a testee that says nothing.
STOPPED = """
import sys
from kafka_conformance.testees import known
from kafkaproof.cli import main
from kafkaproof.commands import certify

certify.releases = lambda _: ["2.0.3", "2.0.4"]
certify.connect = lambda name, memory: known.connect("process:sleep 60")
sys.argv = ["kafkaproof", "certify", "kafka-python", "--bisect", sys.argv[1], "--report", sys.argv[2]]
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_bisection_that_is_stopped_leaves_no_folder(sent: signal.Signals, tmp_path: Path) -> None:
    """SIGTERM is exit code 130 as Ctrl-C is, and the folder of the release that ran is removed."""
    (tmp_path / "temporary").mkdir()
    child = subprocess.Popen(
        [sys.executable, "-c", STOPPED, PLAIN_CASE, str(tmp_path / "out")],
        env=os.environ | {"TMPDIR": str(tmp_path / "temporary")}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list((tmp_path / "temporary").glob("kafkaproof-bisect-*")):
        assert child.poll() is None, child.communicate()
        time.sleep(0.01)
    child.send_signal(sent)
    _, stderr = child.communicate(timeout=20)

    assert child.returncode == 130
    assert "stopped; the same command goes on" in stderr
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.testees
def test_a_defect_of_an_old_release_is_found(tmp_path: Path) -> None:
    """kafka-python took xerial blocks of Redpanda for a raw block up to 2.0.3; both releases answer as themselves."""
    case = "history.xerial_header_of_redpanda"
    arguments = ["certify", "kafka-python", "--bisect", case, "--from", "2.0.3", "--to", "2.0.4", "--json"]
    done = CliRunner().invoke(kafkaproof, [*arguments, "--report", str(tmp_path)])
    document = json.loads(done.stdout)

    assert [(each["version"], each["state"]) for each in document["run"]] == [("2.0.3", "bad"), ("2.0.4", "good")]
    assert (document["first_bad"], document["last_bad"], document["fixed_in"]) == ("2.0.3", "2.0.3", "2.0.4")
    # The second time nothing is built or run.
    again = CliRunner().invoke(kafkaproof, [*arguments, "--report", str(tmp_path)])
    assert again.stdout == done.stdout
    assert len(next(iter(tmp_path.rglob("*.ndjson"))).read_bytes().splitlines()) == 2


def test_releases_between_two() -> None:
    """Both ends belong to the range, also where the registry does not list them; its spelling of a release counts."""
    listed = ["1.10", "1.2", "2.0", "1.4"]

    assert between(["1.40.2", "1.41.0", "1.41.3"], "1.41", "1.41.3") == ["1.41.0", "1.41.3"]
    assert between(listed, "1.3", "1.10") == ["1.3", "1.4", "1.10"]
    assert between(listed, None, None) == ["1.2", "1.4", "1.10", "2.0"]
