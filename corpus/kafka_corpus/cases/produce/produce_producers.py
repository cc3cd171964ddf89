"""Producer ids and epochs in produced batches: which ones a broker takes, and from whom (group PID)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.build import grid, put
from kafka_corpus.authoring.messages import record_of, set_of
from kafka_corpus.authoring.steps import (
    APPEND_TIME,
    PRODUCER_ID,
    assigned,
    fetches,
    numbered_from,
    producer_batch,
    refuses,
    repeats,
    takes,
    times,
)
from kafka_corpus.registry import Draft, case, error_answer, produced, scene, stored
from kafka_corpus.scenario import NOW, Produce, Restart, StepAnswer
from kafka_records.broker.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_RECORD,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
from kafka_records.constants import INT32_MAX, INT64_MAX, Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
RESTARTED = (Restart(clean=True), StepAnswer())

NO_PRODUCER: dict[str, dict[str, int]] = {
    "epoch 0": {"producer_epoch": 0},
    "largest epoch": {"producer_epoch": 32767},
    "least epoch": {"producer_epoch": -32768},
    "sequence 0": {"base_sequence": 0},
    "largest sequence": {"base_sequence": INT32_MAX},
    "least sequence": {"base_sequence": -(2**31)},
    "producer -2": {"producer_id": -2, "producer_epoch": 5, "base_sequence": 9},
    "least producer": {"producer_id": -(2**63)},
}


@case("PID-02", "PID-01", "HDR-22", each=grid(fields=NO_PRODUCER, codec=CODECS))
def without_a_producer_id(shape: dict[str, Any]) -> Draft:
    """Without a producer id of 0 or above, epoch and sequence mean nothing: twice the same is stored twice."""
    batch = producer_batch(2, shape["codec"], **shape["fields"])
    return scene(takes(batch), takes(batch, 2))


@case("PID-02", each=NO_PRODUCER)
def without_a_producer_id_fetched(fields: dict[str, int]) -> Draft:
    """Epoch and sequence that mean nothing are fetched as they were sent."""
    batch = producer_batch(2, "gzip", **fields)
    return scene(takes(batch), fetches(assigned(batch), 2))


@case("PID-03", each=grid(sequence={"-1": -1, "-2": -2, "least": -(2**31)}, codec=CODECS))
def without_a_sequence(shape: dict[str, Any]) -> Draft:
    """A batch with a producer id and a negative base sequence is refused."""
    return produced(numbered_from(shape["sequence"], 2, shape["codec"]), error_answer(INVALID_RECORD))


@case("PID-03", "PID-20", each={"0": 0, "largest": INT64_MAX})
def without_a_sequence_for_any_id(producer_id: int) -> Draft:
    """The least and the largest producer id need a base sequence as well."""
    return produced(numbered_from(-1, producer_id=producer_id), error_answer(INVALID_RECORD))


@case("PID-05", each=CODECS)
def epoch_minus_1(codec: Compression) -> Draft:
    """A producer id with epoch -1, which no client should send, is taken from an unknown producer."""
    return scene(takes(numbered_from(0, 2, codec, epoch=-1)))


@case("PID-05", each=grid(epoch={"-2": -2, "least": -32768}, codec=CODECS))
def epoch_below_minus_1(shape: dict[str, Any]) -> Draft:
    """An epoch below -1 is older than that of an unknown producer."""
    batch = numbered_from(0, 1, shape["codec"], epoch=shape["epoch"])
    return produced(batch, error_answer(INVALID_PRODUCER_EPOCH))


@case("PID-05", "PID-09")
def epoch_minus_1_counts_nothing() -> Draft:
    """Under epoch -1 any sequence may follow any other, as if the producer were still unknown; duplicates are known."""
    first = numbered_from(0, 2, epoch=-1)
    return scene(
        takes(first), takes(numbered_from(100, epoch=-1), 2), takes(numbered_from(7, epoch=-1), 3), repeats(first)
    )


@case("PID-05", "PID-13")
def epoch_minus_1_and_then_a_true_one() -> Draft:
    """From epoch -1 any other epoch may begin at any sequence; there is no way back."""
    return scene(
        takes(numbered_from(0, epoch=-1)),
        takes(numbered_from(55, epoch=0), 1),
        refuses(numbered_from(56, epoch=-1), INVALID_PRODUCER_EPOCH),
    )


@case("PID-05", "PID-04", "RWR-05")
def epoch_minus_1_built_anew() -> Draft:
    """A batch with epoch -1 cannot be rebuilt: the writer does not take what the validator took."""
    batch = numbered_from(0, epoch=-1)
    return produced(batch, error_answer(UNKNOWN_SERVER_ERROR), config={"compression.type": "gzip"})


LIMITS: dict[str, dict[str, int]] = {
    "producer 0": {"producer_id": 0},
    "largest producer": {"producer_id": INT64_MAX},
    "largest epoch": {"producer_epoch": 32767},
    "both": {"producer_id": 0, "producer_epoch": 32767},
}


@case("PID-20", "PID-08", each=grid(fields=LIMITS, codec=CODECS))
def least_and_largest(shape: dict[str, Any]) -> Draft:
    """Producer id 0 and the largest, and epoch 32767, are like any other: sequences count and duplicates are known."""
    fields, codec = shape["fields"], shape["codec"]
    first, second = numbered_from(0, 2, codec, **fields), numbered_from(2, 1, codec, **fields)
    return scene(
        takes(first),
        takes(second, 2),
        repeats(first),
        refuses(numbered_from(4, 1, codec, **fields), OUT_OF_ORDER_SEQUENCE_NUMBER),
    )


@case("PID-13", each=grid(sequence={"1": 1, "going on": 2, "largest": INT32_MAX}, codec=CODECS))
def new_epoch_elsewhere(shape: dict[str, Any]) -> Draft:
    """A higher epoch that does not start at sequence 0 is refused, even if it goes on where the old one ended."""
    codec = shape["codec"]
    late = numbered_from(shape["sequence"], 1, codec, epoch=1)
    return scene(takes(numbered_from(0, 2, codec)), refuses(late, OUT_OF_ORDER_SEQUENCE_NUMBER))


@case("PID-13", each=grid(epoch={"next": 1, "far": 32767}, codec=CODECS))
def new_epoch(shape: dict[str, Any]) -> Draft:
    """A higher epoch starts at sequence 0, and its sequences go on from there."""
    epoch, codec = shape["epoch"], shape["codec"]
    return scene(
        takes(numbered_from(0, 2, codec)),
        takes(numbered_from(0, 3, codec, epoch=epoch), 2),
        takes(numbered_from(3, 1, codec, epoch=epoch), 5),
    )


@case("PID-14", "PID-09", each=CODECS)
def lower_epoch(codec: Compression) -> Draft:
    """Once a higher epoch was seen a lower one is fenced, whether its batch is new or was stored before."""
    old = numbered_from(0, 2, codec, epoch=4)
    return scene(
        takes(old),
        takes(numbered_from(0, 1, codec, epoch=5), 2),
        refuses(numbered_from(2, 1, codec, epoch=4), INVALID_PRODUCER_EPOCH),
        refuses(old, INVALID_PRODUCER_EPOCH),
        refuses(numbered_from(0, 1, codec, epoch=0), INVALID_PRODUCER_EPOCH),
    )


@case("PID-14")
def refused_batch_fences_nobody() -> Draft:
    """A batch that is refused leaves the producer's epoch as it was."""
    return scene(
        takes(numbered_from(0)),
        refuses(numbered_from(5, epoch=1), OUT_OF_ORDER_SEQUENCE_NUMBER),
        takes(numbered_from(1), 1),
    )


@case("PID-14", "PID-06")
def producers_do_not_fence_one_another() -> Draft:
    """Epochs and sequences belong to one producer id."""
    other = PRODUCER_ID + 1
    return scene(
        takes(numbered_from(0, epoch=3)),
        takes(numbered_from(0, epoch=1, producer_id=other), 1),
        takes(numbered_from(1, epoch=3), 2),
        takes(numbered_from(1, epoch=1, producer_id=other), 3),
    )


@case("PID-18", each=CODECS)
def idempotent_data_below_v2(codec: Compression) -> Draft:
    """A topic of an older message format takes no batches of idempotent producers."""
    config = {"message.format.version": "0.10.0"}
    return produced(
        numbered_from(0, 2, codec), error_answer(UNSUPPORTED_FOR_MESSAGE_FORMAT), config=config, until="2.8.2"
    )


@case("PID-18")
def idempotent_data_without_a_producer_id_below_v2() -> Draft:
    """Where there is no producer id, an epoch and a sequence are no hindrance to an older message format."""
    batch = producer_batch(1, producer_epoch=3, base_sequence=9)
    config = {"message.format.version": "0.10.0"}
    return produced(batch, stored(set_of([record_of(1, 0, b"key 0", b"value 0")], 1)), config=config, until="2.8.2")


def restarted(batch: bytes) -> bytes:
    """A stored *batch* since the broker ended and started: the partition lost its leader and got it back."""
    return put(batch, "partition_leader_epoch", 2)


@case("PID-19", each=CODECS)
def expired_producer(codec: Compression) -> Draft:
    """A producer whose last batch is years old by its timestamp is forgotten when the broker starts again."""
    batch = numbered_from(50, 1, codec)
    second = Produce(data=batch), stored(restarted(assigned(batch, 1)), base_offset=1)
    return scene(takes(numbered_from(0, 1, codec)), RESTARTED, second)


@case("PID-19")
def producer_that_has_not_expired() -> Draft:
    """By the broker's own time the producer's last batch is new, and the producer is known after a clean start."""
    batch = numbered_from(1)
    data = restarted(assigned(batch, 1, appended=True))
    return scene(
        times(numbered_from(0)),
        RESTARTED,
        refuses(numbered_from(50), OUT_OF_ORDER_SEQUENCE_NUMBER),
        (Produce(data=batch), stored(data, base_offset=1, log_append_time=NOW)),
        config=APPEND_TIME,
    )
