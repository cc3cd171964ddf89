"""The profile `fixup`: fields mutated on wire bytes, then a fix-up of sizes and checksums.

A decoder that checks sizes and checksums refuses nearly every other mutant early.
In one of ten mutants one of them stays wrong, to test those checks, too.

Each edit takes the parts of an entry and returns a whole entry with one change,
whose dependent fields inside are fixed up; its own size and checksum are fixed up
by the profile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from kafka_fuzz.mutate import plain
from kafka_fuzz.mutate.entries import SeedEntry, Span, body_spans, part_of, parts_of, record_spans
from kafka_fuzz.mutate.fixup import (
    INT32,
    SIZE_AT,
    as_message,
    fixed_up,
    pack_fast,
    varint,
    with_crc,
    with_size,
    write_message_bytes,
)
from kafka_fuzz.mutate.model import Deck, draw_oddity
from kafka_fuzz.mutate.mutant import Mutant, MutantCell, Nesting, entry_position
from kafka_records.constants import COMPRESSIONS, LOG_OVERHEAD, MAGIC_VALUE_V2
from kafka_records.layout import (
    ATTRIBUTES_OFFSET_LEGACY,
    ATTRIBUTES_OFFSET_V2,
    BATCH_V2,
    CRC_OFFSET_LEGACY,
    CRC_OFFSET_V2,
    ENTRY,
    MESSAGE_V0,
)
from kafka_records.varint import decode_varlong, encode_varlong

# Fields that are computed from the others.
DEPENDENT: Final = ("batch_length", "message_size", "crc")
COUNT: Final = BATCH_V2.field("record_count")
LAST_DELTA: Final = BATCH_V2.field("last_offset_delta")
VARINT_EDGES: Final = (
    *(0, 1, 2, -1, -2, 63, 64, -64, -65, 127, 128, 8191, 8192, 2**20),
    *(2**31 - 1, -(2**31), 2**31, 2**32, 2**63 - 1, -(2**63)),
)
# The share of edits inside a record after which the dependent fields are fixed up.
FIXUP_SHARE: Final = 0.85


class EditedEntry(NamedTuple):
    """An entry after an edit: its bytes, the field, the kind of edit, and the nesting of the field."""

    entry: bytes
    field: str
    edit: str
    nesting: Nesting


Edit = Callable[[SeedEntry, Random, Sequence[bytes]], EditedEntry]


def nesting_of(part: SeedEntry) -> Nesting:
    """The nesting of the records of an entry."""
    return "record" if part.codec == "none" else "packed"


def choose_seed(rng: Random, items: Sequence[bytes]) -> bytes:
    """One of *items*."""
    return items[int(rng.random() * len(items))]


def fixed_field(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """A fixed field at an edge of its type, or close to what it was."""
    fields = [field for field in part.layout.fields if field.name not in DEPENDENT]
    field = fields[int(rng.random() * len(fields))]
    value = int.from_bytes(part.head[field.offset : field.offset + field.width], "big")
    other, edit = another_integer(value, rng)
    packed = (other % (1 << 8 * field.width)).to_bytes(field.width, "big")
    head = part.head[: field.offset] + packed + part.head[field.offset + field.width :]
    return EditedEntry(part.whole(head), field.name, edit, "entry")


def another_integer(value: int, rng: Random) -> tuple[int, str]:
    """An integer instead of *value*, and how it was chosen."""
    match int(rng.random() * 5):
        case 0:
            return value + rng.choice((-2, -1, 1, 2)), "step"
        case 1:
            return value ^ 1 << rng.randrange(16), "bit"
        case 2:
            return int.from_bytes(value.to_bytes(8, "big").lstrip(b"\0"), "little"), "reversed"
    return rng.choice(plain.EDGES), "edge"


def record_field(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """A field of a v2 record: a varint at an edge or in a longer form, bytes edited."""
    if part.magic != MAGIC_VALUE_V2 or not part.records:
        return body_field(part, rng, seeds) if part.magic < MAGIC_VALUE_V2 else payload_bytes(part, rng, seeds)
    index = int(rng.random() * len(part.records))
    record = part.records[index]
    spans = record_spans(record)
    if not spans:
        return payload_bytes(part, rng, seeds)
    at = int(rng.random() * len(spans))
    content, edit = another_content(record, spans[at], rng, seeds)
    changed = with_span(record, spans, at, content, rng)
    payload = b"".join((*part.records[:index], changed, *part.records[index + 1 :]))
    return EditedEntry(part.whole(payload=payload), spans[at].name, edit, nesting_of(part))


def another_content(record: bytes, span: Span, rng: Random, seeds: Sequence[bytes]) -> tuple[bytes, str]:
    """Other bytes for a field, and how they were made."""
    content = record[span.start : span.end]
    if span.type == "bytes":
        name, edit = plain.EDITS[int(rng.random() * len(plain.EDITS))]
        return edit(content, rng, seeds), name
    if span.type == "i8":
        return bytes((rng.choice(plain.BYTES),)), "edge"
    match int(rng.random() * 4):
        case 0:
            return encode_varlong(decode_varlong(content, 0, "")[0] + rng.choice((-2, -1, 1, 2))), "step"
        case 1:
            longer = content[:-1] + bytes((content[-1] | 0x80,)) + b"\x80" * rng.randrange(9)
            return longer + bytes((rng.choice((0, 0, 1, 0x10, 0x7F)),)), "longer"
        case 2:
            return content[:-1] + bytes((content[-1] ^ 1 << rng.randrange(8),)), "bit"
    return encode_varlong(rng.choice(VARINT_EDGES)), "edge"


def with_span(record: bytes, spans: Sequence[Span], at: int, content: bytes, rng: Random) -> bytes:
    """The record with another field; a length in front of it, and its own, mostly agree."""
    span, length = spans[at], spans[0]
    if at == 0:
        return content + record[span.end :]
    before, start = record[length.end : span.start], span.start
    if span.type == "bytes" and rng.random() < FIXUP_SHARE:
        start = spans[at - 1].start
        before = record[length.end : start] + varint(len(content))
    body = before + content + record[span.end :]
    return (varint(len(body)) if rng.random() < FIXUP_SHARE else record[: length.end]) + body


def body_field(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """A length, key or value of a message, or of one of a wrapper's messages."""
    if part.codec != "none" or part.broken:
        return inner_message(part, rng, seeds)
    spans = body_spans(part.payload)
    if not spans:
        return payload_bytes(part, rng, seeds)
    span = spans[int(rng.random() * len(spans))]
    content = part.payload[span.start : span.end]
    if span.type == "bytes":
        name, edit = plain.EDITS[int(rng.random() * len(plain.EDITS))]
        content, before = edit(content, rng, seeds), part.payload[: span.start]
        if rng.random() < FIXUP_SHARE:
            before = before[:-4] + INT32.pack(len(content))
    else:
        value, name = another_integer(int.from_bytes(content, "big"), rng)
        content, before = (value % (1 << 32)).to_bytes(4, "big"), part.payload[: span.start]
    return EditedEntry(part.whole(payload=before + content + part.payload[span.end :]), span.name, name, "record")


def inner_message(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """An edit to one of a wrapper's messages, whose size and checksum are fixed up like those of an entry."""
    if not part.records:
        return payload_bytes(part, rng, seeds)
    index = int(rng.random() * len(part.records))
    if rng.random() < 0.2:
        return inner_size(part, index, rng)
    inner = part_of(part.records[index])
    if inner is None:
        return payload_bytes(part, rng, seeds)
    done = (fixed_field, body_field)[rng.random() < 0.5](inner, rng, seeds)
    entry = fixed_up(done.entry) if rng.random() < FIXUP_SHARE else done.entry
    payload = b"".join((*part.records[:index], entry, *part.records[index + 1 :]))
    return EditedEntry(part.whole(payload=payload), done.field, done.edit, "packed")


def inner_size(part: SeedEntry, index: int, rng: Random) -> EditedEntry:
    """Another size for one of a wrapper's messages; no checksum of its own covers it."""
    record = part.records[index]
    size, edit = another_integer(len(record) - LOG_OVERHEAD, rng)
    changed = record[:SIZE_AT] + (size % (1 << 32)).to_bytes(4, "big") + record[LOG_OVERHEAD:]
    payload = b"".join((*part.records[:index], changed, *part.records[index + 1 :]))
    return EditedEntry(part.whole(payload=payload), "size", edit, "packed")


def payload_bytes(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """Bytes of the payload, unpacked; inner messages that can still be followed are fixed up."""
    name, edit = plain.EDITS[int(rng.random() * len(plain.EDITS))]
    payload = edit(part.payload, rng, seeds)
    if part.magic < MAGIC_VALUE_V2 and part.codec != "none" and rng.random() < FIXUP_SHARE:
        payload = fixed_up_messages(payload)
    return EditedEntry(part.whole(payload=payload), "payload", name, nesting_of(part))


def fixed_up_messages(payload: bytes) -> bytes:
    """Inner messages end to end with their checksums right; the last takes what is left."""
    made, at = [], 0
    while at + LOG_OVERHEAD <= len(payload):
        size = ENTRY.struct.unpack_from(payload, at)[1]
        end = at + LOG_OVERHEAD + size
        if size < MESSAGE_V0.size - LOG_OVERHEAD or end > len(payload):
            end = len(payload)
        made.append(fixed_up(payload[at:end]))
        at = end
    return b"".join(made) + payload[at:]


def stream_bytes(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """Bytes of the packed stream; plain records are edited as such."""
    if part.codec == "none":
        return payload_bytes(part, rng, seeds)
    name, edit = plain.EDITS[int(rng.random() * len(plain.EDITS))]
    packed = edit(part.packed, rng, seeds)
    head = part.head if part.magic == MAGIC_VALUE_V2 else part.head[:-4] + INT32.pack(len(packed))
    return EditedEntry(head + packed, "stream", name, "stream")


def record_list(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """Records dropped, doubled, reversed, or spliced in from another seed; counts mostly agree."""
    if not part.records or (part.magic < MAGIC_VALUE_V2 and part.codec == "none"):
        return body_field(part, rng, seeds) if part.magic < MAGIC_VALUE_V2 else payload_bytes(part, rng, seeds)
    records, index = list(part.records), int(rng.random() * len(part.records))
    edit = ("drop", "double", "turn", "splice", "splice")[int(rng.random() * 5)]
    match edit:
        case "drop":
            del records[index]
        case "double":
            records.insert(index, records[index])
        case "turn":
            records.reverse()
        case _:
            records[index : index + int(rng.random() * 2)] = other_records(part, rng, seeds)
    return EditedEntry(
        part.whole(with_record_count(part, len(records), rng), b"".join(records)), "records", edit, nesting_of(part)
    )


def other_records(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> Sequence[bytes]:
    """A few records of another entry of the same kind."""
    for _ in range(4):
        parts = parts_of(choose_seed(rng, seeds)) if seeds else ()
        for other in parts:
            if (other.magic == MAGIC_VALUE_V2) == (part.magic == MAGIC_VALUE_V2) and other.records:
                return other.records[: 1 + int(rng.random() * 3)]
    return part.records[:1]


def with_record_count(part: SeedEntry, count: int, rng: Random) -> bytes:
    """The header with another count of records."""
    if part.magic != MAGIC_VALUE_V2 or rng.random() > FIXUP_SHARE:
        return part.head
    head = part.head[: COUNT.offset] + INT32.pack(count)
    return head[: LAST_DELTA.offset] + INT32.pack(count - 1) + head[LAST_DELTA.offset + LAST_DELTA.width :]


def another_codec(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """The same payload in another codec; a message is put into a wrapper."""
    if part.magic < MAGIC_VALUE_V2:
        return wrapper_around(part, rng)
    number = int(rng.random() * len(COMPRESSIONS))
    at = ATTRIBUTES_OFFSET_V2 + 1
    head = part.head[:at] + bytes((part.head[at] & ~7 | number,)) + part.head[at + 1 :]
    repacked = part._replace(codec=COMPRESSIONS[number], head=head)
    return EditedEntry(repacked.whole(payload=part.payload), "attributes", COMPRESSIONS[number], "entry")


def wrapper_around(part: SeedEntry, rng: Random) -> EditedEntry:
    """The message, or the wrapper, inside a wrapper."""
    number = 1 + int(rng.random() * 3)
    inner = fixed_up(part.whole())
    offset, magic = int.from_bytes(inner[:8], "big", signed=True), part.magic & 1
    packed = pack_fast(COMPRESSIONS[number], inner, magic)
    wrapper = as_message(magic, offset, 0, None, packed)._replace(attributes=number)
    return EditedEntry(write_message_bytes(wrapper), "attributes", f"wrapped in {COMPRESSIONS[number]}", "packed")


def attribute_bit(part: SeedEntry, rng: Random, seeds: Sequence[bytes]) -> EditedEntry:
    """A bit of the attributes above the codec's."""
    at = ATTRIBUTES_OFFSET_V2 + 1 if part.magic == MAGIC_VALUE_V2 else ATTRIBUTES_OFFSET_LEGACY
    bit = 3 + int(rng.random() * 5)
    head = part.head[:at] + bytes((part.head[at] ^ 1 << bit,)) + part.head[at + 1 :]
    return EditedEntry(part.whole(head), "attributes", f"bit {bit}", "entry")


EDITS: Final[tuple[Edit, ...]] = (
    *(fixed_field,) * 3,
    *(record_field,) * 5,
    *(payload_bytes,) * 2,
    *(record_list,) * 2,
    stream_bytes,
    another_codec,
    attribute_bit,
)


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
