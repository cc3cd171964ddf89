"""Case functions become cases, and what is no proper case function is refused."""

import pytest

from kafka_corpus.cases import all_cases
from kafka_corpus.registry import Draft, RegisteredCase, build_registered, case, invalid


def broken(size: int = 17) -> Draft:
    """Zeros have no magic
    and no size. A second sentence says why.

    A second paragraph says more.
    """
    return invalid(b"\x00" * size, "malformed")


def test_id_and_title() -> None:
    """The id is that of module and function, the title the docstring's first sentence on one line."""
    entry = RegisteredCase(broken, ("FRM-05",), None, ("KAFKA-1",), "1.0", None)
    (made,) = build_registered("area.broken", entry)
    assert (made.id, made.area, made.op) == ("area.broken", "area", "decode")
    assert made.title == "Zeros have no magic and no size"
    assert (made.rules, made.refs, made.since) == (("FRM-05",), ("KAFKA-1",), "1.0")


def test_parameters_make_cases() -> None:
    """Each parameter makes a case with its name in brackets, in id and title."""
    entry = RegisteredCase(broken, ("FRM-05",), {"short": 17, "long": 99}, (), "1.0", None)
    made = list(build_registered("area.broken", entry))
    assert [(each.id, each.title[-7:]) for each in made] == [
        ("area.broken[short]", "[short]"),
        ("area.broken[long]", " [long]"),
    ]
    assert [len(each.input) for each in made if isinstance(each.input, bytes)] == [17, 99]


@pytest.mark.slow
def test_duplicate_id_is_refused() -> None:
    """A second function with the module and name of a case cannot be registered."""
    known = next(made for made in all_cases() if "[" not in made.id)
    module, _, name = known.id.partition(".")

    def double() -> Draft:
        """Says something."""
        return broken()

    double.__module__, double.__name__ = f"kafka_corpus.cases.{module}", name
    with pytest.raises(ValueError, match=f"there is a case {known.id} already"):
        case("FRM-05")(double)


def test_missing_docstring_is_refused() -> None:
    """A case function without a docstring cannot be registered: it has no title."""

    def untold() -> Draft:
        return broken()

    with pytest.raises(ValueError, match=r"test_registry\.untold needs a rule and a docstring"):
        case("FRM-05")(untold)


def test_missing_rule_is_refused() -> None:
    """A case function that tests no rule cannot be registered."""
    with pytest.raises(ValueError, match="needs a rule and a docstring"):
        case()(broken)


@pytest.mark.slow
def test_all_cases_are_sorted() -> None:
    """The registry gives every case once, in the order of ids."""
    ids = [made.id for made in all_cases()]
    assert ids
    assert ids == sorted(set(ids))
