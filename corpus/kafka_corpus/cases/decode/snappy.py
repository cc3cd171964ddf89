"""snappy framing as xerial's SnappyInputStream takes it (group SNP).

Kafka writes blocks after a header of 16 bytes, reads those or one raw block,
and knows nothing of the framing format that snappy itself describes.
"""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.batches import (
    EITHER,
    LEGACY,
    MAGICS,
    PLAIN,
    REFUSED,
    around,
    batch_of,
    bytes_of,
    compressed,
    payload_of,
    plain_of,
    some_records,
    split,
)
from kafka_corpus.authoring.build import TIMESTAMP, grid
from kafka_corpus.authoring.frames import (
    XERIAL_HEADER,
    XERIAL_MAGIC,
    snappy_block,
    snappy_literal,
    uvarint,
    xerial,
    xerial_chunk,
)
from kafka_corpus.authoring.messages import record_of, wrapper_batch
from kafka_corpus.golden import GOLDEN_RECORDS, SNAPPY
from kafka_corpus.registry import Draft, acceptable, case, invalid, must_write, valid

SPLITS = {
    "record-boundary": (len(PLAIN) // 2,),
    "in-a-length": (1,),
    "in-a-value": (20,),
    "every-byte": tuple(range(1, len(PLAIN))),
}
VERSIONS = {
    "0-0": (0, 0),
    "2-1": (2, 1),
    "999-999": (999, 999),
    "minus-1": (-1, -1),
    "little-endian": (1 << 24, 1 << 24),
}
# Why readers may refuse what Kafka reads.
ANY_VERSION = "snappy-java and librdkafka look at the magic only, a reader that requires version 1 is within its rights"
STRAY_BYTES = "SnappyInputStream takes fewer than four bytes for the end; other readers refuse them"


def header(version: int, compatible: int) -> bytes:
    """A xerial header with other version numbers."""
    return XERIAL_MAGIC + version.to_bytes(4, "big", signed=True) + compatible.to_bytes(4, "big", signed=True)


@case("SNP-01", "CMP-03", each=MAGICS)
def xerial_blocks(magic: int) -> Draft:
    """A xerial header and one block is what Kafka's writer gives for little data."""
    return valid(*around(xerial(plain_of(magic)), magic, "snappy"))


@case("SNP-01")
def golden_v2() -> Draft:
    """A v2 batch that kafka-clients 3.9.0 compressed with snappy is read."""
    data = bytes.fromhex(
        "000000000000000000000062ffffffff02d1fe77c20002000000010000018bcfe568000000018bcfe56805ffffffffffffffff"
        "ffffffffffff0000000282534e415050590000000001000000010000001d1b681c000000066b65790a76616c75650016000a02"
        "0101040268010000"
    )
    return valid(data, batch_of(*GOLDEN_RECORDS, compression="snappy"))


@case("SNP-01", "NST-08")
def golden_v1() -> Draft:
    """A v1 wrapper that kafka-clients 3.9.0 compressed with snappy is read."""
    data = bytes.fromhex(
        "00000000000000010000006d2d38433d01020000018bcfe56805ffffffff0000005782534e4150505900000000010000000100"
        "0000434c00001901341e6ad05db801000000018bcfe568011830036b65790000000576616c756501110800000001211016ea76"
        "4b54010934018bcfe56805ffffffffffffffff"
    )
    records = [record_of(1, 0, b"key"), record_of(1, 1, None, None, timestamp=TIMESTAMP + 5)]
    return valid(data, wrapper_batch(records, 1, "snappy", timestamp=TIMESTAMP + 5))


@case("SNP-02", each=MAGICS)
def raw_block(magic: int) -> Draft:
    """A payload without the xerial magic is one raw block, as librdkafka and others write it."""
    return valid(*around(snappy_block(plain_of(magic)), magic, "snappy"))


@case("SNP-02")
def raw_block_below_16_bytes() -> Draft:
    """A raw block shorter than a xerial header is still a raw block."""
    record = some_records(1)[0]._replace(key=None, value=None)
    packed = snappy_block(payload_of([record]))
    assert len(packed) < 16
    return valid(*compressed("snappy", packed, record))


@case("SNP-02")
def raw_block_above_64_kib() -> Draft:
    """A raw block may be larger than snappy's own blocks of 64 KiB."""
    record = some_records(1)[0]._replace(value=b"-" * 70_000)
    return valid(*compressed("snappy", snappy_block(payload_of([record])), record))


@case("SNP-02", each={"shorter": -1, "longer": 1, "much-longer": 1000, "none": -len(PLAIN)})
def raw_block_claims_another_length(difference: int) -> Draft:
    """A raw block whose stated length is not that of its output is refused."""
    packed = snappy_block(PLAIN, claim=len(PLAIN) + difference)
    return invalid(compressed("snappy", packed)[0], *REFUSED)


@case("SNP-02", each=grid(magic=EITHER, cut={"by-1": -1, "to-half": 30, "to-its-length": 1}))
def raw_block_cut_short(shape: dict[str, Any]) -> Draft:
    """A raw block that is cut short is refused."""
    packed = snappy_block(plain_of(shape["magic"]))[: shape["cut"]]
    return invalid(around(packed, shape["magic"], "snappy")[0], *REFUSED)


@case("SNP-02", each={"one": 1, "four": 4})
def bytes_behind_a_raw_block(size: int) -> Draft:
    """Nothing may follow a raw block: it is the whole payload."""
    return invalid(compressed("snappy", snappy_block(PLAIN) + bytes(size))[0], *REFUSED)


BAD_ELEMENTS = {
    "copy-from-before-the-start": b"\x08\x00a\x05\x09",
    "copy-from-no-distance": b"\x05\x00a\x01\x00",
    "literal-beyond-the-end": b"\x08\x1cshort",
    "length-of-six-bytes": b"\xff\xff\xff\xff\xff\x01" + bytes(10),
    "length-that-never-ends": b"\xff" * 4,
    "no-elements": b"\x08",
}


@case("SNP-02", "CMP-04", each=BAD_ELEMENTS)
def raw_block_corrupt(packed: bytes) -> Draft:
    """A raw block with an invalid length, no elements, or an element that cannot be is refused."""
    return invalid(compressed("snappy", packed)[0], *REFUSED)


@case("SNP-07", "CMP-04", each=BAD_ELEMENTS)
def xerial_block_corrupt(packed: bytes) -> Draft:
    """A xerial block with an invalid length, no elements, or an element that cannot be is refused."""
    return invalid(compressed("snappy", XERIAL_HEADER + xerial_chunk(packed))[0], *REFUSED)


@case("SNP-03", refs=("https://github.com/dpkp/kafka-python/issues/2414",), each=VERSIONS)
def header_versions(versions: tuple[int, int]) -> Draft:
    """The version numbers of the first header are not looked at; Redpanda wrote them little-endian."""
    return acceptable(*compressed("snappy", xerial(PLAIN, header=header(*versions))), kinds=REFUSED, why=ANY_VERSION)


@case("SNP-03", "SNP-02", each={"magic-only": 8, "one-version": 12, "one-byte-short": 15})
def header_cut_short(size: int) -> Draft:
    """A xerial header that is cut short is no raw block either."""
    return invalid(compressed("snappy", XERIAL_HEADER[:size])[0], *REFUSED)


@case("SNP-03", each={"first": 0, "text": 3, "last": 7})
def header_magic_wrong(at: int) -> Draft:
    """All eight bytes of the magic have to be right, or the payload is a raw block, and a bad one."""
    packed = bytearray(xerial(PLAIN))
    packed[at] ^= 0x20
    return invalid(compressed("snappy", bytes(packed))[0], *REFUSED)


@case("SNP-04", each=grid(magic=EITHER, at={"start": 0, "middle": 30}))
def repeated_header(shape: dict[str, Any]) -> Draft:
    """Whole xerial streams may follow one another, each with its own header."""
    parts = split(plain_of(shape["magic"]), shape["at"])
    return valid(*around(b"".join(map(xerial, parts)), shape["magic"], "snappy"))


@case("SNP-04")
def repeated_header_at_the_end() -> Draft:
    """Kafka reads a stream that ends in a header with no blocks after it; other readers may refuse it."""
    why = "SnappyInputStream reads it as a concatenated stream of no blocks; it looks like a block of bad size"
    return acceptable(*compressed("snappy", xerial(PLAIN) + XERIAL_HEADER), kinds=REFUSED, why=why)


@case("SNP-04", each={"0": 0, "minus-1": -1})
def repeated_header_of_version(version: int) -> Draft:
    """A header in the middle of a stream has to say version 1 or more."""
    first, second = split(PLAIN, 30)
    return invalid(compressed("snappy", xerial(first) + xerial(second, header=header(version, 1)))[0], *REFUSED)


@case("SNP-04", each={"four": 4, "eight": 8, "fifteen": 15})
def repeated_header_cut_short(size: int) -> Draft:
    """A header in the middle of a stream that is cut short is an error."""
    return invalid(compressed("snappy", xerial(PLAIN[:30]) + XERIAL_HEADER[:size])[0], *REFUSED)


# Like a xerial header for four bytes, and as long as one.
HALF_A_HEADER = XERIAL_MAGIC[:4] + bytes(12)


@case("SNP-04", each={"after-one-byte": 1, "in-a-record": 30})
def half_a_header(at: int) -> Draft:
    """After a block with output, Kafka skips sixteen bytes that only begin like a header."""
    first, second = (xerial_chunk(snappy_block(part)) for part in split(PLAIN, at))
    why = "SnappyInputStream ends one read there; to other readers it is a block of bad size"
    packed = XERIAL_HEADER + first + HALF_A_HEADER + second
    return acceptable(*compressed("snappy", packed), kinds=REFUSED, why=why)


@case("SNP-04", each={"at-the-start": b"", "after-an-empty-block": xerial_chunk(snappy_block(b""))})
def half_a_header_before_any_output(before: bytes) -> Draft:
    """Kafka refuses a stream in which sixteen bytes that only begin like a header precede any output."""
    packed = XERIAL_HEADER + before + HALF_A_HEADER + xerial_chunk(snappy_block(PLAIN))
    return invalid(compressed("snappy", packed)[0], *REFUSED)


@case("SNP-05", each=EITHER)
def little_endian_block_length(magic: int) -> Draft:
    """Block lengths are big-endian; little-endian ones are refused."""
    block = snappy_block(plain_of(magic))
    packed = XERIAL_HEADER + xerial_chunk(block, size=len(block).to_bytes(4, "little"))
    return invalid(around(packed, magic, "snappy")[0], *REFUSED)


SIZES = {"minus-1": -1, "least": -(2**31), "above-512-mib": 512 * 1024 * 1024 + 1, "largest": 2**31 - 1}


@case("SNP-06", each=grid(magic=EITHER, size=SIZES))
def block_length_impossible(shape: dict[str, Any]) -> Draft:
    """A negative block length, or one above 512 MiB, is refused before anything is allocated."""
    block = xerial_chunk(snappy_block(plain_of(shape["magic"])), size=shape["size"].to_bytes(4, "big", signed=True))
    return invalid(around(XERIAL_HEADER + block, shape["magic"], "snappy")[0], *REFUSED, "limit")


@case("SNP-07", each={"first": 0, "middle": 1, "last": 2})
def block_of_no_bytes(at: int) -> Draft:
    """A block length of 0 is refused: not even an empty block has no bytes."""
    chunks = [xerial_chunk(snappy_block(part)) for part in split(PLAIN, 30)]
    chunks.insert(at, bytes(4))
    return invalid(compressed("snappy", XERIAL_HEADER + b"".join(chunks))[0], *REFUSED)


@case("SNP-07", each=grid(magic=EITHER, at={"first": 0, "middle": 1, "last": 2}))
def block_of_no_output(shape: dict[str, Any]) -> Draft:
    """A block that inflates to nothing is fine, wherever it stands."""
    parts = split(plain_of(shape["magic"]), 30)
    parts.insert(shape["at"], b"")
    return valid(*around(xerial(*parts), shape["magic"], "snappy"))


@case("SNP-08", each=grid(magic=EITHER, cut={"by-1": -1, "by-ten": -10, "to-its-length": -200}))
def last_block_cut_short(shape: dict[str, Any]) -> Draft:
    """A last block with fewer bytes than its length says is an error."""
    packed = xerial(plain_of(shape["magic"]))
    cut = max(len(packed) + shape["cut"], len(XERIAL_HEADER) + 4)
    return invalid(around(packed[:cut], shape["magic"], "snappy")[0], *REFUSED)


@case("SNP-09", each=grid(magic=EITHER, size={"one": 1, "two": 2, "three": 3}))
def stray_bytes_behind_the_last_block(shape: dict[str, Any]) -> Draft:
    """Kafka ignores one to three bytes after the last block; other readers may refuse them."""
    packed = xerial(plain_of(shape["magic"])) + b"\xff" * shape["size"]
    return acceptable(*around(packed, shape["magic"], "snappy"), kinds=REFUSED, why=STRAY_BYTES)


@case("SNP-09", each=EITHER)
def four_zeros_behind_the_last_block(magic: int) -> Draft:
    """Four zero bytes after the last block are a block of no bytes, and refused."""
    return invalid(around(xerial(plain_of(magic)) + bytes(4), magic, "snappy")[0], *REFUSED)


@case("SNP-10", each=EITHER)
def framing_format(magic: int) -> Draft:
    """The framing format that snappy itself describes (sNaPpY) is not understood."""
    plain = plain_of(magic)
    # A stream identifier, then one chunk of type 1: length, masked CRC-32C (zeros here), plain bytes.
    chunk = b"\x01" + (len(plain) + 4).to_bytes(3, "little") + bytes(4) + plain
    return invalid(around(b"\xff\x06\x00\x00sNaPpY" + chunk, magic, "snappy")[0], *REFUSED)


@case("SNP-11", each=SPLITS)
def record_across_blocks(at: tuple[int, ...]) -> Draft:
    """A record may reach from one block into the next."""
    return valid(*compressed("snappy", xerial(*split(PLAIN, *at))))


@case("SNP-11", each=grid(magic=LEGACY, at={"in-the-offset": 3, "in-the-crc": 14, "in-a-value": 35}))
def message_across_blocks(shape: dict[str, Any]) -> Draft:
    """An inner message may reach from one block into the next."""
    return valid(*around(xerial(*split(plain_of(shape["magic"]), shape["at"])), shape["magic"], "snappy"))


@case("SNP-11", each={"64-kib": 65_536, "100-kb": 100_000})
def block_above_32_kib(size: int) -> Draft:
    """A block may be larger than the 32 KiB of Kafka's writer."""
    record = some_records(1)[0]._replace(value=b"-" * size)
    return valid(*compressed("snappy", xerial(payload_of([record])), record))


@case("SNP-11")
def several_blocks_of_32_kib() -> Draft:
    """Data above 32 KiB comes in several blocks from Kafka's writer."""
    record = some_records(1)[0]._replace(value=b"=" * 40_000)
    plain = payload_of([record])
    return valid(*compressed("snappy", xerial(plain[:32768], plain[32768:]), record))


ELEMENTS = {
    "literal-length-in-1-byte": b"\xf0" + bytes((len(PLAIN) - 1,)) + PLAIN,
    "literal-length-in-3-bytes": b"\xf8" + (len(PLAIN) - 1).to_bytes(3, "little") + PLAIN,
    "literal-length-in-4-bytes": b"\xfc" + (len(PLAIN) - 1).to_bytes(4, "little") + PLAIN,
    "a-literal-for-each-byte": b"".join(snappy_literal(bytes((byte,))) for byte in PLAIN),
}


@case("SNP-11", "SNP-02", each=ELEMENTS)
def unusual_elements(elements: bytes) -> Draft:
    """Elements that compressors seldom choose are decoded like any other."""
    return valid(*compressed("snappy", XERIAL_HEADER + xerial_chunk(uvarint(len(PLAIN)) + elements)))


@case("SNP-11", "CMP-03")
def copies_of_all_kinds() -> Draft:
    """A block as snappy compresses it, with copies near and far."""
    return valid(*compressed("snappy", XERIAL_HEADER + xerial_chunk(SNAPPY), *some_records(40)))


@case("SNP-12", "CMP-05", each=EITHER)
def header_without_blocks(magic: int) -> Draft:
    """A xerial header without blocks holds no records, and is refused."""
    return invalid(around(XERIAL_HEADER, magic, "snappy")[0], "malformed", "truncated", "decompression")


@case("SNP-01", "CMP-01", each={"one-block": 100, "two-blocks": 40_000})
def write(size: int) -> Draft:
    """A snappy batch is written with a clear header and its records in xerial blocks."""
    record = some_records(1)[0]._replace(value=b"-" * size)
    plain = payload_of([record])
    packed = xerial(*(plain[at : at + 32768] for at in range(0, len(plain), 32768)))
    batch = batch_of(record, compression="snappy")
    return must_write(batch, bytes_of(batch, packed=packed), compare="masked")


ODD_ELEMENTS = {
    # A literal of 2^32 - 5 bytes: in a signed int32 a negative number.
    "literal-of-4-gib": b"\x14\xfc\xfa\xff\xff\xff",
    "copy-that-ends-before-its-distance": b"\x08\x0cabcd\x01",
    # S2, a format like snappy, repeats the last distance there.
    "copy-from-no-distance-after-another": b"\x09\x00a\x01\x01\x01\x00",
}


@case("SNP-02", "CMP-04", each=grid(magic=EITHER, block=ODD_ELEMENTS), since="1.1")
def element_that_cannot_be(shape: dict[str, Any]) -> Draft:
    """A raw block with a literal beyond all blocks, half a copy, or a copy of another format is refused."""
    return invalid(around(shape["block"], shape["magic"], "snappy")[0], *REFUSED)


@case("SNP-06", each=grid(magic=EITHER, size={"to-itself": -4, "to-the-header": -20}), since="1.1")
def block_length_leads_back(shape: dict[str, Any]) -> Draft:
    """A negative block length that leads back to its own bytes, or to the header, is refused."""
    packed = XERIAL_HEADER + shape["size"].to_bytes(4, "big", signed=True) + bytes(4)
    return invalid(around(packed, shape["magic"], "snappy")[0], *REFUSED)


@case("SNP-03", each={"magic-only": 8, "three-bytes-more": 11, "one-byte-short": 15}, since="1.1")
def header_cut_short_in_a_wrapper(size: int) -> Draft:
    """A wrapper whose value is a xerial header that is cut short is refused."""
    return invalid(around(XERIAL_HEADER[:size], 1, "snappy")[0], *REFUSED)


# Some readers know v0 only.
@case("SNP-04", each={"start": 0, "middle": 30}, since="1.1")
def repeated_header_in_v0(at: int) -> Draft:
    """Whole xerial streams may follow one another in a v0 wrapper, too."""
    return valid(*around(b"".join(map(xerial, split(plain_of(0), at))), 0, "snappy"))


@case("SNP-03", each=VERSIONS, since="1.1")
def header_versions_in_v0(versions: tuple[int, int]) -> Draft:
    """In a v0 wrapper too, Kafka does not look at the version numbers of the first header."""
    return acceptable(
        *around(xerial(plain_of(0), header=header(*versions)), 0, "snappy"), kinds=REFUSED, why=ANY_VERSION
    )


@case("SNP-08", each={"by-1": -1, "by-ten": -10, "to-its-length": -200}, since="1.1")
def last_block_cut_short_in_v0(cut: int) -> Draft:
    """A last block with fewer bytes than its length says is an error in a v0 wrapper, too."""
    packed = xerial(plain_of(0))
    return invalid(around(packed[: max(len(packed) + cut, len(XERIAL_HEADER) + 4)], 0, "snappy")[0], *REFUSED)


@case("SNP-09", each={"one": 1, "three": 3}, since="1.1")
def stray_bytes_behind_the_last_block_in_v0(size: int) -> Draft:
    """In a v0 wrapper too, Kafka ignores one to three bytes after the last block; others may refuse them."""
    return acceptable(*around(xerial(plain_of(0)) + b"\xff" * size, 0, "snappy"), kinds=REFUSED, why=STRAY_BYTES)


def longer_length(plain: bytes, size: int) -> bytes:
    """A raw block whose length takes *size* bytes."""
    digits = [len(plain) >> 7 * at & 0x7F for at in range(size)]
    length = bytes([*(digit | 0x80 for digit in digits[:-1]), digits[-1]])
    return length + snappy_block(plain)[len(uvarint(len(plain))) :]


@case("SNP-02", each=grid(magic=EITHER, size={"3 bytes": 3, "5 bytes": 5}), since="1.1")
def length_in_a_longer_form(shape: dict[str, Any]) -> Draft:
    """The length before a raw block may stand in more bytes than it needs."""
    return valid(*around(longer_length(plain_of(shape["magic"]), shape["size"]), shape["magic"], "snappy"))


@case("SNP-08", each={"by-1": 1, "by-fifty": 50}, since="1.2")
def last_block_says_too_much_in_v0(more: int) -> Draft:
    """A last block that is whole, under a length beyond the end of the stream, is an error in a v0 wrapper, too."""
    block = snappy_block(plain_of(0))
    packed = XERIAL_HEADER + xerial_chunk(block, size=(len(block) + more).to_bytes(4, "big"))
    return invalid(around(packed, 0, "snappy")[0], *REFUSED)
