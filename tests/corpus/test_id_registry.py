"""Ids are permanent: the content of an id never changes, and an id is never used again."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_corpus import compiler, id_registry, line_files
from kafka_corpus.case import Case
from kafka_corpus.vector_format import CORPUS_VERSION
from kafka_corpus.vectors import VECTORS, VectorLine, load_vectors


def compiled(root: Path, cases: Sequence[Case], retire: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Compile and write *cases*, as the command does, unless a promise is broken; those that are."""
    made = compiler.compile_corpus(cases, root, retire=retire)
    if not made.breaches:
        compiler.write_compiled(made, root)
    return made.breaches


def lines(root: Path) -> dict[str, VectorLine]:
    """The registered ids, each with its line."""
    return {line.id: line for line in VECTORS.read(root)}


def test_unchanged(root: Path, sample: list[Case]) -> None:
    """The same cases break no promise and change no line."""
    before = VECTORS.read(root)
    assert compiled(root, sample) == []
    assert VECTORS.read(root) == before


def test_new_id_is_one_line(root: Path, sample: list[Case]) -> None:
    """A new id inserts one line, where it sorts, and changes no other."""
    file = root / "vectors" / "sample.ndjson"
    before = file.read_bytes().splitlines()
    assert compiled(root, [*sample, replace(sample[0], id="sample.better", input=b"other")]) == []
    after = file.read_bytes().splitlines()
    assert [line for line in after if line not in before] == [after[1]]
    assert [line for line in after if line in before] == before
    assert b"sample.better" in after[1]


def test_changed_content(root: Path, sample: list[Case]) -> None:
    """An id cannot ask something else."""
    ((id_, why),) = compiled(root, [replace(sample[0], input=b"other"), *sample[1:]])
    assert id_ == "sample.accepts"
    assert why.startswith("has another content than before")


def test_vanished(root: Path, sample: list[Case]) -> None:
    """An id cannot be dropped without a word."""
    ((id_, why),) = compiled(root, sample[1:])
    assert id_ == "sample.accepts"
    assert why.startswith("is gone")


def test_superseded(root: Path, sample: list[Case]) -> None:
    """An id that a new case supersedes may go; its line says since when, and is no case any more."""
    better = replace(sample[0], id="sample.better", supersedes="sample.accepts", since="1.1")
    now = [better, *sample[1:]]
    assert compiled(root, now) == []
    assert lines(root)["sample.accepts"].retired == "1.1"
    assert lines(root)["sample.better"].supersedes == "sample.accepts"
    assert [case.id for case in load_vectors(root=root)] == sorted(case.id for case in now)
    assert compiled(root, now) == []


def test_superseded_in_another_area(root: Path, sample: list[Case]) -> None:
    """Compiling the area of the successor retires the id in its own file, and touches no other area."""
    better = replace(sample[0], id="other.better", area="other", supersedes="sample.accepts", since="1.1")
    bystander = replace(sample[0], id="third.case", area="third", input=b"third")
    assert compiled(root, [*sample, bystander]) == []
    made = compiler.compile_corpus([better], root, areas=["other"])
    assert made.breaches == []
    assert sorted(made.files) == ["vectors/other.ndjson", "vectors/sample.ndjson"]
    compiler.write_compiled(made, root, areas=["other"])
    assert lines(root)["sample.accepts"].retired == "1.1"
    assert compiled(root, [better, bystander, *sample[1:]]) == []


def test_retired_by_hand(root: Path, sample: list[Case]) -> None:
    """An id that nothing replaces can be retired, and stays so."""
    assert compiled(root, sample[1:], retire=["sample.accepts"]) == []
    retired = VECTORS.read(root)
    assert compiled(root, sample[1:]) == []
    assert VECTORS.read(root) == retired


def test_never_used_again(root: Path, sample: list[Case]) -> None:
    """A retired id cannot come back."""
    compiled(root, sample[1:], retire=["sample.accepts"])
    reason = f"was retired in {CORPUS_VERSION}, and an id is never used again"
    assert compiled(root, sample) == [("sample.accepts", reason)]


def test_area_of_retired_ids(root: Path, sample: list[Case]) -> None:
    """A file stays when all of its ids are retired."""
    gone = replace(sample[0], id="gone.case", area="gone", input=b"gone")
    assert compiled(root, [*sample, gone]) == []
    assert compiled(root, sample, retire=["gone.case"]) == []
    assert VECTORS.areas(root) == ["gone", "sample"]
    assert [case.area for case in load_vectors(root=root)] == ["sample"] * len(sample)


def test_supersedes_nothing(root: Path, sample: list[Case]) -> None:
    """A case cannot supersede an id that never was."""
    new = [*sample, replace(sample[0], id="sample.new", supersedes="sample.typo")]
    assert ("sample.new", "supersedes sample.typo, which is not a known id") in compiled(root, new)


def test_superseded_but_there(root: Path, sample: list[Case]) -> None:
    """An id cannot be a case and superseded."""
    new = [*sample, replace(sample[0], id="sample.new", input=b"new", supersedes="sample.accepts")]
    assert compiled(root, new) == [("sample.accepts", "was retired in 1.0, and an id is never used again")]


def test_repeated_line(root: Path, sample: list[Case]) -> None:
    """An id has one line."""
    registered = VECTORS.read(root)
    contents = {line.id: line.sha256 for line in registered}
    found = id_registry.breaches([*registered, registered[0]], sample, contents, {})
    assert list(found) == [("sample.accepts", "has two lines in its vector file")]


@pytest.mark.parametrize("areas", [None, ["sample"]])
def test_rewritten(root: Path, sample: list[Case], areas: list[str] | None) -> None:
    """Before the release ids may be forgotten: a changed one is accepted; a retired one leaves no line."""
    compiled(root, sample[1:], retire=["sample.accepts"])
    changed = [replace(sample[1], title="other", input=sample[4].input, expect=sample[4].expect)]
    made = compiler.compile_corpus(changed, root, areas=areas, rewrite_ids=True)
    assert made.breaches == []
    compiler.write_compiled(made, root, areas=areas)
    assert list(lines(root)) == ["sample.packs"]


def frozen_in(root: Path, version: str = "1.0") -> None:
    """Freeze what is below *root*."""
    line_files.write_files(id_registry.frozen_files(root, version), root)


def test_frozen_ids_are_one_line_each(root: Path, sample: list[Case]) -> None:
    """A new id inserts one line into the file of its area, and an id keeps the version that froze it first."""
    frozen_in(root)
    file = root / "frozen" / "sample.ndjson"
    before = file.read_bytes().splitlines()
    assert compiled(root, [*sample, replace(sample[0], id="sample.better", input=b"other")]) == []
    assert id_registry.not_frozen(root) == ["sample.better"]
    assert list(id_registry.frozen_breaches(root)) == []
    frozen_in(root, "1.3")

    after = file.read_bytes().splitlines()
    assert [line for line in after if line in before] == before
    assert [line for line in after if line not in before] == [after[1]]
    assert b'"sample.better"' in after[1]
    assert b'"1.3"' in after[1]


def test_an_id_that_was_retired_before_it_was_frozen_stays_free(root: Path, sample: list[Case]) -> None:
    """No version promised an id that was retired before the release, so no version freezes it."""
    assert compiled(root, sample[1:], retire=["sample.accepts"]) == []
    assert "sample.accepts" not in id_registry.not_frozen(root)
    frozen_in(root)

    assert list(id_registry.frozen_breaches(root)) == []
    assert b'"sample.accepts"' not in (root / "frozen" / "sample.ndjson").read_bytes()
    frozen_in(root)
    assert id_registry.not_frozen(root) == []


@pytest.mark.parametrize(("version", "why"), [("1.0", "that takes version 1.1"), ("1.1", "")])
def test_a_frozen_id_is_retired_by_a_minor_version(root: Path, sample: list[Case], version: str, why: str) -> None:
    """A frozen id that another one supersedes takes the next minor version."""
    frozen_in(root)
    better = replace(sample[0], id="sample.better", supersedes="sample.accepts", since="1.1")
    assert compiled(root, [better, *sample[1:]]) == []
    found = list(id_registry.frozen_breaches(root, version))
    assert [id_ for id_, _ in found] == (["sample.accepts"] if why else [])
    assert all(text.endswith(why) for _, text in found)


@pytest.mark.parametrize(("version", "frozen"), [("1.9", True), ("2.0", False)])
def test_a_frozen_id_changes_in_a_major_version_only(
    root: Path, sample: list[Case], version: str, frozen: bool
) -> None:
    """Another right answer, or an id that is gone, takes the next major version."""
    frozen_in(root)
    changed = [replace(sample[0], expect=replace(sample[0].expect, verdict="valid", why="")), *sample[2:]]
    compiler.write_compiled(compiler.compile_corpus(changed, root, rewrite_ids=True), root)
    found = dict(id_registry.frozen_breaches(root, version))
    assert sorted(found) == (["sample.accepts", "sample.packs"] if frozen else [])
    assert all("that takes version 2.0" in why for why in found.values())


def test_the_frozen_schema_takes_a_version(root: Path) -> None:
    """A schema with other fields takes the next minor version; words of its descriptions are free."""
    frozen_in(root)
    file = root / "frozen" / "schema.ndjson"
    file.write_bytes(file.read_bytes().replace(id_registry.schema_digest().encode(), b"0" * 16))
    assert [id_ for id_, _ in id_registry.frozen_breaches(root, "1.0")] == [id_registry.SCHEMA_ID]
    assert list(id_registry.frozen_breaches(root, "1.1")) == []
