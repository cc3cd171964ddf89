"""Zstandard frames in words (RFC 8878)."""

from __future__ import annotations

from kafka_records.compression import zstd
from kafka_records.compression.common import refused
from kafka_records.explain.frames import Packed
from kafka_records.explain.words import joined, size

BLOCK_TYPES = ("raw", "one byte repeated", "compressed", "reserved type")


def write_zstd(packed: Packed) -> None:
    """Write frames and skippable frames, one after the other (ZST-02, ZST-03)."""
    while packed.pen.left:
        at = packed.at
        if packed.data[at + 1 : at + 4] == zstd.SKIPPABLE and packed.data[at] & 0xF0 == 0x50:
            write_skippable(packed)
        elif packed.data.startswith(zstd.MAGIC, at):
            write_frame(packed)
        else:
            raise refused("not a zstd frame", at, "ZST-04")


def write_skippable(packed: Packed) -> None:
    """Write a frame that holds no data."""
    packed.say("magic", 4, f"0x184d2a5{packed.data[packed.at] & 15:x}", "a skippable frame", "ZST-03")
    length = packed.number("skipped_size", 4, "little-endian", "ZST-03")
    packed.bulk("skipped", packed.at + length, "not looked at", "ZST-03")


def write_frame(packed: Packed) -> None:
    """Write a frame's header, its blocks and its checksum."""
    frame = zstd.read_frame_header(packed.data, packed.at)
    write_zstd_header(packed, frame)
    last = False
    while not last:
        last = write_zstd_block(packed)
    if frame.checksum:
        packed.number("content_checksum", 4, "low half of the output's xxHash-64", "ZST-05")


def write_zstd_header(packed: Packed, frame: zstd.Frame) -> None:
    """Write what comes before the blocks; it is all there and allowed."""
    descriptor = packed.data[packed.at + 4]
    single = bool(descriptor & 0x20)
    packed.say("magic", 4, "0xfd2fb528", "a zstd frame, little-endian", "ZST-02")
    meaning = joined(
        "one segment" if single else "",
        "content size" if frame.content_size is not None else "no content size",
        "content checksum" if frame.checksum else "no checksum",
    ).replace(";", ",")
    packed.say("descriptor", 1, f"0x{descriptor:02x}", meaning, "ZST-10")
    if not single:
        window = zstd.window_size(packed.data[packed.at])
        packed.say("window", 1, f"0x{packed.data[packed.at]:02x}", f"a window of {size(window)}", "ZST-08")
    packed.number("dictionary_id", zstd.DICTIONARY_ID_BYTES[descriptor & 3], "no dictionary", "ZST-09")
    if frame.content_size is not None:
        content = size(frame.content_size)
        packed.say("content_size", frame.end - packed.at, str(frame.content_size), f"{content} of output", "ZST-06")


def write_zstd_block(packed: Packed) -> bool:
    """Write a block; return whether it is the last."""
    at = packed.at
    header = int.from_bytes(packed.data[at : at + 3], "little")
    last, kind, length = bool(header & 1), header >> 1 & 3, header >> 3
    meaning = f"{BLOCK_TYPES[kind]}, {size(length)}{', the last block' if last else ''}"
    packed.say("block_header", 3, f"0x{header:06x}", meaning, "ZST-07")
    if (not packed.pen.left and not (last and length == 0)) or kind == 3:
        raise refused("a zstd block is cut short or of reserved type", at, "ZST-07")
    packed.bulk("block", packed.at + (1 if kind == 1 else length), "block data", "ZST-07")
    return last
