"""The inputs that a campaign keeps for one target, and the pool that a round mutates.

DIR/corpus/<target>/<sha256>.bin     wire bytes
    DIR/corpus/<target>/index.ndjson     one line for each: what it was the first to do

An input is on the disk before its line is, and a line is one write to a file
opened for appending.  So a killed process loses nothing after `keep` returned,
and several processes may keep inputs for the same target.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Final, TypeVar

import msgspec

from kafka_fuzz.campaign.plan import complete_last_line, target_folder
from kafka_fuzz.mutate import Mutant, MutantCell, corpus_seeds, own_seeds

CORPUS_FOLDER: Final = "corpus"
INDEX: Final = "index.ndjson"


class CorpusEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An input, and what it was the first to do.

    Attributes:
        sha: of the bytes; the file's name.
        size: in bytes.
        profile, labels, cell: as in `Mutant`; what the mutator knew.
        bucket: `Outcome.bucket`; of several testees, the text of their outcome tuple.
        lines: of the target's packages, as `module:line`.
        version: of the target.
    """

    sha: str
    size: int
    profile: str
    labels: tuple[str, ...]
    cell: MutantCell
    bucket: str
    lines: tuple[str, ...] = ()
    version: str = ""


DECODER: Final = msgspec.json.Decoder(CorpusEntry)


@dataclass(slots=True)
class Corpus:
    """The corpus of *target* below *root*, with the coverage of its entries.

    Attributes:
        entries: by their SHA-256.
        lines, cells, buckets: of all entries.
    """

    root: Path
    target: str
    entries: dict[str, CorpusEntry] = field(default_factory=dict)
    lines: set[str] = field(default_factory=set)
    cells: set[MutantCell] = field(default_factory=set)
    buckets: set[str] = field(default_factory=set)
    _index: int = -1
    _place: str = ""
    _read_to: int = 0

    def __post_init__(self) -> None:
        """Read the index; entries without a file are left out."""
        self._place = os.fspath(self.folder)
        there = set(names_in(self.folder))
        for entry in self._unread():
            if f"{entry.sha}.bin" in there:
                self._add(entry)

    def refresh(self) -> list[CorpusEntry]:
        """Read what others wrote into the index since; give what is new to us."""
        found = [entry for entry in self._unread() if entry.sha not in self.entries]
        for entry in found:
            self._add(entry)
        return found

    def _unread(self) -> list[CorpusEntry]:
        found, self._read_to = read_index(self.folder / INDEX, self._read_to)
        return found

    @property
    def folder(self) -> Path:
        """The folder of the inputs."""
        return self.root / CORPUS_FOLDER / target_folder(self.target)

    def keep(self, mutant: Mutant, bucket: str, lines: Iterable[str] = (), version: str = "") -> CorpusEntry:
        """Write *mutant*, then its line of the index; OSError where the disk does not take them."""
        sha = sha256(mutant.data).hexdigest()
        entry = CorpusEntry(
            sha, len(mutant.data), mutant.profile, mutant.labels, mutant.cell, bucket, tuple(sorted(lines)), version
        )
        if sha not in self.entries:
            self._write(sha, mutant.data)
        os.write(self._opened(), msgspec.json.encode(entry) + b"\n")
        self._add(entry)
        return entry

    def data(self, entry: CorpusEntry) -> bytes:
        """The bytes of *entry*."""
        return (self.folder / f"{entry.sha}.bin").read_bytes()

    def close(self) -> None:
        """Close the index."""
        if self._index >= 0:
            os.close(self._index)
            self._index = -1

    def _write(self, sha: str, data: bytes) -> None:
        # A campaign begins with thousands of these, so neither pathlib nor a file beside it:
        # one that was cut off has no line in the index, and not the hash that it is called by.
        try:
            file = os.open(f"{self._place}/{sha}.bin", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        except FileNotFoundError:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = os.open(f"{self._place}/{sha}.bin", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            if os.write(file, data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f"{self._place}/{sha}.bin")
        finally:
            os.close(file)

    def _opened(self) -> int:
        if self._index < 0:
            path = self.folder / INDEX
            self._index = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            complete_last_line(self._index)
        return self._index

    def _add(self, entry: CorpusEntry) -> None:
        old = self.entries.get(entry.sha)
        if old is None or entry.lines:
            self.entries[entry.sha] = entry
        self.lines.update(entry.lines)
        self.cells.add(entry.cell)
        self.buckets.add(entry.bucket)


def names_in(folder: Path) -> list[str]:
    """The names of the inputs in *folder*, sorted; none if there is no such folder."""
    try:
        # `iterdir` makes a path of each of thousands.
        return sorted(name for name in os.listdir(folder) if name.endswith(".bin") and name[0] != ".")  # noqa: PTH208  # as above
    except (FileNotFoundError, NotADirectoryError):
        return []


def read_index(path: Path, start: int = 0) -> tuple[list[CorpusEntry], int]:
    """The entries from the offset *start* on, and where the next ones will begin; what is no entry is left out."""
    try:
        with path.open("rb") as file:
            file.seek(start)
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return [], start
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        with suppress(msgspec.MsgspecError):
            found.append(DECODER.decode(line))
    return found, start + len(whole)


# Seeds are not mutated if they are longer; so many are taken from what a campaign kept.
LONGEST: Final = 4096
MOST: Final = 2000
T = TypeVar("T")


@dataclass(slots=True)
class Pool:
    """Inputs to start from.

    Attributes:
        seeds: wire bytes that are mutated.
        untried: those to run as they are, the next one last.
        is_whole: whether the corpus' cases and other targets' inputs are among them.
        is_blind: whether the cases are left out.
    """

    corpus: Corpus
    rng: Random
    seeds: list[bytes] = field(default_factory=list)
    untried: list[bytes] = field(default_factory=list)
    is_whole: bool = False
    is_blind: bool = False

    def add(self, entries: list[CorpusEntry]) -> None:
        """More seeds."""
        self.seeds += [self.corpus.data(entry) for entry in entries if entry.size <= LONGEST]

    def complete(self) -> None:
        """Read what takes longer than the first finds of a codec that is easy to break."""
        if self.is_whole:
            return
        self.is_whole = True
        cases = () if self.is_blind else corpus_seeds()
        self.seeds += cases
        self.untried += [
            *cases,
            *(path.read_bytes() for path in sample_most(self.rng, other_inputs(self.corpus), MOST)),
        ]
        self.rng.shuffle(self.untried)


def open_pool(corpus: Corpus, rng: Random, *, blind: bool = False) -> Pool:
    """The pool of one round, as far as it can be had at once."""
    pool = Pool(corpus, rng, [*own_seeds()], is_blind=blind)
    pool.add(sample_most(rng, list(corpus.entries.values()), MOST))
    return pool


def sample_most(rng: Random, items: list[T], most: int) -> list[T]:
    """At most *most* of *items*."""
    return items if len(items) <= most else rng.sample(items, most)


def other_inputs(corpus: Corpus) -> list[Path]:
    """Inputs that other targets of the campaign have kept."""
    try:
        own = target_folder(corpus.target)
        folders = sorted(
            path for path in (corpus.root / CORPUS_FOLDER).iterdir() if path.name != own and path.name[0] != "."
        )
    except FileNotFoundError:
        return []
    return [folder / name for folder in folders for name in names_in(folder)]
