"""Which cases are variations of one question: who hangs over one of them has had its time for the others too."""

from __future__ import annotations

import re
from typing import Final

from kafka_corpus.case import Case
from kafka_records.constants import COMPRESSIONS

# A codec that is the first of several parameters in an id.
_OF_A_CODEC: Final = re.compile(rf"(?<=\[)({'|'.join(COMPRESSIONS)})-")

# What several functions ask in other words, and those functions.
KIN: Final = {
    "a compressed stream is not whole": (
        "compression.half_of_the_frame",
        "compression.no_payload",
        "compression.no_payload_and_no_records",
        "gzip.member_cut_short",
        "gzip.optional_field_cut_short",
        "gzip.stored_block_longer_than_the_stream",
        "gzip.trailer_cut_short",
        "gzip.zlib_and_raw_deflate",
        "message_set.wrapper_with_empty_value",
        "message_set.wrapper_with_null_value",
        "truncation.compressed_bytes_end_early",
        "v2_batch.empty_batch_with_a_codec",
        "wrapper_ends.stream_ends_early",
    ),
    "an inner message lies at or before itself": (
        "backwards.inner_message_at_itself",
        "backwards.inner_message_at_the_one_before",
    ),
    "a batch or a part of it lies at or before itself": (
        "backwards.batch_at_itself",
        "backwards.batch_at_the_one_before",
        "backwards.header_at_itself",
        "backwards.record_at_itself",
        "backwards.value_at_the_message_before",
        "backwards.value_at_the_start_of_its_message",
    ),
    "a count of headers is above what there is": (
        "history.header_count_reserved_unseen",
        "resources.header_count_claims",
        "v2_headers.count_above_the_bytes_left",
        "varint.header_count_beyond_int32",
    ),
    "bytes of another kind lie beside a frame": ("lz4.not_a_frame", "lz4_blocks.bytes_behind_the_frame"),
    "a great many headers": ("resources.flood_of_headers[small]", "resources.many_headers"),
}
_KIN_OF: Final = {name: kin for kin, names in KIN.items() for name in names}


def family_of(case: Case) -> str:
    """The variations of one question are those in `KIN`, or differ in nothing but the codec, or come from one function.

    Those that claim sizes are no family otherwise: they differ in how long they may take.
    """
    function = case.id.partition("[")[0]
    if kin := _KIN_OF.get(function) or _KIN_OF.get(case.id):
        return kin
    if _OF_A_CODEC.search(case.id):
        return _OF_A_CODEC.sub("", case.id)
    return "" if case.area == "resources" else function
