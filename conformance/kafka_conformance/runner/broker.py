"""A broker judged: scenarios played to it, its answers held against those recorded of Apache Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from kafka_brokers.external import ExternalBroker
from kafka_brokers.interface import Broker, NoBroker
from kafka_brokers.progress import Progress
from kafka_brokers.scenarios.recorder import Recorder
from kafka_brokers.scenarios.runner import AT_ONCE, CannotPlay, Fresh
from kafka_brokers.wire import Silent, Unreachable, UnsupportedVersion, WireError
from kafka_conformance.judge.observation import (
    Crashed,
    Garbled,
    Hung,
    NotSent,
    Observation,
    ScenarioAnswers,
    Skipped,
    observation_summary,
)
from kafka_conformance.judge.verdict import SEVERITIES, judge
from kafka_conformance.runner import results
from kafka_conformance.runner.results import ResultHeader, ResultLine, Results
from kafka_corpus.case import Case, Op
from kafka_corpus.evidence import Answers, Evidence
from kafka_corpus.scenario import Scenario
from kafka_corpus.vector_format import content_hash

# Operations that work over the network alone.
OPS: Final[tuple[Op, ...]] = ("append", "fetch", "convert")
# Some brokers answer a fetch that must not wait before they look at the log.
FETCH_MS: Final = 20
GONE: Final = "the broker was gone"
# Connections, and seconds between them, until a broker that closes them is taken for one that goes on.
ENDING_TRIES, ENDING_PAUSE = 10, 0.05


def judged_by(cases: Iterable[Case], recorded: Evidence, against: str) -> Iterator[Case]:
    """The cases with recorded answers of *against*, each with those as the expected answers."""
    for case in cases:
        line = recorded.get(case.id)
        if case.op in OPS and line is not None and line.sha256 == content_hash(case):
            answers = line.by_release().get(against)
            if answers and not any(answer.ended for answer in answers):
                yield _expecting(case, answers)


def _expecting(case: Case, answers: Answers) -> Case:
    refused = any(answer.error_code or answer.closed for answer in answers)
    expect = replace(case.expect, verdict="invalid" if refused else "valid", answers=answers)
    return replace(case, expect=expect)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRunPlan:
    """A broker, the cases to send to it, and the place of the results.

    Attributes:
        broker: anything that speaks Kafka's protocol.
        name: what it is called in the report.
        against: the release whose answers are right.
        cases: as `judged_by` gives them.
        corpus: the hash of the corpus that they come from.
        path: the result file.
        only: the patterns that chose the cases.
        start: the command line that started the broker; empty if it ran before.
        progress: called after every case.
    """

    broker: ExternalBroker
    name: str
    against: str
    cases: Sequence[Case]
    corpus: str
    path: Path
    only: Sequence[str] = ()
    start: str = ""
    progress: Progress = lambda *_: None


def run(plan: BrokerRunPlan) -> Results:
    """Ask, judge and write everything; then read the file back."""
    topics: list[str] = []
    # Topics that the broker creates on request have at least one partition.
    recorder = scenario_recorder(plan.broker, topics)
    writer = results.ResultWriter(plan.path, _header(plan))
    began, findings = time.monotonic(), 0
    try:
        for number, line in enumerate(_lines(plan, recorder), 1):
            writer.write([line])
            findings += line.outcome in SEVERITIES
            plan.progress(number, len(plan.cases), findings)
        seconds = round(time.monotonic() - began, 3)
        writer.finish(seconds=seconds, waited=0.0, starts=1 + recorder.restarts, strays=0)
    finally:
        writer.close()
        recorder.close()
        plan.broker.delete_topics(topics)
    return results.read_results(plan.path)


def _header(plan: BrokerRunPlan) -> ResultHeader:
    testee: dict[str, Any] = {"name": plan.name, "version": f"against Kafka {plan.against}"}
    testee |= {"language": "", "runtime": "", "connect": plan.broker.bootstrap, "broker": True}
    settings = {"against": plan.against} | ({"start": plan.start} if plan.start else {})
    return ResultHeader(
        testee=testee, corpus=plan.corpus, cases=len(plan.cases), only=list(plan.only), settings=settings
    )


def _lines(plan: BrokerRunPlan, recorder: Recorder) -> Iterator[ResultLine]:
    gone = False
    for case in plan.cases:
        before = time.monotonic()
        observation = NotSent(GONE) if gone else observe_scenario(recorder, plan.broker, case)
        spent = time.monotonic() - before
        died = isinstance(observation, Crashed | Hung)
        yield results.result_line(case, judge(case, observation), observation_summary(observation), spent, int(died))
        gone = gone or (died and not plan.broker.is_there())


def scenario_recorder(broker: ExternalBroker, topics: list[str]) -> Recorder:
    """Plays scenarios to *broker* on topics with unique names, which *topics* gets."""
    # Topics that the broker creates on request have at least one partition.
    at_once = AT_ONCE if broker.creates_topics else 1
    return Recorder(broker, fresh=lambda running, start: _fresh(running, start, at_once, topics), fetch_ms=FETCH_MS)


def observe_scenario(recorder: Recorder, broker: ExternalBroker, case: Case) -> Observation:
    """Observe *broker* in the scenario of *case*, and see that it still answers at its end.

    A crash or a hang of a broker that is ours to start is observed twice, each time on a newly started broker: what
    happens once is not charged to the case.
    """
    observation = _observe(recorder, broker, case)
    if broker.can_restart and isinstance(observation, Crashed | Hung) and _start_again(recorder, broker):
        observation = _observe(recorder, broker, case)
        if isinstance(observation, Crashed | Hung):
            _start_again(recorder, broker)
    return observation


def _start_again(recorder: Recorder, broker: ExternalBroker) -> bool:
    """Whether *broker* runs again, without what it had."""
    recorder.restarts += 1
    recorder.renew()
    try:
        broker.restart()
    except NoBroker:
        return False
    return True


def _observe(recorder: Recorder, broker: ExternalBroker, case: Case) -> Observation:
    observation = _play(recorder, broker, case)
    if isinstance(observation, Crashed | Hung) or (ending := ending_after(broker)) is None:
        return observation
    # Otherwise it would be charged to the next case.
    recorder.renew()
    return ending


def ending_after(broker: ExternalBroker) -> Crashed | Hung | None:
    """How *broker* stopped after its last answer; None if it goes on."""
    for _ in range(ENDING_TRIES):
        try:
            with broker.client() as client:
                client.metadata([])
        except Silent:
            return Hung(broker.time_limit)
        except Unreachable as error:
            return Crashed(stderr=f"after its answer: {error}")
        except WireError:
            time.sleep(ENDING_PAUSE)  # a connection that a process takes while it ends is closed
        else:
            return None
    return Crashed(stderr="after its answer") if broker.has_ended() else None


def _play(recorder: Recorder, broker: ExternalBroker, case: Case) -> Observation:
    assert isinstance(case.input, Scenario)
    try:
        return ScenarioAnswers(recorder.play(case.input))
    except (CannotPlay, UnsupportedVersion) as error:
        return Skipped(str(error), by_runner=True)
    except Silent:
        recorder.renew()
        return Hung(broker.time_limit)
    except Unreachable as error:
        recorder.renew()
        return Crashed(stderr=str(error))
    except WireError as error:
        recorder.renew()
        return Garbled(str(error))


def _fresh(broker: Broker, start: int, at_once: int, topics: list[str]) -> Fresh:
    """Partitions of topics with unique names, kept in *topics*."""
    prefix = f"kafkaproof-{time.time_ns():x}-{start}"
    return Fresh(broker, prefix=prefix, at_once=at_once, settings={}, names=topics)
