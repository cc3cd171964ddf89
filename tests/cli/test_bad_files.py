"""Files that cannot be read or written end a command with one line and the documented exit code, within bounds."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

GIB = 1 << 30
Done = subprocess.CompletedProcess[str]


def run(*arguments: object, stdin: int = subprocess.DEVNULL, memory: int = 0, file_size: int = -1) -> Done:
    """The command, with bounds on address space and on the size of files that it writes."""
    limits = "import resource as r\n"
    if memory:
        limits += f"r.setrlimit(r.RLIMIT_AS, ({memory}, {memory}))\n"
    if file_size >= 0:
        limits += "import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        limits += f"r.setrlimit(r.RLIMIT_FSIZE, ({file_size}, {file_size}))\n"
    code = f"{limits}from kafkaproof.cli import main; main()"
    # -B: a bound on files would cut the bytecode that Python keeps for everybody.
    command = [sys.executable, "-B", "-c", code, *map(str, arguments)]
    return subprocess.run(command, stdin=stdin, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small result."""
    folder = tmp_path_factory.mktemp("run")
    command = [
        sys.executable,
        "-m",
        "kafkaproof",
        "certify",
        "reference",
        "--only",
        "v2_offsets",
        "--report",
        str(folder),
    ]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture
def sparse(tmp_path: Path) -> Iterator[Path]:
    """A batch in a file of 100 GB that takes no room."""
    from kafka_conformance.runner.run import trivial_decodes

    path = tmp_path / f"{0:020}.log"
    path.write_bytes(trivial_decodes()[0])
    os.truncate(path, 100 * GIB)
    yield path
    path.unlink()


def check(done: Done, code: int, text: str) -> None:
    assert done.returncode == code, done.stderr
    assert text in done.stderr
    assert "Traceback" not in done.stderr


def test_explain_wants_a_window_of_a_large_file(sparse: Path) -> None:
    """It reads no more than it explains."""
    check(
        run("explain", sparse, memory=4 * GIB),
        2,
        "has more than 16 MiB; choose a part with --from BYTE and --length BYTES",
    )


@pytest.mark.slow
def test_explain_reads_a_window(sparse: Path) -> None:
    """Only the bytes that are named."""
    done = run("explain", sparse, "--from", 0, "--length", sparse_batch())
    check(done, 0, "")
    assert "base_offset" in done.stdout
    check(run("explain", sparse, "--from", 50 * GIB, "--length", 100), 1, "")


def sparse_batch() -> int:
    """Bytes of the batch."""
    from kafka_conformance.runner.run import trivial_decodes

    return len(trivial_decodes()[0])


@pytest.mark.slow
def test_explain_of_an_endless_file(tmp_path: Path) -> None:
    """Neither a device nor standard input takes memory without bound."""
    check(run("explain", "/dev/zero", memory=4 * GIB), 2, "/dev/zero has more than 16 MiB")
    with open("/dev/zero", "rb") as zeros:  # noqa: PTH123
        check(run("explain", "-", stdin=zeros.fileno(), memory=4 * GIB), 2, "standard input has more than 16 MiB")


def test_a_window_of_what_cannot_be_sought(tmp_path: Path) -> None:
    """A pipe is read up to there."""
    reading, writing = os.pipe()
    os.write(writing, b"x" * 30 + bytes.fromhex("00" * 8))
    os.close(writing)
    done = run("explain", "-", "--from", 30, "--length", 4, stdin=reading)
    os.close(reading)

    check(done, 0, "")
    assert "standard input from byte 30" in done.stdout
    assert "4 bytes" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [("--hex", "00", "--from", "1"), ("--case", "x", "--length", "1")])
def test_windows_are_of_files(arguments: tuple[str, ...]) -> None:
    """Nothing else has them."""
    check(run("explain", *arguments), 2, "--from and --length are about FILE")


@pytest.mark.slow
@pytest.mark.parametrize("bound", [0, 100, 5000])
def test_a_report_on_a_full_disk(result: Path, tmp_path: Path, bound: int) -> None:
    """Exit code 3, and one line with the reason."""
    check(run("report", result, "--out", tmp_path / "report", file_size=bound), 3, "File too large")


@pytest.mark.slow
@pytest.mark.parametrize("out", ["/proc/report", "/dev/null/report"])
def test_a_report_where_none_can_be_written(result: Path, out: str) -> None:
    """Exit code 3, and the path."""
    check(run("report", result, "--out", out), 3, out.rpartition("/")[0])


@pytest.mark.slow
def test_other_output_that_cannot_be_written(tmp_path: Path) -> None:
    """Commands that do not look for it themselves: exit code 3 and the path."""
    check(run("corpus", "export", "/proc/vectors"), 3, "/proc/vectors")


@pytest.mark.slow
@pytest.mark.parametrize("option", ["report", "certify"])
def test_deviations_that_are_not_utf8(result: Path, tmp_path: Path, option: str) -> None:
    """Usage, with the path and the byte."""
    path = tmp_path / "deviations.toml"
    path.write_bytes(b"\xff\xfe[[")
    command = ("report", result, "--out", tmp_path / "out") if option == "report" else ("certify", "reference")
    check(run(*command, "--deviations", path), 2, "deviations.toml: 'utf-8' codec can't decode byte 0xff")
