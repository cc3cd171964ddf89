"""Planted bugs in messages, wrappers and compression."""

from __future__ import annotations

from typing import Final

from kafka_fuzz.planted_bugs.bug import patched_bug

MESSAGES: Final = (
    patched_bug(
        "message_crc_skipped",
        "the checksum of a message is not looked at",
        500,
        "message",
        "if stored != computed:",
        "if False:",
    ),
    patched_bug(
        "slack_refused",
        "bytes after a message's value are an error",
        2_000,
        "message",
        'value, _ = decode_nullable_int32(data, at, "value_length")',
        'value, end = decode_nullable_int32(data, at, "value_length")\n'
        "    if end != len(data):\n"
        '        raise RecordFormatError("malformed", "slack", offset=end, rule="LEG-12")',
    ),
    patched_bug(
        "message_null_is_empty",
        "a message's null is read as empty",
        50,
        "primitives",
        "return (None, at) if size < 0 else",
        'return (b"", at) if size < 0 else',
    ),
    patched_bug(
        "inner_offsets_absolute",
        "inner offsets of v1 are taken as they are",
        200,
        "message_set",
        "return wrapper.offset - last",
        "return 0",
    ),
    patched_bug(
        "inner_offsets_of_v0_relative",
        "inner offsets of v0 are counted like those of v1",
        500,
        "message_set",
        "if wrapper.magic == MAGIC_VALUE_V0 or wrapper.offset == 0:",
        "if wrapper.offset == 0:",
    ),
    patched_bug(
        "wrapper_offset_zero_counts",
        "a wrapper's offset of zero is taken for one",
        2_000,
        "message_set",
        "if wrapper.magic == MAGIC_VALUE_V0 or wrapper.offset == 0:",
        "if wrapper.magic == MAGIC_VALUE_V0:",
    ),
    patched_bug(
        "wrapper_offset_not_compared",
        "a wrapper's offset below its last message's is no error",
        2_000,
        "message_set",
        "if wrapper.offset < last:",
        "if False:",
    ),
    patched_bug(
        "offsets_from_the_first",
        "inner offsets are counted from the first message, as if none were missing",
        200,
        "message_set",
        "last = messages[-1].message.offset",
        "last = len(messages) - 1",
    ),
    patched_bug(
        "wrapper_time_ignored",
        "a wrapper's LogAppendTime does not override its messages' times",
        2_000,
        "message_set",
        "timestamp = wrapper.timestamp if overridden else message.timestamp",
        "timestamp = message.timestamp",
    ),
    patched_bug(
        "wrapper_time_always_holds",
        "a wrapper's time is that of its messages, CreateTime or not",
        200,
        "message_set",
        "timestamp = wrapper.timestamp if overridden else message.timestamp",
        "timestamp = wrapper.timestamp",
    ),
    patched_bug(
        "wrapper_in_wrapper_accepted",
        "a wrapper inside a wrapper is a message",
        500,
        "message_set",
        "if is_compressed(message):",
        "if False:",
    ),
    patched_bug(
        "zstd_in_v1_accepted", "v0 and v1 know zstd", 10_000, "message_set", 'if compression == "zstd":', "if False:"
    ),
    patched_bug(
        "inner_tail_refused",
        "an inner message that is cut short is an error",
        1_000,
        "message_set",
        "            break\n",
        '            raise RecordFormatError("truncated", "cut", offset=at, rule="NST-06")\n',
    ),
)
STREAMS: Final = (
    patched_bug(
        "first_gzip_member_only",
        "what follows the first gzip member is not read",
        5_000,
        "compression.gzip",
        "if len(data) - at <= SMALLEST_REST:",
        "if True:",
    ),
    patched_bug(
        "gzip_trailer_skipped",
        "a gzip trailer is not compared",
        1_000,
        "compression.gzip",
        "if TRAILER.unpack_from(data, end) != (crc, size & 0xFFFFFFFF):",
        "if False:",
    ),
    patched_bug(
        "gzip_garbage_refused",
        "bytes after the last gzip member are an error",
        10_000,
        "compression.gzip",
        "        except RecordFormatError:\n",
        "        except ZeroDivisionError:\n",
    ),
    patched_bug(
        "snappy_without_raw",
        "snappy without xerial's frame is an error",
        5_000,
        "compression.snappy",
        "    if len(data) < HEADER.size or not data.startswith(MAGIC):\n",
        "    if len(data) < HEADER.size or not data.startswith(MAGIC):\n"
        '        raise refused("no xerial", 0, "SNP-02")\n',
    ),
    patched_bug(
        "first_snappy_block_only",
        "one xerial block is read",
        2_000,
        "compression.snappy",
        "            at = add_block(data, at, output)\n            continue\n",
        "            add_block(data, at, output)\n            return\n",
    ),
    patched_bug(
        "xerial_version_checked",
        "a xerial header's version has to be 1",
        5_000,
        "compression.snappy",
        "    add_blocks(data, HEADER.size, output)\n",
        "    if HEADER.unpack_from(data)[1] != VERSION:\n"
        '        raise refused("version", 8, "SNP-03")\n'
        "    add_blocks(data, HEADER.size, output)\n",
    ),
    patched_bug(
        "lz4_v0_checksum_right",
        "v0's lz4 header checksum has to be what lz4 says",
        500,
        "compression",
        "check_header=magic > MAGIC_VALUE_V0",
        "check_header=True",
    ),
    patched_bug(
        "lz4_header_checksum_skipped",
        "the checksum of an lz4 header is not compared",
        5_000,
        "compression",
        "check_header=magic > MAGIC_VALUE_V0",
        "check_header=False",
    ),
    patched_bug(
        "lz4_block_checksum_skipped",
        "the checksum of an lz4 block is not compared",
        5_000,
        "compression.lz4",
        "        if data[after - 4 : after] !=",
        "        if after < 0 and data[after - 4 : after] !=",
    ),
    patched_bug(
        "lz4_linked_accepted",
        "lz4 blocks may depend on one another",
        20_000,
        "compression.lz4",
        "    if not flags & BLOCK_INDEPENDENCE:",
        "    if False:",
    ),
    patched_bug(
        "lz4_without_end_accepted",
        "an lz4 frame needs no EndMark",
        2_000,
        "compression.lz4",
        '            raise refused("the lz4 stream ends without an EndMark", at, "LZ4-12")',
        "            return bytes(output.data)",
    ),
    patched_bug(
        "zstd_garbage_accepted",
        "what follows a zstd frame is not looked at",
        5_000,
        "compression.zstd",
        '            raise refused("not a zstd frame", at, "ZST-04" if at else "CMP-06")',
        "            break",
    ),
    patched_bug(
        "zstd_skippable_unknown",
        "zstd knows no skippable frames",
        5_000,
        "compression.zstd",
        "if data[at + 1 : at + 4] == SKIPPABLE and data[at] & 0xF0 == 0x50:",
        "if False:",
    ),
    patched_bug(
        "first_zstd_frame_only",
        "one zstd frame is read",
        1_000,
        "compression.zstd",
        "            at = add_frame(data, at, output)\n",
        "            at = add_frame(data, at, output)\n            break\n",
    ),
)
