"""Append of a produced payload by a broker: KafkaApis, ReplicaManager and UnifiedLog.

They look at one thing after the other, and the first that is wrong decides (PRD-01):

    request     framing of the first batch, transactional id, validateRecords, transaction
    partition   base offset, size, CRC of every batch
    records     LogValidator
    again       size of what came out, segment size, producer state
"""

from __future__ import annotations

from dataclasses import replace

from kafka_records.broker import before_v2
from kafka_records.broker.config import TopicConfig
from kafka_records.broker.entries import Entry, entries
from kafka_records.broker.errors import Thrown, code_of
from kafka_records.broker.limits import check_segment, check_sizes
from kafka_records.broker.log_validator import validate
from kafka_records.broker.producer_state import check_fencing, check_transaction, find_duplicate, updated, verified
from kafka_records.broker.releases import Behaviour, behaviour
from kafka_records.broker.state import RULES, AppendResult, BatchMetadata, LogState
from kafka_records.broker.validation import Task
from kafka_records.constants import (
    INT32_MAX,
    INT64_MAX,
    MAGIC_VALUE_V1,
    MAGIC_VALUE_V2,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
    Compression,
)
from kafka_records.errors import RecordFormatError

# ProduceRequest#validateRecords: since this version only v2, and one batch of it.
FIRST_FOR_V2 = 3
FIRST_FOR_ZSTD = 7


def append(
    log: LogState, payload: bytes, config: TopicConfig, *, release: str, api_version: int, now_ms: int
) -> AppendResult:
    """The answer of a partition's leader to *payload*, and the bytes that it stores.

    Args:
        log: the partition so far.
        payload: the record bytes of a produce request, whatever they are.
        config: the topic's settings.
        release: of Kafka, like "4.4.0".
        api_version: of the produce request.
        now_ms: the broker's time.

    Raises:
        RecordFormatError: kind `malformed`, only for a release that is not known or a number that Kafka has no
            room for.
    """
    does = behaviour(release)
    _check_numbers(log, now_ms)
    payload = bytes(payload)
    try:
        _check_request(log, payload, does, api_version)
        transactional = _to_verify(log, payload, does, api_version)
    except Thrown as thrown:
        return _refused(log, thrown, does, whole=not _is_partitions(thrown))
    try:
        if transactional is not None:
            check_fencing(transactional, log, does)
            log = verified(transactional, log, does, api_version)
            check_transaction(transactional, log, does, api_version)
        if does.newest_magic == MAGIC_VALUE_V1:
            return before_v2.append_messages(log, payload, config, does, now_ms)
        return _append(log, payload, config, does, now_ms)
    except Thrown as thrown:
        return _refused(log, thrown, does)


def _check_numbers(log: LogState, now_ms: int) -> None:
    """Java's types hold these, and what follows in the log still has offsets."""
    ranges = (
        ("log_end_offset", log.log_end_offset, 0, INT64_MAX - INT32_MAX),
        ("leader_epoch", log.leader_epoch, -1, INT32_MAX),
        ("now_ms", now_ms, 0, INT64_MAX),
    )
    for name, number, least, most in ranges:
        if not least <= number <= most:
            raise RecordFormatError("malformed", f"{name} is {number}", path=name, rule="PRD-01")


class _OfPartition(Thrown):
    """An exception that is answered for one partition, though the request is still being looked at."""


def _is_partitions(thrown: Thrown) -> bool:
    return isinstance(thrown, _OfPartition)


def _refused(log: LogState, thrown: Thrown, does: Behaviour, *, whole: bool = False) -> AppendResult:
    """The error that the broker answers (PRD-02, PRD-03, PRD-14).

    It lists the records at fault (PRD-11); an error of structure lists none (PRD-12).
    """
    return AppendResult(
        log=log,
        error_code=code_of(thrown.name, invalid_record=does.invalid_record),
        record_errors=thrown.record_errors,
        whole_request=whole,
        rule=thrown.rule,
    )


def _check_request(log: LogState, payload: bytes, does: Behaviour, api_version: int) -> None:
    """KafkaApis#handleProduceRequest, ReplicaManager#handleProduceAppend."""
    oldest, newest = does.produce
    if not oldest <= api_version <= newest:
        # PRD-09: a real broker closes the connection, or answers in its own version.
        raise Thrown("UnsupportedVersionException", "PRD-09")
    if not does.inspects_first:
        return
    # TXN-03, ATT-12: the first batch and its bit decide, not the others nor a producer id.
    first = next(entries(payload, does), None)
    if first is not None and first.is_transactional and not _has_transactional_id(log, api_version):
        raise Thrown("TransactionalIdAuthorizationException", "TXN-02")
    if api_version >= FIRST_FOR_V2:  # PRD-07: older versions are spared
        _validate_records(payload, does, api_version)


def _validate_records(payload: bytes, does: Behaviour, api_version: int) -> None:
    """ProduceRequest#validateRecords: a declared exception is the partition's, any other the whole request's."""
    try:
        found = entries(payload, does)
        first = next(found, None)
        if first is None:
            raise Thrown("InvalidRecordException", "HDR-24" if not payload else "HDR-20")
        # HDR-08: what a producer of today has to write.
        if first.magic != MAGIC_VALUE_V2:
            raise Thrown("InvalidRecordException", "PRD-05")
        # ZST-01
        if api_version < FIRST_FOR_ZSTD and first.compression(does) == "zstd":
            raise Thrown("UnsupportedCompressionTypeException", "PRD-06")
        if next(found, None) is not None:
            raise Thrown("InvalidRecordException", "PRD-04")
    except Thrown as thrown:
        if code_of(thrown.name) < 0:
            raise
        raise _OfPartition(thrown.name, thrown.rule) from None


def _has_transactional_id(log: LogState, api_version: int) -> bool:
    """TXN-02: whether the request names one; before version 3 it has no field for it."""
    return log.producing.transactional_id and api_version >= FIRST_FOR_V2


def _to_verify(log: LogState, payload: bytes, does: Behaviour, api_version: int) -> Entry | None:
    """The first batch that a transaction has to vouch for (TXN-04, TXN-05); none without a transactional id."""
    if not does.verifies:
        return None
    batches = [batch for batch in entries(payload, does) if batch.has_producer_id and batch.is_transactional]
    if len({(batch.producer_id, batch.number("producer_epoch")) for batch in batches}) > 1:
        raise Thrown("InvalidPidMappingException", "TXN-04")
    return batches[0] if batches and _has_transactional_id(log, api_version) else None


def _append(log: LogState, payload: bytes, config: TopicConfig, does: Behaviour, now_ms: int) -> AppendResult:
    """UnifiedLog#append."""
    batches, source = _analyze(payload, config, does)
    if not batches:
        return AppendResult(log=log, rule="FRM-12")
    task = Task(
        does=does,
        config=config,
        source=source,
        now=now_ms,
        offset=log.log_end_offset,
        leader_epoch=log.leader_epoch,
    )
    validated = validate(batches, task)
    stored = [Entry(data.data) for data in entries(validated.data, does)]
    if validated.path != "in place":
        check_sizes(stored, config, does, "SIZ-04")
    check_segment(validated.data, config)
    # PID-15: duplicates are looked for last.
    end = log.log_end_offset + validated.records
    for batch in stored:
        if duplicate := find_duplicate(batch, log):
            return _known(log, duplicate)
        log = updated(batch, log, does)
    return AppendResult(
        log=replace(log, log_end_offset=end),
        base_offset=task.offset,
        log_append_time=now_ms if task.appends_time else NO_TIMESTAMP,
        stored=validated.data,
        path=validated.path,
        rule=RULES[validated.path],
    )


def _known(log: LogState, duplicate: BatchMetadata) -> AppendResult:
    """A duplicate is answered as the first time, with its own timestamp (PID-08, TIM-23)."""
    return AppendResult(log=log, base_offset=duplicate.first_offset, log_append_time=duplicate.timestamp, rule="PID-08")


def _analyze(payload: bytes, config: TopicConfig, does: Behaviour) -> tuple[list[Entry], Compression]:
    """#analyzeAndValidateRecords, batch by batch (CRC-09); the last codec that is one is the source."""
    batches: list[Entry] = []
    source: Compression = "none"
    for batch in entries(payload, does):
        if batch.is_v2:
            if batch.number("base_offset") != 0:
                raise Thrown("InvalidRecordException", "HDR-06")
            batch.number("last_offset_delta")
        check_sizes([batch], config, does, "SIZ-01")
        if not batch.is_valid:
            raise Thrown("CorruptRecordException", _validity_rule(batch))
        compression = batch.compression(does)
        source = source if compression == "none" else compression
        batches.append(batch)
    return batches, source


def _validity_rule(batch: Entry) -> str:
    if not batch.is_v2:
        return "LEG-04"
    return "CRC-06" if len(batch.data) >= RECORD_BATCH_OVERHEAD else "HDR-05"
