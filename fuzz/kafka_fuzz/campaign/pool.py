"""What a round mutates, and what it runs as it is: the corpus' cases, the target's own inputs, and other targets'."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from kafka_fuzz.campaign.rounds import folder_name
from kafka_fuzz.campaign.store import FOLDER, Corpus, Entry, names_in
from kafka_fuzz.mutate import corpus_seeds, own_seeds

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

    def add(self, entries: list[Entry]) -> None:
        """More seeds."""
        self.seeds += [self.corpus.data(entry) for entry in entries if entry.size <= LONGEST]

    def complete(self) -> None:
        """Read what takes longer than the first finds of a codec that is easy to break."""
        if self.is_whole:
            return
        self.is_whole = True
        cases = () if self.is_blind else corpus_seeds()
        self.seeds += cases
        self.untried += [*cases, *(path.read_bytes() for path in some(self.rng, of_others(self.corpus), MOST))]
        self.rng.shuffle(self.untried)


def pool_of(corpus: Corpus, rng: Random, *, blind: bool = False) -> Pool:
    """The pool of one round, as far as it can be had at once."""
    pool = Pool(corpus, rng, [*own_seeds()], is_blind=blind)
    pool.add(some(rng, list(corpus.entries.values()), MOST))
    return pool


def some(rng: Random, items: list[T], most: int) -> list[T]:
    """At most *most* of *items*."""
    return items if len(items) <= most else rng.sample(items, most)


def of_others(corpus: Corpus) -> list[Path]:
    """What other targets of the campaign have kept."""
    try:
        own = folder_name(corpus.target)
        folders = sorted(path for path in (corpus.root / FOLDER).iterdir() if path.name != own and path.name[0] != ".")
    except FileNotFoundError:
        return []
    return [folder / name for folder in folders for name in names_in(folder)]
