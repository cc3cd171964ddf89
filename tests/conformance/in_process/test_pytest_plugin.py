"""The plugin, in sessions of pytest's own."""

import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

# Where the distribution is installed, pytest finds the plugin by itself.
INSTALLED = any(entry.value == "kafka_conformance.pytest_plugin" for entry in entry_points(group="pytest11"))
PLUGIN = () if INSTALLED else ("-p", "kafka_conformance.pytest_plugin")

IN_PROCESS = """
import pytest
from kafka_conformance.testees import kafka_python

@pytest.mark.kafkaproof(only="v2_batch", compressions=["none"])
def test_decode(kafkaproof_case):
    kafkaproof_case.check_decode(kafka_python.decode)
"""
PROCESS = f"process:{sys.executable} -m kafka_conformance.testees.serve kafka_conformance.testees.kafka_python"
KNOWN = """
[[deviation]]
case = "v2_batch.*"
severity = "{severity}"
reason = "looked at"
"""


@pytest.fixture
def session(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """An empty project whose pytest has the packages that this one has."""
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    pytester.makefile(".ini", pytest="[pytest]\nfilterwarnings = ignore\n")
    return pytester


def run(session: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """pytest in a process of its own."""
    return session.runpytest_subprocess(*PLUGIN, "-p", "no:cacheprovider", *arguments)


@pytest.mark.slow
def test_codec_of_the_process(session: pytest.Pytester) -> None:
    """A test with the fixture runs once a case, under the case's id, and a failure says case, rule and bytes."""
    session.makepyfile(IN_PROCESS)
    done = run(session, "-v")
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] >= 11
    assert outcomes["passed"] > 60
    done.stdout.fnmatch_lines(
        [
            "*::test_decode[[]v2_batch.last_offset_wraps[]] FAILED*",
            "wrong_data: *last_offset: expected -9223372036854775808, got 9223372036854775808",
            "  case   v2_batch.last_offset_wraps",
            "  rule   HDR-09: *",
            "  bytes  kafkaproof explain --case 'v2_batch.last_offset_wraps'",
        ]
    )


@pytest.mark.slow
def test_testee_in_a_process(session: pytest.Pytester) -> None:
    """`--kafkaproof` runs the cases against any testee, without a test file."""
    done = run(session, "--kafkaproof", PROCESS, "--kafkaproof-only", "timestamp", "--kafkaproof-only", "HDR-09")
    outcomes = done.parseoutcomes()
    assert outcomes["failed"] >= 9
    assert outcomes["passed"] > 50
    assert outcomes["skipped"] >= 1
    done.stdout.fnmatch_lines(["FAILED kafkaproof::timestamp.timestamp_wraps*", "FAILED kafkaproof::v2_batch.*"])


@pytest.mark.slow
def test_configuration_file(session: pytest.Pytester) -> None:
    """Testee, cases and deviations may stand in the configuration; known deviations are expected failures."""
    session.makefile(
        ".toml", known="".join(KNOWN.format(severity=each) for each in ("wrong_data", "accepts_invalid", "wrong_error"))
    )
    lines = (f"kafkaproof = {PROCESS}", "kafkaproof_only = v2_batch", "kafkaproof_deviations = known.toml")
    Path("pytest.ini").write_text("[pytest]\n" + "\n".join(lines))
    done = run(session)
    outcomes = done.parseoutcomes()
    assert outcomes["xfailed"] >= 22
    assert outcomes["passed"] > 80
    assert "failed" not in outcomes
    assert done.ret == 0


@pytest.mark.slow
def test_stale_deviations_fail_the_session(session: pytest.Pytester) -> None:
    """A known deviation that no longer happens is named, and the session fails though every test passes."""
    session.makefile(".toml", known=KNOWN.format(severity="hang"))
    arguments = ("--kafkaproof", "reference", "--kafkaproof-deviations", "known.toml", "--kafkaproof-only", "v2_batch")
    done = run(session, *arguments)
    assert "failed" not in done.parseoutcomes()
    assert done.ret == 1
    done.stdout.fnmatch_lines(["stale deviation  v2_batch.[*]: hang no longer happens (*known.toml)"])
    # With -k the cases that deviate may be left out.
    assert run(session, *arguments, "-k", "last_offset").ret == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--kafkaproof", "no-such-codec"), "no testee 'no-such-codec'"),
        (("--kafkaproof", "process:./not-there"), "there is no program"),
        (("--kafkaproof", "reference", "--kafkaproof-deviations", "no.toml"), "no.toml: No such file"),
    ],
    ids=["name", "program", "deviations"],
)
def test_bad_settings_are_one_error(session: pytest.Pytester, arguments: tuple[str, ...], said: str) -> None:
    """An unusable option is reported in one line, without a traceback."""
    done = run(session, *arguments, "--kafkaproof-only", "v2_crc")
    assert done.ret == pytest.ExitCode.USAGE_ERROR
    text = done.stdout.str() + done.stderr.str()
    assert said in text
    assert "Traceback" not in text


@pytest.mark.slow
def test_encode_cases_need_the_marker(session: pytest.Pytester) -> None:
    """An encoder is put to encode cases; to a decode case there is one clear failure."""
    session.makepyfile("""
import pytest
from kafka_records import encode

@pytest.mark.kafkaproof(op="encode", only="v2_encode")
def test_right(kafkaproof_case):
    kafkaproof_case.check_encode(encode)

@pytest.mark.kafkaproof(only="v2_batch.last_offset_wraps")
def test_wrong(kafkaproof_case):
    kafkaproof_case.check_encode(encode)
""")
    done = run(session)
    assert done.parseoutcomes()["failed"] == 1
    assert done.parseoutcomes()["passed"] > 50
    done.stdout.fnmatch_lines(["*this is a case to decode: mark the test with kafkaproof(op='encode')*"])


@pytest.mark.slow
def test_others_pay_nothing(session: pytest.Pytester) -> None:
    """A session that uses none of it does not import the corpus."""
    session.makepyfile("""
import sys

def test_it():
    assert not [name for name in sys.modules if name.startswith(("kafka_corpus", "kafka_records", "msgspec"))]
""")
    run(session).assert_outcomes(passed=1)
