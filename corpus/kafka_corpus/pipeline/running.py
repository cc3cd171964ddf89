"""The thin runner: the shards of a job as Spark tasks, one task a shard, receipts back.

A task writes its own files (`shards.work`), so that data never passes through
the JVM: what comes back is a line a shard.  Spark tries a task again when its
executor or its Python worker dies; what was wrong with files or data comes back
as a receipt with a problem, and is told once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from kafka_corpus.pipeline.needs import CannotRun
from kafka_corpus.pipeline.session import first_line, spark_errors
from kafka_corpus.pipeline.shards import Job, Receipt, earned, work

# Between looks at how far the tasks are, in seconds.
LOOK: Final = 0.5

Told = Callable[[int, int], None]
"""Called with the shards done and all shards."""
Show = Callable[[str], Told]
"""Gives, for the name of a step, what is told how far it is."""


class NotDone(Exception):
    """Some shards have a problem; what the others earned is kept.

    Attributes:
        problems: what is wrong, by shard.
    """

    def __init__(self, problems: dict[int, str]) -> None:
        shard, problem = min(problems.items())
        more = f", and {len(problems) - 1} more" if len(problems) > 1 else ""
        super().__init__(f"shard {shard}: {problem}{more}")
        self.problems = problems


def run(spark: Any, job: Job, shards: Sequence[int], told: Told = lambda *_: None) -> list[Receipt]:
    """Do those of *shards* that are not earned; the receipts of all, in their order.

    Raises:
        NotDone: shards have problems of their own: a full disk, wrong data.
        CannotRun: Spark gave up.
    """
    have = {receipt.shard: receipt for receipt in earned(job, shards)}
    todo = [shard for shard in shards if shard not in have]
    told(len(have), len(shards))
    if todo:
        with _watched(spark, lambda done: told(len(have) + done, len(shards))):
            made = _collected(spark, job, todo)
        problems = {receipt.shard: receipt.problem for receipt in made if receipt.problem}
        if problems:
            raise NotDone(problems)
        have |= {receipt.shard: receipt for receipt in made}
        told(len(shards), len(shards))
    return [have[shard] for shard in shards]


def _collected(spark: Any, job: Job, todo: Sequence[int]) -> list[Receipt]:
    # Not a table: planning and compiling a query takes longer than many a job.
    tasks = spark.sparkContext.parallelize(todo, len(todo))
    try:
        receipts = tasks.mapPartitions(partial(do, job)).collect()
    except spark_errors() as error:
        raise CannotRun(f"Spark gave up: {first_line(error)}") from None
    return [msgspec.json.decode(receipt, type=Receipt) for receipt in receipts]


def do(job: Job, shards: Iterable[int]) -> Iterator[bytes]:
    """What a worker does with the shards of its tasks: a receipt for each."""
    for shard in shards:
        yield msgspec.json.encode(work(job, shard))


class _watched:
    """Tells how many tasks are done while Spark is at it."""

    def __init__(self, spark: Any, told: Callable[[int], None]) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._told = told
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(2.0)

    def _watch(self) -> None:
        last = 0
        while not self._over.wait(LOOK):
            try:
                stages = [self._tracker.getStageInfo(stage) for stage in self._tracker.getActiveStageIds()]
            except Exception:  # the session ends: nothing more to tell
                return
            done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
            if done > last:
                last = done
                self._told(done)
