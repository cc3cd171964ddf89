"""The hunt for a wrong codec: the same inputs through the reference and it, until they answer differently."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from kafka_conformance.testee import CodecError
from kafka_fuzz.mutate import Deck, Profile, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.mutant import Mutant
from kafka_fuzz.zoo.animal import Decode
from kafka_records import Batch, RecordFormatError, decode


class Answer(NamedTuple):
    """What a decoder made of an input: batches, and whether it refused; *crashed* names any other exception."""

    batches: tuple[Batch, ...]
    refused: bool
    crashed: str = ""


class Catch(NamedTuple):
    """The first input that told a wrong codec: after how many executions, and both answers."""

    executions: int
    mutant: Mutant
    right: Answer
    wrong: Answer


def answer_of(decoder: Decode, data: bytes) -> Answer:
    """What *decoder* answers, whatever it does."""
    try:
        return Answer(decoder(data), False)
    except RecordFormatError as error:
        return Answer(error.batches, True)
    except CodecError:
        return Answer((), True)
    except Exception as error:
        return Answer((), True, type(error).__name__)


def tells(right: Answer, wrong: Answer) -> bool:
    """Whether two answers are a difference that a campaign counts.

    One reads what the other refuses, or reads other data, or raises what it should
    not.  How far each got before it refused is no difference.
    """
    if wrong.crashed or right.refused != wrong.refused:
        return True
    return not right.refused and right.batches != wrong.batches


class Prey:
    """A series of inputs with the reference's answers, made as far as somebody asks."""

    def __init__(self, seed: int, profile: Profile | None = None, *, seeds: Sequence[bytes] = ()) -> None:
        self.rng = Random(seed)
        self.deck = Deck()
        self.profile = profile
        self.seeds = tuple(seeds) or own_seeds()
        self.made: list[tuple[Mutant, Answer]] = []
        # CPU-seconds that making them and asking the reference took, added up.
        self.seconds: list[float] = [0.0]

    def __iter__(self) -> Iterator[tuple[Mutant, Answer]]:
        """From the first on, without end."""
        index = 0
        while True:
            if index == len(self.made):
                start = time.process_time()
                profile = self.profile or draw_profile(self.rng)
                mutant = mutate(self.rng, self.seeds, profile, self.deck)
                self.made.append((mutant, answer_of(decode, mutant.data)))
                self.seconds.append(self.seconds[-1] + time.process_time() - start)
            yield self.made[index]
            index += 1


def hunt(decoder: Decode, prey: Prey, most: int) -> Catch | None:
    """The first input that tells *decoder* from the reference, within *most* executions."""
    for executions, (mutant, right) in enumerate(prey, start=1):
        if executions > most:
            return None
        wrong = answer_of(decoder, mutant.data)
        if tells(right, wrong):
            return Catch(executions, mutant, right, wrong)
    return None
