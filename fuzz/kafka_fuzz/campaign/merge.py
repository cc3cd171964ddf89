"""Merging a corpus: of inputs with equal coverage the smallest stays; no coverage is lost.

    python -m kafka_fuzz.campaign.merge TARGET --dir DIR

Inputs run again, the smallest first, in a process that may crash; each input that adds
coverage goes into a new folder.  When the new folder has been read back and covers all
that the old one did, the two are swapped.  A merge that keeps nothing, or loses a line, a
cell or an outcome, changes nothing.

Inputs of testees and brokers do not run again: `merge_recorded` uses the recorded coverage.
"""

from __future__ import annotations

import os
import shutil
import sys
from argparse import ArgumentParser
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import msgspec

from kafka_fuzz.campaign.coverage import line_counter
from kafka_fuzz.campaign.plan import RoundPlan, target_folder
from kafka_fuzz.campaign.store import CORPUS_FOLDER, INDEX, Corpus, CorpusEntry, read_index
from kafka_fuzz.mutate import Mutant

if TYPE_CHECKING:
    from kafka_fuzz.campaign.fork_worker import ForkServer

NEW: Final = ".new"
OLD: Final = ".old"


class Merged(msgspec.Struct, frozen=True):
    """The report of a merge.

    Attributes:
        target: whose corpus.
        before, after: inputs.
        refused: why nothing was changed; empty if it was.
        damaged: inputs of *before* that were left out, because a fall of the machine or a full disk had cut them off.
    """

    target: str
    before: int
    after: int
    refused: str = ""
    damaged: int = 0


class Covered:
    """Coverage of the inputs that are kept."""

    def __init__(self, entries: Sequence[CorpusEntry] = ()) -> None:
        self.lines = {line for entry in entries for line in entry.lines}
        self.cells = {entry.cell for entry in entries}
        self.buckets = {entry.bucket for entry in entries}

    def takes(self, entry: CorpusEntry) -> bool:
        """Whether *entry* adds something, which then counts."""
        new = not self.lines.issuperset(entry.lines) or entry.cell not in self.cells or entry.bucket not in self.buckets
        self.lines.update(entry.lines)
        self.cells.add(entry.cell)
        self.buckets.add(entry.bucket)
        return new

    def lost(self, other: Covered) -> str:
        """Describe coverage of *other* that is missing here; empty if nothing is."""
        for name in ("lines", "cells", "buckets"):
            missing = getattr(other, name) - getattr(self, name)
            if missing:
                return f"{len(missing)} {name} would be lost"
        return ""


def merge_corpus(server: ForkServer) -> Merged:
    """Merge the corpus of the fork server's target.  OSError if writing fails."""
    corpus, target = server.corpus, server.plan.target
    before, damaged = len(corpus.entries), without_damaged(corpus)
    place = sibling_folder(corpus.root, target, NEW)
    unrun: set[str] = set()
    while True:
        empty_folder(place)
        status = server.forked(lambda: write_merged(server, place, unrun))
        guilty = sha256(server.box.last()[0].data).hexdigest() if status and server.box.last() else ""
        if not guilty or guilty in unrun:
            break
        unrun.add(guilty)  # it crashes the worker now and did not before: it is kept without a run
    why = f"a worker died: {server.error_text() or status}" if status else ""
    return put_in_place(corpus, why, before, damaged)


def merge_recorded(root: Path, target: str) -> Merged:
    """Merge the corpus of testees or of a broker, by what its index says.  OSError if writing fails."""
    corpus = Corpus(root, target)
    before, damaged = len(corpus.entries), without_damaged(corpus)
    place, covered = sibling_folder(root, target, NEW), Covered()
    empty_folder(place)
    # An input may have several lines, each with something that it was the first to do.
    recorded = (entry for entry in read_index(corpus.folder / INDEX)[0] if entry.sha in corpus.entries)
    with new_index(place) as index:
        for entry in sorted(recorded, key=lambda entry: (entry.size, entry.sha)):
            if covered.takes(entry):
                keep_in(place, index, entry, corpus.data(entry))
    return put_in_place(corpus, "", before, damaged)


def empty_folder(place: Path) -> None:
    """Replace the folder *place* by an empty one."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)


@contextmanager
def new_index(place: Path) -> Iterator[IO[bytes]]:
    """The index of the new folder, on the disk when this ends."""
    with (place / INDEX).open("wb") as index:
        yield index
        index.flush()
        os.fsync(index.fileno())


def keep_in(place: Path, index: IO[bytes], entry: CorpusEntry, data: bytes) -> None:
    """Write *data* into the new folder, and its line."""
    (place / f"{entry.sha}.bin").write_bytes(data)
    index.write(msgspec.json.encode(entry) + b"\n")


def put_in_place(corpus: Corpus, why: str, before: int, damaged: int) -> Merged:
    """Swap the new folder for that of *corpus*, unless there is a reason not to, *why* or another."""
    root, target = corpus.root, corpus.target
    place = sibling_folder(root, target, NEW)
    kept, _ = read_index(place / INDEX)
    why = why or checked(place, kept, corpus)
    if why:
        shutil.rmtree(place)
        return Merged(target, before, before, why)
    swap(root, target)
    return Merged(target, before, len({entry.sha for entry in kept}), damaged=damaged)


def without_damaged(corpus: Corpus) -> int:
    """Remove inputs from *corpus* whose bytes do not have the hash in their name; returns their number."""
    wrong = [sha for sha, entry in corpus.entries.items() if sha256(corpus.data(entry)).hexdigest() != sha]
    for sha in wrong:
        del corpus.entries[sha]
    return len(wrong)


def write_merged(server: ForkServer, place: Path, unrun: Collection[str] = ()) -> None:
    """Run everything but *unrun* again, and write what is to be kept into *place*."""
    corpus, version = server.corpus, server.target.version
    lines, covered = line_counter(server.target.packages, set()), Covered()
    with new_index(place) as index:
        for entry in sorted(corpus.entries.values(), key=lambda entry: (entry.size, entry.sha)):
            data = corpus.data(entry)
            mutant = Mutant(data, entry.profile, entry.labels, None, entry.cell)
            server.box.remember(mutant)
            with lines.watch() as new:
                if entry.sha not in unrun:
                    server.run_guarded(mutant)
            # What it was the first to do once counts too, unless that was in another release.
            claimed = entry.lines if entry.version == version else ()
            again = msgspec.structs.replace(entry, lines=tuple(sorted({*new, *claimed})), version=version)
            if covered.takes(again) or entry.sha in unrun:
                keep_in(place, index, again, data)


def checked(place: Path, kept: Sequence[CorpusEntry], corpus: Corpus) -> str:
    """Why the folder *place* may not take the place of *corpus*; empty if it may."""
    if corpus.entries and not kept:
        return "nothing would be kept"
    for entry in kept:
        if sha256((place / f"{entry.sha}.bin").read_bytes()).hexdigest() != entry.sha:
            return f"{entry.sha} was not written whole"
    version = kept[0].version if kept else ""
    old = Covered(list(corpus.entries.values()))
    old.lines = {line for entry in corpus.entries.values() if entry.version == version for line in entry.lines}
    return Covered(kept).lost(old)


def sibling_folder(root: Path, target: str, ending: str) -> Path:
    """The folder beside that of *target*, which no campaign reads."""
    return root / CORPUS_FOLDER / f".{target_folder(target)}{ending}"


def swap(root: Path, target: str) -> None:
    """Put the new folder in the place of the old one; `recover_corpora` completes a swap that was killed."""
    place, old = root / CORPUS_FOLDER / target_folder(target), sibling_folder(root, target, OLD)
    shutil.rmtree(old, ignore_errors=True)
    place.rename(old)
    sibling_folder(root, target, NEW).rename(place)
    shutil.rmtree(old)


def recover_corpora(root: Path) -> None:
    """Undo merges that were killed between two renames."""
    try:
        found = [
            path for path in (root / CORPUS_FOLDER).iterdir() if path.name.startswith(".") and path.name.endswith(OLD)
        ]
    except FileNotFoundError:
        return
    for old in found:
        place = old.with_name(old.name[1 : -len(OLD)])
        if not place.exists():
            old.rename(place)


def main(arguments: Sequence[str] | None = None) -> int:
    """Merge one target's corpus, and print what was done as JSON."""
    from kafka_fuzz.campaign.fork_worker import open_fork_server

    parser = ArgumentParser(prog="python -m kafka_fuzz.campaign.merge")
    parser.add_argument("target")
    parser.add_argument("--dir", type=Path, required=True)
    given = parser.parse_args(arguments)
    merged = merge_corpus(open_fork_server(RoundPlan(given.target, given.dir), lambda _progress: None))
    sys.stdout.buffer.write(msgspec.json.encode(merged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
