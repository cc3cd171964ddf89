"""What the corpus shows already: finds that are no news before a campaign has begun.

What a testee does wrong in a case of the corpus has a case that says so; a
campaign looks for what no case asks for.  `corpus_known.json` holds the keys of
the finds that decode cases show in the releases that we know, each with its case;
`kafkaproof fuzz corpus` asks again.  Of another release it says nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from kafka_fuzz.finds import put

PACKAGED: Final = Path(__file__).with_name("corpus_known.json")
FILE: Final = "corpus-known.json"


class Shown(msgspec.Struct, frozen=True):
    """What the corpus shows of one testee.

    Attributes:
        version: of the testee.
        corpus: which corpus that was.
        keys: of finds, each with the id of the first case that shows it.
    """

    version: str
    corpus: str
    keys: dict[str, str]


def read_shown(path: Path) -> dict[str, Shown]:
    """What the corpus showed when it was asked last, by testee; ValueError for a file that says something else."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Shown])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        raise ValueError(f"{path} does not say what the corpus shows: {error}") from None


def shown_in(directory: Path) -> dict[str, Shown]:
    """What the package and *directory* say; what *directory* says of a testee counts."""
    return read_shown(PACKAGED) | read_shown(directory / FILE)


def write_shown(path: Path, shown: dict[str, Shown]) -> None:
    """Keep it beside what is known of other testees, by name."""
    text = msgspec.json.encode(dict(sorted((read_shown(path) | shown).items())))
    put(path, msgspec.json.format(text, indent=1) + b"\n")
