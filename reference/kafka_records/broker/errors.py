"""The error codes of Kafka's protocol that a produce request is answered with, and what leads to them.

Kafka's broker throws Java exceptions; `Errors#forException` turns those that it
declares into codes and everything else into UNKNOWN_SERVER_ERROR (PRD-14).
Which exception escapes from where decides the code, so exceptions go by Java's
names here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

UNKNOWN_SERVER_ERROR: Final = -1
NONE: Final = 0
CORRUPT_MESSAGE: Final = 2
MESSAGE_TOO_LARGE: Final = 10
INVALID_TOPIC_EXCEPTION: Final = 17
RECORD_LIST_TOO_LARGE: Final = 18
INVALID_REQUIRED_ACKS: Final = 21
INVALID_TIMESTAMP: Final = 32
UNSUPPORTED_VERSION: Final = 35
UNSUPPORTED_FOR_MESSAGE_FORMAT: Final = 43
OUT_OF_ORDER_SEQUENCE_NUMBER: Final = 45
INVALID_PRODUCER_EPOCH: Final = 47
INVALID_TXN_STATE: Final = 48
INVALID_PRODUCER_ID_MAPPING: Final = 49
TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Final = 53
UNKNOWN_PRODUCER_ID: Final = 59
UNSUPPORTED_COMPRESSION_TYPE: Final = 76
INVALID_RECORD: Final = 87
TRANSACTION_ABORTABLE: Final = 120

# What Kafka's code, the JDK or a codec throws on the way of a produced payload.
JavaName = Literal[
    # those that Errors declares
    "CorruptRecordException",
    "InvalidPidMappingException",
    "InvalidProducerEpochException",
    "InvalidRecordException",
    "InvalidTimestampException",
    "InvalidTxnStateException",
    "OutOfOrderSequenceException",
    "RecordBatchTooLargeException",
    "RecordTooLargeException",
    "TransactionAbortableException",
    "TransactionalIdAuthorizationException",
    "UnknownProducerIdException",
    "UnsupportedCompressionTypeException",
    "UnsupportedForMessageFormatException",
    "UnsupportedVersionException",
    # those that escape
    "BufferUnderflowException",
    "EOFException",
    "IOException",
    "IllegalArgumentException",
    "IllegalStateException",
    "IndexOutOfBoundsException",
    "KafkaException",
    "NoSuchElementException",
    "NullPointerException",
    "OutOfMemoryError",
    "StackOverflowError",
    "UnsupportedOperationException",
]

CODES: Final[Mapping[JavaName, int]] = {
    "CorruptRecordException": CORRUPT_MESSAGE,
    "InvalidPidMappingException": INVALID_PRODUCER_ID_MAPPING,
    "InvalidProducerEpochException": INVALID_PRODUCER_EPOCH,
    "InvalidRecordException": INVALID_RECORD,
    "InvalidTimestampException": INVALID_TIMESTAMP,
    "InvalidTxnStateException": INVALID_TXN_STATE,
    "OutOfOrderSequenceException": OUT_OF_ORDER_SEQUENCE_NUMBER,
    "RecordBatchTooLargeException": RECORD_LIST_TOO_LARGE,
    "RecordTooLargeException": MESSAGE_TOO_LARGE,
    "TransactionAbortableException": TRANSACTION_ABORTABLE,
    "TransactionalIdAuthorizationException": TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    "UnknownProducerIdException": UNKNOWN_PRODUCER_ID,
    "UnsupportedCompressionTypeException": UNSUPPORTED_COMPRESSION_TYPE,
    "UnsupportedForMessageFormatException": UNSUPPORTED_FOR_MESSAGE_FORMAT,
    "UnsupportedVersionException": UNSUPPORTED_VERSION,
}


class Thrown(Exception):
    """A Java exception on its way out of the broker's code; `append` catches every one.

    Attributes:
        name: the exception's simple name in Java.
        rule: id of the rule that threw it.
        record_errors: indexes of records at fault, where the broker lists them.
    """

    def __init__(self, name: JavaName, rule: str, record_errors: tuple[int, ...] = ()) -> None:
        super().__init__(name)
        self.name: JavaName = name
        self.rule = rule
        self.record_errors = record_errors


def code_of(name: JavaName, *, invalid_record: int = INVALID_RECORD) -> int:
    """The code of `Errors#forException`; *invalid_record* is what InvalidRecordException stands for.

    >>> code_of("RecordTooLargeException"), code_of("NullPointerException")
    (10, -1)
    """
    if name == "InvalidRecordException":
        return invalid_record
    return CODES.get(name, UNKNOWN_SERVER_ERROR)
