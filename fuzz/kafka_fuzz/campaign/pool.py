"""What a round mutates, and what it runs as it is: the corpus' cases, the target's own inputs, and other targets'."""

from __future__ import annotations

from dataclasses import dataclass
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
    """

    seeds: list[bytes]
    untried: list[bytes]

    def add(self, corpus: Corpus, entries: list[Entry]) -> None:
        """More seeds."""
        self.seeds += [corpus.data(entry) for entry in entries if entry.size <= LONGEST]


def pool_of(corpus: Corpus, rng: Random) -> Pool:
    """The pool of one round."""
    others = [path.read_bytes() for path in some(rng, of_others(corpus), MOST)]
    untried = [*corpus_seeds(), *others]
    rng.shuffle(untried)
    pool = Pool([*own_seeds(), *corpus_seeds()], untried)
    pool.add(corpus, some(rng, list(corpus.entries.values()), MOST))
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
