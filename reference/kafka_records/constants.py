"""Magic values, sentinels and limits, each with its source.

The names are Kafka's own (``RecordBatch``, ``Records``, ``LegacyRecord``).
"""

from typing import Final, Literal, get_args

MAGIC_VALUE_V0: Final = 0  # message, Kafka 0.8.0
MAGIC_VALUE_V1: Final = 1  # message with timestamp, 0.10.0 (KIP-32)
MAGIC_VALUE_V2: Final = 2  # record batch, 0.11.0 (KIP-98)

# RecordBatch: -1 stands for "none" in every one of these fields.
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_PARTITION_LEADER_EPOCH: Final = -1

# FRM-01: offset and size come before every entry and are not part of its size.
LOG_OVERHEAD: Final = 12
# FRM-03: byte 16 is the first that distinguishes the formats.
HEADER_SIZE_UP_TO_MAGIC: Final = 17
# LEG-01, LEG-02: the smallest v0 and v1 messages, without LOG_OVERHEAD.
RECORD_OVERHEAD_V0: Final = 14
RECORD_OVERHEAD_V1: Final = 22
# HDR-01: the v2 batch header, LOG_OVERHEAD included.
RECORD_BATCH_OVERHEAD: Final = 61
# DefaultRecord#MAX_RECORD_OVERHEAD: length 5, attributes 1, timestamp delta 10, offset delta 5.
MAX_RECORD_OVERHEAD: Final = 21

INT16_MAX: Final = 2**15 - 1
INT32_MAX: Final = 2**31 - 1
INT32_MIN: Final = -(2**31)
INT64_MAX: Final = 2**63 - 1
INT64_MIN: Final = -(2**63)

# LogConfig#DEFAULT_MAX_MESSAGE_BYTES: per batch, 1 MiB and the 12 bytes before it (SIZ-02).
DEFAULT_MAX_MESSAGE_BYTES: Final = 1024 * 1024 + LOG_OVERHEAD

# ATT-01: the names stand at their attribute values.
Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]
COMPRESSIONS: Final[tuple[Compression, ...]] = get_args(Compression)

# CreateTime, LogAppendTime, and NO_TIMESTAMP_TYPE of v0.
TimestampType = Literal["create", "append", "none"]
