"""One shard of one round: a campaign's own child process in a folder of its own, and what it saw as rows.

The folder gets the corpus of the round before, the inputs are counted, hashes
are seeded, nothing is shared with other shards: the same shard is the same
wherever and however often it is done.  A child that is killed tells nothing,
and Spark tries the shard again.
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import msgspec
import pyarrow as pa

from kafka_corpus.pipeline.needs import Refused
from kafka_corpus.pipeline.shards import read_batches
from kafka_fuzz.campaign import known, sung
from kafka_fuzz.campaign.differential import FALLEN, read_fallen
from kafka_fuzz.campaign.rounds import Round, RoundReport
from kafka_fuzz.campaign.running import Said, arguments
from kafka_fuzz.campaign.store import INDEX, Corpus, read_index
from kafka_fuzz.campaign.sung import STATE, Sung
from kafka_fuzz.finds import input_of, put, read_all
from kafka_fuzz.pipeline.seen import Row, batch_of, mutant_of, row_of_fallen, row_of_find, row_of_input

# What a round counts, and its log says.
PROGRESS: Final = ("executions", "skipped", "lines", "cells", "corpus", "buckets", "finds")
COUNTS: Final = (*PROGRESS, "restarts")
MILLISECONDS: Final = "milliseconds"
# Sets of strings have the same order in every process.
ENVIRONMENT: Final = {"PYTHONHASHSEED": "0"}


class Died(Exception):
    """The child ended before it had told what it did: it was killed from outside, and may do better elsewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """What one task does.

    Attributes:
        asked: the round, but for the folder, which is made where the task runs.
        number: of the shard among all of its round.
        before: the corpora that the round begins with; a file that may not be there.
        known: finds that are no news, as text.
        gone: of these, and of the package's, the ids of those that no longer are.
    """

    asked: Round
    number: int
    before: Path
    known: str
    gone: tuple[str, ...] = ()

    def seen(self) -> pa.RecordBatch:
        """Do it.

        Raises:
            Refused: the harness could not do its work, and never will.
            Died: the child was killed.
        """
        with TemporaryDirectory(prefix="kafkaproof-") as folder:
            asked = msgspec.structs.replace(self.asked, directory=Path(folder))
            given = self._prepare(asked)
            report, milliseconds = ran(asked)
            counts = {name: getattr(report, name) for name in COUNTS} | {MILLISECONDS: milliseconds}
            return batch_of(self._rows(asked, given), msgspec.json.encode(counts))

    def _prepare(self, asked: Round) -> int:
        """Write what the child begins with; how much of its index that is."""
        root = asked.directory
        (root / STATE).mkdir()
        (root / known.FILE).write_text(self.known, encoding="utf-8")
        put(root / STATE / sung.FILE, msgspec.json.encode([Sung("", each, "", gone=True) for each in self.gone]))
        rows = [row for batch in read_batches(filter(Path.exists, [self.before])) for row in batch.to_pylist()]
        fill(root, rows)
        index = Corpus(root, asked.target).folder / INDEX
        return index.stat().st_size if index.exists() else 0

    def _rows(self, asked: Round, given: int) -> Iterator[Row]:
        corpus = Corpus(asked.directory, asked.target)
        for entry in read_index(corpus.folder / INDEX, given)[0]:
            yield row_of_input(asked.target, self.number, entry, corpus.data(entry))
        for find in read_all(asked.directory):
            yield row_of_find(self.number, find, input_of(asked.directory, find))
        for testee, causes in sorted(read_fallen(asked.directory).items()):
            for cause in sorted(cause for cause, often in causes.items() if often >= 1.0):
                yield row_of_fallen(testee, self.number, cause)


def fill(root: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write merged corpora as a campaign has them."""
    corpora: dict[str, Corpus] = {}
    fallen: dict[str, dict[str, float]] = {}
    for row in rows:
        target = row["target"]
        if row["what"] == "fallen":
            fallen.setdefault(target, {})[row["key"]] = 1.0
            continue
        if target not in corpora:
            corpora[target] = Corpus(root, target)
        corpora[target].keep(mutant_of(row), row["key"], row["lines"], row["version"])
    for corpus in corpora.values():
        corpus.close()
    put(root / STATE / FALLEN, msgspec.json.encode(fallen))


def ran(asked: Round) -> tuple[RoundReport, int]:
    """What the child says at its end, and the CPU-milliseconds that it took, with all that it started."""
    before = spent()
    done = subprocess.run(
        arguments(asked), stdin=subprocess.DEVNULL, capture_output=True, check=False, env=os.environ | ENVIRONMENT
    )
    took = round((spent() - before) * 1000)
    last = done.stdout.splitlines()[-1:]
    try:
        report = msgspec.json.decode(last[0], type=Said).report if last else None
    except msgspec.MsgspecError:
        report = None
    if report is None or report.interrupted:
        words = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Died(f"a round of {asked.target} ended with {done.returncode}: {''.join(words)}")
    if report.failure or not report.executions:
        raise Refused(f"{asked.target}: {report.failure or 'it executed nothing'}")
    return report, took


def spent() -> float:
    """CPU-seconds of the processes that ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
