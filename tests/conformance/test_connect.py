"""Connect strings, and what they become."""

import os
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from kafka_conformance.judge.observation import ConsumedRecords, Decoded
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.testees.connection import (
    DEFAULT_MEMORY,
    NODE_MEMORY,
    VIRTUAL_MACHINE_MEMORY,
    BadConnect,
    CannotRun,
)
from kafka_conformance.testees.known import JAVA, KNOWN, KnownTestee, check_connect, connect, known_testees

# A testee that needs an extra is tested where the extra is installed.
EXTRAS = {"columnar": pytest.mark.columnar}


@pytest.mark.slow
@pytest.mark.parametrize("name", [pytest.param(known.name, marks=EXTRAS.get(known.name, ())) for known in KNOWN])
def test_known_testees_say_hello(name: str) -> None:
    """Every known Python testee starts, and calls itself what we call it."""
    sandbox = Sandbox(connect(name))
    hello = sandbox.hello()
    answer = next(sandbox.ask([CaseRequest(b"")])).observation
    sandbox.close()

    assert hello.name == name
    assert hello.many
    assert answer == (ConsumedRecords((), next_offset=0) if hello.consumer else Decoded(()))


def test_direct_is_served_by_this_interpreter() -> None:
    """`direct:` starts our own interpreter on a module."""
    connection = connect("direct:kafka_conformance.testees.reference")

    assert connection.argv[0] == sys.executable
    assert connection.argv[-1] == "kafka_conformance.testees.reference"
    assert connection.name == "direct:kafka_conformance.testees.reference"


def test_process_is_split_as_a_shell_would() -> None:
    """`process:` takes a command line with quotes, and runs it without a shell."""
    assert connect("process:/bin/echo 'two words' $HOME").argv == ("/bin/echo", "two words", "$HOME")


def test_virtual_machines_get_more_address_space(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM reserves what it never uses, so its limit is higher; a limit that is given wins."""
    for name in ("java", "node"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert connect("process:java -jar testee.jar").memory == VIRTUAL_MACHINE_MEMORY
    assert connect("process:node testee.js").memory == NODE_MEMORY
    assert connect("process:/bin/echo").memory == DEFAULT_MEMORY
    assert connect("process:java -jar testee.jar", memory=5).memory == 5


@pytest.mark.parametrize("text", ["missing", "direct:", "process: ", "ftp:somewhere", "", "process:'"])
def test_strings_that_name_nothing(text: str) -> None:
    """Text that is neither a known name nor a connect string is a usage error."""
    with pytest.raises(BadConnect):
        connect(text)


@pytest.mark.parametrize(
    ("text", "near"),
    [("franzgo", "franz-go"), ("Kafka_Python", "kafka-python"), ("sarma@1.0", "sarama"), ("kafkajs2", "kafkajs")],
)
def test_near_names_are_suggested(text: str, near: str) -> None:
    """The message about an unknown name has known names that are spelled alike."""
    with pytest.raises(BadConnect, match=rf"no testee '{text}'; did you mean ([\w-]+ or )*{near}"):
        connect(text)


def test_far_names_are_not_suggested() -> None:
    """A name that is like no known one gets the list of them alone."""
    with pytest.raises(BadConnect, match=r"no testee 'zzz': known are reference, .*sarama"):
        connect("zzz")


def test_checking_a_string_looks_for_nothing() -> None:
    """A string can be right though what it names is not here."""
    for text in ("process:./missing", "container:missing", "direct:missing", "planted:missing", JAVA):
        check_connect(text)


def test_what_is_not_installed_cannot_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A known testee whose packages or programs are missing says which."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(CannotRun, match="mvn, javac, java are not installed or not on the path"):
        connect(JAVA)

    unknown = KnownTestee(name="x", about="", module="", packages=("no_such_package",))
    assert unknown.missing() == ("no_such_package",)
    assert unknown.reason(unknown.missing()) == "no_such_package is not installed"


# The distributions of packages that are not called like them.
DISTRIBUTIONS = {"kafka": "kafka-python", "zlib_ng": "zlib-ng", "confluent_kafka": "confluent-kafka"}


@pytest.mark.parametrize("known", [each for each in known_testees() if each.module], ids=lambda known: known.name)
def test_the_hint_names_the_right_extras(known: KnownTestee) -> None:
    """The extras of a testee contain all packages that it needs."""
    assert known.installation() == f"pip install 'kafkaproof[{known.extras}]'"
    brought = {
        requirement.name
        for requirement in map(Requirement, metadata.requires("kafkaproof") or [])
        for extra in known.extras.split(",")
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra})
    }

    assert len(brought) >= 10
    assert {DISTRIBUTIONS.get(name, name) for name in known.packages} <= brought


def test_a_missing_program_cannot_run() -> None:
    """A program that is not there cannot be run, and a hint says so."""
    with pytest.raises(CannotRun, match=r"no program \./missing") as caught:
        connect("process:./missing --serve")

    assert caught.value.hint


# Stands for the engine: takes the options that we give and runs the image name as a Python module.
ENGINE = """#!{python} -S
import os, sys
if sys.argv[1] == "version":
    sys.exit({version_exit})
if sys.argv[1] == "image":
    sys.exit(sys.argv[-1] == "missing")
with open({log!r}, "a") as log:
    log.write(" ".join(sys.argv[1:]) + "\\n")
if sys.argv[1] == "run":
    os.execv({python!r}, [{python!r}, "-m", "kafka_conformance.testees.serve", sys.argv[-1]])
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with something that answers like a container engine."""
    program = tmp_path / "docker"
    program.write_text(ENGINE.format(python=sys.executable, log=str(tmp_path / "log"), version_exit=0))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return tmp_path


@pytest.mark.slow
def test_container_is_run_without_network_and_ended_by_name(engine: Path) -> None:
    """A container gets our limits and no network; when it hangs, it is ended by the name that we gave."""
    sandbox = Sandbox(connect("container:kafka_fuzz.planted_bugs.testees.mute"), seconds=0.3)
    next(sandbox.ask([CaseRequest(b"")]))
    sandbox.close()
    run, kill = (engine / "log").read_text().splitlines()[:2]

    assert {"--interactive", "--rm", "--network=none", "--memory=4096m"} < set(run.split())
    assert kill.split()[0] == "kill"
    assert f"--name={kill.split()[1]}" in run.split()


@pytest.mark.slow
def test_container_answers(engine: Path) -> None:
    """A container is talked to like any process."""
    assert engine.is_dir()
    sandbox = Sandbox(connect("container:kafka_conformance.testees.reference"))
    answer = next(sandbox.ask([CaseRequest(b"")])).observation
    sandbox.close()

    assert answer == Decoded(())


def test_no_engine_no_container(engine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the reason: there is no engine, the engine does not run, or the image is missing."""
    program = engine / "docker"
    program.write_text(ENGINE.format(python=sys.executable, log="", version_exit=1))
    with pytest.raises(CannotRun, match="not running"):
        connect("container:image")

    program.write_text(ENGINE.format(python=sys.executable, log="", version_exit=0))
    with pytest.raises(CannotRun, match="no such image"):
        connect("container:missing")

    monkeypatch.setenv("PATH", str(engine / "nothing"))
    with pytest.raises(CannotRun, match="no docker"):
        connect("container:image")
