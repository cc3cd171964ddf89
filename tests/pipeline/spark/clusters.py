"""Runs of the pipeline on clusters: Spark's own of several processes, and a standalone one of several machines."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pyspark
from tests.pipeline.spark.commands import GRACE, LONG, finished, kafkaproof

LOCAL_CLUSTER = "local-cluster[2,1,1024]"
ARGUMENTS = ("generate", "--cases", "16000", "--shard", "1000", "--seed", "8")


def made(
    out: Path,
    *options: str,
    master: str = LOCAL_CLUSTER,
    arguments: Sequence[str] = ARGUMENTS,
    ends: int = 0,
    kill: Callable[[int], bool] | None = None,
) -> dict[str, bytes]:
    """The files of a run; once a shard is done, *kill* is called with the driver's process id until it returns true."""
    with kafkaproof(*arguments, "--out", str(out), "--master", master, *options) as running:
        end, died = time.monotonic() + LONG, False
        while kill and not died and running.poll() is None and time.monotonic() < end:
            died = bool(list((out / "receipts").rglob("*.json"))) and kill(running.pid)
            time.sleep(0.05)
        errors = finished(running)[1]
    assert running.returncode == ends, errors
    assert died == bool(kill)
    return {str(path.relative_to(out)): path.read_bytes() for path in sorted(out.rglob("*")) if path.is_file()}


def an_executor_dies(driver: int) -> bool:
    """Kills an executor of a local cluster: what the driver's Java has started that is Java, too."""
    with suppress(psutil.NoSuchProcess):  # something ended meanwhile: the caller tries again
        java = {each.pid: each for each in _with_all_below(driver) if each.name() == "java"}
        for each in java.values():
            if each.ppid() in java:
                each.kill()
                return True
    return False


def _with_all_below(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


class Standalone:
    """A master, and machines with a core each: processes of Spark's as its own scripts start them."""

    def __init__(self, folder: Path, machines: int, stack: ExitStack) -> None:
        self.folder = folder
        self.stack = stack
        port = free_port()
        self.address = f"spark://127.0.0.1:{port}"
        self.start("master.Master", "--port", str(port))
        self.machines = [
            self.start(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--work-dir", str(folder / name), self.address
            )
            for name in (f"machine-{number}" for number in range(machines))
        ]

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A process of the cluster, with all that it starts in a group of its own."""
        home = Path(pyspark.__file__).parent
        daemon = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
        environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_DAEMON_MEMORY": "256m"}
        log = self.stack.enter_context((self.folder / f"{name}-{time.monotonic_ns()}.log").open("wb"))
        process = subprocess.Popen(
            [*daemon, "--webui-port", "0", *arguments],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self.stack.callback(lose, process)
        return process

    def a_machine_is_lost(self, _driver: int) -> bool:
        """Kills the first machine with the executors on it."""
        lose(self.machines[0])
        return True


@contextmanager
def standalone(folder: Path, machines: int) -> Iterator[Standalone]:
    """A cluster, which is gone afterwards."""
    with ExitStack() as stack:
        yield Standalone(folder, machines, stack)


def lose(process: subprocess.Popen[bytes]) -> None:
    """Kills a process with its whole group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(GRACE)


def free_port() -> int:
    """A port without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
