"""The virtual machine of the driver, started so that any thread may start it, and waited for with an end.

PySpark starts it with a function of Python between fork and exec, which may
stand still for ever where another thread has just taken a lock, and waits for
ever where it ends without an error; a machine that is there already it takes.
"""

from __future__ import annotations

import os
import shlex
import struct
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from kafka_corpus.pipeline.needs import CannotRun

# Seconds: a start takes one or two, and a minute on a machine that is very busy.
PATIENCE: Final = 300.0
LOOK: Final = 0.02
_PORT, _SECRET = "PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"
# They end with their standard input, which is ours: when this process is gone, or takes them out of here.
_running: Final[list[subprocess.Popen[bytes]]] = []


@contextmanager
def gateway(conf: Mapping[str, str], patience: float = PATIENCE) -> Iterator[None]:
    """A virtual machine for the session that is opened in the block, unless this process has one already.

    Raises:
        CannotRun: it ended, or was not there after *patience* seconds.
    """
    from pyspark import SparkContext

    if SparkContext._gateway is not None or _PORT in os.environ:
        yield
        return
    with TemporaryDirectory(prefix="kafkaproof-") as folder:
        told = Path(folder) / "gateway"
        running = _start(conf, told)
        try:
            port, secret = _told(running, told, time.monotonic() + patience)
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


def _start(conf: Mapping[str, str], told: Path) -> subprocess.Popen[bytes]:
    from pyspark.find_spark_home import _find_spark_home

    script = "spark-submit.cmd" if os.name == "nt" else "spark-submit"
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    submit = shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return subprocess.Popen(
        [str(Path(_find_spark_home()) / "bin" / script), *settings, *submit],
        stdin=subprocess.PIPE,
        env={**os.environ, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(told)},
        # An interrupt is for us: the machine ends when we have put everything in order.
        process_group=0,
    )


def _told(running: subprocess.Popen[bytes], told: Path, end: float) -> tuple[int, str]:
    """The port and the secret; the file appears whole."""
    while not told.exists():
        if running.poll() is not None:
            raise CannotRun(f"its Java ended with {running.returncode}")
        if time.monotonic() > end:
            raise CannotRun("its Java stood still, and was ended")
        time.sleep(LOOK)
    said = told.read_bytes()
    (port, length) = struct.unpack_from(">ii", said)
    return port, said[8 : 8 + length].decode()
