"""Wrong codecs of the zoo: what can be got wrong in the records of a v2 batch."""

from __future__ import annotations

from typing import Final

from kafka_fuzz.zoo.animal import Animal

RECORDS: Final = (
    Animal(
        "lengths_unsigned",
        "lengths are read without zig-zag",
        50,
        "primitives",
        "size, at = decode_varint(data, at, field)\n",
        "size, at = decode_varint(data, at, field)\n    size = abs(2 * size)\n",
    ),
    Animal(
        "varints_of_six_bytes",
        "a varint may take a byte more than it may",
        5_000,
        "varint",
        "MAX_VARINT_BYTES = 5",
        "MAX_VARINT_BYTES = 6",
    ),
    Animal(
        "varints_of_four_bytes",
        "a varint may take a byte less than it may",
        500,
        "varint",
        "MAX_VARINT_BYTES = 5",
        "MAX_VARINT_BYTES = 4",
    ),
    Animal(
        "overlong_varints_refused",
        "a varint that could be shorter is an error",
        10_000,
        "varint",
        "        if byte < 0x80:\n",
        "        if byte == 0 and shift > 7:\n"
        '            raise RecordFormatError("malformed", "overlong", path=field, offset=at, rule="VAR-05")\n'
        "        if byte < 0x80:\n",
    ),
    Animal(
        "high_bits_of_varints_kept",
        "what does not fit 32 bits is kept",
        2_000,
        "varint",
        "value &= 0xFFFFFFFF  # VAR-07",
        "value &= 0xFFFFFFFFF  # VAR-07",
    ),
    Animal(
        "timestamp_delta_of_32_bits",
        "the timestamp delta is read as a varint, not as a varlong",
        2_000,
        "record",
        'timestamp_delta, at = decode_varlong(body, 1, "timestamp_delta")',
        'timestamp_delta, at = decode_varint(body, 1, "timestamp_delta")',
    ),
    Animal(
        "timestamps_do_not_wrap",
        "sums of timestamps are larger than 64 bits",
        5_000,
        "record",
        "timestamp = wrap_int64(base_timestamp + timestamp_delta)",
        "timestamp = base_timestamp + timestamp_delta",
    ),
    Animal(
        "offset_delta_unsigned",
        "a record's offset is never below the base",
        2_000,
        "record",
        "offset = wrap_int64(base_offset + offset_delta)",
        "offset = wrap_int64(base_offset + (offset_delta & 0xFFFFFFFF))",
    ),
    Animal(
        "garbage_in_a_record_accepted",
        "bytes between a record's fields and its end are ignored",
        2_000,
        "record",
        "if used != length:",
        "if used > length:",
    ),
    Animal(
        "record_attributes_refused",
        "a record's attributes have to be zero",
        500,
        "record",
        "    if not body:\n",
        "    if body and body[0]:\n"
        '        raise RecordFormatError("malformed", "attributes", offset=0, rule="ATT-15")\n'
        "    if not body:\n",
    ),
    Animal(
        "null_is_empty",
        "null is read as empty",
        50,
        "primitives",
        "        return None, at\n",
        '        return b"", at\n',
    ),
    Animal(
        "only_minus_one_is_null",
        "a length below -1 is an error",
        500,
        "primitives",
        "    if size < 0:\n        return None, at\n",
        "    if size < -1:\n"
        '        raise RecordFormatError("malformed", "length", path=field, offset=at, rule="REC-10")\n'
        "    if size < 0:\n        return None, at\n",
    ),
    Animal(
        "negative_header_count_is_none",
        "a header count below zero is no headers",
        5_000,
        "record",
        "    if count == 0:\n        return (), at",
        "    if count <= 0:\n        return (), at",
    ),
    Animal(
        "header_count_ignored",
        "headers are read to the end of the record, whatever their count",
        5_000,
        "record",
        "    for index in range(count):\n",
        "    for index in range(len(body)):\n        if at == len(body):\n            break\n",
    ),
    Animal(
        "null_header_key_is_empty",
        "a header without a key has an empty one",
        5_000,
        "record",
        "    if key is None:\n",
        '    key = b"" if key is None else key\n    if key is None:\n',
    ),
    Animal(
        "null_header_value_is_empty",
        "a header's null value is empty",
        200,
        "record",
        "    return Header(key, value), at",
        '    return Header(key, value or b""), at',
    ),
    Animal(
        "headers_are_a_mapping",
        "of headers of one name the last is kept",
        1_000,
        "record",
        "    return tuple(headers), at",
        "    return tuple(map(Header._make, dict(headers).items())), at",
    ),
)
