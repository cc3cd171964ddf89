"""Testees that crash, hang, eat memory or talk too much."""

from __future__ import annotations

import os
import signal
import sys
from typing import Final
from zlib import crc32

import msgspec

from kafka_conformance.miniatures.base import Miniature, records_of
from kafka_conformance.testees import reference
from kafka_corpus.wire import WireBatch
from kafka_records.layout import BATCH_V2

# What one slot of an array of references takes.
SLOT: Final = 8
STRAY_LINE: Final = "DEBUG decoding, please wait...\n"


def _crash_on_headers(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    if any(record.headers for batch in batches for record in records_of(batch)):
        os.kill(os.getpid(), signal.SIGSEGV)
    return batches


def _exit_on_errors(data: bytes) -> list[WireBatch]:
    try:
        return reference.decode(data)
    except Exception as error:
        sys.stderr.write(f"panic: {error}\n")
        sys.stderr.flush()
        os._exit(101)


def _hang_on_lz4(data: bytes) -> list[WireBatch]:
    batches = reference.decode(data)
    while any(batch.compression == "lz4" for batch in batches):
        pass
    return batches


def _allocate_by_count(data: bytes) -> list[WireBatch]:
    count = BATCH_V2.field("record_count")
    claimed = int.from_bytes(data[count.offset : count.offset + count.width], "big", signed=True)
    if len(data) >= BATCH_V2.size and data[BATCH_V2.field("magic").offset] == 2 and claimed > 0:
        bytearray(claimed * SLOT)
    return reference.decode(data)


def _stray_lines(data: bytes) -> list[WireBatch]:
    sys.stdout.write(STRAY_LINE)
    sys.stdout.flush()
    return reference.decode(data)


def _crash_on_a_tenth(data: bytes) -> list[WireBatch]:
    if not crc32(data) % 10:
        os._exit(70)
    return reference.decode(data)


def _crash_on_a_tenth_written(batch: WireBatch) -> bytes:
    if not crc32(msgspec.json.encode(batch)) % 10:
        os._exit(70)
    return reference.encode(batch)


CRASHES_ON_HEADERS = Miniature(
    NAME="crashes_on_headers", wrong="a segmentation fault on headers", caught_as="crash", decode=_crash_on_headers
)
CRASHES_ON_A_TENTH = Miniature(
    NAME="crashes_on_a_tenth",
    wrong="ends on one question in ten",
    caught_as="crash",
    decode=_crash_on_a_tenth,
    encode=_crash_on_a_tenth_written,
)
PANICS = Miniature(NAME="panics", wrong="ends on what it should refuse", caught_as="crash", decode=_exit_on_errors)
HANGS_ON_LZ4 = Miniature(NAME="hangs_on_lz4", wrong="loops for ever on lz4", caught_as="hang", decode=_hang_on_lz4)
ALLOCATES_BY_COUNT = Miniature(
    NAME="allocates_by_count",
    wrong="takes memory for as many records as the header claims",
    caught_as="memory",
    decode=_allocate_by_count,
)
PRINTS_STRAY_LINES = Miniature(
    NAME="prints_stray_lines", wrong="prints to standard output", caught_as=None, decode=_stray_lines
)
