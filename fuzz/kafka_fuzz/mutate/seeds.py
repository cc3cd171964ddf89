"""Seeds: inputs of the corpus' decode cases, and valid entries of our own."""

from __future__ import annotations

from functools import cache
from typing import Final

from kafka_corpus.case import Op
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.mutate.bases import CODECS, axes_of, base_of

# A mutant costs by its length, and large inputs differ from small ones in nothing but that.
LONGEST: Final = 4096
DECODE: Final[tuple[Op, ...]] = ("decode",)


@cache
def corpus_seeds(*, longest: int = LONGEST) -> tuple[bytes, ...]:
    """The inputs of all decode cases up to *longest* bytes, each once, valid and invalid ones."""
    inputs = (case.input for case in load_vectors(ops=DECODE))
    return tuple(dict.fromkeys(data for data in inputs if isinstance(data, bytes) and 0 < len(data) <= longest))


@cache
def own_seeds() -> tuple[bytes, ...]:
    """A valid entry of every shape, for those who do not want to read the corpus."""
    return tuple(
        base_of(magic, codec, axis, level, 0).data
        for magic, codecs in CODECS.items()
        for codec in codecs
        for axis, level in axes_of(magic, codec, filled=False)
        if not level.startswith("8192")
    )
