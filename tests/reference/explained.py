"""Views of an explanation for tests, and the digests of all explanations of the corpus.

`python -m tests.reference.explained` writes them, with `--check` it only compares.
"""

import sys
from collections.abc import Iterator
from hashlib import sha256
from itertools import cycle, product, starmap
from operator import itemgetter
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import msgspec
from tests.reference.topic_values import drawn, record_bytes, tables

import kafka_corpus
from kafka_corpus.answers import (
    DESCRIBED_RELEASES,
    OLD_PRODUCE,
    Described,
    described,
    described_line,
    described_prediction,
    described_releases,
    is_described,
)
from kafka_corpus.authoring.batches import CONTROL, PLAIN, TRANSACTIONAL
from kafka_corpus.authoring.build import TIMESTAMP, packed, raw_batch, raw_header, raw_message, raw_record
from kafka_corpus.authoring.frames import (
    codec_id,
    deflate_stored,
    gzip_header,
    gzip_member,
    lz4_data,
    lz4_header,
    pack,
    skippable,
    zstd_block,
    zstd_checksum,
    zstd_frame,
    zstd_header,
)
from kafka_corpus.authoring.logs import keyed, on_disk
from kafka_corpus.authoring.messages import APPEND_BIT, numbered, set_of, wrap
from kafka_corpus.authoring.steps import APPEND_TIME
from kafka_corpus.case import Case, Recipe
from kafka_corpus.recipes import build_recipe
from kafka_corpus.scenario import NOW, Fetch, Made, Produce
from kafka_corpus.vectors import load_vectors
from kafka_records import Header, Record, explain
from kafka_records.broker.releases import behaviour
from kafka_records.constants import COMPRESSIONS, MAGIC_VALUE_V2, RECORD_OVERHEAD_V1, Compression
from kafka_records.control import ControlRecord, encode_control
from kafka_records.explain import Field, Part
from kafka_records.internal_topics import COORDINATORS, MessageTable, version_layout
from kafka_records.varint import encode_varint

KEPT = Path(kafka_corpus.__file__).with_name("explained.ndjson")
# Cases that are decoded with ever less memory: each way in which objects and compressed bytes are paid for.
LIMITED = (
    "v2_headers.headers_are_read[two]",
    "v2_headers.compressed_headers_are_read[zstd]",
    "compression.read[gzip-headers]",
    "compression.read[lz4-headers]",
    "compression.read[snappy-headers]",
    "message_set.append_bit_of_a_v0_wrapper[gzip]",
    "message_set.create_time_keeps_inner_times[snappy]",
    "message_set.lz4_is_known_to_all[v0]",
    "resources.many_empty_batches[hundred]",
    "zstd.compressed_blocks[two-blocks]",
    "zstd.content_size[four-bytes]",
    "zstd.frames_of_different_kinds",
    "zstd.several_frames[in-a-value]",
)


def field(data: bytes, path: str, section: int = 0) -> Field:
    """The first field at *path*."""
    return next(each for each in explain(data).sections[section].fields if each.path == path)


def meanings(data: bytes, section: int = 0) -> list[str]:
    """The meaning of every field."""
    return [each.meaning for each in explain(data).sections[section].fields]


def titles(part: Part) -> list[str]:
    """The titles of a part's parts, outermost first."""
    parts = [child for child in part.children if isinstance(child, Part)]
    return [title for child in parts for title in (child.title, *titles(child))]


def descriptions() -> Iterator[Described]:
    """Digests of what the reference says: each line of `KEPT`.

    One for each area of its decode and encode cases without a recipe, and of its predictions; one for each full
    heap, other bound, and frame of a codec; for each case that is decoded with ever less memory; for control records
    and markers; and for records of internal topics.
    """
    areas: dict[str, list[tuple[str, Any]]] = {}
    for case in load_vectors():
        if is_described(case):
            areas.setdefault(case.area, []).append((case.id, case.input))
    limited = {id_: data for inputs in areas.values() for id_, data in inputs if id_ in LIMITED}
    for area, inputs in sorted(areas.items()):
        digest = sha256(b"".join(described(data) for _, data in sorted(inputs, key=itemgetter(0)))).hexdigest()
        yield Described(area=area, sha256=digest)
    yield from predictions()
    yield from map(_with_digest, full_heaps())
    yield from map(_with_digest, bounds())
    yield from (_with_digest(Described(codec=codec, frame=frame)) for codec, frame in FRAMES)
    yield from map(_with_digest, grids())
    for id_ in LIMITED:
        yield _with_digest(Described(limited=id_), limited[id_])
    for length in (b"\x81\x80\x80\x80\x00", b"\x81\x80\x80\x80\x80\x00"):
        # LeaderChangeMessage: version, leader, no voters by a length in too many bytes, none that granted, no tags.
        yield _with_digest(Described(key=bytes((0, 0, 0, 2)), value=bytes(6) + length + b"\1\0"))
    for type_, fields in CONTROL_VALUES:
        record = encode_control(ControlRecord(type_, fields))
        yield _with_digest(Described(key=record.key, value=record.value, nearby=True))
    for table, version in tables():
        for seed in range(2):
            key, value = sample(table, version, Random(seed), broken=seed > 0)
            yield _with_digest(Described(topic=table.topic, key=key, value=value))
        for is_there in (False, True) if version in table.versions else ():
            key, value = sample(table, version, Least(is_there=is_there), broken=False)
            yield _with_digest(Described(topic=table.topic, key=key, value=value, nearby=True))
            yield from (_with_digest(Described(topic=table.topic, key=key, value=each)) for each in (b"", value))


def predictions() -> Iterator[Described]:
    """Digests of what is predicted of brokers, with the reasons, for the cases of each area."""
    areas: dict[str, list[tuple[Case, str]]] = {}
    for case in load_vectors():
        for release in described_releases(case):
            areas.setdefault(case.area, []).append((case, release))
    for area, questions in sorted(areas.items()):
        said = starmap(described_prediction, questions)
        yield Described(scenarios=area, sha256=sha256(b"".join(said)).hexdigest())


VOTER = {"voter_id": 7}
VOTER_V1 = VOTER | {"voter_directory_id": bytes(range(16))}
ENDPOINT = {"name": b"A", "host": b"b", "port": 9}
SUPPORTED = {"kraft_version_feature": {"min_supported_version": 0, "max_supported_version": 1}}
# One of each type and version of control records, with one element in each array.
CONTROL_VALUES = (
    ("abort", {"version": 0, "coordinator_epoch": 3}),
    ("leader_change", {"version": 0, "leader_id": 7, "voters": (VOTER,), "granting_voters": (VOTER,)}),
    ("leader_change", {"version": 1, "leader_id": 7, "voters": (VOTER_V1,), "granting_voters": (VOTER_V1,)}),
    ("snapshot_header", {"version": 0, "last_contained_log_timestamp": 5}),
    ("snapshot_footer", {"version": 0}),
    ("kraft_version", {"version": 0, "kraft_version": 1}),
    ("kraft_voters", {"version": 0, "voters": (VOTER_V1 | {"endpoints": (ENDPOINT,)} | SUPPORTED,)}),
)


class Least(Random):
    """Draws the least: one element, small numbers; and what may be null or away is null and away, or *is_there*."""

    def __init__(self, *, is_there: bool) -> None:
        super().__init__(0)
        self._is_there = is_there

    def random(self) -> float:
        """Above each share of nulls; or below it."""
        return 0.5 if self._is_there else 0.0

    def randrange(self, start: int, *_: Any) -> int:
        """1, or the largest below that."""
        return min(1, start - 1)

    def randbytes(self, n: int) -> bytes:
        """As many bytes, counted."""
        return bytes(range(n))

    def choice(self, seq: Any) -> Any:
        """The second, as `randrange` draws it."""
        return seq[1]


def _with_digest(line: Described, data: bytes = b"") -> Described:
    return msgspec.structs.replace(line, sha256=sha256(described_line(line, data)).hexdigest())


# A broker's heap, and its largest array, copied from `kafka_records.broker.limits`: a change there shows.
HEAP = 320 * 1024 * 1024
LARGEST_ARRAY = 240 * 1024 * 1024
RECORD_COST, HEADER_COST = 320, 192


def full_heaps() -> Iterator[Described]:
    """Payloads that take all that a broker has, and one byte or header more; the error then comes from elsewhere."""
    for size in (LARGEST_ARRAY, LARGEST_ARRAY + 1):
        yield Described(payload=_zstd(encode_varint(size) + bytes(3)), release="4.4.0", config=REWRITTEN)
    for more in (0, 1):
        yield Described(payload=_with_headers(more), release="4.4.0", config=REWRITTEN)
        yield Described(payload=_claiming(more), release="0.10.2.2", config=COMPACTED)


# Bounds of the reference, copied for the same reason: headers and empty blocks that fill a stack, and the stored
# bytes that are converted at a time.
FULL_STACKS = (("many_frames", "snappy", 10_000), ("many_pieces", "snappy", 40_000), ("many_frames", "gzip", 9_000))
CONVERTED_AT_A_TIME = 128 * 1024
# Bytes of a record that are read at a time, in a release that skips by way of a buffer.
READ_AT_A_TIME, BUFFERED = 2048, "2.8.2"


def bounds() -> Iterator[Described]:
    """Both sides of a bound that no broker states, or that takes large payloads or very many transactions."""
    for release in ("0.11.0.3", "4.2.0", "4.4.0"):
        yield Described(grid="markers", release=release)
    for name, codec, most in FULL_STACKS:
        for more in (-1, 0, 1, 2):
            for release in ("2.3.1", "4.4.0"):
                recipe = Made(name, {"codec": codec, "count": most + more})
                yield Described(steps=(Produce(recipe=recipe),), release=release)
    for more in (-2, -1, 0):
        # An empty block between headers: they are counted again.
        recipe = Made("many_frames", {"codec": "snappy", "count": FULL_STACKS[0][2] + more, "empty_block": True})
        yield Described(steps=(Produce(recipe=recipe),), release="4.4.0")
    for more in (-1, 0, 1):
        # The stream ends after as many bytes, and a number in the first of them has no end.
        record = encode_varint(2 * READ_AT_A_TIME) + (b"\0" + b"\xff" * 10).ljust(READ_AT_A_TIME + more, b"\0")
        yield Described(steps=(Produce(data=packed("gzip", record)),), release=BUFFERED)
    refused = Made("many_skippable_frames", {"count": 64})
    left = CONVERTED_AT_A_TIME - len(build_recipe(Recipe(refused.name, refused.args)))
    for more in (-1, 0, 1):
        # A batch that cannot be converted takes those with it that are converted at the same time.
        plain = (Made("plain_batch", {"size": size}) for size in (100, left + more))
        produced = (Produce(recipe=each) for each in (*plain, refused))
        yield Described(steps=(*produced, Fetch(api_version=3)), release="3.9.2")


GZIP_FIELDS = b"\x02\0xyname\0comment\0"
GZIP_HEADER = gzip_header(flags=0x1E) + GZIP_FIELDS
# Each optional field of a frame once, and the frames of Kafka's writer.
FRAMES: tuple[tuple[Compression, bytes], ...] = (
    ("gzip", gzip_member(PLAIN, header=GZIP_HEADER + (crc32(GZIP_HEADER) & 0xFFFF).to_bytes(2, "little"))),
    (
        "gzip",
        gzip_member(PLAIN[:20], header=gzip_header(flags=0x18) + b"a\0b\0")
        + gzip_member(PLAIN[20:], body=deflate_stored(PLAIN[20:])),
    ),
    ("snappy", pack("snappy", PLAIN)),
    ("lz4", lz4_header(flg=0x68, size=len(PLAIN).to_bytes(8, "little")) + lz4_data(PLAIN, stored=True) + bytes(4)),
    ("lz4", pack("lz4", PLAIN)),
    (
        "zstd",
        zstd_frame(zstd_block(PLAIN, last=True), header=zstd_header(0x24, bytes((len(PLAIN),))), end=b"")
        + zstd_checksum(PLAIN),
    ),
    ("zstd", skippable(b"ab") + pack("zstd", PLAIN)),
)


def marker(offset: int, type_: int, *, producer_id: int = 9000) -> bytes:
    """An end marker of a producer's epoch 3: 0 aborts, 1 commits."""
    record = raw_record(key=bytes((0, 0, 0, type_)), value=bytes(6))
    fields = {"base_offset": offset, "producer_id": producer_id, "producer_epoch": 3, "partition_leader_epoch": 0}
    return raw_batch(record, attributes=TRANSACTIONAL | CONTROL, **fields)


MESSAGES, MESSAGES_V0 = set_of(numbered(1, 0, 1), 1), set_of(numbered(0, 0, 1), 0)
ENTRIES: tuple[tuple[bytes, Compression, int], ...] = (
    (raw_batch(raw_record(key=b"k", headers=raw_header(b"h", b"v"), header_count=b"\x02")), "none", 2),
    (raw_batch(PLAIN, record_count=2, producer_id=9000, producer_epoch=1, base_sequence=3), "none", 2),
    (marker(0, 0), "none", 2),
    # A control record that ends after the length of its key, which is 1.
    (raw_batch(b"\x08\0\0\0\x02", attributes=CONTROL), "none", 2),
    # And one whose key claims 8 bytes, of which there are 4.
    (raw_batch(b"\x10\0\0\0\x10\0\0\0\0", attributes=CONTROL), "none", 2),
    (raw_record(key=b"k", headers=raw_header(b"h", b"v"), header_count=b"\x02") + raw_record(offset_delta=1), "lz4", 2),
    (raw_message(0, b"key", b"value"), "none", 0),
    (raw_message(1, b"key", b"value", attributes=APPEND_BIT) + raw_message(1, b"k", None), "none", 1),
    (MESSAGES_V0, "snappy", 0),
    (MESSAGES, "gzip", 1),
)
# An old release and a new one on each side of what changed for appends.
APPENDING = ("0.10.2.2", "1.1.1", "2.4.1", "2.8.2", "3.9.2", "4.4.0")
TOPICS: tuple[dict[str, str], ...] = ({}, APPEND_TIME, {"compression.type": "gzip"}, {"cleanup.policy": "compact"})
OF_RELEASES = {
    "producers": ("1.1.1", "2.4.1", "2.8.2", "3.6.2", "4.0.2", "4.4.0"),
    "pending": ("1.1.1", "3.6.2", "4.0.2", "4.1.2", "4.4.0"),
    "settings": ("0.10.2.2", "2.8.2", "3.0.2", "3.6.2", "4.4.0"),
    # Those that are described, those that are not, and what is no release.
    "versions": (
        *DESCRIBED_RELEASES,
        "0.10.0",
        "0.11.1",
        "1.2.0",
        "2.9.0",
        "3.10.0",
        "4.5.0",
        "4",
        "",
        "4.x",
        "newest",
    ),
}
OF_LOGS = {
    "fetches": ("0.11.0.3", "1.1.1", "2.0.1", "2.1.1", "3.9.2", "4.4.0"),
    "cleanings": ("0.11.0.3", "2.2.2", "2.4.1", "3.0.2", "3.1.2", "4.0.2", "4.4.0"),
    "consumed": ("",),
}
LOG = b"".join(
    (
        on_disk(keyed(0, b"a"), keyed(1, b"b")),
        on_disk(keyed(2, b"a", None), compression="gzip"),
        on_disk(
            keyed(3, b"a"), keyed(4, b"c"), transactional=True, producer_id=9000, producer_epoch=3, base_sequence=0
        ),
        on_disk(keyed(5, b"b", None), transactional=True, producer_id=9001, producer_epoch=0, base_sequence=0),
        marker(6, 0),
        marker(7, 1, producer_id=9001),
        on_disk(keyed(8, b"d", None), keyed(9, None), delete_horizon=NOW, last_offset=10),
        on_disk(Record(11, TIMESTAMP, b"c", b"x" * 5000, (Header(b"h", None),)), timestamp_type="append"),
    )
)
OLD_LOG = b"".join(
    (
        raw_message(1, b"a", b"value"),
        wrap(set_of(numbered(1, 1, 2, 3), 1, base=1), 1, "gzip", offset=3),
        raw_message(0, b"a", None, offset=4),
        wrap(set_of(numbered(0, 5, 6), 0), 0, "lz4", offset=6),
        raw_message(1, b"b", None, offset=8, attributes=APPEND_BIT),
        raw_message(1, None, b"value", offset=11),
    )
)


def grids() -> Iterator[Described]:
    """Grids of what is near an entry, and of what a broker may know."""
    for payload, codec, magic in ENTRIES:
        yield from near(Described(payload=payload, codec=codec, magic=magic))
    for codec, frame in FRAMES:
        yield Described(grid="bytes", codec=codec, frame=frame)
    yield Described(grid="bytes", codec="lz4", frame=pack("lz4", MESSAGES_V0, magic=0), magic=0)
    yield Described(grid="bytes", codec="gzip", frame=pack("gzip", MESSAGES), magic=1)
    for codec in COMPRESSIONS:
        yield Described(grid="inks", payload=packed(codec, PLAIN, record_count=2))
    yield Described(grid="inks", payload=wrap(MESSAGES, 1, "gzip"))
    yield from (Described(grid=grid) for grid in ("texts", "times"))
    for grid, releases in OF_RELEASES.items():
        yield from (Described(grid=grid, release=release) for release in releases)
    for log in (LOG, OLD_LOG):
        for grid, releases in OF_LOGS.items():
            yield from (Described(grid=grid, payload=log, release=release) for release in releases)


def near(line: Described) -> Iterator[Described]:
    """The grids of the neighbours of an entry."""
    yield msgspec.structs.replace(line, grid="bytes")
    for release, config in (*product(APPENDING, TOPICS[:1]), *zip(APPENDING, cycle(TOPICS[1:]))):
        does = behaviour(release)
        if does.newest_magic >= line.magic and (line.magic == MAGIC_VALUE_V2 or does.produce[0] <= OLD_PRODUCE):
            yield msgspec.structs.replace(line, grid="payloads", release=release, config=config)
    for release in ("1.1.1", "2.4.1", "4.4.0") if line.codec == "none" else ():
        yield msgspec.structs.replace(line, grid="recoveries", release=release)
    for release in ("1.1.1", "3.9.2") if line.magic else ():
        yield msgspec.structs.replace(line, grid="conversions", release=release)


REWRITTEN = {"compression.type": "lz4"}
COMPACTED = {"cleanup.policy": "compact"}


def _zstd(*plain: bytes, zeros: int = 0) -> bytes:
    """A batch in blocks that no library chooses; *zeros* zeros at the end."""
    whole, rest = divmod(zeros, 1 << 17)
    runs = [zstd_block(b"\0", size=size, kind=1) for size in (*(1 << 17,) * whole, rest) if size]
    return raw_batch(zstd_frame(*map(zstd_block, plain), *runs), attributes=codec_id("zstd"))


def _with_headers(more: int) -> bytes:
    """A record with as many headers as there is room for, and *more*, of which the first has no key."""
    count = 1
    while True:
        # Attributes, deltas, null key and value; then the count, and the key length -1 of the first header.
        start = bytes(3) + b"\1\1" + encode_varint(count) + b"\1"
        affordable = (HEAP - len(start) - count - RECORD_COST) // HEADER_COST
        if affordable == count:
            break
        count = affordable
    start = bytes(3) + b"\1\1" + encode_varint(count + more) + b"\1"
    return _zstd(encode_varint(len(start) + count) + start, zeros=count)


def _claiming(more: int) -> bytes:
    """Messages of v0 that claim as much as an array of v1 messages can hold, and *more*; none but one has a key."""
    kept = raw_message(0, b"key", b"abc") + raw_message(0, None, None)
    rest = LARGEST_ARRAY - 3 * RECORD_OVERHEAD_V1 - len(b"keyabc") + more
    return kept + raw_message(0, None, body=bytes.fromhex("ffffffff") + rest.to_bytes(4, "big"))


def sample(table: MessageTable, version: int, rng: Random, *, broken: bool) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record; *broken*, one byte is another, or the end is cut off or goes on."""
    data = bytearray(record_bytes(table, version, drawn(version_layout(table.name, version), rng)))
    if broken:
        match rng.randrange(3):
            case 0:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 1:
                del data[rng.randrange(len(data)) :]
            case _:
                data += b"\1"
    if table.name.endswith("Key"):
        return bytes(data), None
    if table.topic not in COORDINATORS:
        return None, bytes(data)
    same = (each for each, _ in tables() if (each.topic, each.id) == (table.topic, table.id))
    key = next(each for each in same if each.name.endswith("Key"))
    return record_bytes(key, 0, drawn(version_layout(key.name, 0), rng)), bytes(data)


def main(arguments: list[str]) -> int:
    """Write or check the digests; 1 if they differ."""
    data = b"".join(msgspec.json.encode(each) + b"\n" for each in descriptions())
    if "--check" in arguments:
        if KEPT.read_bytes() == data:
            return 0
        sys.stderr.write(f"{KEPT.name} is not up to date: run python -m tests.reference.explained\n")
        return 1
    KEPT.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
