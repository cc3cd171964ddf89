"""Wrong codecs of the zoo: messages, wrappers and compression; and the miniatures that decode."""

from __future__ import annotations

from typing import Final

from kafka_fuzz.planted_bugs.patched import PatchedDecoder
from kafka_fuzz.planted_bugs.testees import TESTEE_BUGS

MESSAGES: Final = (
    PatchedDecoder(
        "message_crc_skipped",
        "the checksum of a message is not looked at",
        500,
        "message",
        "if stored != computed:",
        "if False:",
    ),
    PatchedDecoder(
        "slack_refused",
        "bytes behind a message's value are an error",
        2_000,
        "message",
        'value, _ = decode_nullable_int32(data, at, "value_length")',
        'value, end = decode_nullable_int32(data, at, "value_length")\n'
        "    if end != len(data):\n"
        '        raise RecordFormatError("malformed", "slack", offset=end, rule="LEG-12")',
    ),
    PatchedDecoder(
        "message_null_is_empty",
        "a message's null is read as empty",
        50,
        "primitives",
        "return (None, at) if size < 0 else",
        'return (b"", at) if size < 0 else',
    ),
    PatchedDecoder(
        "inner_offsets_absolute",
        "inner offsets of v1 are taken as they are",
        200,
        "message_set",
        "return wrapper.offset - last",
        "return 0",
    ),
    PatchedDecoder(
        "inner_offsets_of_v0_relative",
        "inner offsets of v0 are counted like those of v1",
        500,
        "message_set",
        "if wrapper.magic == MAGIC_VALUE_V0 or wrapper.offset == 0:",
        "if wrapper.offset == 0:",
    ),
    PatchedDecoder(
        "wrapper_offset_zero_counts",
        "a wrapper's offset of zero is taken for one",
        2_000,
        "message_set",
        "if wrapper.magic == MAGIC_VALUE_V0 or wrapper.offset == 0:",
        "if wrapper.magic == MAGIC_VALUE_V0:",
    ),
    PatchedDecoder(
        "wrapper_offset_not_compared",
        "a wrapper's offset below its last message's is no error",
        2_000,
        "message_set",
        "if wrapper.offset < last:",
        "if False:",
    ),
    PatchedDecoder(
        "offsets_from_the_first",
        "inner offsets are counted from the first message, as if none were missing",
        200,
        "message_set",
        "last = messages[-1].message.offset",
        "last = len(messages) - 1",
    ),
    PatchedDecoder(
        "wrapper_time_ignored",
        "a wrapper's LogAppendTime does not override its messages' times",
        2_000,
        "message_set",
        "timestamp = wrapper.timestamp if overridden else message.timestamp",
        "timestamp = message.timestamp",
    ),
    PatchedDecoder(
        "wrapper_time_always_holds",
        "a wrapper's time is that of its messages, CreateTime or not",
        200,
        "message_set",
        "timestamp = wrapper.timestamp if overridden else message.timestamp",
        "timestamp = wrapper.timestamp",
    ),
    PatchedDecoder(
        "wrapper_in_wrapper_accepted",
        "a wrapper inside a wrapper is a message",
        500,
        "message_set",
        "if is_compressed(message):",
        "if False:",
    ),
    PatchedDecoder(
        "zstd_in_v1_accepted", "v0 and v1 know zstd", 10_000, "message_set", 'if compression == "zstd":', "if False:"
    ),
    PatchedDecoder(
        "inner_tail_refused",
        "an inner message that is cut short is an error",
        1_000,
        "message_set",
        "            break\n",
        '            raise RecordFormatError("truncated", "cut", offset=at, rule="NST-06")\n',
    ),
)
STREAMS: Final = (
    PatchedDecoder(
        "first_gzip_member_only",
        "what follows the first gzip member is not read",
        5_000,
        "compression.gzip",
        "if len(data) - at <= SMALLEST_REST:",
        "if True:",
    ),
    PatchedDecoder(
        "gzip_trailer_skipped",
        "a gzip trailer is not compared",
        1_000,
        "compression.gzip",
        "if TRAILER.unpack_from(data, end) != (crc, size & 0xFFFFFFFF):",
        "if False:",
    ),
    PatchedDecoder(
        "gzip_garbage_refused",
        "bytes behind the last gzip member are an error",
        10_000,
        "compression.gzip",
        "        except RecordFormatError:\n",
        "        except ZeroDivisionError:\n",
    ),
    PatchedDecoder(
        "snappy_without_raw",
        "snappy without xerial's frame is an error",
        5_000,
        "compression.snappy",
        "    if len(data) < HEADER.size or not data.startswith(MAGIC):\n",
        "    if len(data) < HEADER.size or not data.startswith(MAGIC):\n"
        '        raise refused("no xerial", 0, "SNP-02")\n',
    ),
    PatchedDecoder(
        "first_snappy_block_only",
        "one xerial block is read",
        2_000,
        "compression.snappy",
        "            at = add_block(data, at, output)\n            continue\n",
        "            add_block(data, at, output)\n            return\n",
    ),
    PatchedDecoder(
        "xerial_version_checked",
        "a xerial header's version has to be 1",
        5_000,
        "compression.snappy",
        "    add_blocks(data, HEADER.size, output)\n",
        "    if HEADER.unpack_from(data)[1] != VERSION:\n"
        '        raise refused("version", 8, "SNP-03")\n'
        "    add_blocks(data, HEADER.size, output)\n",
    ),
    PatchedDecoder(
        "lz4_v0_checksum_right",
        "v0's lz4 header checksum has to be what lz4 says",
        500,
        "compression",
        "check_header=magic > MAGIC_VALUE_V0",
        "check_header=True",
    ),
    PatchedDecoder(
        "lz4_header_checksum_skipped",
        "the checksum of an lz4 header is not compared",
        5_000,
        "compression",
        "check_header=magic > MAGIC_VALUE_V0",
        "check_header=False",
    ),
    PatchedDecoder(
        "lz4_block_checksum_skipped",
        "the checksum of an lz4 block is not compared",
        5_000,
        "compression.lz4",
        "        if data[after - 4 : after] !=",
        "        if after < 0 and data[after - 4 : after] !=",
    ),
    PatchedDecoder(
        "lz4_linked_accepted",
        "lz4 blocks may depend on one another",
        20_000,
        "compression.lz4",
        "    if not flags & BLOCK_INDEPENDENCE:",
        "    if False:",
    ),
    PatchedDecoder(
        "lz4_without_end_accepted",
        "an lz4 frame needs no EndMark",
        2_000,
        "compression.lz4",
        '            raise refused("the lz4 stream ends without an EndMark", at, "LZ4-12")',
        "            return bytes(output.data)",
    ),
    PatchedDecoder(
        "zstd_garbage_accepted",
        "what follows a zstd frame is not looked at",
        5_000,
        "compression.zstd",
        '            raise refused("not a zstd frame", at, "ZST-04" if at else "CMP-06")',
        "            break",
    ),
    PatchedDecoder(
        "zstd_skippable_unknown",
        "zstd knows no skippable frames",
        5_000,
        "compression.zstd",
        "if data[at + 1 : at + 4] == SKIPPABLE and data[at] & 0xF0 == 0x50:",
        "if False:",
    ),
    PatchedDecoder(
        "first_zstd_frame_only",
        "one zstd frame is read",
        1_000,
        "compression.zstd",
        "            at = add_frame(data, at, output)\n",
        "            at = add_frame(data, at, output)\n            break\n",
    ),
)
# Those that differ from the reference in what they read, and not only in the name of an error, with their budgets.
BUDGETS: Final[dict[str, int]] = {
    "ignores_crc": 1_000,
    "crc_covers_epoch": 50,
    "no_zigzag": 50,
    "empty_as_null": 50,
    "null_as_empty": 50,
    "drops_headers": 50,
    "ignores_append_time": 500,
    "relative_offsets": 200,
    "first_gzip_member": 500,
    "drops_the_tail": 50,
    "raw_snappy_only": 50,
    "last_offset_by_one": 50,
    "unsigned_epoch": 50,
    "sequence_overflows": 1_000,
    "swaps_key_and_value": 50,
    "timestamps_of_32_bits": 50,
    "keys_as_text": 2_000,
    "drops_the_last_record": 50,
    "refuses_empty": 1_000,
}


def miniatures() -> tuple[PatchedDecoder, ...]:
    """The miniatures that decode wrongly, as animals."""
    return tuple(PatchedDecoder(name, TESTEE_BUGS[name].wrong, budget) for name, budget in BUDGETS.items())
