"""The end of a process is charged to a request, repeated before it is trusted, or charged to no request."""

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.misbehaving import ANSWERED, BAD, FINE, REPLY, SHORT, Make, Script, misbehaving

from kafka_conformance.judge.observation import Crashed, Decoded, Exceeded, Hung, Observation
from kafka_conformance.process.child import GRACE
from kafka_conformance.runner.requests import PROVEN, CaseRequest, TimedObservation
from kafka_conformance.testees.connection import MIB

THREAD = "threading.Thread(target=time.sleep, args=[99], daemon=True).start()"


# It holds more than half of its memory, long enough to be seen, and ends as runtimes do that get no more.
GREEDY = 'held = b"x" * (320 << 20); time.sleep(0.2); os.write(2, b"out of memory\\n"); os._exit(2)'


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "starts"),
    [
        ("os._exit(3)", 1),
        ("os.write(2, b'panic: index 7\\n'); os._exit(2)", 1),
        # Without a word: memory that an earlier case has spoilt ends a process like that.
        ("os.kill(os.getpid(), signal.SIGSEGV)", 2),
        # What it keeps of earlier cases may be what there was no room for.
        (GREEDY, 2),
        # What an earlier case began may end a process of several threads at any time.
        (f"{THREAD}; os._exit(2)", 2),
    ],
)
def test_a_death_like_those_that_counted_is_believed(what: str, starts: int, script: Script, sandbox: Make) -> None:
    """A request is not repeated after a crash whose signature several fresh processes had."""
    setup = f"import threading, time\n{THREAD if 'Thread' in what else ''}"
    made = sandbox(replace(script(misbehaving(what), setup=setup), memory=512 * MIB))
    first = [list(made.ask([FINE, BAD, FINE])) for _ in range(PROVEN)]
    before = made.tally.starts
    last = list(made.ask([FINE, BAD, FINE]))

    assert all(list(map(without_size, row)) == list(map(without_size, last)) for row in first)
    assert (before, made.tally.starts - before) == (1 + 2 * PROVEN, starts)


def without_size(answer: TimedObservation) -> Observation:
    """The observation without the number of bytes taken, which varies."""
    seen = answer.observation
    return replace(seen, taken=0) if isinstance(seen, Exceeded) else seen


@pytest.mark.slow
def test_a_death_that_was_not_its_own_is_never_believed(script: Script, sandbox: Make, tmp_path: Path) -> None:
    """Once a question is answered that seemed to end a process, nothing is believed that ends with such words."""
    after = f"if data == b'after':\n    if not os.path.exists({str(tmp_path / 'x')!r}):\n"
    after += f"        open({str(tmp_path / 'x')!r}, 'w').close(); os._exit(1)\n"
    made = sandbox(script(after + misbehaving("os._exit(1)")))
    seemed = list(made.ask([FINE, CaseRequest(b"after"), FINE]))
    for _ in range(PROVEN):
        list(made.ask([FINE, BAD, FINE]))
    before = made.tally.starts
    crashed = list(made.ask([FINE, BAD, FINE]))

    assert [each.observation for each in seemed] == [ANSWERED] * 3
    assert crashed[1].observation == Crashed(exit_code=1)
    assert made.tally.starts - before == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("os._exit(3)", ["ended with exit code 3"]),
        ("os.kill(os.getpid(), signal.SIGSEGV)", ["ended by signal 11"]),
        ("os._exit(0)", []),
        ("os.kill(os.getpid(), signal.SIGKILL)", []),
    ],
)
def test_a_crash_after_the_last_answer_is_counted(end: str, said: list[str], script: Script, sandbox: Make) -> None:
    """A process that dies when it has answered everything is counted, with its words, unless others killed it."""
    made = sandbox(script(f"{REPLY}\nif data == b'bad': {end}"))
    answers = list(made.ask([FINE, BAD]))
    made.close()

    assert [answer.observation for answer in answers] == [ANSWERED] * 2
    assert made.tally.late_ends == len(said)
    assert made.tally.first_late_end == "".join(said)


def test_an_end_between_two_answers_is_seen(script: Script, sandbox: Make) -> None:
    """Where a process dies of a question that it has answered, the next one is answered by another, and not blamed."""
    made = sandbox(script(f"{REPLY}\nif data == b'bad': os._exit(3)"))
    answers = list(made.ask([FINE, BAD, FINE, FINE]))
    made.close()

    assert [answer.observation for answer in answers] == [ANSWERED] * 4
    assert (made.tally.late_ends, made.tally.first_late_end) == (1, "ended with exit code 3")


@pytest.mark.slow
def test_an_end_that_is_reported_late(script: Script, sandbox: Make) -> None:
    """A process that has ended is Crashed with its exit code, however late the process that made it says so."""
    made = sandbox(script(misbehaving("os._exit(3)")))
    made.hello()
    server = made._starter._server
    assert server is not None
    os.kill(server._popen.pid, signal.SIGSTOP)
    later = threading.Timer(2 * GRACE, os.kill, (server._popen.pid, signal.SIGCONT))
    later.start()
    answer = next(made.ask([BAD]))
    later.join()

    assert (answer.observation, answer.deaths) == (Crashed(exit_code=3), 1)


def test_an_ordinary_end_is_none_of_these(script: Script, sandbox: Make) -> None:
    """A process that ends when its input does, or has to be ended, has no late end."""
    for setup in ("", "signal.signal(signal.SIGTERM, signal.SIG_IGN)"):
        made = sandbox(script(REPLY, setup=setup))
        list(made.ask([FINE]))
        made.close()
        assert made.tally.late_ends == 0


# Like what Node does with a pipe that is full: the rest of a long reply goes out when nothing else is in hand.
SLOW_PIPE = """
import threading
rest = []
def flush():
    while rest:
        os.write(1, rest.pop())
"""
LONG = """
if data == b'long':
    whole = (json.dumps(dict(id=id, batches=[])) + "\\n").encode()
    os.write(1, whole[:9])
    rest.append(whole[9:])
    threading.Timer(0.05, flush).start()
    continue
if data == b'bad':
    rest.clear()
    {what}
"""


@pytest.mark.parametrize(
    ("what", "kind", "times"),
    [pytest.param("time.sleep(99)", Hung, 1, marks=pytest.mark.slow), ("os._exit(3)", Crashed, PROVEN)],
)
def test_who_has_begun_to_answer_is_not_to_blame(
    what: str, kind: type, times: int, script: Script, sandbox: Make
) -> None:
    """If a reply stops halfway, the next request is charged, and the first request is repeated alone."""
    made = sandbox(script(LONG.format(what=what) + REPLY, setup=SLOW_PIPE), SHORT)
    first = [type(answer.observation) for answer in made.ask([BAD, FINE] * times)]
    then = [type(answer.observation) for answer in made.ask([CaseRequest(b"long"), BAD, FINE])]

    assert first == [kind, Decoded] * times
    assert then == [Decoded, kind, Decoded]


@pytest.mark.slow
@pytest.mark.parametrize(("keeps", "quick", "starts"), [(0, False, 2), (80, False, 4), (0, True, 4)])
def test_one_death_over_a_heavy_question_is_enough(
    keeps: int, quick: bool, starts: int, script: Script, sandbox: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A heavy request is not repeated after memory ran out: the process was fresh or held little."""
    monkeypatch.setattr("kafka_conformance.runner.sandbox.QUICK", 99.0 if quick else 0.0)
    connection = replace(
        script(misbehaving(GREEDY), setup=f"import time\nkept = b'x' * ({keeps} << 20)"), memory=512 * MIB
    )
    made = sandbox(connection)
    fine, greedy = (replace(each, heavy=True, fresh=True) for each in (FINE, BAD))
    answers = [next(made.ask([each])) for each in (FINE, fine, greedy, FINE)]

    assert [answer.deaths for answer in answers] == [0, 0, 1, 0]
    assert isinstance(answers[2].observation, Exceeded)
    assert made.tally.starts == starts


@pytest.mark.slow
@pytest.mark.parametrize(("quick", "starts"), [(True, 3), (False, 1)])
def test_a_claim_goes_to_a_fresh_process(
    quick: bool, starts: int, script: Script, sandbox: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory of earlier cases has no part in what a claim takes, unless a start is slow."""
    monkeypatch.setattr("kafka_conformance.runner.sandbox.QUICK", 99.0 if quick else 0.0)
    made = sandbox(script(misbehaving(GREEDY)))
    claim = replace(FINE, fresh=True)
    answers = [next(made.ask([each])) for each in (claim, FINE, claim, claim)]

    assert [answer.deaths for answer in answers] == [0] * 4
    assert made.tally.starts == starts
