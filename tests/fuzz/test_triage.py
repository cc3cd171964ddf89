"""Triage: finds folded, reduced, beside last night's, and drafted as cases."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from kafka_corpus.cases import found as found_cases
from kafka_corpus.registry import invalid, valid
from kafka_fuzz.campaign.known import read_list as read_known_list
from kafka_fuzz.commands import fuzz
from kafka_fuzz.finds import FindStore
from kafka_fuzz.outcome import Outcome
from kafka_fuzz.reduce import Budget
from kafka_fuzz.reduce.bench import TARGET, finds, good_batches
from kafka_fuzz.reduce.predicates import as_mutant
from kafka_fuzz.targets import TARGETS
from kafka_fuzz.triage.draft import case_function, slug
from kafka_fuzz.triage.folding import FOLDER, UNDER_WAY, Folded, by_cause, gathered, read, smallest, write
from kafka_fuzz.triage.folding import triaged as reduce_all
from kafka_records import Batch, Header, Record

# Everything that a drafted case function may name.
NAMES = {"invalid": invalid, "valid": valid, "Batch": Batch, "Record": Record, "Header": Header}


def campaign(root: Path, *lies: str) -> Path:
    """A campaign with the finds of the bench in it, told apart by *lies*, too."""
    target = TARGETS[TARGET]()
    store = FindStore(root)
    for data in finds().values():
        outcome = target.run(as_mutant(data))
        for lie in lies or ("",):
            told = msgspec.structs.replace(outcome, lie=lie)
            store.add(told, as_mutant(data), version="1")
    return root


def run(*arguments: str | Path) -> Result:
    """`kafkaproof fuzz` with these."""
    return CliRunner().invoke(fuzz, [str(each) for each in arguments])


@pytest.fixture(scope="module")
def triaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A campaign after triage."""
    root = campaign(tmp_path_factory.mktemp("campaign"))
    done = run("triage", "--dir", root)
    assert done.exit_code == 1, done.output
    return root


def test_finds_are_reduced_and_drafted(triaged: Path) -> None:
    """Each find has its smallest input, a page with the bytes explained, and a place in the list."""
    found = read(triaged)
    assert sorted(len(find.data) for find in found) == [34, 35]
    assert {find.state for find in found} == {"new"}
    for find in found:
        page = (triaged / "triage" / f"{find.name}.md").read_text()
        assert find.data.hex() in page.replace("\n", "")
        assert "message_size" in page
        assert find.name in (triaged / "triage" / "README.md").read_text()


def test_a_drafted_case_is_one(triaged: Path) -> None:
    """The drafted function runs, and gives the bytes with what the reference says of them."""
    for find in read(triaged):
        names = dict(NAMES)
        source = case_function(find).split("\n", 1)[1]
        exec(source.replace("-> Draft", ""), names)  # of our own making
        draft = names[slug(find)]()  # type: ignore[operator]
        assert draft.input == find.data
        assert draft.expect.verdict == ("valid" if find.right == "ok" else "invalid")


def test_nothing_is_new_the_second_night(triaged: Path, tmp_path: Path) -> None:
    """What was found last night is known; what a list does not have is new."""
    again = campaign(tmp_path / "tonight")
    assert run("triage", "--dir", again, "--against", triaged).exit_code == 0
    assert {find.state for find in read(again)} == {"known"}
    assert run("triage", "--dir", again, "--against", tmp_path).exit_code == 1


def test_what_shows_nothing_any_more_is_gone(triaged: Path, tmp_path: Path) -> None:
    """A find of last night whose input is read right today is gone, and no failure."""
    outcome = Outcome(TARGET, "accepts_invalid", lie="healed")
    for root in (tmp_path / "last", tmp_path / "this"):
        FindStore(root).add(outcome, as_mutant(good_batches()))
    assert run("triage", "--dir", tmp_path / "this", "--against", tmp_path / "last").exit_code == 0
    (find,) = read(tmp_path / "this")
    assert find.state == "gone"
    assert triaged.exists()


def test_shards_are_folded(tmp_path: Path) -> None:
    """Shards come to one find for each key, with the counts of all and the smallest input of any."""
    first, second = campaign(tmp_path / "a"), campaign(tmp_path / "b")
    smaller = as_mutant(finds()["key length"][len(good_batches()) :])
    outcome = TARGETS[TARGET]().run(smaller)
    FindStore(second).add(outcome, smaller)
    both = gathered([first, second])
    assert both.keys() == gathered([first]).keys()
    assert both[outcome.key].data == smaller.data
    assert both[outcome.key].find.count == 3


def test_lies_that_come_to_the_same_are_one_find(tmp_path: Path) -> None:
    """Keys that differ in the lie alone, and whose inputs come down to one cause, are folded."""
    data = good_batches() + bytes(11) + b"\x01"  # of the size 1, which no message has
    store = FindStore(tmp_path)
    outcome = TARGETS[TARGET]().run(as_mutant(data))
    assert outcome.kind == "accepts_invalid"
    for lie in ("one", "two"):
        store.add(msgspec.structs.replace(outcome, lie=lie), as_mutant(data))
    run("triage", "--dir", tmp_path)
    (find,) = read(tmp_path)
    assert isinstance(find, Folded)
    assert len(find.keys) == 2
    assert len(find.data) < len(data)


def test_promote_makes_a_case_for_good(triaged: Path, tmp_path: Path) -> None:
    """A promoted find is a case of the area `found`, with its key, and is refused a second time."""
    find = read(triaged)[0]
    done = run("promote", find.name, "--dir", triaged, "--cases", tmp_path, "--no-compile")
    assert done.exit_code == 0, done.output
    ((id_, entry),) = found_cases.stored(tmp_path).items()
    assert id_ == slug(find)
    assert entry.draft().input == find.data
    assert find.key in entry.found
    again = run("promote", find.name, "--dir", triaged, "--cases", tmp_path, "--no-compile")
    assert again.exit_code == 2
    assert run("promote", "no-such-find", "--dir", triaged, "--cases", tmp_path).exit_code == 2


def test_a_killed_triage_goes_on(tmp_path: Path) -> None:
    """What was reduced before it was killed is not reduced again, half a line is no harm, and the end tidies up."""
    root = campaign(tmp_path)
    told: list[str] = []
    first = reduce_all([root], None, budget=Budget(5000, 10.0), tell=told.append)
    kept = root / FOLDER / UNDER_WAY
    assert len(kept.read_bytes().splitlines()) == len(first)
    assert any(line.endswith("2 to reduce") for line in told)
    kept.write_bytes(kept.read_bytes() + b'{"name": "cut o')
    told.clear()
    assert reduce_all([root], None, budget=Budget(5000, 10.0), tell=told.append) == first
    assert any(line.endswith("0 to reduce") for line in told)
    write(root, first)
    assert not kept.exists()
    assert read(root) == first


def test_accepted_finds_are_no_news(triaged: Path, tmp_path: Path) -> None:
    """What was accepted is known the second night, without last night's folder; the check says what lacks."""
    again = campaign(tmp_path / "tonight")
    listed = tmp_path / "known.toml"
    assert run("known", "--dir", triaged, "--file", listed, "--check").exit_code == 1
    assert run("known", "--dir", triaged, "--file", listed, "--all").exit_code == 2  # no reason
    assert run("known", "--dir", triaged, "--file", listed, "--all", "--reason", "issue 1").exit_code == 0
    first = listed.read_bytes()
    assert run("known", "--dir", triaged, "--file", listed, "--check").exit_code == 0
    assert run("known", "--dir", triaged, "--file", listed, "--all", "--reason", "issue 2").exit_code == 0
    assert listed.read_bytes() == first
    (again / "known.toml").write_bytes(first)
    assert run("triage", "--dir", again).exit_code == 0
    assert {find.state for find in read(again)} == {"known"}
    assert all(find.known_by.startswith("listed: ") for find in read(again))
    listed.write_bytes(first + b"# by hand\n")
    assert run("known", "--dir", triaged, "--file", listed, "--check").exit_code == 1


def test_one_find_is_accepted(triaged: Path, tmp_path: Path) -> None:
    """The one that is named, and no other; a name that none has is refused."""
    listed = tmp_path / "known.toml"
    name = read(triaged)[0].name
    assert run("known", name, "--dir", triaged, "--file", listed, "--reason", "why").exit_code == 0
    (entry,) = read_known_list(listed)
    assert entry.canary is not None
    assert bytes.fromhex(entry.canary.hex) == read(triaged)[0].data
    assert all(entry.explains(key) for key in read(triaged)[0].keys)
    assert run("known", "no-such", "--dir", triaged, "--file", listed, "--reason", "why").exit_code == 2


def test_causes_have_a_line_each(triaged: Path) -> None:
    """What people read first is one line for each cause, with its smallest input's size and name."""
    done = run("triage", "--dir", triaged)
    for (target, cause), some in by_cause(read(triaged)).items():
        (line,) = [line for line in done.output.splitlines() if f"{target}: {cause}" in line]
        assert smallest(some).name in line
