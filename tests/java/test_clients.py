"""Kafka's own KafkaConsumer and KafkaProducer pass every profile: no finding in the corpus is FAIL.

A case that fails here is wrong, or Kafka has a defect: `causes/java.toml` then has an entry under Kafka's own name.
"""

from __future__ import annotations

import os

import pytest

from kafka_conformance.reports.profiles import Certification, certify_profiles
from kafka_conformance.runner.results import FILE
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.known import connect
from kafka_corpus.vectors import corpus_hash, load_vectors

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(3600)]

TESTEE = "java-consumer"
PASSED = ("consumer", "consumer-legacy", "consumer-transactions", "producer", "integrity")


@pytest.fixture(scope="module")
def certification(tmp_path_factory: pytest.TempPathFactory) -> Certification:
    """The whole corpus, run against the clients."""
    cases = load_vectors(ops=("decode", "encode"))
    path = tmp_path_factory.mktemp("java") / FILE
    jobs = len(os.sched_getaffinity(0))
    plan = RunPlan(connection=connect(TESTEE), cases=cases, corpus=corpus_hash(), path=path, jobs=jobs)
    return certify_profiles(run(plan), {case.id: case for case in cases})


def test_no_finding_is_a_fail(certification: Certification) -> None:
    """No case expects more of a codec than of Kafka's own clients."""
    found = [f"{each.case.id}: {each.line.outcome}: {each.line.why}" for each in certification.findings if each.fails]
    graded = [each.case.id for each in certification.findings if each.graded.grade == "FAIL"]

    assert (found, graded) == ([], [])


def test_every_profile_is_passed(certification: Certification) -> None:
    """Every required case has an answer."""
    grades = {str(each.profile): (each.grade, each.missing) for each in certification.profiles}

    assert {name: grades[name] for name in PASSED} == dict.fromkeys(PASSED, ("pass", {}))


def test_hostile_findings_are_reviewed(certification: Certification) -> None:
    """Each input that stops Kafka's clients, or deceives them, belongs to a reviewed cause."""
    unreviewed = [
        f"{each.case.id}: {each.line.outcome}: {each.line.why}"
        for each in certification.findings
        if each.graded.grade == "HOSTILE" and each.cause.reviewed is None
    ]

    assert unreviewed == []
