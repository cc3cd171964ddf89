"""Offsets of a produced batch on brokers (group OFF, and HDR where it says the same)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.build import grid, put
from kafka_corpus.authoring.steps import assigned, fetches, producer_batch, since_of, takes, with_deltas
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, Produce
from kafka_records.broker.errors import INVALID_RECORD, UNKNOWN_SERVER_ERROR
from kafka_records.constants import INT32_MAX, INT64_MAX, INT64_MIN, Compression

BATCH = producer_batch(3)
CODECS: dict[str, Compression] = {"gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}


@case("HDR-06", "OFF-01")
def base_offset_of_a_producer_is_zero() -> Draft:
    """A producer's batch has base offset 0, and any other is refused."""
    return produced(put(BATCH, "base_offset", 1), error_answer(INVALID_RECORD))


FAR = {"-1": -1, "the last": 3, "least": INT64_MIN, "largest": INT64_MAX - 2}


@case("HDR-06", "OFF-01", each=FAR)
def base_offset_of_any_other_kind(offset: int) -> Draft:
    """No base offset other than 0 is taken, not even the one that the log is at or a negative one."""
    return scene(takes(BATCH), (Produce(data=put(BATCH, "base_offset", offset)), error_answer(INVALID_RECORD)))


@case("OFF-01", "RWR-01")
def offsets_go_on() -> Draft:
    """The broker gives the first batch offset 0 and the next the one after its last record."""
    first = put(BATCH, "partition_leader_epoch", 0)
    return scene(
        (Produce(data=BATCH), stored(first)),
        (Produce(data=BATCH), stored(put(first, "base_offset", 3), base_offset=3)),
    )


@case("OFF-03", "RWR-01", each=CODECS, refs=["A39"])
def base_offset_of_a_compressed_batch(codec: Compression) -> Draft:
    """The base offset of a compressed batch is put into its header, and the records stay packed as they were."""
    return scene(
        takes(producer_batch(5)),
        takes(producer_batch(2, codec), 5),
        takes(producer_batch(1, codec), 7),
        since=since_of(codec),
    )


DELTAS = {
    "negative": (-1,),
    "gap": (0, 5),
    "duplicate": (0, 0, 0),
    "reversed": (2, 1, 0),
    "from 1": (1, 2),
    "largest": (0, INT32_MAX),
    "least": (0, -(2**31)),
}


@case("OFF-04", "OFF-03", each=DELTAS)
def deltas_are_not_looked_at(deltas: tuple[int, ...]) -> Draft:
    """In an uncompressed batch any offset deltas are stored as sent, and the next batch begins where it would."""
    batch = with_deltas(deltas)
    return scene(takes(batch), takes(BATCH, len(deltas)))


@case("OFF-04", "TIM-13", each={"gap": (0, 5), "reversed": (1, 0)})
def deltas_on_an_append_time_topic(deltas: tuple[int, ...]) -> Draft:
    """Writing the broker's time over the batch's leaves the deltas alone, too."""
    batch = with_deltas(deltas)
    config = {"message.timestamp.type": "LogAppendTime"}
    answer = stored(assigned(batch, appended=True), log_append_time=NOW)
    return produced(batch, answer, config=config)


@case("OFF-04", "OFF-10", each=DELTAS, refs=["A41"])
def deltas_are_fetched_as_sent(deltas: tuple[int, ...]) -> Draft:
    """Consumers get these deltas too, though some of the offsets they make belong to no record of the batch."""
    batch = with_deltas(deltas)
    return scene(takes(batch), fetches(assigned(batch), len(deltas)))


@case("OFF-05", each=grid(codec=CODECS, deltas=DELTAS))
def deltas_in_a_compressed_batch(shape: dict[str, Any]) -> Draft:
    """A compressed batch whose deltas do not count from 0 has to be rebuilt, which the broker cannot do."""
    codec = shape["codec"]
    return produced(with_deltas(shape["deltas"], codec), error_answer(UNKNOWN_SERVER_ERROR), since=since_of(codec))


@case("OFF-05", "RWR-01", each=CODECS)
def right_deltas_in_a_compressed_batch(codec: Compression) -> Draft:
    """A compressed batch whose deltas count from 0 is stored as it is."""
    return scene(takes(with_deltas((0, 1, 2), codec)), since=since_of(codec))


def renumbered(deltas: tuple[int, ...], codec: Compression) -> bytes:
    """The batch of `with_deltas`, its deltas counted from 0, packed with *codec*."""
    return assigned(with_deltas(tuple(range(len(deltas))), codec))


@case("OFF-06", "RWR-05", each=grid(codec=CODECS, deltas=DELTAS))
def deltas_are_numbered_anew(shape: dict[str, Any]) -> Draft:
    """Where the topic's codec is another one, the deltas silently count from 0 afterwards."""
    codec, deltas = shape["codec"], shape["deltas"]
    answer = stored(renumbered(deltas, codec))
    config = {"compression.type": codec}
    return produced(with_deltas(deltas), answer, config=config, since=since_of(codec), compare="masked")


@case("OFF-06", "RWR-05", each=grid(codec=CODECS, deltas={"gap": (0, 5), "reversed": (2, 1, 0)}))
def deltas_are_numbered_anew_without_codec(shape: dict[str, Any]) -> Draft:
    """Where the topic is uncompressed, a compressed batch is unpacked and its deltas count from 0 afterwards."""
    codec, deltas = shape["codec"], shape["deltas"]
    answer = stored(renumbered(deltas, "none"))
    config = {"compression.type": "uncompressed"}
    return produced(with_deltas(deltas, codec), answer, config=config, since=since_of(codec))
