"""Many partitions in one request: payloads by partition in, answers by partition out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from kafka_brokers.wire.errors import BrokerError, GarbledResponse
from kafka_brokers.wire.schema import Message
from kafka_brokers.wire.tables import LAST_BY_NAME, NO_LIMIT


class TopicPartition(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Produced:
    """A broker's answer for one partition of a produce request.

    Attributes:
        error_code: 0 where the payload was stored.
        base_offset: of the first record; -1 with most errors.
        log_append_time: milliseconds; -1 where records kept their own timestamps, or before version 2.
        log_start_offset: -1 before version 5.
        record_errors: index in the batch and message of records at fault (from version 8 on).
        error_message: in words, from version 8 on, if the broker has some.
    """

    error_code: int
    base_offset: int
    log_append_time: int = -1
    log_start_offset: int = -1
    record_errors: tuple[tuple[int, str | None], ...] = ()
    error_message: str | None = None


@dataclass(frozen=True, slots=True)
class Fetched:
    """A broker's answer for one partition of a fetch request.

    Attributes:
        error_code: 0 where there are records, or could be.
        high_watermark: the offset after the last record that consumers may see.
        records: the bytes as they came; the last batch may be cut off.
        last_stable_offset, log_start_offset: -1 in versions that have none (before 4 and 5).
        aborted: producer id and first offset of aborted transactions; None if the broker gave no list.
    """

    error_code: int
    high_watermark: int
    records: bytes
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: tuple[tuple[int, int], ...] | None = None


@dataclass(frozen=True, slots=True)
class Names:
    """Topic ids by name and back, from metadata; empty for brokers without."""

    ids: Mapping[str, UUID]

    def key(self, field: str, topic: str, *, by_id: bool) -> dict[str, Any]:
        """The fields that name *topic* in a request.  Raises `KeyError` if its id is unknown."""
        return {"topic_id": self.ids[topic]} if by_id else {field: topic}

    def name(self, field: str, answer: Message) -> str:
        """Which topic an answer is about.  Raises `GarbledResponse` for an id that was not requested."""
        if field in answer:
            return str(answer[field])
        for name, topic_id in self.ids.items():
            if topic_id == answer["topic_id"]:
                return name
        raise GarbledResponse(f"an answer for a topic that was not requested: {answer['topic_id']}")


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[TopicPartition]]:
    found: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        found.setdefault(each.topic, []).append(each)
    return found


def produce_body(payloads: Mapping[TopicPartition, bytes | None], version: int, names: Names, **fields: Any) -> Message:
    """A produce request with these record bytes, which may be anything; *fields* as in the table."""
    by_id = version > LAST_BY_NAME
    return fields | {
        "topic_data": [
            names.key("name", topic, by_id=by_id)
            | {"partition_data": [{"index": each.partition, "records": payloads[each]} for each in partitions]}
            for topic, partitions in _by_topic(payloads).items()
        ]
    }


def fetch_body(
    offsets: Mapping[TopicPartition, int],
    version: int,
    names: Names,
    *,
    partition_max_bytes: int = NO_LIMIT,
    **fields: Any,
) -> Message:
    """A fetch request from these offsets on; *fields* as in the table."""
    by_id = version > LAST_BY_NAME
    return fields | {
        "topics": [
            names.key("topic", topic, by_id=by_id)
            | {
                "partitions": [
                    {
                        "partition": each.partition,
                        "fetch_offset": offsets[each],
                        "partition_max_bytes": partition_max_bytes,
                    }
                    for each in partitions
                ]
            }
            for topic, partitions in _by_topic(offsets).items()
        ]
    }


def parse_produce_response(message: Message, names: Names) -> dict[TopicPartition, Produced]:
    """The answers of a produce response, by partition."""
    return {
        TopicPartition(topic, answer["index"]): _produced(answer)
        for each in message["responses"]
        for topic in (names.name("name", each),)
        for answer in each["partition_responses"]
    }


def _produced(answer: Message) -> Produced:
    return Produced(
        answer["error_code"],
        answer["base_offset"],
        answer.get("log_append_time_ms", -1),
        answer.get("log_start_offset", -1),
        tuple((each["batch_index"], each["batch_index_error_message"]) for each in answer.get("record_errors", ())),
        answer.get("error_message"),
    )


def parse_fetch_response(message: Message, names: Names) -> dict[TopicPartition, Fetched]:
    """The answers of a fetch response, by partition.

    Raises:
        BrokerError: the response as a whole is an error.
    """
    if message.get("error_code"):
        raise BrokerError(message["error_code"], "Fetch")
    return {
        TopicPartition(topic, answer["partition_index"]): _fetched(answer)
        for each in message["responses"]
        for topic in (names.name("topic", each),)
        for answer in each["partitions"]
    }


def _fetched(answer: Message) -> Fetched:
    aborted = answer.get("aborted_transactions")
    return Fetched(
        answer["error_code"],
        answer["high_watermark"],
        answer["records"] or b"",
        answer.get("last_stable_offset", -1),
        answer.get("log_start_offset", -1),
        None if aborted is None else tuple((each["producer_id"], each["first_offset"]) for each in aborted),
    )
