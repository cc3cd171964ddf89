"""The rule catalogue is complete, well formed, and costs nothing until it is used."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from dataclasses import FrozenInstanceError
from typing import get_args

import pytest

from kafka_corpus.trace_check import PUBLIC_SOURCE
from kafka_records import rules

COUNTS = {
    "FRM": 15,
    "LEG": 27,
    "NST": 27,
    "HDR": 26,
    "ATT": 15,
    "VAR": 12,
    "REC": 28,
    "CRC": 15,
    "CMP": 11,
    "GZP": 9,
    "SNP": 13,
    "LZ4": 18,
    "ZST": 11,
    "TIM": 26,
    "OFF": 17,
    "PID": 21,
    "TXN": 24,
    "KRF": 20,
    "SIZ": 14,
    "PRD": 22,
    "RWR": 14,
    "CLN": 25,
    "CNV": 20,
    "SEG": 17,
    "CON": 6,
    "TOP": 15,
}
NOTES = {"", "3.9.0 only", "partly 3.9.0 only", "4.1.0 only"}
# Of Kafka's protocol, as far as brokers answer them to record data.
ERROR_CODES = {
    "UNKNOWN_SERVER_ERROR": -1,
    "CORRUPT_MESSAGE": 2,
    "MESSAGE_TOO_LARGE": 10,
    "INVALID_TOPIC_EXCEPTION": 17,
    "RECORD_LIST_TOO_LARGE": 18,
    "NOT_ENOUGH_REPLICAS": 19,
    "INVALID_REQUIRED_ACKS": 21,
    "INVALID_TIMESTAMP": 32,
    "UNSUPPORTED_VERSION": 35,
    "INVALID_CONFIG": 40,
    "UNSUPPORTED_FOR_MESSAGE_FORMAT": 43,
    "OUT_OF_ORDER_SEQUENCE_NUMBER": 45,
    "INVALID_PRODUCER_EPOCH": 47,
    "INVALID_TXN_STATE": 48,
    "INVALID_PRODUCER_ID_MAPPING": 49,
    "TRANSACTION_COORDINATOR_FENCED": 52,
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": 53,
    "UNSUPPORTED_COMPRESSION_TYPE": 76,
    "INVALID_RECORD": 87,
    "TRANSACTION_ABORTABLE": 120,
}
ALL = rules.all_rules()


def ids(entries: tuple[rules.Rule, ...] | tuple[rules.Erratum, ...]) -> list[str]:
    return [each.id for each in entries]


def test_there_are_468_rules() -> None:
    """The catalogue has 468 rules, and they come in the order of the groups."""
    assert len(ALL) == sum(COUNTS.values()) == 468
    assert list(dict.fromkeys(each.group for each in ALL)) == list(rules.GROUPS)


def test_every_group_has_its_count() -> None:
    """Every group has as many rules as it should, and no other group exists."""
    assert {group.prefix: len(group.rules) for group in rules.groups()} == COUNTS
    assert tuple(COUNTS) == rules.GROUPS


def test_every_group_has_a_title() -> None:
    """The title of a group is there and no other group has it."""
    titles = [group.title for group in rules.groups()]
    assert all(titles)
    assert len(set(titles)) == len(titles)


def test_ids_are_consecutive() -> None:
    """Within a group the ids run from 01 without a gap, so none can occur twice."""
    expected = [f"{prefix}-{n:02}" for prefix, count in COUNTS.items() for n in range(1, count + 1)]
    assert ids(ALL) == expected


def test_strengths() -> None:
    """381 rules are must, 11 should and 75 may; SNP-13 states a bare fact and has no strength."""
    strengths = Counter(each.strength for each in ALL)
    assert strengths == {"must": 381, "should": 11, "may": 75, None: 1}
    assert rules.rule("SNP-13").strength is None


def test_checks() -> None:
    """224 rules can be checked by decoding, 94 by encoding, 214 by producing, 121 by fetching."""
    checks = Counter(check for each in ALL for check in each.checked_by)
    assert checks == {"decode": 224, "encode": 94, "produce": 214, "fetch": 121}
    assert sum(not each.checked_by for each in ALL) == 25


def test_evidence() -> None:
    """332 rules were seen on live brokers, 60 in the Java client only, 76 were only read."""
    assert Counter(each.evidence for each in ALL) == {"broker": 332, "client": 60, "source": 76}


@pytest.mark.parametrize("each", ALL, ids=ids(ALL))
def test_rule_is_well_formed(each: rules.Rule) -> None:
    """Every field of a rule has one of its values, and the texts are sentences."""
    assert each.strength in (*get_args(rules.Strength), None)
    assert set(each.checked_by) <= set(get_args(rules.Check))
    assert len(set(each.checked_by)) == len(each.checked_by)
    assert each.applies_to in get_args(rules.Scope)
    assert each.evidence in get_args(rules.Evidence)
    assert each.evidence_note in NOTES
    assert not each.evidence_note or each.evidence == "broker"
    assert is_sentence(each.statement)
    assert not each.outcome or is_sentence(each.outcome)


def is_sentence(text: str) -> bool:
    return len(text.split()) > 1 and text.endswith(".") and " ".join(text.split()) == text


def test_statements_differ() -> None:
    """No two rules say the same."""
    assert [text for text, times in Counter(each.statement for each in ALL).items() if times > 1] == []


@pytest.mark.parametrize("each", ALL, ids=ids(ALL))
def test_rule_has_sources(each: rules.Rule) -> None:
    """Every rule names a source, none twice, and a line of a seed is written as seed 002:564."""
    assert each.sources
    assert len(set(each.sources)) == len(each.sources)
    for source in each.sources:
        assert source == source.strip() != ""
        assert not source.startswith("seed") or re.fullmatch(r"seed 00[0-4]:\d+(-\d+)?", source)
        assert not source.startswith("KIP") or re.fullmatch(r"KIP-\d+", source)


@pytest.mark.parametrize("each", ALL, ids=ids(ALL))
def test_rule_cites_something_public(each: rules.Rule) -> None:
    """Every rule has a source that any reader can look up; a seed or an observation is none."""
    assert [source for source in each.sources if PUBLIC_SOURCE.fullmatch(source)]


@pytest.mark.parametrize("each", ALL, ids=ids(ALL))
def test_sources_have_a_known_form(each: rules.Rule) -> None:
    """A source is public, a line of a seed, or an observation; nothing else passes as a citation."""
    private = ("seed ", "observed on live brokers", "observed on the Java client")
    assert [
        source for source in each.sources if not (PUBLIC_SOURCE.fullmatch(source) or source.startswith(private))
    ] == []


def test_error_codes_are_spelt_out() -> None:
    """Whenever a text gives an error code, name and number belong together."""
    texts = [text for each in ALL for text in (each.statement, each.outcome)]
    named = set(re.findall(r"([A-Z]+(?:_[A-Z]+)+) \((-?\d+)\)", " ".join(texts)))
    assert named <= {(name, str(code)) for name, code in ERROR_CODES.items()}
    assert {int(code) for _, code in named} >= {-1, 2, 10, 32, 45, 76, 87}


def test_rules_named_in_texts_exist() -> None:
    """A rule that another one mentions is in the catalogue."""
    texts = " ".join(f"{each.statement} {each.outcome}" for each in ALL)
    mentioned = set(re.findall(rf"\b(?:{'|'.join(rules.GROUPS)})-\d\d\b", texts))
    mentioned.discard("CRC-32")  # the checksum
    assert mentioned
    assert mentioned <= set(ids(ALL))


def test_rule_by_id() -> None:
    """A rule is found by its id, as one and the same object."""
    found = rules.rule("FRM-05")
    assert found is ALL[4]
    assert found.statement.startswith("A size below 14 is corrupt in every format")
    assert found.checked_by == ("decode", "produce")
    assert found.outcome == "Broker: CORRUPT_MESSAGE (2), for the whole request; decoder: CorruptRecordException."


def test_evidence_notes() -> None:
    """A rule seen on one broker release only says so; the others have no note."""
    assert rules.rule("CLN-01").evidence_note == "3.9.0 only"
    assert rules.rule("ATT-10").evidence_note == "partly 3.9.0 only"
    assert rules.rule("TIM-17").evidence_note == "4.1.0 only"
    assert rules.rule("FRM-05").evidence_note == ""


@pytest.mark.parametrize(
    ("id", "text"),
    [
        ("FRM-16", "no rule 'FRM-16' in the catalogue: its group ends at FRM-15"),
        ("FRM-5", "no rule 'FRM-5' in the catalogue: its group ends at FRM-15"),
        ("frm-05", "no rule 'frm-05' in the catalogue: no group 'frm'"),
        ("A01", "no rule 'A01' in the catalogue: no group 'A01'"),
        ("errata", "no rule 'errata' in the catalogue: no group 'errata'"),
        ("", "no rule '' in the catalogue: no group ''"),
    ],
)
def test_unknown_rule(id: str, text: str) -> None:
    """An id that does not exist is refused, with a text that says what is wrong with it."""
    with pytest.raises(KeyError) as caught:
        rules.rule(id)
    assert caught.value.args == (text,)


def test_rules_cannot_be_changed() -> None:
    """A rule is frozen, for all readers share it."""
    with pytest.raises(FrozenInstanceError):
        rules.rule("FRM-05").strength = "may"  # type: ignore[misc]


def test_there_are_45_errata() -> None:
    """The errata run from A01 to A45 without a gap."""
    assert ids(rules.errata()) == [f"A{n:02}" for n in range(1, 46)]


@pytest.mark.parametrize("each", rules.errata(), ids=ids(rules.errata()))
def test_erratum_is_well_formed(each: rules.Erratum) -> None:
    """An erratum has a topic, two sides or more, a verdict, and rules that exist."""
    assert each.topic
    assert len(each.says) >= 2
    assert all(saying.text.endswith(".") for saying in each.says)
    assert is_sentence(each.verdict)
    assert each.evidence in get_args(rules.Evidence)
    assert each.evidence_note in NOTES
    assert each.rules
    assert len(set(each.rules)) == len(each.rules)
    assert set(each.rules) <= set(ids(ALL))


def test_errata_point_into_seeds() -> None:
    """Every erratum has a side in a seed, as a line of it or as the whole."""
    for each in rules.errata():
        seeds = [saying.source for saying in each.says if saying.source.startswith("seed")]
        assert seeds, each.id
        assert all(re.fullmatch(r"seed 00[0-4](:\d+(-\d+)?)?", source) for source in seeds)


def test_seeds() -> None:
    """There are five seeds, 000 to 004, and the sources point into no other."""
    assert [seed.number for seed in rules.seeds()] == [f"00{n}" for n in range(5)]
    assert all(seed.title and is_sentence(seed.description) for seed in rules.seeds())
    named = {source[5:8] for each in ALL for source in each.sources if source.startswith("seed")}
    assert named <= {seed.number for seed in rules.seeds()}


def test_importing_is_free() -> None:
    """Importing kafka_records, or the catalogue itself, neither loads a TOML parser nor reads a rule."""
    program = (
        "import sys, kafka_records, kafka_records.rules as r; print('tomllib' in sys.modules);"
        "r.rule('FRM-01'); print('tomllib' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["False", "True"]
