"""The zoo: wrong codecs, each one deviation from the reference, that fuzzing has to find.

`ZOO` has them by name; each says what is wrong with it, and within how many
executions it is found.
"""

from __future__ import annotations

from typing import Final

from kafka_fuzz.planted_bugs.batches import BATCHES, RECORDS
from kafka_fuzz.planted_bugs.messages import MESSAGES, STREAMS, miniatures
from kafka_fuzz.planted_bugs.patched import DecoderAnswer, Detection, InputSeries, PatchedDecoder, search_difference

__all__ = ["ZOO", "DecoderAnswer", "Detection", "InputSeries", "PatchedDecoder", "search_difference"]

ZOO: Final[dict[str, PatchedDecoder]] = {
    animal.name: animal for animal in (*BATCHES, *RECORDS, *MESSAGES, *STREAMS, *miniatures())
}
