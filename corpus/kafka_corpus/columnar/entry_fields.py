"""The fields of entries that are to be written, a row of numbers for each, for kernels."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafka_corpus.columnar.headers import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS,
)
from kafka_corpus.columnar.jit import Numbers, inlined, kernel, part
from kafka_records.attributes import (
    COMPRESSION_CODEC_MASK,
    CONTROL_FLAG_MASK,
    DELETE_HORIZON_FLAG_MASK,
    TRANSACTIONAL_FLAG_MASK,
)
from kafka_records.constants import (
    COMPRESSIONS,
    INT32_MAX,
    MAGIC_VALUE_V0,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
)

Flags = npt.NDArray[np.bool_]
ZSTD: Final = COMPRESSIONS.index("zstd")
MODERN_FLAGS: Final = TRANSACTIONAL_FLAG_MASK | CONTROL_FLAG_MASK | DELETE_HORIZON_FLAG_MASK
# Offsets farther from 0 are left to the reference: differences of two might not fit.
FAR: Final = 1 << 62


@part
def latest_of(timestamps: Numbers) -> int:
    """The highest of some timestamps, at least one."""
    latest = int(timestamps[0])
    for timestamp in timestamps:
        latest = max(latest, int(timestamp))
    return latest


@kernel
def fill_fields(offsets: Numbers, timestamps: Numbers, count: int, alike: Numbers, fields: Numbers) -> None:
    """The fields of batches of *count* records each; *alike* has what all of them have in common."""
    for batch in range(len(fields)):
        start, end = batch * count, min(batch * count + count, len(offsets))
        fields[batch] = alike
        fields[batch, RECORDS] = end - start
        fields[batch, BASE_OFFSET], fields[batch, LAST_OFFSET] = offsets[start], offsets[end - 1]
        fields[batch, BASE_TIMESTAMP] = timestamps[start]
        if alike[MAGIC] > MAGIC_VALUE_V0:
            fields[batch, MAX_TIMESTAMP] = latest_of(timestamps[start:end])


@inlined
def is_modern(fields: Numbers) -> bool:
    """Whether the fields of a v2 batch are plainly right."""
    base, delta = fields[BASE_OFFSET], fields[LAST_OFFSET] - fields[BASE_OFFSET]
    if not (-FAR < base < FAR and -INT32_MAX <= delta <= INT32_MAX and fields[BASE_TIMESTAMP] >= NO_TIMESTAMP):
        return False
    # PID-04, TXN-16
    if fields[PRODUCER_ID] == NO_PRODUCER_ID:
        return bool(fields[ATTRIBUTES] & TRANSACTIONAL_FLAG_MASK == 0)
    return bool(fields[PRODUCER_EPOCH] != NO_PRODUCER_EPOCH and fields[BASE_SEQUENCE] >= 0)


@inlined
def is_legacy(fields: Numbers, typed: bool, last: int) -> bool:
    """Whether the fields of a v0 or v1 entry, whose last record has the offset *last*, are plainly right."""
    codec = fields[ATTRIBUTES] & COMPRESSION_CODEC_MASK
    if fields[ATTRIBUTES] & MODERN_FLAGS or fields[PRODUCER_ID] != NO_PRODUCER_ID or codec >= ZSTD:
        return False
    if fields[MAGIC] != MAGIC_VALUE_V1:
        return bool(fields[MAGIC] == MAGIC_VALUE_V0)
    # NST-09, NST-10
    found = fields[BASE_OFFSET] >= 0 and fields[LAST_OFFSET] == last and last > 0
    return bool(typed and (codec == 0 or found))


@kernel
def find_plain(fields: Numbers, typed: Flags, offsets: Numbers, plain: Numbers) -> None:
    """Ones for entries whose fields are plainly right; of the others the reference says what they are."""
    end = 0
    for batch in range(len(plain)):
        one = fields[batch]
        end += one[RECORDS]
        if one[RECORDS] == 0:
            plain[batch] = 0
        elif one[MAGIC] == MAGIC_VALUE_V2:
            plain[batch] = typed[batch] and is_modern(one)
        else:
            plain[batch] = is_legacy(one, typed[batch], offsets[end - 1])
