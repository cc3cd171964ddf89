"""Results of mutants: the file of a run resumes, reasons decide the sums, and the page follows from what is kept."""

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from msgspec.structs import replace

from kafka_conformance import power
from kafka_conformance.power import TARGETS, known_target
from kafka_conformance.power.results import (
    FORMAT,
    REASONS,
    STATUSES,
    CodeMutant,
    CoverageHeader,
    MethodCoverage,
    MutantFile,
    MutantResult,
    MutantRunHeader,
    MutantStatus,
    ReviewedReason,
    ReviewFile,
    kept_mutants,
    load_reviews,
    matching_classes,
    mutant_result,
    page_of,
    read_coverage,
    read_kept_mutants,
    read_mutant_run,
    sample_mutants,
    summarise_mutants,
    write_coverage,
    write_kept_mutants,
)
from kafka_conformance.runner.results import Unusable
from kafkaproof.cli import kafkaproof

ROOT = Path(__file__).resolve().parents[2]

HEADER = MutantRunHeader(format=FORMAT, target="java-client", version="4.4.0", corpus="ab" * 32, population=3)


def mutant(line: int = 7, name: str = "org.example.Batch") -> CodeMutant:
    """A mutant on *line* of a class."""
    return CodeMutant(class_name=name, method="size()I", line=line, mutator="MATH", index=1, description="+ became -")


@st.composite
def results(draw: DrawFn) -> list[MutantResult]:
    """Results of different mutants, with any text."""
    lines = draw(st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=5))
    text = st.text(max_size=20)
    return [
        MutantResult(
            class_name=draw(text), method=draw(text), line=line, mutator=draw(text), index=draw(st.integers(0, 99)),
            description=draw(text), status=draw(st.sampled_from(STATUSES)),
            cases=tuple(draw(st.lists(text, max_size=3))),
        )
        for line in lines
    ]  # fmt: skip


@settings(max_examples=25)
@given(found=results(), cut=st.integers(0, 400))
def test_cut_file_resumes(found: list[MutantResult], cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A file that was cut anywhere after its header keeps its whole lines, and the rest can be appended again."""
    path = tmp_path_factory.mktemp("cut") / "run.ndjson"
    with MutantFile(path, HEADER) as file:
        for result in found:
            file.append(result)
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    path.write_bytes(whole[: max(start, len(whole) - cut)])
    with MutantFile(path, HEADER) as file:
        assert file.known == found[: len(file.known)]
        for result in found[len(file.known) :]:
            file.append(result)
    assert path.read_bytes() == whole
    assert read_mutant_run(path) == (HEADER, found)


@settings(max_examples=25)
@given(found=results())
def test_kept_result_round_trip(found: list[MutantResult], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A kept result is read as it was written, and has every mutant in its counts."""
    path = tmp_path_factory.mktemp("kept") / "java-client.ndjson"
    kept = kept_mutants(HEADER, found)
    write_kept_mutants(kept, path)
    assert read_kept_mutants(path) == kept
    assert sum(sum(counts.values()) for counts in kept.counts.values()) == len(found)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{}\n", "not a result of mutants"),
        (b'{"format":"kafkaproof-kept/1"}\n', "not a result of mutants"),
        (b"\xff\xfe\n", "not a result of mutants"),
    ],
)
def test_foreign_file_is_refused(content: bytes, problem: str, tmp_path: Path) -> None:
    """A file of another kind is named with what is wrong, and is not changed."""
    path = tmp_path / "run.ndjson"
    path.write_bytes(content)
    with pytest.raises(Unusable, match=problem):
        MutantFile(path, HEADER)
    assert path.read_bytes() == content


def test_other_run_and_broken_line_are_refused(tmp_path: Path) -> None:
    """A run with another corpus, a line that is no result, and a second result of one mutant end with the place."""
    path = tmp_path / "run.ndjson"
    with MutantFile(path, HEADER) as file:
        file.append(mutant_result(mutant(), "seen"))
        with pytest.raises(Unusable, match=r"another run writes there"):
            MutantFile(path, HEADER)
    with pytest.raises(Unusable, match=r"another run \(corpus\)"):
        MutantFile(path, replace(HEADER, corpus=""))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"status":"gone"}\n')
    with pytest.raises(Unusable, match=r"run.ndjson:3: "):
        MutantFile(path, HEADER)
    path.write_bytes(whole + whole.splitlines(keepends=True)[1])
    with pytest.raises(Unusable, match=r"run.ndjson:3: a second result"):
        read_mutant_run(path)


def test_newer_corpus_runs_what_was_not_seen(tmp_path: Path) -> None:
    """With `again` a run on another corpus keeps what was seen, and runs all other mutants again."""
    path = tmp_path / "run.ndjson"
    states: tuple[MutantStatus, ...] = ("seen", "hang", "survived", "same-replies", "not-reached")
    with MutantFile(path, HEADER) as file:
        for line, status in enumerate(states):
            file.append(mutant_result(mutant(line), status))
    with MutantFile(path, replace(HEADER, corpus="cd" * 32), again=True) as file:
        assert [each.status for each in file.known] == ["seen", "hang"]
    header, found = read_mutant_run(path)
    assert (header.corpus, len(found)) == ("cd" * 32, 2)


def test_smaller_sample_keeps_what_it_draws(tmp_path: Path) -> None:
    """With `again` a smaller sample goes on from the file of a larger one; without it the file is refused."""
    path, (first, second) = tmp_path / "run.ndjson", map(mutant, range(2))
    with MutantFile(path, replace(HEADER, sample=9)) as file:
        for each in (first, second):
            file.append(mutant_result(each, "seen"))
    smaller = replace(HEADER, sample=1)
    with pytest.raises(Unusable, match="another run"):
        MutantFile(path, smaller)
    with MutantFile(path, smaller, again=True, chosen=[first]) as file:
        assert [each.key for each in file.known] == [first.key]


def test_results_of_another_source_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--again` what is not drawn any more goes, as do classes that changed; without it the file is refused."""
    path, ran = tmp_path / "run.ndjson", list[CodeMutant]()

    def run(mutants: list[CodeMutant], *options: str) -> Result:
        def results(chosen: list[CodeMutant]) -> Iterator[MutantResult]:
            ran[:] = chosen
            yield from (mutant_result(each, "seen") for each in chosen)

        target = SimpleNamespace(version=lambda: "1", mutants=lambda: mutants, run=results)
        monkeypatch.setattr(power, "open_target", lambda _name: target)
        arguments = ["java-client", "--json", "--sample", "4", "--out", str(path), *options]
        return CliRunner().invoke(kafkaproof, ["power", "mutants", *arguments])

    old = [mutant(1), mutant(2), mutant(3, "org.example.Record"), mutant(4, "org.example.Header")]
    assert run(old).exit_code == 0
    new = [mutant(1), replace(mutant(2), description="- became +"), *old[2:]]
    refused = run(new)
    assert (refused.exit_code, "--again keeps the others" in refused.output) == (2, True)
    assert json.loads(run(new, "--again").stdout)["mutants"] == 4
    assert sorted(each.line for each in ran) == [1, 2]  # all of their class
    new[2] = mutant(9, "org.example.Record")
    assert json.loads(run(new, "--again").stdout)["mutants"] == 4
    assert [each.line for each in ran] == [9]
    assert {each.line for each in read_mutant_run(path)[1]} == {1, 2, 4, 9}


def test_full_disk_loses_no_result(tmp_path: Path) -> None:
    """A file that cannot be written again stays as it was, and one that was is locked."""
    path = tmp_path / "run.ndjson"
    with MutantFile(path, replace(HEADER, sample=3)) as file:
        file.append(mutant_result(mutant(1), "seen"))
        file.append(mutant_result(mutant(2), "seen"))
    before = path.read_bytes()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) // 2, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            MutantFile(path, replace(HEADER, sample=9))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == before
    with MutantFile(path, replace(HEADER, sample=9)) as file:
        assert len(file.known) == 2
        with pytest.raises(Unusable, match="another run writes there"):
            MutantFile(path, replace(HEADER, sample=9))
        file.append(mutant_result(mutant(3), "seen"))
    assert len(read_mutant_run(path)[1]) == 3
    assert list(tmp_path.iterdir()) == [path]


def test_sample_is_repeatable(tmp_path: Path) -> None:
    """A seed draws the same mutants, a larger sample begins with a smaller one and continues its file."""
    mutants = [mutant(line) for line in range(100)]
    drawn = sample_mutants(mutants, 10, 1)
    assert drawn == sample_mutants(mutants, 0, 1)[:10] != sample_mutants(mutants, 10, 2)
    assert set(sample_mutants(mutants, 0, 1)) == set(mutants)
    with MutantFile(tmp_path / "run.ndjson", replace(HEADER, sample=10)) as file:
        file.append(mutant_result(drawn[0], "seen"))
    with MutantFile(tmp_path / "run.ndjson", replace(HEADER, sample=20)) as file:
        assert len(file.known) == 1
    assert read_mutant_run(tmp_path / "run.ndjson")[0].sample == 20
    with pytest.raises(Unusable, match=r"another run \(sample\)"):
        MutantFile(tmp_path / "run.ndjson", replace(HEADER, sample=10))
    assert matching_classes(mutants, "Bat*") == matching_classes(mutants, "org.*") == mutants
    assert matching_classes(mutants, "Record") == []


def test_reasons_decide_the_sums(tmp_path: Path) -> None:
    """The first reason that fits counts; a survivor without one counts as not seen."""
    (tmp_path / "java-client.toml").write_text(
        "[[mutant]]\nkind = 'equivalent'\nreason = 'A size of a buffer.'\nclasses = ['Batch']\nlines = [2]\n"
        "[[mutant]]\nkind = 'hole'\nreason = 'No case has it.'\nlines = [2, 3]\n",
        encoding="utf-8",
    )
    states: tuple[MutantStatus, ...] = (
        "seen", "same-replies", "survived", "survived", "hang", "not-reached", "no-program",
    )  # fmt: skip
    found = [mutant_result(mutant(line), status) for line, status in enumerate(states, 1)]
    total = summarise_mutants(kept_mutants(HEADER, found), load_reviews("java-client", tmp_path)).total
    assert (total.mutants, total.reached, total.seen) == (6, 5, 2)
    assert (total.equivalent, total.holes, total.unreviewed) == (1, 1, 1)
    assert total.share == 0.5
    (tmp_path / "java-client.toml").write_text("[[mutant]]\nkind = 'dull'\nreason = ''\n", encoding="utf-8")
    with pytest.raises(Unusable, match=r"java-client.toml: .*kind"):
        load_reviews("java-client", tmp_path)


def test_page_follows_from_what_is_kept(tmp_path: Path) -> None:
    """The page has the share of each class, each hole, and the branches that are not taken."""
    header = replace(HEADER, only="B*")
    kept = kept_mutants(header, [mutant_result(mutant(1), "seen"), mutant_result(mutant(2), "survived")])
    write_kept_mutants(kept, tmp_path / "java-client.ndjson")
    method = MethodCoverage(
        class_name="org.example.Batch", method="size()I", line=1, branches=4, covered=3, missed={2: 1}
    )
    measured = CoverageHeader(format="kafkaproof-coverage/1", target="java-client", version="4.4.0", corpus="ab" * 32)
    write_coverage(measured, [method], tmp_path / "java-client.coverage.ndjson")
    assert read_coverage(tmp_path / "java-client.coverage.ndjson") == (measured, [method])
    (tmp_path / "java-client.toml").write_text(
        "[[mutant]]\nkind = 'hole'\nreason = 'No case has a | in it.'\n"
        "[[branch]]\nclasses = ['Batch']\nreason = 'An overflow.'\n",
        encoding="utf-8",
    )
    page = page_of(tmp_path, lambda name: f"About {name}.", tmp_path)
    assert "all mutants of the classes that match `B*`, corpus" in page
    assert "| `Batch` | 2 | 2 | 1 | 0 |" in page
    assert "No case has a \\| in it." in page
    assert "3 of 4 branches (75.0 %)" in page
    assert "it takes 3 of 3 (100.0 %)" in page
    assert "| `Batch.size:2` | An overflow. |" in page


def test_branches_are_counted_and_reasons_are_whole(tmp_path: Path) -> None:
    """Reasons come by their branches, of which a line has several; what the table leaves out is counted in branches."""
    write_kept_mutants(kept_mutants(HEADER, []), tmp_path / "java-client.ndjson")
    reasons = [f"{'A long reason with many words; ' * 5}number {number}." for number in range(13)]
    (tmp_path / "java-client.toml").write_text(
        "".join(f"[[branch]]\nclasses = ['*']\nlines = [{at}]\nreason = '{why}'\n" for at, why in enumerate(reasons))
        + "reachable = true\n",
        encoding="utf-8",
    )
    missed = dict.fromkeys(range(12), 3) | {12: 2}
    method = MethodCoverage(class_name="Batch", method="size()I", line=1, branches=50, covered=12, missed=missed)
    header = CoverageHeader(format="kafkaproof-coverage/1", target="java-client", version="4.4.0", corpus="ab" * 32)
    write_coverage(header, [method], tmp_path / "java-client.coverage.ndjson")
    page = page_of(tmp_path, lambda name: f"About {name}.", tmp_path)
    assert "23 more branches are not taken" in page
    assert "it takes 12 of 14 (85.7 %)" in page
    assert "less than all: `Batch` 85.7 %" in page
    assert all(f"| {why} |" in page for why in reasons[:5])


def test_another_seed_has_its_own_line(tmp_path: Path) -> None:
    """A result of another seed is kept beside the first, and has a line and its holes on the page."""
    hole = '[[mutant]]\nkind = "hole"\nreason = "No case has such a size."\n'
    (tmp_path / "java-client.toml").write_text(hole)
    seen = mutant_result(mutant(3), "seen")
    write_kept_mutants(kept_mutants(replace(HEADER, seed=1), [seen]), tmp_path / "java-client.ndjson")
    other = kept_mutants(replace(HEADER, seed=7, sample=2), [seen, mutant_result(mutant(2), "survived")])
    write_kept_mutants(other, tmp_path / "java-client.seed-7.ndjson")
    page = page_of(tmp_path, lambda name: f"About {name}.", tmp_path)
    assert "| [java-client 4.4.0](#java-client), seed 7 | 2 | 2 | 1 | 0 | 1 | 0 | 50.0 % |" in page
    assert page.index("## java-client") < page.index("### Seed 7") < page.index("No case has such a size.")
    (tmp_path / "java-client.seed-8.ndjson").write_bytes((tmp_path / "java-client.seed-7.ndjson").read_bytes())
    with pytest.raises(Unusable, match=r"seed-8.*is a result of 'java-client', seed 7"):
        page_of(tmp_path, lambda name: name, tmp_path)


def test_committed_page_is_current() -> None:
    """docs/power.md is what the kept results and reasons give."""
    page = page_of(ROOT / "results" / "power", lambda name: known_target(name).about)
    assert (ROOT / "docs" / "power.md").read_text(encoding="utf-8") == page


@pytest.mark.parametrize(
    ("name", "line", "problem"),
    [
        (
            "java-client.coverage.ndjson",
            b'{"format":"x/2","target":"java-client","version":"","corpus":""}',
            "'x/2', not",
        ),
        ("java-clint.ndjson", msgspec.json.encode(replace(HEADER, target="java-clint")), "did you mean java-client"),
        ("reference.ndjson", msgspec.json.encode(HEADER), "is a result of 'java-client'"),
    ],
)
def test_foreign_kept_result_is_refused(name: str, line: bytes, problem: str, tmp_path: Path) -> None:
    """Another format, an unknown target, and a result under the name of another one are named with their file."""
    (tmp_path / name).write_bytes(line + b"\n")
    with pytest.raises(Unusable, match=f"{name}.*{problem}"):
        page_of(tmp_path, lambda target: known_target(target).about, tmp_path)


def test_reasons_of_no_survivor_are_listed(tmp_path: Path) -> None:
    """A reason counts as used only if it is the first that fits a survivor."""
    reasons = [
        ReviewedReason(kind="equivalent", reason=f"Reason {number}.", lines=lines)
        for number, lines in enumerate([(2,), (2, 3), (2,)])
    ]
    found = [mutant_result(mutant(2), "survived"), mutant_result(mutant(3), "seen")]
    sums = summarise_mutants(kept_mutants(HEADER, found), ReviewFile(mutant=tuple(reasons)))
    assert [each.reason for each in sums.unused] == ["Reason 1.", "Reason 2."]
    path = tmp_path / "run.ndjson"
    with MutantFile(path, HEADER) as file:
        file.append(found[1])
    done = CliRunner().invoke(kafkaproof, ["power", "survivors", "java-client", "--file", str(path)])
    assert done.output.count("no survivor here: ") == len(load_reviews("java-client").mutant) > 0
    assert done.output.splitlines()[-1] == (
        "0 survivors of 1 reached mutant: 0 equivalent, 0 holes, 0 not reviewed; "
        "100.00 % seen of those that are not equivalent"
    )


def test_names_in_a_file_are_escaped(tmp_path: Path) -> None:
    """Names, methods and mutators of a foreign file do not reach the terminal as sequences."""
    path = tmp_path / "run.ndjson"
    with MutantFile(path, HEADER) as file:
        evil = replace(mutant(), class_name="\x1b[31mred", method="\x1b]0;t\x07", mutator="\x9b2J", description="\x1bc")
        file.append(mutant_result(evil, "survived"))
    done = CliRunner().invoke(kafkaproof, ["power", "survivors", "java-client", "--file", str(path)])
    assert done.exit_code == 1
    assert "\\x1b[31mred" in done.output
    assert all(character == "\n" or character.isprintable() for character in done.output)


def test_every_file_of_reasons_has_a_target() -> None:
    """Files of reasons are named after targets, and a misspelled target is answered with the near name."""
    assert {path.stem for path in REASONS.glob("*.toml")} <= set(TARGETS)
    done = CliRunner().invoke(kafkaproof, ["power", "survivors", "java-clint"])
    assert done.exit_code == 2
    assert "did you mean java-client?" in done.output
