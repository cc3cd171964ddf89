"""The reference as a testee: `kafka_records` connected to the protocol."""

from __future__ import annotations

from collections.abc import Sequence

import kafka_records
from kafka_conformance import installed_version
from kafka_conformance.testees.interface import CodecError
from kafka_conformance.testees.protocol import Aborted, AppendRequest, Capability, CodecAnswer
from kafka_corpus.wire import WireBatch, from_wire, to_wire, to_wire_record
from kafka_records import LogState, RecordFormatError, TopicConfig, fetching

NAME = "reference"
VERSION = installed_version()

_EVERYTHING = ["none", "gzip", "snappy", "lz4", "zstd"]
DECODES = Capability([0, 1, 2], _EVERYTHING)
ENCODES = Capability([0, 1, 2], _EVERYTHING)


def decode(data: bytes) -> list[WireBatch]:
    """Every complete batch of *data*, all fields exposed."""
    try:
        return list(map(to_wire, kafka_records.decode(data)))
    except RecordFormatError as error:
        raise CodecError(error.kind, str(error), list(map(to_wire, error.batches))) from error


def committed(data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
    """The records of *data* that a read_committed consumer sees."""
    try:
        seen = fetching.consume(data, aborted=aborted)
    except RecordFormatError as error:
        raise CodecError(error.kind, str(error)) from error
    return CodecAnswer(records=list(map(to_wire_record, seen.records)), next_offset=seen.next_offset)


def encode(batch: WireBatch) -> bytes:
    """The bytes of *batch*."""
    try:
        return kafka_records.encode(from_wire(batch))
    except RecordFormatError as error:
        raise CodecError(error.kind, str(error)) from error


def append(request: AppendRequest) -> CodecAnswer:
    """The answer of a broker of the release to the payload, with the bytes it stores."""
    log = LogState(log_end_offset=request.log_end_offset, leader_epoch=request.leader_epoch)
    try:
        result = kafka_records.append(
            log,
            request.data,
            TopicConfig.of(request.config),
            release=request.release,
            api_version=request.api_version,
            now_ms=request.now_ms,
        )
    except RecordFormatError as error:
        raise CodecError(error.kind, str(error)) from error
    if result.error_code:
        return CodecAnswer(error_code=result.error_code)
    return CodecAnswer(error_code=0, base_offset=result.base_offset, stored=result.stored)
