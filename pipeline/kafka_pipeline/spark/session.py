"""Spark sessions: one factory, and the JVM gateway of the driver.

PySpark starts it with a function of Python between fork and exec, which may
stand still for ever where another thread has just taken a lock, and waits for
ever where it ends without an error; a machine that is there already it takes.

Workers take the interpreter of the driver: left alone, Spark runs the `python3`
of the path, which has none of our packages.  A cluster gets a packed
environment instead (`kafkaproof pipeline pack`), and then nothing of the
driver's own search path goes along.
"""

from __future__ import annotations

import os
import re
import shlex
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from kafka_pipeline.spark import PipelineError, require

# Seconds: a start takes one or two, and a minute on a machine that is very busy.
TIME_LIMIT: Final = 300.0
LOOK: Final = 0.02
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# They end with their standard input, which is ours: when this process is gone, or takes them out of here.
_running: Final[list[subprocess.Popen[bytes]]] = []


@contextmanager
def gateway(conf: Mapping[str, str], time_limit: float = TIME_LIMIT) -> Iterator[None]:
    """A virtual machine for the session that is opened in the block, unless this process has one already.

    Raises:
        PipelineError: it ended, or was not there after *time_limit* seconds.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or _PORT in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="kafkaproof-") as folder:
        connection_file = Path(folder) / "gateway"
        running = _start(conf, connection_file)
        try:
            port, secret = _connection_of(running, connection_file, time.monotonic() + time_limit)
        except BaseException:
            with running:
                running.kill()
            raise
    _running.append(running)
    os.environ |= {_PORT: str(port), _SECRET: secret}
    try:
        yield
    finally:
        del os.environ[_PORT], os.environ[_SECRET]


def _start(conf: Mapping[str, str], connection_file: Path) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    script = "spark-submit.cmd" if os.name == "nt" else "spark-submit"
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return subprocess.Popen(
        [str(Path(_find_spark_home()) / "bin" / script), *settings, *submit],
        stdin=subprocess.PIPE,
        env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(connection_file)},
        # An interrupt is for us: the machine ends when we have put everything in order.
        process_group=0,
    )


def _connection_of(running: subprocess.Popen[bytes], connection_file: Path, end: float) -> tuple[int, str]:
    """The port and the secret; the file appears whole."""
    while not connection_file.exists():
        if running.poll() is not None:
            raise PipelineError(f"its Java ended with {running.returncode}")
        if time.monotonic() > end:
            raise PipelineError("its Java stood still, and was ended")
        time.sleep(LOOK)
    said = connection_file.read_bytes()
    (port, length) = struct.unpack_from(">ii", said)
    return port, said[8 : 8 + length].decode()


# Where an executor unpacks the environment, below its working directory.
UNPACKED: Final = "environment"
# How often a shard is tried: an executor or a worker may die of something that has nothing to do with it.
TRIES: Final = 4
_LOCAL: Final = re.compile(r"local(\[(?P<cores>\*|\d+)\])?")
_ON_THIS_MACHINE: Final = re.compile(r"local(-cluster)?(\[.*\])?")
# A virtual machine that is over before its second compiler has paid off.
QUICK: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# Milliseconds for which mimalloc keeps what was freed.
PURGE: Final = ("MIMALLOC_PURGE_DELAY", "10000")

Opener = Callable[[], AbstractContextManager[Any]]
"""Opens Spark for a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Where and how Spark runs.

    Attributes:
        master: as Spark has it: `local[*]`, `spark://HOST:PORT`, `k8s://…`.
        conf: settings that replace ours.
        environment: a packed environment for executors; None where they have the driver's interpreter.
    """

    master: str = "local[*]"
    conf: tuple[tuple[str, str], ...] = ()
    environment: Path | None = None


def master_of(text: str) -> str:
    """*text*, with local tasks tried again as a cluster's are.

    >>> master_of("local[2]"), master_of("local"), master_of("spark://host:7077")
    ('local[2,4]', 'local[1,4]', 'spark://host:7077')
    """
    local = _LOCAL.fullmatch(text)
    return f"local[{local['cores'] or 1},{TRIES}]" if local else text


def conf_of(settings: Settings) -> dict[str, str]:
    """All settings of Spark, ours first."""
    conf = {
        "spark.app.name": "kafkaproof",
        "spark.task.maxFailures": str(TRIES),
        # The web interface would take a port, and progress is shown elsewhere.
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Errors are reported by the command, in one line.
        "spark.log.level": "FATAL",
        # Measured: pipelines are no slower with 1 GiB than with 8; the work is done in Python.
        "spark.driver.memory": "1g",
        # Arrow's allocator gives memory back after 10 ms, and the next shard has the kernel clear it again.
        f"spark.executorEnv.{PURGE[0]}": PURGE[1],
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4" if _ON_THIS_MACHINE.fullmatch(settings.master) else "200",
        # An index that is no number, or a file that cannot be read, is an error and not a null.
        "spark.sql.ansi.enabled": "true",
    }
    if settings.environment is not None:
        conf["spark.archives"] = f"{settings.environment.resolve().as_posix()}#{UNPACKED}"
    return conf | dict(settings.conf)


def session(settings: Settings) -> AbstractContextManager[Any]:
    """A Spark session, which ends with the block; its worker processes too.

    Raises:
        PipelineError: there is no PySpark or no Java, or the master cannot be reached.
    """
    return _started(settings, _session)


def tasks_only(settings: Settings) -> AbstractContextManager[TasksOnly]:
    """Spark without SQL, for a job whose work is all in its tasks: it is up in half the time.

    Raises:
        PipelineError: there is no PySpark or no Java, or the master cannot be reached.
    """
    quick = replace(settings, conf=(("spark.driver.extraJavaOptions", QUICK), *settings.conf))
    return _started(quick, _tasks_only)


@dataclass(frozen=True, slots=True)
class TasksOnly:
    """A session that has a Spark context only, without SQL."""

    sparkContext: Any

    def stop(self) -> None:
        """End it."""
        self.sparkContext.stop()


@contextmanager
def at_once(open_spark: Opener) -> Iterator[Opener]:
    """Starts Spark in a thread while the block does other things; what it gives waits for it.

    Spark stops while the code after its own block runs, and has stopped at the end of this one.
    """
    opened = open_spark()
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(opened.__enter__)

        @contextmanager
        def awaited() -> Iterator[Any]:
            try:
                yield starting.result()
            finally:
                thread.submit(opened.__exit__, None, None, None)

        try:
            yield awaited
        finally:
            # Ending what has ended, or has never been, does nothing.
            thread.submit(opened.__exit__, None, None, None).result()


@contextmanager
def _started(settings: Settings, start: Callable[[dict[str, str]], Any]) -> Iterator[Any]:
    require()
    conf = {"spark.master": master_of(settings.master)} | conf_of(settings)
    failures: tuple[type[Exception], ...] = (PipelineError, *spark_errors())
    with _environment(settings):
        try:
            with gateway(conf):
                spark = start(conf)
        except failures as error:
            raise PipelineError(f"Spark does not start on {settings.master}: {first_line(error)}") from None
        try:
            yield spark
        finally:
            spark.stop()


def _session(conf: dict[str, str]) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    for name, value in conf.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _tasks_only(conf: dict[str, str]) -> TasksOnly:
    from pyspark import SparkConf, SparkContext

    return TasksOnly(SparkContext(conf=SparkConf(loadDefaults=False).setAll(list(conf.items()))))


def spark_errors() -> tuple[type[Exception], ...]:
    """Exception types of PySpark, from Python and from Java."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return (Py4JError, PySparkException)


def first_line(error: Exception) -> str:
    """The error in one line: Java's cause, if there is one.

    >>> first_line(ValueError("one\\ntwo"))
    'one'
    >>> first_line(ValueError("raised: Traceback (most recent call last):\\n  a\\nValueError: two\\n SQLSTATE: 1"))
    'ValueError: two'
    """
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(cause.getMessage() if cause is not None else error) or type(error).__name__
    lines = [line for line in text.strip().splitlines() if line.strip()] or [type(error).__name__]
    if any("Traceback (most" in line for line in lines):
        # The end of a worker's traceback says what happened; what is indented belongs to something else.
        return next(line for line in reversed(lines) if not line[0].isspace())[:300]
    return lines[0][:300]


@contextmanager
def _environment(settings: Settings) -> Iterator[None]:
    """The variables that PySpark reads while a session is there."""
    wanted: dict[str, str | None] = {
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # Of the virtual machine that only writes the command line of the other one.
        "SPARK_LAUNCHER_OPTS": os.environ.get("SPARK_LAUNCHER_OPTS", QUICK),
    }
    if settings.environment is None:
        wanted["PYSPARK_PYTHON"] = sys.executable
    else:
        wanted["PYSPARK_PYTHON"] = f"./{UNPACKED}/bin/python"
        # Executors on this machine inherit it, and would find the driver's checkout.
        wanted["PYTHONPATH"] = None
    if _ON_THIS_MACHINE.fullmatch(settings.master):
        # Left alone it binds the machine's own address.
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
    before = {name: os.environ.get(name) for name in wanted}
    _set(wanted)
    try:
        yield
    finally:
        _set(before)


def _set(variables: dict[str, str | None]) -> None:
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
