"""What producers are asked to write: encode cases of the corpus that any client might have to."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

from kafka_conformance.selection import select
from kafka_corpus.case import Case, Op
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch

# Every magic, codec and shape of a record, transactions and markers, and the mistakes that writers are known for.
USUAL: Final = (
    "writers",
    "v2_encode.create_time",
    "v2_encode.many_headers",
    "v2_encode.append_time",
    "v2_encode.gaps_after_compaction",
    "v2_encode.empty_batch",
    "v2_encode.end_marker",
    "v2_encode.largest_value_of_a_field",
    "v2_headers.key_is_written_as_utf_8",
    "v2_offsets.writer_takes_the_largest_delta",
    "timestamp.writer_takes_the_first_as_base",
    "timestamp.writer_takes_the_largest_as_max",
    "varint.writer_of_a_timestamp_delta",
    "transactions.write_*",
    "legacy_encode.message",
    "legacy_encode.several_messages",
    "legacy_encode.wrapper",
    "legacy_encode.absolute_offsets",
    "legacy_encode.relative_offsets",
    "legacy_encode.append_time_inside",
    "legacy_encode.timestamp_none",
)


def wishes(only: Sequence[str] = ()) -> list[Case]:
    """The valid encode cases that *only* names, or the `USUAL` ones.

    Raises:
        OSError, ValueError: the corpus cannot be read.
    """
    return select(_encode_cases(), only or USUAL)


@cache
def _encode_cases() -> tuple[Case, ...]:
    encode: tuple[Op, ...] = ("encode",)
    return tuple(case for case in load_vectors(ops=encode) if _can_be_read_back(case))


def _can_be_read_back(case: Case) -> bool:
    # What has to be refused, or may be, says nothing to a reader.
    return case.expect.verdict == "valid" and isinstance(case.input, Batch) and case.expect.data is not None
