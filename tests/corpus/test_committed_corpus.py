"""The committed corpus: enough cases, one for each rule, and the reference agrees with all of them."""

import json
from collections import Counter

import jsonschema
import pytest

from kafka_corpus import check, evidence, schema
from kafka_corpus.answers import ask_reference, disagreement
from kafka_corpus.case import Case, Recipe
from kafka_corpus.cases import all_cases
from kafka_corpus.vector_format import content_hash, corpus_hash_of, line_of, matches
from kafka_corpus.vectors import content_hashes, corpus_hash, load_vectors, package_root
from kafka_records.rules import all_rules

LEAST = 2000
CASES = load_vectors()
AREAS = sorted({case.area for case in CASES})


def of(area: str) -> list[Case]:
    """The cases of one area; there are some."""
    cases = [case for case in CASES if case.area == area]
    assert cases
    return cases


def test_there_are_enough() -> None:
    """The corpus holds at least two thousand cases."""
    assert len(CASES) >= LEAST


@pytest.mark.slow
def test_every_area_is_there() -> None:
    """Every module of cases has its vectors, and every area its module."""
    assert AREAS
    assert sorted({case.area for case in all_cases()}) == AREAS


@pytest.mark.slow
def test_nothing_has_drifted() -> None:
    """`corpus check` finds nothing: what is committed is what the functions make, and it holds together."""
    assert list(map(str, check.check(all_cases(), package_root()))) == []


@pytest.mark.parametrize("area", AREAS)
def test_reference_agrees(area: str) -> None:
    """The reference answers every case of the area as the case expects; `corpus check` covers recipes."""
    plain = [case for case in of(area) if not isinstance(case.input, Recipe)]
    answers = {case.id: disagreement(case, ask_reference(case)) for case in plain}
    assert {id_: reason for id_, reason in answers.items() if reason} == {}


@pytest.mark.parametrize("direction", check.DIRECTIONS)
def test_every_rule_has_a_case(direction: str) -> None:
    """Each rule that decoding (or encoding) can check is cited by a decode (or encode) case."""
    assert [id_ for wanted, id_ in check.uncovered(CASES) if wanted == direction] == []


def test_cited_rules_exist() -> None:
    """Every case cites rules of the catalogue, none twice."""
    known = {rule.id for rule in all_rules()}
    assert [(case.id, id_) for case in CASES for id_ in case.rules if id_ not in known] == []
    assert [case.id for case in CASES if not case.rules or len(set(case.rules)) < len(case.rules)] == []


def test_no_two_ask_the_same() -> None:
    """No two cases have the same input."""
    assert list(check.repeated_inputs(CASES)) == []


def test_titles_are_facts() -> None:
    """A title is one line that starts like a sentence; within an area no two are the same."""
    assert [case.id for case in CASES if "\n" in case.title or not case.title[:1].strip()] == []
    assert [pair for pair, times in Counter((case.area, case.title) for case in CASES).items() if times > 1] == []


def test_acceptable_says_why() -> None:
    """A case that leaves the verdict open says who disagrees."""
    assert [case.id for case in CASES if case.expect.verdict == "acceptable" and not case.expect.why] == []


def test_every_case_cites_something_public() -> None:
    """Each rule of every case names a KIP, an issue, Kafka's documentation or source; seeds are not enough."""
    private = ("seed ", "observed ")
    public = {each.id for each in all_rules() if any(not source.startswith(private) for source in each.sources)}
    assert [case.id for case in CASES if not public.issuperset(case.rules)] == []


@pytest.mark.parametrize(
    "area",
    [
        pytest.param(area, marks=[pytest.mark.slow] if area == "resources" or len(of(area)) > 60 else [])
        for area in AREAS
    ],
)
def test_lines_satisfy_schema(area: str) -> None:
    """The committed schema accepts every exported line of the area, read with a JSON parser only."""
    document = json.loads((package_root() / "schema" / schema.FILE).read_bytes())
    validator = jsonschema.Draft202012Validator(document)
    for case in of(area):
        validator.validate(json.loads(line_of(case)))


def test_content_hashes() -> None:
    """Each line has the hash of its content, which no other line has."""
    hashes = content_hashes(package_root())
    assert sorted(hashes) == [(case.id, content_hash(case)) for case in CASES]
    assert len({content for _, content in hashes}) == len(CASES)


def test_recorded_answers() -> None:
    """A case shows the answers of the reference, of Java and of brokers, where they are recorded."""
    shown = Counter(name for case in CASES for name in case.evidence)
    assert shown["reference"] == len(CASES)
    assert {"reference", "java", "brokers"} == set(shown)
    recorded = evidence.pruned(evidence.load_evidence(package_root()), {case.id: content_hash(case) for case in CASES})
    assert shown["java"] == sum(bool(line.clients) for line in recorded.values()) > LEAST
    assert shown["brokers"] == sum(bool(line.brokers) for line in recorded.values()) > LEAST


def test_corpus_hash() -> None:
    """The hash of the corpus is the one that its cases come to."""
    assert corpus_hash() == corpus_hash_of((case.id, content_hash(case)) for case in CASES)


def test_load_only() -> None:
    """A pattern loads the cases that it names, in order."""
    area = AREAS[0]
    assert load_vectors(f"{area}.*") == of(area)
    assert load_vectors(CASES[-1].id) == [CASES[-1]]
    assert load_vectors("no_such_area") == []
    assert [case.id for case in CASES] == sorted(case.id for case in CASES if matches("*", case.id))
