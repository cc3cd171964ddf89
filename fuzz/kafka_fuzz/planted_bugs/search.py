"""The search for an input that shows a planted bug, by comparing a wrong decoder with the reference."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

from kafka_conformance.testees.interface import CodecError
from kafka_fuzz.mutate import Deck, Profile, draw_profile, mutate, own_seeds
from kafka_fuzz.mutate.mutant import Mutant
from kafka_fuzz.planted_bugs.bug import BatchDecoder
from kafka_records import Batch, RecordFormatError, decode


class DecoderAnswer(NamedTuple):
    """The batches that a decoder returned, whether it refused the input, and in *crashed* any other exception."""

    batches: tuple[Batch, ...]
    refused: bool
    crashed: str = ""


class Detection(NamedTuple):
    """The first input that shows a planted bug, the number of executions up to it, and both answers."""

    executions: int
    mutant: Mutant
    right: DecoderAnswer
    wrong: DecoderAnswer


def decoder_answer(decoder: BatchDecoder, data: bytes) -> DecoderAnswer:
    """The answer of *decoder* to *data*; no exception leaves this function."""
    try:
        return DecoderAnswer(decoder(data), False)
    except RecordFormatError as error:
        return DecoderAnswer(error.batches, True)
    except CodecError:
        return DecoderAnswer((), True)
    except Exception as error:
        return DecoderAnswer((), True, type(error).__name__)


def differs(right: DecoderAnswer, wrong: DecoderAnswer) -> bool:
    """Whether two answers are a difference that a campaign counts.

    A difference is: one decoder reads what the other refuses, it reads other data,
    or it raises an exception that is no refusal.  The number of batches that were
    read before a refusal does not count.
    """
    if wrong.crashed or right.refused != wrong.refused:
        return True
    return not right.refused and right.batches != wrong.batches


class InputSeries:
    """An endless series of inputs with the reference's answers; each is made once, when it is first needed."""

    def __init__(self, seed: int, profile: Profile | None = None, *, seeds: Sequence[bytes] = ()) -> None:
        self.rng = Random(seed)
        self.deck = Deck()
        self.profile = profile
        self.seeds = tuple(seeds) or own_seeds()
        self.made: list[tuple[Mutant, DecoderAnswer]] = []
        # Cumulative CPU-seconds for making inputs and decoding them with the reference.
        self.seconds: list[float] = [0.0]

    def __iter__(self) -> Iterator[tuple[Mutant, DecoderAnswer]]:
        """Inputs and right answers, from the first one on."""
        index = 0
        while True:
            if index == len(self.made):
                start = time.process_time()
                profile = self.profile or draw_profile(self.rng)
                mutant = mutate(self.rng, self.seeds, profile, self.deck)
                self.made.append((mutant, decoder_answer(decode, mutant.data)))
                self.seconds.append(self.seconds[-1] + time.process_time() - start)
            yield self.made[index]
            index += 1


def search_difference(decoder: BatchDecoder, series: InputSeries, most: int) -> Detection | None:
    """The first input on which *decoder* differs from the reference, or None after *most* executions."""
    for executions, (mutant, right) in enumerate(series, start=1):
        if executions > most:
            return None
        wrong = decoder_answer(decoder, mutant.data)
        if differs(right, wrong):
            return Detection(executions, mutant, right, wrong)
    return None
