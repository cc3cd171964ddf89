"""Spark's Java: what does not come up is an error in one line, and nothing waits for it for ever."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipeline.spark.commands import finished

from kafka_pipeline.spark import PipelineError
from kafka_pipeline.spark.session import gateway

pytestmark = pytest.mark.spark

Home = Callable[[str], None]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Makes a Spark whose Java is a script, for a process that has none yet."""

    def make(script: str) -> None:
        from pyspark import SparkContext

        submit = tmp_path / "bin" / "spark-submit"
        submit.parent.mkdir()
        submit.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        submit.chmod(0o755)
        monkeypatch.setenv("SPARK_HOME", str(tmp_path))
        monkeypatch.setattr(SparkContext, "_gateway", None)

    return make


@pytest.mark.parametrize("code", [0, 3])
def test_java_that_ends_is_reported(home: Home, code: int) -> None:
    """PySpark waits for ever for one that ends with 0."""
    home(f"exit {code}")

    with pytest.raises(PipelineError, match=f"its Java ended with {code}"), gateway({}):
        pass


def test_java_that_stands_still_is_ended(home: Home, tmp_path: Path) -> None:
    """Its process is gone, and says nothing more."""
    home(f"echo $$ > {tmp_path}/pid; exec sleep 100")

    with pytest.raises(PipelineError, match="stood still"), gateway({}, time_limit=1.0):
        pass
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


def test_what_java_says_is_there_for_the_block_only(home: Home, tmp_path: Path) -> None:
    """Settings go along as words; the port and the secret are where PySpark looks, and nowhere afterwards."""
    home(
        f'printf "%s|" "$@" > {tmp_path}/arguments\n'
        'printf "\\000\\000\\004\\000\\000\\000\\000\\003abc" > "$_PYSPARK_DRIVER_CONN_INFO_PATH.half"\n'
        'mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.half" "$_PYSPARK_DRIVER_CONN_INFO_PATH"; exec cat'
    )

    with gateway({"spark.app.name": "two words"}):
        assert (os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]) == ("1024", "abc")
    assert not {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"} & set(os.environ)
    assert (tmp_path / "arguments").read_text() == "--conf|spark.app.name=two words|pyspark-shell|"


def test_a_command_that_does_not_end_fails_its_test() -> None:
    """It is killed, and what it says of where it stands is in the failure."""
    argv = [sys.executable, "-X", "faulthandler", "-c", "import time\ntime.sleep(1000)"]
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdout=pipe, stderr=pipe, text=True, start_new_session=True) as running:
        with pytest.raises(pytest.fail.Exception, match=r'File "<string>", line 2 in <module>'):
            finished(running, 1.0)
        assert running.poll() is not None
