"""Cases about aborted transactions: the testees that receive the list, and the right answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafka_conformance.judge.consuming import for_reader
from kafka_conformance.judge.observation import ConsumedRecords, Decoded, observe
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.requests import group_cases, is_relevant, relevant_cases, request_for
from kafka_conformance.testees import aiokafka_, interface, kafka_python, reference, serve
from kafka_conformance.testees.protocol import CodecAnswer, DecodeRequest, HelloReply, Refusal
from kafka_corpus.case import Case
from kafka_corpus.vector_format import line_of, parse_line
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import to_wire
from kafka_records import RecordFormatError
from kafka_records.fetching import committed

CASES = [case for case in load_vectors() if case.aborted is not None]
ABORTED = next(case for case in CASES if case.id == "read_committed.aborted_transaction[none]")
PLAIN = next(case for case in load_vectors() if case.op == "decode" and case.aborted is None)


def aborted_of(case: Case) -> tuple[tuple[int, int], ...]:
    """The aborted transactions of *case*."""
    assert case.aborted is not None
    return case.aborted


def said(*, consumer: bool = False, committed: bool = False) -> HelloReply:
    """A codec that says hello."""
    return HelloReply(protocol=1, name="n", version="1", consumer=consumer, committed=committed)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_the_reference_sees_what_each_case_calls_committed(case: Case) -> None:
    """The consumer of the reference gives the records at the offsets that a case names, and no others, or refuses."""
    assert isinstance(case.input, bytes)
    if for_reader(case).expect.verdict == "invalid":
        with pytest.raises(RecordFormatError):
            committed(case.input, aborted_of(case))
        return
    assert tuple(record.offset for record in committed(case.input, aborted_of(case))) == case.expect.committed
    assert judge(case, observe(reference.committed(case.input, aborted_of(case)))).outcome == "agree"


@pytest.mark.parametrize(
    ("name", "error", "given", "outcome"),
    [
        ("marker_with_a_short_key[one-byte]", None, (), "accepts_invalid"),
        ("marker_with_a_short_key[one-byte]", None, (2,), "accepts_invalid"),
        ("marker_with_a_short_key[one-byte]", Refusal("malformed"), (), "agree"),
        ("aborted_batch_that_cannot_be_decompressed[gzip]", None, (2,), "agree"),
        ("aborted_batch_that_cannot_be_decompressed[gzip]", Refusal("decompression"), (), "rejects_valid"),
    ],
)
def test_a_reader_has_to_do_what_a_codec_may(
    name: str, error: Refusal | None, given: tuple[int, ...], outcome: str
) -> None:
    """A reader under read_committed refuses a marker of no type, and does not look into what was aborted."""
    case = next(case for case in CASES if case.id == f"read_committed.{name}")
    records = [record for batch in map(to_wire, case.expect.batches) for record in batch.records or ()]
    seen = tuple(record for record in records if record.offset in given)

    assert judge(case, ConsumedRecords(seen, error=error)).outcome == outcome
    assert judge(case, Decoded((), Refusal(case.expect.kinds[0]))).outcome == "agree"


def test_there_is_something_to_leave_out_and_something_to_keep() -> None:
    """Every case leaves data out, or there was nothing aborted; and what has data gives some."""
    cases = [case for case in CASES if for_reader(case) is case]
    data = {
        case.id: [each.offset for batch in case.expect.batches if not batch.control for each in batch.records]
        for case in cases
    }
    whole = [case.id for case in cases if tuple(data[case.id]) == case.expect.committed]
    assert all(aborted_of(case) == () for case in cases if case.id in whole)
    assert all(case.expect.committed for case in cases if data[case.id])


def test_aborted_transactions_are_sent_only_where_announced() -> None:
    """`aborted` is sent to testees that announce `committed`; other testees decode the bytes only."""
    request = request_for(ABORTED, committed=True).subject
    assert isinstance(request, DecodeRequest)
    assert (request.data, request.aborted) == (ABORTED.input, list(aborted_of(ABORTED)))
    assert request_for(ABORTED).subject == ABORTED.input
    assert request_for(PLAIN, committed=True).subject == PLAIN.input


def test_a_consumer_without_committed_gets_no_aborted_case() -> None:
    """Such cases do not concern a consumer that does not announce it: it would be right to deliver all."""
    assert not is_relevant(ABORTED, append=False, deaf=True)
    assert is_relevant(PLAIN, append=False, deaf=True)
    assert relevant_cases([ABORTED, PLAIN], said(consumer=True)) == [PLAIN]
    assert relevant_cases([ABORTED, PLAIN], said(consumer=True, committed=True)) == [ABORTED, PLAIN]
    assert relevant_cases([ABORTED, PLAIN], said()) == [ABORTED, PLAIN]


def test_aborted_cases_have_groups_of_their_own() -> None:
    """A group has cases with aborted transactions, or cases without."""
    for group in group_cases([PLAIN, ABORTED, replace(PLAIN, id="other"), *CASES], 32):
        assert len({case.aborted is None for case in group}) == 1


def test_vectors_hold_what_was_aborted_and_what_is_committed() -> None:
    """A case is the same after it was a line."""
    assert parse_line(line_of(ABORTED)) == ABORTED
    assert b"aborted" not in line_of(PLAIN)
    assert b"committed" not in line_of(PLAIN)


def test_records_of_an_aborted_transaction_are_wrong_data() -> None:
    """Aborted records that are delivered are wrong data; so are committed ones that are left out."""
    everything = reference.committed(bytes(ABORTED.input), ())  # type: ignore[arg-type]  # these are bytes
    assert judge(ABORTED, observe(everything)).outcome == "wrong_data"
    assert judge(ABORTED, observe(CodecAnswer(records=[]))).outcome == "wrong_data"


def test_headers_are_not_left_out_where_records_are_compared() -> None:
    """An answer with records is complete: other fields of batches do not lower its score."""
    assert judge(ABORTED, observe(reference.committed(bytes(ABORTED.input), aborted_of(ABORTED)))).left_out == ()  # type: ignore[arg-type]  # these are bytes


def test_a_decoder_is_right_to_give_all_batches() -> None:
    """To who reads batches the case is one like all others."""
    assert isinstance(ABORTED.input, bytes)
    batches = serve.decode_answer(reference, ABORTED.input).batches
    assert judge(ABORTED, observe(CodecAnswer(batches=batches))).outcome == "agree"


@pytest.mark.parametrize("codec", [kafka_python, aiokafka_], ids=["kafka-python", "aiokafka"])
def test_python_clients_leave_out_what_was_aborted(codec: interface.Testee) -> None:
    """The fetchers of kafka-python and aiokafka are driven under read_committed."""
    assert serve.hello(codec).committed
    assert isinstance(ABORTED.input, bytes)
    assert judge(ABORTED, observe(serve.decode_answer(codec, ABORTED.input, aborted_of(ABORTED)))).outcome == "agree"
