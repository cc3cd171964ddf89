"""Mutators: deterministic, true to their labels, and never surprised by a seed."""

from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_fuzz.campaign.store import DECODER, CorpusEntry
from kafka_fuzz.mutate import (
    PROFILES,
    Deck,
    Mutant,
    MutantCell,
    Profile,
    custom_mutator,
    draw_profile,
    for_cell,
    mutate,
    own_seeds,
)
from kafka_fuzz.mutate import mutant as cells
from kafka_fuzz.mutate.entries import CODECS, base_entry
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.mutate.fixup import as_message, fixed_up, pack_fast, write_message_bytes
from kafka_fuzz.mutate.model import AFTER_ODDITY, Row, fault_rows, reachable
from kafka_fuzz.mutate.mutant import NO_FAULT, current_profile
from kafka_fuzz.strategies import mutants
from kafka_fuzz.targets.codecs import reference_agrees
from kafka_records.checksum import checksum_legacy, checksum_v2
from kafka_records.constants import Compression

COUNT = 2000


def series(profile: Profile, seed: int, count: int = COUNT) -> list[Mutant]:
    """Mutants from one generator."""
    rng = Random(seed)
    return [mutate(rng, own_seeds(), profile) for _ in range(count)]


@pytest.mark.parametrize("profile", PROFILES)
def test_the_same_seed_gives_the_same(profile: Profile) -> None:
    """A generator in the same state gives the same mutants, independent of earlier mutants."""
    first = series(profile, 7, 300)
    series(profile, 8, 100)

    assert series(profile, 7, 300) == first
    assert series(profile, 9, 300) != first


@pytest.mark.parametrize("profile", PROFILES)
def test_mutants_differ(profile: Profile) -> None:
    """Nearly all of a series are different inputs."""
    assert len({mutant.data for mutant in series(profile, 1)}) > 0.7 * COUNT


@pytest.mark.parametrize("profile", ["bytes", "fixup"])
@given(seeds=st.lists(st.binary(max_size=200), max_size=3), number=st.integers(0, 2**32))
def test_any_seed_will_do(profile: Profile, seeds: list[bytes], number: int) -> None:
    """Seeds may be anything, or not be there at all."""
    mutant = mutate(Random(number), seeds, profile)

    assert mutant.profile == profile
    assert mutant.labels
    assert mutant.expected is None


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_wrapper_may_hold_entries_of_any_format(codec: Compression) -> None:
    """A wrapper may hold what no writer puts there, packed batches too, and one in the other: all can be mutated."""
    rng = Random(5)
    inside = [base_entry(magic, codec, "records", "three", 0).data for magic in (0, 1, 2) if codec in CODECS[magic]]
    once = [wrapper_of(data) for data in inside]
    seeds = [*once, *map(wrapper_of, once)]

    assert all(mutate(rng, seeds, "fixup").labels for _ in range(500))


def wrapper_of(data: bytes) -> bytes:
    """A gzip wrapper of v1 around *data*."""
    return write_message_bytes(as_message(1, 0, 0, None, pack_fast("gzip", data, 1))._replace(attributes=1))


def test_an_unknown_profile_is_an_error() -> None:
    """A profile that there is not is named, with those that there are."""
    with pytest.raises(ValueError, match="'wild'; there are bytes, fixup, model"):
        mutate(Random(1), (), "wild")  # type: ignore[arg-type]  # that is the point


def test_profiles_have_their_shares() -> None:
    """A campaign runs 10 of `bytes` to 45 of each of the others."""
    rng = Random(3)
    drawn = [draw_profile(rng) for _ in range(4000)]

    assert 0.07 < drawn.count("bytes") / 4000 < 0.13
    assert 0.4 < drawn.count("fixup") / 4000 < 0.5


def sound(data: bytes) -> bool:
    """Whether the entries of *data* are contiguous and have the checksums of their bytes."""
    spans = cells.first_entry_spans(data)
    at = 0
    for start, end in spans:
        entry = data[start:end]
        v2 = entry[16] == 2
        if v2 and (len(entry) < 61 or int.from_bytes(entry[17:21], "big") != checksum_v2(entry)):
            return False
        if not v2 and int.from_bytes(entry[12:16], "big") != checksum_legacy(entry):
            return False
        at = end
    return at == len(data) or len(spans) == cells.MOST_ENTRIES


def test_fixup_gives_right_sizes_and_checksums() -> None:
    """Sizes and checksums are right in all that was not left wrong on purpose."""
    wanted = [
        mutant
        for mutant in series("fixup", 5)
        if not any(label == "cut" or "left wrong" in label or "magic" in label for label in mutant.labels)
    ]

    assert len(wanted) > COUNT / 2
    assert sum(not sound(mutant.data) for mutant in wanted) < len(wanted) * 0.03


def test_repair_leaves_one_in_ten_wrong() -> None:
    """About one of ten has one thing left wrong, and says so, and it is."""
    made = series("fixup", 6)
    wrong = [mutant for mutant in made if any("left wrong" in label for label in mutant.labels)]

    assert 0.07 < len(wrong) / COUNT < 0.13
    assert sum(sound(mutant.data) for mutant in wrong) < len(wrong) * 0.1


def test_fixup_is_idempotent() -> None:
    """A second fix-up changes nothing."""
    for mutant in series("bytes", 2, 300):
        once = fixed_up(mutant.data)
        assert fixed_up(once) == once


@given(data=st.binary(max_size=400), most=st.integers(0, 500), seed=st.integers(0, 2**32 - 1))
def test_custom_mutator_keeps_to_the_size(data: bytes, most: int, seed: int) -> None:
    """A mutant has at most the given size, since libFuzzer ends the run on a longer one."""
    made = custom_mutator(data, most, seed)

    assert len(made) <= most
    assert made == custom_mutator(data, most, seed)


@given(mutant=mutants("model"))
def test_mutants_as_a_strategy(mutant: Mutant) -> None:
    """Hypothesis draws mutants that know their answer."""
    assert mutant.expected is not None
    assert mutant.cell in reachable()


def test_deck_leaves_no_fault_out() -> None:
    """Each fault is drawn once before any fault is drawn twice; the same seed gives the same order."""
    rng, deck = Random(9), Deck()
    drawn_faults = [
        fault for _ in range(3 * len(FAULTS)) if (fault := mutate(rng, (), "model", deck).cell.fault) != NO_FAULT
    ]
    assert set(drawn_faults[: len(FAULTS)]) == set(FAULTS)
    assert set(drawn_faults[len(FAULTS) : 2 * len(FAULTS)]) == set(FAULTS)
    rng, deck = Random(9), Deck()
    again = (mutate(rng, (), "model", deck).cell.fault for _ in range(3 * len(FAULTS)))
    assert [fault for fault in again if fault != NO_FAULT] == drawn_faults


def test_a_deck_leaves_no_row_out() -> None:
    """Each row of a fault is drawn once before any row is drawn again."""
    rng, deck = Random(9), Deck()
    drawn: dict[str, list[Row]] = {}
    rows = {fault.name: rows for fault, rows in fault_rows()}
    few = {name: len(some) for name, some in rows.items() if 1 < len(some) <= 6}
    for _ in range(12 * len(rows)):
        fault, row = deck.draw(rng)
        drawn.setdefault(fault.name, []).append(row)
    assert few
    for name, count in few.items():
        assert set(drawn[name][:count]) == set(drawn[name][count : 2 * count]) == set(rows[name])
    assert all(some[0][3] == list(FAULTS[name].variants)[-1] for name, some in drawn.items())


def after_oddity(deck: Deck | None = None) -> list[Mutant]:
    """Of a series of `model`, the mutants with an oddity before their fault."""
    rng = Random(4)
    return [made for _ in range(COUNT) if (made := mutate(rng, (), "model", deck)).labels[0] == AFTER_ODDITY]


def test_entry_before_a_fault_may_be_odd() -> None:
    """Of a tenth of all inputs; the oddity is valid, so what is right is known, and the reference agrees."""
    made = after_oddity()
    assert 0.05 < len(made) / COUNT < 0.3
    assert all(reference_agrees(mutant) for mutant in made)
    assert {mutant.cell.position for mutant in made} == {"middle", "last"}
    assert {FAULTS[mutant.labels[-1]].verdict for mutant in made} == {"valid"}
    assert len({mutant.labels[-1] for mutant in made}) > 20


@pytest.mark.slow
def test_what_led_a_reader_astray_comes_again() -> None:
    """A deck prefers a fault that was misread before, in `fixup`, too; errors and pairs do not change the deck."""
    deck = Deck()
    one = MutantCell(2, "gzip", "base_timestamp", "largest", "base_timestamp_at_an_edge", "entry", "only")
    deck.learn(for_cell(Random(1), one))
    for other in (
        after_oddity()[0],
        for_cell(Random(1), one._replace(field="crc", boundary="zero", fault="crc_wrong")),
    ):
        deck.learn(other)
    assert [(fault.name, row) for fault, row in deck.astray] == [(one.fault, one[:4])]
    share = [mutant.labels[-1] for mutant in after_oddity(deck)].count(one.fault) / len(after_oddity(deck))
    assert share > 0.5
    rng = Random(4)
    led = [mutant for _ in range(COUNT) if "led" in (mutant := mutate(rng, own_seeds(), "fixup", deck)).labels]
    assert 0.05 < len(led) / COUNT < 0.2


def test_old_profile_name_works_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    """`repair` is `fixup`, and a line on standard error says so; current names give no warning."""
    assert [current_profile(name) for name in ("bytes", "fixup", "model", "mixed")] == [
        "bytes",
        "fixup",
        "model",
        "mixed",
    ]
    assert not capsys.readouterr().err
    assert current_profile("repair") == "fixup"
    assert "the profile repair is now called fixup" in capsys.readouterr().err


def test_saved_entry_of_the_old_profile_is_read() -> None:
    """A corpus entry that an earlier version saved with the profile `repair` can be read."""
    saved = CorpusEntry(
        "00", 1, "repair", ("crc flipped",), MutantCell(2, "none", "crc", "flipped", "", "entry", "only"), "ok"
    )

    assert DECODER.decode(msgspec.json.encode(saved)) == saved
