"""Requests that `test_append` sends to both `append` and a broker, payload after payload."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from kafka_brokers.scenarios.normalize import now_of
from kafka_brokers.wire import Client, ConnectionClosed, Produced, TopicPartition
from kafka_records import AppendResult, LogState, Producing, RecordFormatError, TopicConfig, append
from kafka_records.compression import decompress
from kafka_records.constants import COMPRESSIONS, RECORD_BATCH_OVERHEAD
from kafka_records.layout import ATTRIBUTES_OFFSET_LEGACY, ATTRIBUTES_OFFSET_V2, BATCH_V2, MAGIC_OFFSET
from kafka_records.log import split_entries
from kafka_records.message import decode_message

PARTITIONS = 40
NOTHING_BESIDES = Producing()
# Settings that a release does not take from a topic.
UNKNOWN = {"message.timestamp.before.max.ms", "max.decompressed.message.bytes"}
UNKNOWN_SINCE_4 = {"message.timestamp.difference.max.ms", "message.format.version"}


class Answer(NamedTuple):
    """The compared part of an answer; *stored* is the content above compression."""

    error_code: int
    base_offset: int
    log_append_time: int
    stored: tuple[object, ...]


class Partitions:
    """Fresh partitions of one configuration, and what is known of the log in the one in use."""

    names = count()

    def __init__(self, client: Client, release: str, settings: Mapping[str, str]) -> None:
        self._client = client
        self._release = release
        self._settings = {"max.message.bytes": "4000000", **settings}
        self._config = TopicConfig.of(self._settings)
        self._left: list[TopicPartition] = []
        self.renew()

    def renew(self) -> None:
        """Continue with an empty partition."""
        if not self._left:
            topic = f"append-{next(self.names)}"
            unknown = UNKNOWN_SINCE_4 if self._release.startswith("4.") else UNKNOWN
            known = {name: value for name, value in self._settings.items() if name not in unknown}
            self._client.create_topics({topic: PARTITIONS}, known)
            self._left = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        self.where = self._left.pop()
        self._log = LogState()

    def compare(
        self, payload: bytes, version: int, transactional_id: str | None = None, producing: Producing = NOTHING_BESIDES
    ) -> tuple[Answer, Answer, str]:
        """The broker's answer, ours, and the rule that we name; *producing* is what the broker knows besides."""
        given = self._client.produce({self.where: payload}, version, transactional_id=transactional_id)
        assert isinstance(given, dict), given
        produced = given[self.where]
        stored = self._stored(produced)
        self._learn_epoch(stored)
        self._log = replace(self._log, producing=producing)
        timed = self._config.timestamp_type == "LogAppendTime"
        ours = self._append(payload, version, now_of(produced, stored if timed else b""))
        base_offset = -1 if produced.error_code else produced.base_offset
        theirs = Answer(produced.error_code, base_offset, produced.log_append_time, above_compression(stored))
        log_append_time = ours.log_append_time if version >= 2 else -1
        mine = Answer(ours.error_code, ours.base_offset, log_append_time, above_compression(ours.stored))
        self._log = ours.log
        if mine != theirs:
            self.renew()
        return theirs, mine, ours.rule

    def _learn_epoch(self, stored: bytes) -> None:
        """The leader's epoch, which a restart raises, from the first batch that has one."""
        if self._log.log_end_offset == 0 and len(stored) >= RECORD_BATCH_OVERHEAD and stored[MAGIC_OFFSET] == 2:
            epoch = BATCH_V2.struct.unpack_from(stored)[2]
            self._log = replace(self._log, leader_epoch=epoch)

    def _stored(self, produced: Produced) -> bytes:
        if produced.error_code or produced.base_offset < self._log.log_end_offset:
            return b""
        fetched = self._client.fetch({self.where: self._log.log_end_offset})
        assert not isinstance(fetched, ConnectionClosed)
        return fetched[self.where].records

    def _append(self, payload: bytes, version: int, now_ms: int) -> AppendResult:
        return append(self._log, payload, self._config, release=self._release, api_version=version, now_ms=now_ms)


def above_compression(data: bytes) -> tuple[object, ...]:
    """Entries as they are, those compressed as their header without length and CRC and what unpacks from them."""
    return tuple(opened(data[start:end]) for start, end in split_entries(data))


def opened(entry: bytes) -> object:
    """One entry; what we cannot unpack stays as it is."""
    v2 = entry[MAGIC_OFFSET] == 2
    codec = entry[ATTRIBUTES_OFFSET_V2 + 1 if v2 else ATTRIBUTES_OFFSET_LEGACY] & 7
    if codec == 0:
        return entry
    try:
        if v2:
            header = BATCH_V2.struct.unpack_from(entry)
            packed: bytes | None = entry[RECORD_BATCH_OVERHEAD:]
            outside: object = header[:1] + header[2:4] + header[5:]
        else:
            message = decode_message(entry)
            packed, outside = message.value, message._replace(value=None)
        return outside, decompress(COMPRESSIONS[codec], packed or b"", magic=entry[MAGIC_OFFSET], most=2**28)
    except RecordFormatError:
        return entry
