"""A dictionary for fuzzers that know no structure, from the layout tables.

libFuzzer and AFL read the same form: `name="bytes"`, one word a line.

    python -m kafka_fuzz.mutate.dictionary [--check] FILE
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from kafka_records import Batch, Record, encode
from kafka_records.compression import gzip, lz4, snappy, zstd
from kafka_records.constants import COMPRESSIONS, NO_TIMESTAMP
from kafka_records.layout import BATCH_V2, HEADER_V2, MESSAGE_V0, MESSAGE_V1, RECORD_V2, Layout
from kafka_records.record import encode_record
from kafka_records.varint import encode_varint, encode_varlong

LAYOUTS: Final = {"message_v0": MESSAGE_V0, "message_v1": MESSAGE_V1, "batch_v2": BATCH_V2}
# Where the varint of a length grows by a byte, and the ends of its type.
VARINTS: Final = (-(2**31), -2, -1, 0, 1, 63, 64, 8191, 8192, 2**20, 2**31 - 1)
VARLONGS: Final = (-(2**63), 2**63 - 1, 2**31, -(2**31) - 1)
HEADING: Final = (
    "# Words of Kafka's record formats, for libFuzzer and AFL.\n"
    "# Made from the layout tables: python -m kafka_fuzz.mutate.dictionary FILE\n"
)


@cache
def dictionary_entries() -> dict[str, bytes]:
    """Name and bytes of every word; a repeated word keeps its first name."""
    found: dict[str, bytes] = {}
    seen: set[bytes] = set()
    for name, word in named_entries():
        if word not in seen:
            seen.add(word)
            found[name] = word
    return found


@cache
def dictionary_words() -> tuple[bytes, ...]:
    """The words alone."""
    return tuple(dictionary_entries().values())


def named_entries() -> Iterator[tuple[str, bytes]]:
    """Every word, repetitions too."""
    for label, layout in LAYOUTS.items():
        yield from fixed_words(label, layout)
    yield from varint_words()
    for number, codec in enumerate(COMPRESSIONS):
        yield f"batch_v2.attributes.{codec}", BATCH_V2.struct.pack(*attribute_values(number))[21:23]
    for bit in range(3, 8):
        yield f"batch_v2.attributes.bit_{bit}", (1 << bit).to_bytes(2, "big")
    yield "gzip.magic", gzip.MAGIC
    yield "gzip.header", gzip.JAVA_HEADER
    yield "snappy.header", snappy.HEADER.pack(snappy.MAGIC, snappy.VERSION, snappy.VERSION)
    yield "lz4.magic", lz4.MAGIC
    yield "lz4.header", lz4.compress(b"", broken_header=False)[:7]
    yield "lz4.header_v0", lz4.compress(b"", broken_header=True)[:7]
    yield "zstd.magic", zstd.MAGIC
    yield "zstd.empty_frame", zstd.compress(b"")
    yield from entry_words()


def entry_words() -> Iterator[tuple[str, bytes]]:
    """The smallest entry of each magic, and the smallest record: words that are right as a whole."""
    record = Record(0, NO_TIMESTAMP, None, None)
    yield "record_v2.smallest", encode_record(record, 0, NO_TIMESTAMP)
    yield "batch_v2.smallest", encode(Batch(magic=2, base_offset=0, last_offset=0))
    yield (
        "message_v0.smallest",
        encode(Batch(magic=0, base_offset=0, last_offset=0, timestamp_type="none", records=(record,))),
    )
    yield "message_v1.smallest", encode(Batch(magic=1, base_offset=0, last_offset=0, records=(record,)))


def attribute_values(number: int) -> tuple[int, ...]:
    """A header of zeros but for the attributes."""
    return tuple(number if field.name == "attributes" else 0 for field in BATCH_V2.fields)


def fixed_words(label: str, layout: Layout) -> Iterator[tuple[str, bytes]]:
    """The edges of each type, under the name of its first field; and the smallest size of an entry."""
    yield f"{label}.smallest_size", (layout.size - 12).to_bytes(4, "big")
    for field in layout.fields:
        if field.type == "u32":
            continue  # a checksum is never found in a dictionary
        most = (1 << 8 * field.width - 1) - 1
        for edge, value in {"least": -most - 1, "none": -1, "zero": 0, "one": 1, "two": 2, "most": most}.items():
            yield f"{label}.{field.name}.{edge}", value.to_bytes(field.width, "big", signed=True)


def varint_words() -> Iterator[tuple[str, bytes]]:
    """Values of varints and varlongs, and forms that are too long."""
    for name, type_ in (*RECORD_V2, *((f"header.{name}", type_) for name, type_ in HEADER_V2)):
        if type_ == "varint":
            yield from ((f"record_v2.{name}.{value}", encode_varint(value)) for value in VARINTS)
            yield f"record_v2.{name}.six_bytes", b"\x80" * 5 + b"\0"
        elif type_ == "varlong":
            yield from ((f"record_v2.{name}.{value}", encode_varlong(value)) for value in VARLONGS)
            yield f"record_v2.{name}.eleven_bytes", b"\x80" * 10 + b"\0"


def dictionary_text() -> str:
    """The dictionary's file."""
    lines = (f'{name.replace("-", "minus_")}="{escaped_entry(word)}"\n' for name, word in dictionary_entries().items())
    return HEADING + "".join(lines)


def escaped_entry(word: bytes) -> str:
    """Every byte as `\\xNN`, which both fuzzers take."""
    return "".join(f"\\x{byte:02x}" for byte in word)


def main(arguments: list[str]) -> int:
    """Write the dictionary, or with --check only say whether the file is up to date."""
    paths = [Path(each) for each in arguments if each != "--check"]
    if len(paths) != 1:
        sys.stderr.write("usage: python -m kafka_fuzz.mutate.dictionary [--check] FILE\n")
        return 2
    if "--check" in arguments:
        return int(not paths[0].is_file() or paths[0].read_text(encoding="utf-8") != dictionary_text())
    paths[0].write_text(dictionary_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
