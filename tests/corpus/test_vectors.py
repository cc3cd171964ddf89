"""Vectors: a case survives being written down, in one form only, as the schema says."""

import json
from dataclasses import replace
from typing import Any

import jsonschema
import msgspec
import pytest

from kafka_corpus import schema, vector_format
from kafka_corpus.case import Case, Recipe
from kafka_corpus.cases import all_cases
from kafka_corpus.vector_format import content_hash, corpus_hash_of, line_of, matches, parse_line


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    """The schema of a line, itself checked."""
    document = schema.build_schema()
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


def test_sample_round_trips(sample: list[Case]) -> None:
    """A case of each kind is the same after being written and read."""
    for case in sample:
        assert parse_line(line_of(case)) == case


def test_recipe_round_trips(sample: list[Case]) -> None:
    """A recipe is kept by name and arguments."""
    case = replace(sample[0], input=Recipe("bomb", {"codec": "gzip", "size": 2**30}), supersedes="sample.old")
    assert parse_line(line_of(case)) == case


def test_every_case_round_trips() -> None:
    """Every registered case is the same after being written and read."""
    cases = all_cases()
    assert cases
    assert [case.id for case in cases if parse_line(line_of(case)) != case] == []


def test_line_is_canonical(sample: list[Case]) -> None:
    """A line has its keys in one order, no spaces between them, and ends in a newline."""
    line = line_of(sample[2])
    keys = ["id", "title", "rules", "area", "op", "input", "expect", "evidence", "refs", "since"]
    assert list(json.loads(line)) == keys
    assert line == json.dumps(json.loads(line), separators=(",", ":")).encode() + b"\n"
    assert line_of(parse_line(line)) == line


def test_decode_vector_has_all_batches(sample: list[Case]) -> None:
    """The expected batches stand in the line in full, bytes as base64."""
    expect = json.loads(line_of(sample[2]))["expect"]
    assert expect["batches"][0]["records"] == [
        {"offset": 0, "timestamp": 1_700_000_000_000, "key": None, "value": "dmFsdWU=", "headers": []}
    ]


def test_sample_satisfies_schema(validator: jsonschema.Draft202012Validator, sample: list[Case]) -> None:
    """The schema takes every kind of case."""
    for case in sample:
        validator.validate(json.loads(line_of(case)))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("op",), "guess"),
        (("id",), "No Area"),
        (("rules",), []),
        (("input",), {}),
        (("input",), {"data": "", "recipe": {"name": "bomb", "args": {}}}),
        (("expect", "verdict"), "perhaps"),
        (("expect", "kinds"), ["unlucky"]),
        (("evidence",), {"java": {"4.4.0": {"verdict": "maybe"}}}),
    ],
    ids=str,
)
def test_schema_refuses(
    validator: jsonschema.Draft202012Validator, sample: list[Case], path: tuple[str, ...], value: Any
) -> None:
    """The schema refuses a line with one wrong field."""
    document = json.loads(line_of(sample[2]))
    inner = document
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    assert not validator.is_valid(document)


def test_broken_line_is_refused(sample: list[Case]) -> None:
    """A line that is no vector raises ValueError."""
    line = line_of(sample[0])
    for broken, why in (
        (b"{}", "missing required field `id`"),
        (b"[]", "Expected `object`, got `array`"),
        (line[:-9], "truncated"),
        (line.replace(b'"decode"', b'"guess"'), "Invalid enum value 'guess'"),
    ):
        with pytest.raises(ValueError, match=why):
            parse_line(broken)
    with pytest.raises(ValueError, match="one of data, batch, recipe and scenario"):
        vector_format.to_case(msgspec.structs.replace(vector_format.to_vector(sample[0]), input=vector_format.Input()))


def test_content_hash_covers_question_and_answer(sample: list[Case]) -> None:
    """Input and expectation are in the hash; title, rules, evidence and the reason in words are not."""
    case = sample[0]
    reworded = replace(case, title="other", rules=("FRM-01",), evidence={"x": {}}, refs=("KIP-1",))
    reworded = replace(reworded, expect=replace(case.expect, why="somebody does"))
    assert content_hash(reworded) == content_hash(case)
    assert content_hash(replace(case, input=b"other")) != content_hash(case)
    assert content_hash(replace(case, expect=replace(case.expect, kinds=()))) != content_hash(case)


def test_corpus_hash_has_no_order() -> None:
    """The hash of a corpus depends on its cases, not on the order in which they come."""
    assert corpus_hash_of([("a", "1"), ("b", "2")]) == corpus_hash_of([("b", "2"), ("a", "1")])
    assert corpus_hash_of([("a", "1"), ("b", "2")]) != corpus_hash_of([("a", "2"), ("b", "1")])


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("v2_batch.crc[lz4]", True),
        ("v2_batch.crc", True),
        ("v2_batch", True),
        ("v2_batch.*", True),
        ("*crc*", True),
        ("*[lz?]", True),
        ("v2_batch.cr", False),
        ("v2_batch.crc[l]", False),
        ("v2*crc", False),
        ("", False),
    ],
)
def test_matches(pattern: str, found: bool) -> None:
    """A pattern is an id, a function, an area or a glob; brackets mean themselves."""
    assert matches(pattern, "v2_batch.crc[lz4]") is found
