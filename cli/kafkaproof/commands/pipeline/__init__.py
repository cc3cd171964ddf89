"""`kafkaproof pipeline`: the commands of the pipeline, each imported when it is used."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any, ClassVar, TypeVar

import click

from kafka_brokers.progress import progress
from kafka_conformance.sanitize import printable
from kafka_pipeline.spark import PipelineError, require
from kafkaproof.cli import CANNOT_RUN, INTERRUPTED, LazyGroup

Command = TypeVar("Command", bound=Callable[..., Any])

out_option = click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIR", help="The output."
)
_CONF = click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark's; may be repeated.")
_ENVIRONMENT = click.option(
    "--environment", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="FILE",
    help="A packed environment for the executors (`pipeline pack`).",
)  # fmt: skip


def spark_options(*, default: str | None = "local[*]") -> Callable[[Command], Command]:
    """The options `--master`, `--conf` and `--environment`."""
    master = click.option(
        "--master", default=default, show_default=True, metavar="URL",
        help="Where Spark runs: local[N], spark://HOST:PORT, …",
    )  # fmt: skip
    return lambda command: master(_CONF(_ENVIRONMENT(command)))


def opener(
    master: str, conf: tuple[str, ...], environment: Path | None, *, sql: bool = True
) -> Callable[[], AbstractContextManager[Any]]:
    """A function that opens the Spark session of the options; without *sql*, a Spark context only.

    Raises:
        click.UsageError: a setting is none.
        CannotRun: Spark is not installed.
    """
    wrong = [each for each in conf if "=" not in each]
    if wrong:
        raise click.UsageError(f"--conf takes KEY=VALUE, not {wrong[0]!r}")
    require()
    from kafka_pipeline.spark.session import Settings, session, tasks_only

    pairs = tuple((key, value) for key, _, value in (each.partition("=") for each in conf))
    settings = Settings(master=master, conf=pairs, environment=environment)
    return partial(session if sql else tasks_only, settings)


@contextmanager
def steps(rows: int, total: int, unit: str = "cases") -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Shows steps one after the other, each in *unit*, of which a shard has *rows* and the last one fewer."""
    with ExitStack() as stack:

        def show(step: str) -> Callable[[int, int], None]:
            stack.close()
            on_progress = stack.enter_context(progress(step, "shards", unit))
            return lambda done, _all: on_progress(min(done * rows, total), total, done)

        yield show


@contextmanager
def exits(*, resumes: bool = True) -> Iterator[None]:
    """Ends a command as all of ours end, with one line that says why, and whether the same command goes on."""
    goes_on = "the same command goes on" if resumes else ""
    try:
        with _interrupts():
            yield
    except PipelineError as error:
        _end(str(error), CANNOT_RUN)
    except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
        raise
    except KeyboardInterrupt:
        _end("; ".join(filter(None, ("interrupted", goes_on))), INTERRUPTED)
    except Exception as error:
        from kafka_pipeline.spark.manifest import OtherRun

        if isinstance(error, OtherRun):
            raise click.UsageError(str(error)) from None
        # It imports Arrow, which is not installed everywhere.
        shards = sys.modules.get("kafka_pipeline.spark.shards")
        if shards is not None and isinstance(error, shards.ShardsFailed):
            _end(f"{error}; what was done is kept, and the same command goes on", CANNOT_RUN)
        if isinstance(error, OSError):
            kept = f"what was done is kept, and {goes_on}" if resumes else ""
            where = f"{error.filename}: " if error.filename else ""
            _end("; ".join(filter(None, (f"{where}{error.strerror or error}", kept))), CANNOT_RUN)
        raise


@contextmanager
def _interrupts() -> Iterator[None]:
    """An error after an interrupt is reported as the interrupt, if Python handles interrupts."""
    heard = False

    def hear(_number: int, _frame: FrameType | None) -> None:
        nonlocal heard
        heard = True
        raise KeyboardInterrupt

    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, hear)
    try:
        yield
    except PipelineError:
        if heard:
            raise KeyboardInterrupt from None
        raise
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(text: str, code: int) -> None:
    click.echo(printable(text, 500), err=True)
    sys.exit(code)


class LatePipeline(LazyGroup):
    """The group's commands, none of them imported."""

    # Name, where it is defined, and what `--help` says without importing it.
    table: ClassVar[dict[str, tuple[str, str]]] = {
        "generate": ("kafkaproof.commands.pipeline.generate:generate", "Make cases, millions of them, as Parquet."),
        "sweep": ("kafkaproof.commands.pipeline.generate:sweep", "Put generated cases to testees, and compare them."),
        "campaign": ("kafkaproof.commands.pipeline.campaign:campaign", "Fuzz on the executors, round by round."),
        "audit": (
            "kafkaproof.commands.audit:pipeline_audit",
            "Judge log directories: every rule that data at rest can break.",
        ),
        "case": ("kafkaproof.commands.pipeline.generate:case_command", "Make one generated case again, alone."),
        "pack": (
            "kafkaproof.commands.pipeline.generate:pack_command",
            "Pack the environment that a cluster's executors need.",
        ),
        "doctor": ("kafkaproof.commands.pipeline.generate:doctor", "Say what the executors of a cluster have."),
    }


@click.group(cls=LatePipeline)
def pipeline() -> None:
    """Wide work on Spark, on this machine or a cluster (needs `kafkaproof[spark]` and Java).

    Exit codes: 0 done, 1 disagreements, 2 usage, 3 could not be run, 130 interrupted.
    """
