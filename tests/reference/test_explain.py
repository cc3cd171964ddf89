"""Explanations: every byte once, the error of `decode`, and meanings in plain words."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reference.explained import descriptions, titles

from kafka_corpus.answers import kept_descriptions
from kafka_corpus.authoring.build import put, raw_batch, raw_header, raw_record, reseal, reseal_message
from kafka_corpus.strategies import encoded, nearly_valid
from kafka_corpus.vectors import load_vectors
from kafka_records import (
    DEFAULT,
    Explanation,
    Limits,
    RecordFormatError,
    compression,
    decode,
    explain,
)
from kafka_records.constants import COMPRESSIONS, Compression
from kafka_records.explain import Field, Part
from kafka_records.rules import rule

SMALL = Limits(max_output_bytes=0)
WHOLE = raw_batch(raw_record(headers=raw_header(b"a", b"b"), header_count=b"\x02"))


def check(data: bytes, limits: Limits = DEFAULT) -> Explanation:
    """Explain *data*, and check what holds for every explanation."""
    explanation = explain(data, limits=limits)
    for section in explanation.sections:
        check_cover(section.data, section.fields)
        check_parts(section.root, 0, len(section.data))
    assert outcome(data, limits) == as_values(explanation.error)
    return explanation


def check_cover(data: bytes, fields: tuple[Field, ...]) -> None:
    """The fields are the data, end to end, and nothing in them can steer a terminal."""
    at = 0
    for field in fields:
        assert (field.offset, field.raw) == (at, data[at : at + field.size])
        assert field.size > 0
        assert (field.shown + field.meaning).isprintable()
        assert field.path.endswith(field.name)
        at += field.size
    assert at == len(data)


def check_parts(part: Part, start: int, end: int) -> None:
    """A part's children fill it, end to end."""
    assert (part.offset, part.offset + part.size) == (start, end)
    assert part.title.isprintable()
    at = start
    for child in part.children:
        if isinstance(child, Part):
            check_parts(child, at, at + child.size)
        at += child.size
    assert at == end


def outcome(data: bytes, limits: Limits) -> object:
    """The error of `decode`, as values, or None."""
    try:
        decode(data, limits=limits)
    except RecordFormatError as error:
        return as_values(error)
    return None


def as_values(error: RecordFormatError | None) -> object:
    """An error as values."""
    return error and (error.kind, error.path, error.offset, error.inner_offset, error.rule, error.message)


def packed(codec: int, payload: bytes) -> bytes:
    """A v2 batch of one record that names a codec."""
    return raw_batch(payload, attributes=codec)


@pytest.mark.slow
@pytest.mark.no_cover
@given(encoded())
def test_valid_logs_are_covered_and_read_whole(data: bytes) -> None:
    """Every byte of a valid log belongs to one field, and none of them is unread."""
    explanation = check(data)

    assert explanation.error is None
    assert [each for one in explanation.sections for each in one.fields if each.meaning.startswith("not read")] == []


@pytest.mark.slow
@pytest.mark.no_cover
@given(nearly_valid())
def test_faults_are_covered(nearly: tuple[bytes, str]) -> None:
    """Every byte of a log with one fault in it belongs to one field, and the error is that of `decode`."""
    assert check(nearly[0]).error is not None


@given(st.binary(max_size=200))
def test_any_bytes_are_covered(data: bytes) -> None:
    """Whatever the bytes, each belongs to one field."""
    check(data)


@pytest.mark.slow
@pytest.mark.no_cover
@given(st.data(), encoded().filter(bool))
def test_mutated_logs_are_covered(data: st.DataObject, log: bytes) -> None:
    """A log with any bytes replaced, and its checksum right again, is covered."""
    mutated = bytearray(log)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    check(bytes(mutated))
    if len(mutated) > 61:
        check((reseal if mutated[16] == 2 else reseal_message)(bytes(mutated)))


def test_every_case_of_the_corpus_is_covered() -> None:
    """Cases are explained with the error of `decode`, and all rules named are in the catalogue.

    The inputs that a recipe makes are left to `decode`'s own tests: they take minutes to print.
    """
    inputs = [case.input for case in load_vectors() if isinstance(case.input, bytes)]
    assert inputs
    rules = set()
    for data in inputs:
        rules |= {each.rule for section in check(data).sections for each in section.fields}
    assert {rule(id_).id for id_ in rules if id_} == rules - {None}


@pytest.mark.slow
@pytest.mark.no_cover
def test_explanations_are_the_kept_ones() -> None:
    """Every word about every case, and about records of internal topics, is as `explained.ndjson` has it.

    A change on purpose is kept by `python -m tests.reference.explained`.
    """
    kept = kept_descriptions()
    assert len(kept) > 200
    assert [each for each, had in zip(descriptions(), kept, strict=True) if each != had] == []


@pytest.mark.parametrize("size", range(len(WHOLE) + 1))
def test_every_beginning_of_a_batch_is_covered(size: int) -> None:
    """A batch that is cut anywhere is covered up to the cut, and is a partial entry."""
    explanation = check(WHOLE[:size])

    assert explanation.error is None
    assert explanation.batches == (size == len(WHOLE))


def test_the_walk_goes_on_after_a_wrong_checksum() -> None:
    """A batch with a wrong CRC is annotated whole, and so is the next batch."""
    explanation = check(put(raw_batch(raw_record()), "crc", 1) + raw_batch(raw_record()))

    assert explanation.error is not None
    assert len(explanation.section.root.children) == 2
    assert all(each.group != "unread" for each in explanation.section.fields)


@pytest.mark.parametrize("codec", COMPRESSIONS[1:])
@pytest.mark.parametrize("size", range(0, 40, 3))
def test_codecs_cut_short(codec: Compression, size: int) -> None:
    """A compressed payload that is cut anywhere is covered, and its part says whether it could be opened."""
    whole = compression.compress(codec, raw_record(value=bytes(range(200))), magic=2)

    explanation = check(packed(COMPRESSIONS.index(codec), whole[:size]))

    assert explanation.error is not None
    refused = explanation.error.kind == "decompression"
    assert ("not opened" in titles(explanation.section.root)[1]) == refused
    assert len(explanation.sections) == 2 - refused


def test_bounded() -> None:
    """Bytes for which the memory limit does not do are left in one field."""
    many = raw_batch(raw_record(value=None) * 30_000, record_count=30_000)

    explanation = check(many, SMALL)

    assert len(explanation.section.fields) < 30_000
    assert explanation.section.fields[-1].meaning.startswith("not read: ")
    bomb = packed(1, compression.compress("gzip", bytes(40 * 2**20), magic=2))
    assert "not opened" in titles(check(bomb, SMALL).section.root)[1]


def test_an_empty_input() -> None:
    """No bytes are no sections' fields, and no error."""
    explanation = check(b"")

    assert explanation.section.fields == ()
    assert (explanation.batches, explanation.error) == (0, None)
