"""Variants of cases: other bytes, the same question."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_corpus.case import Case
from kafka_corpus.variants import SUFFIX, case_of, is_variant, variants
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import load_vectors
from kafka_records import Batch, RecordFormatError, decode, encode
from kafka_records.layout import MAGIC_OFFSET


@pytest.fixture(scope="module")
def cases() -> dict[str, Case]:
    """The codec cases, by id."""
    return {case.id: case for case in load_vectors(ops=CODEC_OPS)}


@pytest.mark.slow
@given(seed=st.text(max_size=20), count=st.integers(0, 60))
def test_one_seed_gives_one_set(cases: dict[str, Case], seed: str, count: int) -> None:
    """The same seed gives the same variants, as many as requested, each of another case."""
    found = variants(list(cases.values()), seed, count)

    assert found == variants(list(reversed(cases.values())), seed, count)
    assert len({case.id for case in found}) == count
    assert all(is_variant(case.id) and case_of(case.id) in cases for case in found)


@pytest.mark.slow
def test_seeds_differ(cases: dict[str, Case]) -> None:
    """Another seed gives other bytes for the same case."""
    one, other = (
        {case.id: case.input for case in variants(list(cases.values()), seed, len(cases))} for seed in ("one", "other")
    )
    same = [id_ for id_ in one.keys() & other.keys() if one[id_] == other[id_]]

    assert len(one.keys() & other.keys()) > 0.9 * len(one)
    assert len(same) < len(one) / 100


@pytest.mark.slow
def test_the_reference_answers_variants_as_their_cases(cases: dict[str, Case]) -> None:
    """A variant is valid or broken as its case is, in the same place; a valid one has as many records."""
    found = variants(list(cases.values()), "any", len(cases))
    for varied in found:
        case = cases[case_of(varied.id)]
        assert varied.input != case.input
        assert varied.expect.verdict == case.expect.verdict
        if isinstance(varied.input, Batch):
            assert varied.expect.data == encode(varied.input)
        elif case.expect.verdict == "valid":
            assert isinstance(varied.input, bytes)
            assert decode(varied.input) == varied.expect.batches
            assert [len(batch.records) for batch in varied.expect.batches] == [
                len(batch.records) for batch in case.expect.batches
            ]
        else:
            assert refusal(varied) == refusal(case)


def refusal(case: Case) -> tuple[object, ...]:
    """Kind, rule and place of the reference's error."""
    assert isinstance(case.input, bytes)
    with pytest.raises(RecordFormatError) as caught:
        decode(case.input)
    return caught.value.kind, caught.value.rule, caught.value.offset


@pytest.mark.slow
def test_most_cases_have_variants(cases: dict[str, Case]) -> None:
    """Valid, broken and written cases of each format have variants, so that a table of answers is found out."""
    found = variants(list(cases.values()), "any", len(cases))
    kinds = Counter((case.op, case.expect.verdict) for case in found)
    magics = {case.input[MAGIC_OFFSET] for case in found if isinstance(case.input, bytes)}

    assert len(found) > len(cases) / 2
    assert min(kinds["decode", "valid"], kinds["decode", "invalid"], kinds["encode", "valid"]) > 500
    assert {0, 1, 2} <= magics
    assert all(case.id.endswith(SUFFIX) for case in found)
