"""The profile `fixup`: fields mutated on wire bytes, then a fix-up of sizes and checksums.

A decoder that checks sizes and checksums refuses nearly every other mutant early.
In one of ten mutants one of them stays wrong, to test those checks, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final

from kafka_fuzz.mutate import plain
from kafka_fuzz.mutate.edits import EDITS, EditedEntry, choose_seed
from kafka_fuzz.mutate.entries import SeedEntry, part_of, parts_of
from kafka_fuzz.mutate.fixup import INT32, SIZE_AT, fixed_up, with_crc, with_size
from kafka_fuzz.mutate.model import Deck, draw_oddity
from kafka_fuzz.mutate.mutant import Mutant, MutantCell, entry_position
from kafka_records.constants import LOG_OVERHEAD
from kafka_records.layout import CRC_OFFSET_LEGACY, CRC_OFFSET_V2

LEFT_WRONG: Final = 0.1
# More than one edit to one entry, more than one entry, an end that is cut.
AGAIN: Final = 0.3
JOINED: Final = 0.2
# Of what is joined, so much is what led the reader astray before, once there is such.
LED: Final = 0.5
CUT: Final = 0.04


def mutate_fixup(rng: Random, seeds: Sequence[bytes], deck: Deck | None = None) -> Mutant:
    """One of *seeds* after an edit or a few to one of its entries; *deck* knows what leads a reader astray."""
    seed = choose_seed(rng, seeds) if seeds else b""
    parts = parts_of(seed)
    if not parts:
        return unframed(rng, seed, seeds)
    index = int(rng.random() * len(parts))
    part = parts[index]
    done, labels = edit_entry(part, rng, seeds)
    log = [fixed_up(each.whole()) for each in parts[:index]]
    log.append(mostly_fixed_up(done.entry, rng, labels))
    log += (fixed_up(each.whole()) for each in parts[index + 1 :])
    if rng.random() < JOINED:
        if deck is not None and deck.astray and rng.random() < LED:
            index += prepend_oddity(log, rng, deck, labels)
        else:
            index += join_entries(log, rng, seeds, labels)
    data = b"".join(log)
    if rng.random() < CUT:
        data = data[: int(rng.random() * len(data))]
        labels.append("cut")
    magic = part.magic if 0 <= part.magic < 3 else -1
    cell = MutantCell(magic, part.codec, done.field, done.edit, "", done.nesting, entry_position(index, len(log)))
    return Mutant(data, "fixup", tuple(labels), None, cell)


def unframed(rng: Random, seed: bytes, seeds: Sequence[bytes]) -> Mutant:
    """A seed without one whole entry: its bytes edited, then fixed up as if it were one."""
    done = plain.mutate_bytes(rng, (seed, *seeds[:1]))
    return Mutant(fixed_up(done.data), "fixup", done.labels, None, done.cell)


def edit_entry(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> tuple[EditedEntry, list[str]]:
    """The entry after one edit, or a few."""
    done = EDITS[int(rng.random() * len(EDITS))](part, rng, seeds)
    labels = [f"{done.field} {done.edit}"]
    while rng.random() < AGAIN:
        again = part_of(fixed_up(done.entry)) if len(done.entry) > CRC_OFFSET_V2 else None
        if again is None:
            break
        done = EDITS[int(rng.random() * len(EDITS))](again, rng, seeds)
        labels.append(f"{done.field} {done.edit}")
    return done, labels


def mostly_fixed_up(entry: bytes, rng: Random, labels: list[str]) -> bytes:
    """The entry after the fix-up; in one of ten its size or its checksum stays wrong."""
    if rng.random() >= LEFT_WRONG:
        return fixed_up(entry)
    if rng.random() < 0.5:
        labels.append("crc left wrong")
        whole = fixed_up(entry)
        at = CRC_OFFSET_V2 if len(whole) > CRC_OFFSET_V2 and whole[16] == 2 else CRC_OFFSET_LEGACY
        return whole[:at] + bytes(byte ^ 1 << int(rng.random() * 8) for byte in whole[at : at + 1]) + whole[at + 1 :]
    labels.append("size left wrong")
    size = len(entry) - LOG_OVERHEAD + rng.choice((-1, 1, -8, 8, 64, 2**20))
    return with_crc(entry[:SIZE_AT] + INT32.pack(size) + entry[LOG_OVERHEAD:]) if len(entry) > 12 else with_size(entry)


def prepend_oddity(entries: list[bytes], rng: Random, deck: Deck, labels: list[str]) -> int:
    """Put an entry before them that is odd and valid; return that it is one."""
    labels.append("led")
    entries.insert(0, draw_oddity(rng, deck).data)
    return 1


def join_entries(entries: list[bytes], rng: Random, seeds: Sequence[bytes], labels: list[str]) -> int:
    """Put entries of another seed before or after; return the number of entries put before."""
    more = [fixed_up(part.whole()) for part in parts_of(choose_seed(rng, seeds))[:3]]
    labels.append("joined")
    if rng.random() < 0.5:
        entries.extend(more)
        return 0
    entries[:0] = more
    return len(more)
