"""Attacks on the runner beside the answers: names, pipes, a folder in use."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_conformance.judge.observation import Garbled
from kafka_conformance.process.starting import reported_number
from kafka_conformance.runner.keeping import InUse, reserved
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.results import MOST_LINES, Unusable, read_results
from kafka_conformance.runner.sandbox import MOST_OTHER_LINES, Sandbox
from kafka_conformance.testees.connection import CannotRun, ConnectionSpec
from kafka_conformance.testees.protocol import HelloReply, name_problem
from kafka_corpus.vector_format import matches

Script = Callable[..., ConnectionSpec]
BAD_NAMES = (
    "", " x", "a/b", "../../etc", "<script>alert(1)</script>", "::error file=x::y", "a\nb", "a\x1b[31m", "[a](http://b)",
    "a`b", 'a"b', "a'b", "a|b", "x" * 101, "\u202ea", "@team", "a#1", "{{a}}", "${a}", "a;b", "a&b", "a\\b", "a:b",
)  # fmt: skip


@pytest.mark.parametrize("field", ["name", "version", "language", "runtime"])
@pytest.mark.parametrize("text", BAD_NAMES)
def test_names_that_are_refused(field: str, text: str) -> None:
    """A name with another character than those documented, or too long, is a problem that names the field."""
    names = {"name": "a", "version": "1", field: text}
    problem = name_problem(HelloReply(protocol=1, **names))  # type: ignore[arg-type]  # all are text

    assert problem.startswith(f"its {field} ") or (text == "" and field in ("language", "runtime") and not problem)
    assert problem.isprintable()


@pytest.mark.parametrize(
    "text", ["kafka-python", "2.16.1 (librdkafka 2.16.0)", "rust, release profile", "C++", "x" * 100]
)
def test_names_of_known_testees_are_fine(text: str) -> None:
    """The names, versions and runtimes that codecs have are in the alphabet."""
    assert name_problem(HelloReply(protocol=1, name=text, version=text, language=text, runtime=text)) == ""


def test_a_testee_with_a_bad_name_does_not_run(script: Script, sandbox: Callable[..., Sandbox]) -> None:
    """The error names the testee and the field, on one line."""
    connection = script("reply(id=id, batches=[])", hello="name='::error ::pwned'")

    with pytest.raises(CannotRun, match="its name '::error ::pwned' is not"):
        sandbox(connection).hello()


@given(st.binary(max_size=64))
def test_garbage_in_the_pipe_of_the_spawn_server(line: bytes) -> None:
    """Whatever another process writes there, the runner reads a number."""
    assert isinstance(reported_number(line, -9), int)


def test_garbage_on_the_socket_of_the_spawn_server() -> None:
    """Messages that are none are read over, and the server ends when the socket is closed."""
    import socket

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        code = "import sys, socket; from kafka_conformance.process.spawn_server import SpawnServer, spawn_command\n"
        code += "SpawnServer(socket.socket(fileno=int(sys.argv[1])), spawn_command(['true'])).serve()"
        child = subprocess.Popen(
            [sys.executable, "-c", code, str(theirs.fileno())], pass_fds=[theirs.fileno()], stderr=subprocess.PIPE
        )
        theirs.close()
        for message in (b"x", b"spawn", b"-1", b"99999999", b"\xff\xfe", b"1 2"):
            ours.send(message)
        ours.close()
        _, stderr = child.communicate(timeout=30)

    assert (child.returncode, stderr) == (0, b"")


@pytest.mark.slow
def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    """A second process cannot write where one writes; the line names it. When that ends, also by SIGKILL, it can."""
    code = "import time; from kafka_conformance.runner.keeping import reserved; from pathlib import Path\n"
    code += f"with reserved(Path({str(tmp_path)!r})):\n    print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    try:
        with pytest.raises(InUse, match="another run writes there; "), reserved(tmp_path):
            pass
        done = subprocess.run(
            [sys.executable, "-m", "kafkaproof", "report", str(result(tmp_path)), "--out", str(tmp_path)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    finally:
        holder.kill()
        holder.communicate()

    assert done.returncode == 3
    assert "another run writes there" in done.stderr
    assert "Traceback" not in done.stderr
    with reserved(tmp_path):
        assert tmp_path.is_dir()


def test_an_error_in_a_reserved_folder_stays_itself(tmp_path: Path) -> None:
    """A file that would block is not taken for a folder in use."""
    with pytest.raises(BlockingIOError), reserved(tmp_path):
        raise BlockingIOError


def result(folder: Path) -> Path:
    """A small result in *folder*."""
    command = [sys.executable, "-m", "kafkaproof", "certify", "reference", "--only", "v2_offsets", "--report"]
    subprocess.run([*command, str(folder / "run")], check=True, capture_output=True)
    return folder / "run"


def test_patterns_of_many_stars_are_quick() -> None:
    """Forty stars take no longer than one: the test ends."""
    stars = "a*" * 40 + "b"
    long = "a" * 5000

    assert not matches(stars, long)
    assert matches(stars, long + "b")
    assert matches("v2_batch.crc[*", "v2_batch.crc[lz4]")
    assert not matches("v2_batch.crc[lz?", "v2_batch.crc_lz4")


def test_a_flood_of_lines_is_cut_short(script: Script, sandbox: Callable[..., Sandbox]) -> None:
    """A testee that prints without end costs a bounded number of lines for each request, and is no hang."""
    body = "if data != bytes([1]):\n    while True: sys.stdout.write('x\\n' * 4096)\nreply(id=id, batches=[])"
    made = sandbox(script(body))
    first, second = (answer.observation for number in (0, 1) for answer in made.ask([CaseRequest(bytes([number]))]))

    assert first == Garbled(f"no reply, but {MOST_OTHER_LINES} other lines: x")
    assert made.tally.strays == MOST_OTHER_LINES
    assert not isinstance(second, Garbled)


@pytest.mark.slow
def test_a_result_of_too_many_lines_is_refused(tmp_path: Path) -> None:
    """Before any of them is looked at."""
    path = result(tmp_path) / "reference" / "result.ndjson"
    header, *lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + b"?\n" * MOST_LINES)

    with pytest.raises(Unusable, match=f"result.ndjson:{MOST_LINES + 1}: there are .* no corpus has so many cases"):
        read_results(path)
    assert lines
