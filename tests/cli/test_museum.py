"""`kafkaproof museum`: what it lists and shows, and exhibits that run on real releases."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kafka_conformance.museum import exhibits
from kafka_conformance.reports.site import museum_pages
from kafkaproof.cli import kafkaproof


def run(*arguments: str | Path) -> Result:
    """The outcome of `kafkaproof museum ARGUMENTS`."""
    return CliRunner().invoke(kafkaproof, ["museum", *map(str, arguments)])


def test_the_list_has_every_exhibit() -> None:
    """With --json as without it; a filter takes some of them."""
    listed = json.loads(run("list", "--json").stdout)["exhibits"]
    assert [each["id"] for each in listed] == [each.id for each in exhibits()]
    assert {"affected", "state", "links", "cases", "rules", "symptom"} <= listed[0].keys()
    table = run("list").stdout
    assert all(each.title in table for each in exhibits())
    some = json.loads(run("list", "--rule", "CLN-03", "--json").stdout)["exhibits"]
    assert 0 < len(some) < len(listed)
    assert all("CLN-03" in each["rules"] for each in some)


def test_an_exhibit_is_shown_with_its_rules_and_cases() -> None:
    """The statement of a rule and the ids of cases are there, and the command that runs it."""
    shown = run("show", "kafka-python-compacted-tail")
    assert shown.exit_code == 0
    assert "case      history.last_records_compacted_away" in shown.stdout
    assert "rule      CLN-03  The record count becomes" in shown.stdout
    assert "kafkaproof museum run kafka-python-compacted-tail" in shown.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("show", "kafka-python-compacted-tai"), "did you mean kafka-python-compacted-tail"),
        (("list", "--product", "kafka"), "there is no 'kafka'; products are"),
        (("list", "--product", ""), "there is no ''; products are"),
        (("list", "--rule", "CLN-99"), "--rule: there is no rule 'CLN-99'; near it are CLN-"),
        (("list", "--rule", ""), "--rule: there is no rule ''"),
        (("run", "brod-zstd-without-content-size"), "no run is described for brod-zstd-without-content-size"),
        (("run", "kafka-python-compacted-tail", "--product", "sarama"), "contradict each other"),
    ],
)
def test_unknown_names_are_errors_of_usage(arguments: tuple[str, ...], problem: str) -> None:
    """Exit code 2 and one line that says what there is."""
    done = run(*arguments)
    assert done.exit_code == 2
    assert problem in done.output


def test_filters_without_a_hit_show_an_empty_list() -> None:
    """A product and a rule that exist, and that no exhibit has together."""
    done = run("list", "--product", "sarama", "--rule", "CLN-03")
    assert (done.exit_code, done.stdout) == (0, "0 exhibits, 0 with a run; kafkaproof museum show ID\n")


def test_another_outcome_of_the_good_release_is_said() -> None:
    """A release that has the defect no more, and another one on the same case, is not called right."""
    assert "2.1.6 has hang in its place" in run("show", "kafka-python-fetched-checksums").stdout


def test_the_page_of_the_museum_is_small() -> None:
    """The site has a limit of size, and each exhibit an anchor."""
    (page,) = museum_pages(None)  # type: ignore[arg-type]
    text = page.content.decode()
    assert all(f'id="{each.id}"' in text for each in exhibits())
    assert len(page.content) < 100_000


@pytest.mark.testees
def test_exhibits_are_red_and_green(tmp_path: Path) -> None:
    """Two releases of kafka-python have the defect, two have it no more; an open defect is red only."""
    ids = ("kafka-python-xerial-version-numbers", "kafka-python-null-header-value", "librdkafka-zeros-abort")
    done = run("run", *ids, "--report", tmp_path, "--json")
    document = json.loads(done.stdout)
    assert {each["exhibit"]: each["status"] for each in document["results"]} == dict(
        zip(ids, ("red and green", "red and green", "red"), strict=True)
    )
    assert done.exit_code == 0
    again = run("run", *ids, "--report", tmp_path)
    assert (again.exit_code, again.stderr) == (0, "")
