"""Memory findings beside what Kafka's Java client takes."""

from kafka_conformance.judge.grading import grade_finding
from kafka_conformance.judge.memory import MIB, TIMES, client_memory, java_figure, memory_text
from kafka_conformance.judge.observation import Exceeded, observation_summary
from kafka_conformance.judge.verdict import judge
from kafka_conformance.runner.results import result_line
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

# A count of thousands of millions over a few bytes, for which the Java client allocates nothing.
CLAIM = "backwards.record_at_itself"


def case_of(id_: str) -> Case:
    """A case of the corpus."""
    return next(case for case in load_vectors() if case.id == id_)


def test_figures_are_of_cases() -> None:
    """Each recorded figure belongs to a case, and says with which client it was measured, and when."""
    recorded, known = client_memory(), {case.id for case in load_vectors()}

    assert recorded.client == "java-consumer"
    assert recorded.version
    assert len(recorded.date) == len("2026-11-23")
    assert recorded.cases
    assert set(recorded.cases) <= known
    assert all(0 <= mib < 8192 for mib in recorded.cases.values())


def test_a_memory_finding_says_what_was_taken_for_what() -> None:
    """Bytes taken, bytes read and the Java client's figure are in the verdict; two runs say the same."""
    figure = java_figure(CLAIM)
    assert figure is not None
    exceeded = Exceeded("it took more than 1,024 MiB of memory", "", 1_100 * MIB, 93)
    beside = f"Kafka's Java client {figure.version} takes {figure.taken // MIB:,} MiB"

    assert judge(case_of(CLAIM), exceeded).why == (f"it took more than 1,024 MiB of memory for 93 bytes read; {beside}")
    again, grew = (memory_text("no.case", Exceeded("it grew", "", mib * MIB, 7)) for mib in (800, 1_000))
    assert again == grew == "it grew: more than 768 MiB for 7 bytes read"
    assert memory_text("no.case", Exceeded("a line that is too long")) == "a line that is too long"


def test_what_java_takes_too_is_no_defect() -> None:
    """Memory up to a few times the Java client's is INFO, more is HOSTILE."""
    case, figure = case_of(CLAIM), java_figure(CLAIM)
    assert figure is not None
    grades = []
    for taken in (TIMES * figure.taken, TIMES * figure.taken + MIB):
        exceeded = Exceeded("it took more", "", taken, 93)
        line = result_line(case, judge(case, exceeded), observation_summary(exceeded), 0.1, 1)
        found = grade_finding(case, line)
        assert found is not None
        grades.append(found.grade)

    assert grades == ["INFO", "HOSTILE"]
