"""Ids are for ever: the ledger only grows."""

from dataclasses import replace

import pytest

from kafka_corpus import ledger
from kafka_corpus.case import Case


@pytest.fixture
def entries(sample: list[Case]) -> list[ledger.Entry]:
    """The sample's ledger."""
    return ledger.extend([], sample)


def test_round_trip(entries: list[ledger.Entry]) -> None:
    """A ledger is the same after being written and read."""
    assert ledger.parse(ledger.text(entries)) == entries


def test_unchanged(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """The same cases break no promise and add nothing."""
    assert list(ledger.breaches(entries, sample)) == []
    assert ledger.extend(entries, sample) == entries


def test_new_ids_come_last(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """A new id is appended, wherever it sorts."""
    new = replace(sample[0], id="sample.a")
    assert [entry.id for entry in ledger.extend(entries, [new, *sample])][-1] == "sample.a"


def test_changed_content(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """An id cannot ask something else."""
    changed = [replace(sample[0], input=b"other"), *sample[1:]]
    ((id_, why),) = ledger.breaches(ledger.extend(entries, changed), changed)
    assert id_ == "sample.accepts"
    assert why.startswith("asks or expects something else than before")


def test_vanished(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """An id cannot be dropped without a word."""
    ((id_, why),) = ledger.breaches(ledger.extend(entries, sample[1:]), sample[1:])
    assert id_ == "sample.accepts"
    assert why.startswith("is gone")


def test_superseded(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """An id that a new case supersedes may go; the ledger says since when."""
    better = replace(sample[0], id="sample.better", supersedes="sample.accepts", since="1.1")
    now = [better, *sample[1:]]
    extended = ledger.extend(entries, now)
    assert list(ledger.breaches(extended, now)) == []
    assert extended[0].retired == "1.1"
    assert extended[-1].supersedes == "sample.accepts"


def test_retired_by_hand(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """An id that nothing replaces can be retired, and stays so."""
    extended = ledger.extend(entries, sample[1:], retire=["sample.accepts"])
    assert list(ledger.breaches(extended, sample[1:])) == []
    assert ledger.extend(extended, sample[1:]) == extended


def test_never_used_again(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """A retired id cannot come back."""
    retired = ledger.extend(entries, sample[1:], retire=["sample.accepts"])
    ((id_, why),) = ledger.breaches(retired, sample)
    assert (id_, why) == ("sample.accepts", "was retired in 1.0, and an id is never used again")


def test_supersedes_nothing(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """A case cannot supersede an id that never was."""
    new = [*sample, replace(sample[0], id="sample.new", supersedes="sample.typo")]
    assert ("sample.new", "supersedes sample.typo, which never was") in list(ledger.breaches(entries, new))


def test_repeated_line(entries: list[ledger.Entry], sample: list[Case]) -> None:
    """An id stands in the ledger once."""
    assert list(ledger.breaches([*entries, entries[0]], sample)) == [("sample.accepts", "stands in the ledger twice")]
