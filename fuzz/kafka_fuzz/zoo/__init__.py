"""The zoo: wrong codecs, each one deviation from the reference, that fuzzing has to find.

`ZOO` has them by name; each says what is wrong with it, and within how many
executions it is found.
"""

from __future__ import annotations

from typing import Final

from kafka_fuzz.zoo.animal import Animal
from kafka_fuzz.zoo.batches import BATCHES
from kafka_fuzz.zoo.hunt import Answer, Catch, Prey, hunt
from kafka_fuzz.zoo.others import MESSAGES, STREAMS, miniatures
from kafka_fuzz.zoo.records import RECORDS

__all__ = ["ZOO", "Animal", "Answer", "Catch", "Prey", "hunt"]

ZOO: Final[dict[str, Animal]] = {
    animal.name: animal for animal in (*BATCHES, *RECORDS, *MESSAGES, *STREAMS, *miniatures())
}
