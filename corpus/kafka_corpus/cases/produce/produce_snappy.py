"""snappy streams on brokers, where they are kept and where the records are rewritten (group SNP)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import LEGACY, PLAIN, payload_of, plain_of, some_records, split
from kafka_corpus.authoring.build import grid
from kafka_corpus.authoring.frames import XERIAL_HEADER, snappy_block, uvarint, xerial, xerial_chunk
from kafka_corpus.authoring.steps import KEPT, PATHS, converted, keeping, not_converted, not_taken, taken, ways
from kafka_corpus.case import Recipe
from kafka_corpus.cases.decode.snappy import BAD_ELEMENTS, ELEMENTS, SIZES, VERSIONS, header
from kafka_corpus.golden import SNAPPY
from kafka_corpus.registry import Draft, case, error_answer, produced
from kafka_records.broker.errors import INVALID_RECORD, UNKNOWN_SERVER_ERROR


@case("SNP-02", each=PATHS)
def raw_block(path: str) -> Draft:
    """A payload without the xerial magic is taken as one raw block, and stays one where it is kept."""
    return taken("snappy", snappy_block(PLAIN), path)


@case("SNP-02", each=PATHS)
def raw_block_below_16_bytes(path: str) -> Draft:
    """A raw block shorter than a xerial header is still a raw block."""
    record = some_records(1)[0]._replace(key=None, value=None)
    packed = snappy_block(payload_of([record]))
    assert len(packed) < len(XERIAL_HEADER)
    return taken("snappy", packed, path, record)


@case("SNP-02", each=LEGACY)
def raw_block_in_a_wrapper(magic: int) -> Draft:
    """A raw block in a wrapper is rewritten after a xerial header."""
    return converted("snappy", snappy_block(plain_of(magic)), magic)


@case("SNP-02", each=ways(difference={"longer": 1}))
def raw_block_claims_another_length(shape: dict[str, Any]) -> Draft:
    """A raw block whose stated length is not that of its output is an unknown error."""
    return not_taken("snappy", snappy_block(PLAIN, claim=len(PLAIN) + shape["difference"]), shape["path"])


@case("SNP-02", each=ways(cut={"by-1": -1}))
def raw_block_cut_short(shape: dict[str, Any]) -> Draft:
    """A raw block that is cut short is an unknown error."""
    return not_taken("snappy", snappy_block(PLAIN)[: shape["cut"]], shape["path"])


BAD = {name: BAD_ELEMENTS[name] for name in ("copy-from-before-the-start", "literal-beyond-the-end", "no-elements")}


@case("SNP-02", "SNP-13", each={name: {"path": KEPT, "packed": packed} for name, packed in BAD.items()})
def raw_block_corrupt(shape: dict[str, Any]) -> Draft:
    """A raw block with an element that cannot be is an unknown error."""
    return not_taken("snappy", shape["packed"], shape["path"])


@case(
    "SNP-03",
    refs=("https://github.com/dpkp/kafka-python/issues/2414",),
    each=keeping(versions={name: VERSIONS[name] for name in ("0-0", "minus-1", "999-999")}),
)
def header_versions(shape: dict[str, Any]) -> Draft:
    """The version numbers of the first header are not looked at, and kept with the rest."""
    return taken("snappy", xerial(PLAIN, header=header(*shape["versions"])), shape["path"])


@case("SNP-03", "SNP-02", each=keeping(size={"one-byte-short": 15}))
def header_cut_short(shape: dict[str, Any]) -> Draft:
    """A xerial header that is cut short is no raw block either."""
    return not_taken("snappy", XERIAL_HEADER[: shape["size"]], shape["path"])


@case("SNP-04", each=ways(at={"start": 0, "middle": 30, "end": len(PLAIN)}))
def repeated_header(shape: dict[str, Any]) -> Draft:
    """Whole xerial streams may follow one another, each with its own header."""
    return taken("snappy", b"".join(map(xerial, split(PLAIN, shape["at"]))), shape["path"])


@case("SNP-04")
def repeated_header_in_a_wrapper() -> Draft:
    """Xerial streams end to end are taken in a wrapper."""
    return converted("snappy", b"".join(map(xerial, split(plain_of(1), 30))), 1)


@case("SNP-04", each=keeping(version={"0": 0, "minus-1": -1}))
def repeated_header_of_version(shape: dict[str, Any]) -> Draft:
    """A header in the middle of a stream has to say version 1 or more."""
    first, second = split(PLAIN, 30)
    return not_taken("snappy", xerial(first) + xerial(second, header=header(shape["version"], 1)), shape["path"])


@case("SNP-04", each=keeping(versions={"largest": (2**31 - 1, 0)}))
def repeated_header_of_later_version(shape: dict[str, Any]) -> Draft:
    """Any version from 1 on will do for a header in the middle, whatever it says it is compatible with."""
    first, second = split(PLAIN, 30)
    return taken("snappy", xerial(first) + xerial(second, header=header(*shape["versions"])), shape["path"])


@case("SNP-04", each=PATHS)
def stack_of_headers(path: str) -> Draft:
    """A few hundred headers in a row are still one stream."""
    return taken("snappy", XERIAL_HEADER * 300 + xerial(PLAIN), path)


@case("SNP-05", each=PATHS)
def little_endian_block_length(path: str) -> Draft:
    """Block lengths are big-endian; little-endian ones are an unknown error."""
    block = snappy_block(PLAIN)
    packed = XERIAL_HEADER + xerial_chunk(block, size=len(block).to_bytes(4, "little"))
    return not_taken("snappy", packed, path)


@case("SNP-05")
def little_endian_block_length_in_a_wrapper() -> Draft:
    """Little-endian block lengths are an unknown error in a wrapper."""
    block = snappy_block(plain_of(1))
    return not_converted("snappy", XERIAL_HEADER + xerial_chunk(block, size=len(block).to_bytes(4, "little")), 1)


@case("SNP-06", each=ways(size={name: SIZES[name] for name in ("minus-1", "above-512-mib")}))
def block_length_impossible(shape: dict[str, Any]) -> Draft:
    """A negative block length, or one above 512 MiB, is an Error in Java, and the broker survives it."""
    size = shape["size"].to_bytes(4, "big", signed=True)
    return not_taken("snappy", XERIAL_HEADER + xerial_chunk(snappy_block(PLAIN), size=size), shape["path"])


@case("SNP-07", each=ways(at={"first": 0, "last": 2}))
def block_of_no_bytes(shape: dict[str, Any]) -> Draft:
    """A block length of 0 is refused: not even an empty block has no bytes."""
    chunks = [xerial_chunk(snappy_block(part)) for part in split(PLAIN, 30)]
    chunks.insert(shape["at"], bytes(4))
    return not_taken("snappy", XERIAL_HEADER + b"".join(chunks), shape["path"])


@case("SNP-07", each=ways(at={"first": 0, "middle": 1, "last": 2}))
def block_of_no_output(shape: dict[str, Any]) -> Draft:
    """A block that inflates to nothing is fine, wherever it stands."""
    parts = split(PLAIN, 30)
    parts.insert(shape["at"], b"")
    return taken("snappy", xerial(*parts), shape["path"])


@case("SNP-07", "SNP-13", "CMP-04", each=ways(packed=BAD))
def xerial_block_corrupt(shape: dict[str, Any]) -> Draft:
    """A xerial block with an element that cannot be is an unknown error."""
    return not_taken("snappy", XERIAL_HEADER + xerial_chunk(shape["packed"]), shape["path"])


@case("SNP-08", each=ways(cut={"by-1": -1, "to-its-length": 20}))
def last_block_cut_short(shape: dict[str, Any]) -> Draft:
    """A last block with fewer bytes than its length says is an unknown error."""
    return not_taken("snappy", xerial(PLAIN)[: shape["cut"]], shape["path"])


@case("SNP-09", each=ways(size={"one": 1, "three": 3}))
def stray_bytes_behind_the_last_block(shape: dict[str, Any]) -> Draft:
    """One to three bytes after the last block are ignored; where the batch is kept, they are stored."""
    return taken("snappy", xerial(PLAIN) + b"\xff" * shape["size"], shape["path"])


@case("SNP-09", each=PATHS)
def four_zeros_behind_the_last_block(path: str) -> Draft:
    """Four zero bytes after the last block are a block of no bytes, and refused."""
    return not_taken("snappy", xerial(PLAIN) + bytes(4), path)


@case("SNP-10", each=PATHS)
def framing_format(path: str) -> Draft:
    """The framing format that snappy itself describes (sNaPpY) is not understood."""
    # A stream identifier, then one chunk of type 1: length, masked CRC-32C (zeros here), plain bytes.
    chunk = b"\x01" + (len(PLAIN) + 4).to_bytes(3, "little") + bytes(4) + PLAIN
    return not_taken("snappy", b"\xff\x06\x00\x00sNaPpY" + chunk, path)


@case("SNP-11", each=ways(at={"in-a-value": (20,), "every-byte": tuple(range(1, 50))}))
def record_across_blocks(shape: dict[str, Any]) -> Draft:
    """A record may reach from one block into the next."""
    return taken("snappy", xerial(*split(PLAIN, *shape["at"])), shape["path"])


@case("SNP-11", each=PATHS)
def block_above_32_kib(path: str) -> Draft:
    """A block may be larger than the 32 KiB of Kafka's writer."""
    record = some_records(1)[0]._replace(value=b"-" * 33_000)
    return taken("snappy", xerial(payload_of([record])), path, record)


@case(
    "SNP-11",
    "SNP-02",
    each=grid(
        path=PATHS, elements={name: ELEMENTS[name] for name in ("literal-length-in-4-bytes", "a-literal-for-each-byte")}
    ),
)
def unusual_elements(shape: dict[str, Any]) -> Draft:
    """Elements that compressors seldom choose are taken."""
    return taken("snappy", XERIAL_HEADER + xerial_chunk(uvarint(len(PLAIN)) + shape["elements"]), shape["path"])


@case("SNP-11", each=PATHS)
def copies_of_all_kinds(path: str) -> Draft:
    """A block as snappy compresses it is taken."""
    return taken("snappy", XERIAL_HEADER + xerial_chunk(SNAPPY), path, *some_records(40))


@case("SNP-12", "CMP-05", each=PATHS)
def header_without_blocks(path: str) -> Draft:
    """A header without blocks is a stream of no bytes, too few for a record."""
    return not_taken("snappy", XERIAL_HEADER, path, code=INVALID_RECORD)


@case("SNP-13", each=PATHS)
def changed_byte_in_a_value(path: str) -> Draft:
    """A byte that changed in a literal goes unnoticed under a right CRC, and is stored."""
    first, second = some_records()
    changed = (first, second._replace(value=b"value !"))
    packed = xerial(PLAIN).replace(b"value 1", b"value !")
    return taken("snappy", packed, path, *changed)


@case("SNP-13")
def changed_byte_in_a_length() -> Draft:
    """A byte that changed in a record's length shows as wrong records, not as a wrong frame."""
    packed = xerial(PLAIN)
    at = len(packed) - len(PLAIN)
    return not_taken("snappy", packed[:at] + b"\x01" + packed[at + 1 :], KEPT, code=INVALID_RECORD)


@case("SNP-04")
def very_many_headers() -> Draft:
    """Fifty thousand headers before the first block are an unknown error: the stack is full.

    SnappyInputStream#hasNextChunk calls itself for each.
    """
    return produced(Recipe("many_frames", {"codec": "snappy", "count": 50_000}), error_answer(UNKNOWN_SERVER_ERROR))
