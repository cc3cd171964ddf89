"""Transactional and control batches from clients: which a broker takes, and which belong to no transaction (TXN)."""

from __future__ import annotations

from typing import Any

from kafka_corpus.authoring.build import grid, put, reseal
from kafka_corpus.authoring.steps import (
    ADDING,
    COMMIT,
    GENERIC,
    VERIFIED,
    aborts,
    added,
    begun,
    commits,
    data,
    fails,
    marker_at,
    named,
    numbered_from,
    producer_batch,
    refuses,
    takes,
    writes,
)
from kafka_corpus.registry import Draft, case, error_answer, scene, stored
from kafka_corpus.scenario import FIRST_OF_V2, LAST_OF_V1, Produce
from kafka_records.broker.errors import (
    INVALID_PRODUCER_EPOCH,
    INVALID_PRODUCER_ID_MAPPING,
    INVALID_RECORD,
    INVALID_TXN_STATE,
    OUT_OF_ORDER_SEQUENCE_NUMBER,
    TRANSACTION_ABORTABLE,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    UNKNOWN_SERVER_ERROR,
    UNSUPPORTED_FOR_MESSAGE_FORMAT,
)
from kafka_records.constants import Compression

CODECS: dict[str, Compression] = {"none": "none", "gzip": "gzip"}
TRANSACTIONAL = 0x10
NO_ID = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
OLD_FORMAT = {"message.format.version": "0.10.0"}
LAST_WITH_OLD_FORMATS = "2.8.2"


@case("TXN-02", each=CODECS)
def without_a_transactional_id(codec: Compression) -> Draft:
    """A request with a transactional batch and no transactional id is refused as a whole."""
    step = Produce(data=numbered_from(0, 2, codec, transactional=True), beside=producer_batch())
    code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return scene((step, error_answer(code, beside=code)))


@case("TXN-02", "TXN-03")
def transactional_data_for_another_partition() -> Draft:
    """A transactional batch for one partition makes the whole request transactional."""
    step = Produce(data=producer_batch(), beside=numbered_from(0, transactional=True))
    code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return scene((step, error_answer(code, beside=code)))


@case("TXN-02", "ATT-04", each=CODECS)
def transactional_without_producer_id(codec: Compression) -> Draft:
    """The transactional bit alone requires a transactional id, though the batch has no producer id."""
    batch = producer_batch(1, codec, transactional=True, **NO_ID)
    return scene(refuses(batch, TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


@case("TXN-02", "TXN-05", "TXN-01", each=CODECS)
def transactional_bit_without_a_transaction(codec: Compression) -> Draft:
    """With a transactional id a batch with bit 4 and no producer id is taken, and belongs to no transaction."""
    batch = producer_batch(1, codec, transactional=True, **NO_ID)
    return scene(takes(batch, transactional=True), takes(producer_batch(), 1))


@case("TXN-03", "PRD-04", each={"plain first": False, "transactional first": True})
def judged_by_the_first_batch(transactional_first: bool) -> Draft:
    """Whether a request is transactional is judged by its first batch, before a second one is found to be too many."""
    batches = [producer_batch(), numbered_from(0, transactional=True)]
    payload = b"".join(reversed(batches) if transactional_first else batches)
    code = TRANSACTIONAL_ID_AUTHORIZATION_FAILED if transactional_first else INVALID_RECORD
    return scene(refuses(payload, code))


@case("TXN-03", "PRD-04")
def transactional_data_behind_other_data() -> Draft:
    """In an old request, too, only the first batch needs a transaction; the log then finds two too many.

    Before Kafka 2.4 both were stored.
    """
    payload = producer_batch() + numbered_from(0, transactional=True)
    step = Produce(data=payload, api_version=2), error_answer(INVALID_RECORD)
    return scene(step, since=FIRST_OF_V2, until=LAST_OF_V1)


@case("TXN-04", each=CODECS)
def two_producers_in_one_request(codec: Compression) -> Draft:
    """A request with transactional data of two producers is refused as a whole."""
    beside = numbered_from(0, transactional=True)
    step = Produce(data=data(0, 1, codec), producer="a", transactional=True, beside=beside)
    code = INVALID_PRODUCER_ID_MAPPING
    return scene(*begun(), (step, error_answer(code, beside=code)))


@case("TXN-04")
def plain_data_of_another_producer() -> Draft:
    """A request may hold plain data of another producer beside that of a transaction."""
    step, answer = writes(data(0))
    assert isinstance(step, Produce)
    beside = Produce(data=step.data, producer="a", transactional=True, beside=numbered_from(0))
    return scene(*begun(), (beside, stored(answer.data, beside=0)))


NOT_ADDED: dict[str, tuple[int, int]] = {
    "first version": (3, INVALID_TXN_STATE),
    "version 10": (VERIFIED, INVALID_TXN_STATE),
    "version 11": (GENERIC, TRANSACTION_ABORTABLE),
}


@case("TXN-05", each=grid(expected=NOT_ADDED, codec=CODECS), refs=["KIP-890"])
def partition_not_added(shape: dict[str, Any]) -> Draft:
    """A partition that was not added to the transaction takes none of its data; the code depends on the version."""
    api_version, error_code = shape["expected"]
    return scene(named(), fails(data(0, 1, shape["codec"]), error_code, api_version=api_version))


@case("TXN-05", each=CODECS, refs=["KIP-890"])
def partition_added_by_itself(codec: Compression) -> Draft:
    """Since version 12 the broker adds the partition to the transaction, which can then be ended."""
    return scene(
        named(), writes(data(0, 2, codec), api_version=ADDING), writes(data(2), 2, api_version=ADDING), commits(3)
    )


@case("TXN-05", "PID-06", refs=["KIP-890"])
def transaction_that_does_not_begin_at_0() -> Draft:
    """Where the broker adds the partition itself, an unknown producer has to begin at sequence 0."""
    late = fails(data(5), OUT_OF_ORDER_SEQUENCE_NUMBER, api_version=ADDING)
    return scene(named(), late, writes(data(0), api_version=ADDING))


@case("TXN-05", "PID-06")
def added_transaction_that_does_not_begin_at_0() -> Draft:
    """Where the producer added the partition, it may begin at any sequence."""
    return scene(*begun(), writes(data(5), api_version=GENERIC))


@case("TXN-05", each={"10": VERIFIED, "12": ADDING})
def unknown_transactional_id(api_version: int) -> Draft:
    """A transactional id that the coordinator does not know has no transactions."""
    unnamed = named(transactional=False)
    return scene(unnamed, fails(data(0), INVALID_PRODUCER_ID_MAPPING, api_version=api_version))


@case("TXN-05", "PID-14", each={"10": VERIFIED, "12": ADDING})
def epoch_of_an_earlier_instance(api_version: int) -> Draft:
    """The epoch that a producer had before it was started again is fenced by the coordinator."""
    stale = fails(data(0), INVALID_PRODUCER_EPOCH, api_version=api_version, epochs_back=1)
    return scene(named(), named(), added(), stale)


@case("TXN-05", "PID-14")
def epoch_of_the_transaction_before() -> Draft:
    """Since Kafka 4.0 each transaction has an epoch of its own, and the next one starts at sequence 0."""
    stale = fails(data(1), INVALID_PRODUCER_EPOCH, epochs_back=1)
    return scene(named(), writes(data(0)), commits(1), stale, writes(data(0, epoch=1), 2), commits(3, epoch=2))


@case("TXN-05", each=NOT_ADDED)
def transaction_that_has_ended(expected: tuple[int, int]) -> Draft:
    """Once a transaction has ended, the partition has to be added to the next one."""
    api_version, error_code = expected
    late = fails(data(0, epoch=1), error_code, api_version=api_version)
    return scene(*begun(), writes(data(0)), commits(1), late)


@case("TXN-06", each=CODECS)
def plain_data_in_a_transaction(codec: Compression) -> Draft:
    """A producer's batch without the transactional bit is refused while its transaction is open."""
    plain = fails(data(1, 1, codec, transactional=False), INVALID_TXN_STATE, transactional=False)
    return scene(*begun(), writes(data(0)), plain, writes(data(1), 1))


@case("TXN-06")
def plain_data_after_a_transaction() -> Draft:
    """Once its transaction has ended, a producer's batch without the transactional bit is taken."""
    plain = writes(data(0, transactional=False, epoch=1), 2, transactional=False)
    return scene(*begun(), writes(data(0)), aborts(1), plain)


@case("TXN-06")
def plain_data_of_others_in_a_transaction() -> Draft:
    """An open transaction keeps no other producer from writing, with a producer id or without."""
    return scene(
        *begun(),
        writes(data(0)),
        takes(numbered_from(0), 1),
        takes(producer_batch(), 2),
        writes(data(1), 3),
        commits(4),
    )


@case("TXN-07")
def transactional_data_below_v2() -> Draft:
    """A topic of an older message format takes no compressed transactional data."""
    refusal = fails(data(0, 1, "gzip"), UNSUPPORTED_FOR_MESSAGE_FORMAT)
    return scene(*begun(), refusal, config=OLD_FORMAT, until=LAST_WITH_OLD_FORMATS)


@case("TXN-07", "CNV-01")
def uncompressed_transactional_data_below_v2() -> Draft:
    """Of uncompressed transactional data the writer of the older format finds out first, with an error of its own."""
    refusal = fails(data(0), UNKNOWN_SERVER_ERROR)
    return scene(*begun(), refusal, config=OLD_FORMAT, until=LAST_WITH_OLD_FORMATS)


def control(**fields: Any) -> bytes:
    """A batch that looks like a marker, from a client."""
    return marker_at(0, COMMIT, partition_leader_epoch=-1, **fields)


PLAIN_CONTROL: dict[str, bytes] = {
    "marker": control(transactional=False, producer_id=77),
    "no producer": control(transactional=False, **NO_ID),
    "with a sequence": control(transactional=False, producer_id=77, base_sequence=0),
    "no control record": reseal(put(producer_batch(2), "attributes", 0x20)),
    "compressed": producer_batch(1, "gzip", control=True),
}


@case("TXN-08", each=PLAIN_CONTROL)
def control_batch_of_a_client(batch: bytes) -> Draft:
    """A client's control batch is refused, whatever it holds."""
    return scene(refuses(batch, INVALID_RECORD))


@case("TXN-08", "TXN-02")
def transactional_control_batch_without_an_id() -> Draft:
    """Like other transactional data, a transactional control batch needs a transactional id before it is looked at."""
    return scene(refuses(control(producer_id=77), TRANSACTIONAL_ID_AUTHORIZATION_FAILED))


@case("TXN-08", "TXN-05", each=NOT_ADDED)
def control_batch_outside_a_transaction(expected: tuple[int, int]) -> Draft:
    """A transactional control batch is first checked for its transaction."""
    api_version, error_code = expected
    return scene(named(), fails(control(), error_code, api_version=api_version))


@case("TXN-08")
def control_batch_in_a_transaction() -> Draft:
    """Not even in its own transaction may a client write a control batch."""
    return scene(*begun(), fails(control(base_sequence=0, epoch=0), INVALID_RECORD), writes(data(0)))


@case("TXN-08", "TXN-05")
def marker_of_a_client_in_a_transaction() -> Draft:
    """A refused marker of a client leaves its sequence, -1, as the lowest that the verified transaction began with.

    ProducerAppendInfo#checkSequence then finds the sequences of all its batches too high, so
    that it cannot go on.
    """
    return scene(
        *begun(),
        fails(control(base_sequence=-1, epoch=0), INVALID_RECORD),
        fails(data(0), OUT_OF_ORDER_SEQUENCE_NUMBER),
        fails(data(0), OUT_OF_ORDER_SEQUENCE_NUMBER),
    )


@case("TXN-08", "TXN-05")
def verification_is_of_one_producer() -> Draft:
    """The first data of another producer leave the pending verification of this one as it is.

    UnifiedLog keeps a VerificationStateEntry for each producer.
    """
    return scene(
        *begun(),
        *begun("b"),
        fails(control(base_sequence=-1, epoch=0), INVALID_RECORD),
        writes(data(0, who=1), alias="b"),
        fails(data(0), OUT_OF_ORDER_SEQUENCE_NUMBER),
    )


@case("TXN-08", "TXN-05")
def abort_after_a_marker_of_a_client() -> Draft:
    """The real marker removes the transaction's verification: the next one may start below the refused sequence.

    UnifiedLog#updateProducers drops the pending verification with every marker that is written.
    """
    return scene(
        *begun(),
        fails(control(base_sequence=-1, epoch=0), INVALID_RECORD),
        aborts(0),
        added(),
        writes(data(0, epoch=1), 1),
    )


@case("TXN-05", "PID-14", "HDR-12", each=CODECS)
def broken_batch_of_the_transaction_before(codec: Compression) -> Draft:
    """The coordinator fences an older epoch before records are counted; without verification they are counted first."""
    broken = reseal(put(data(1, 2, codec), "record_count", 9))
    stale = fails(broken, INVALID_PRODUCER_EPOCH, epochs_back=1)
    return scene(named(), writes(data(0)), commits(1), stale, writes(data(0, epoch=1), 2))


@case("TXN-05", "PID-14", "HDR-12")
def broken_batch_of_the_transaction_before_an_open_one() -> Draft:
    """An open transaction vouches for batches of its own epoch only: one of an older epoch is fenced uncounted."""
    broken = reseal(put(data(1, 2), "record_count", 9))
    stale = fails(broken, INVALID_PRODUCER_EPOCH, epochs_back=1)
    return scene(named(), writes(data(0)), commits(1), writes(data(0, epoch=1), 2), stale, commits(3, epoch=2))
