"""Real child processes that misbehave: each is an observation, and the next case is answered."""

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conformance.misbehaving import ANSWERED, BAD, FINE, REPLY, SHORT, Make, Script, misbehaving

from kafka_conformance.judge.observation import Crashed, Decoded, Exceeded, Garbled, Hung, NotSent
from kafka_conformance.runner.requests import MAX_UNANSWERED, CaseRequest
from kafka_conformance.runner.sandbox import NOT_SENT
from kafka_conformance.testees.connection import CannotRun, NoHello
from kafka_conformance.testees.protocol import MAX_LINE


def test_questions_are_answered(script: Script, sandbox: Make) -> None:
    """A testee that behaves is started once and answers everything."""
    made = sandbox(script(REPLY))
    answers = list(made.ask([FINE] * 40))

    assert [answer.observation for answer in answers] == [ANSWERED] * 40
    assert (made.tally.starts, made.tally.strays) == (1, 0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("os._exit(3)", Crashed(exit_code=3)),
        ("os.kill(os.getpid(), signal.SIGSEGV)", Crashed(signal=signal.SIGSEGV)),
        ("os.kill(os.getpid(), signal.SIGKILL)", Crashed(signal=signal.SIGKILL)),
        ("os._exit(128 + 9)", Crashed(signal=signal.SIGKILL, exit_code=137)),
        ("os.write(2, b'panic: \\x1b[2J at ' + b'x' * 99); os._exit(2)",
         Crashed(exit_code=2, stderr=r"panic: \x1b[2J at " + "x" * 99)),
    ],
)  # fmt: skip
def test_a_crash_is_observed(what: str, expected: Crashed, script: Script, sandbox: Make) -> None:
    """A process that ends is Crashed, with signal or exit code and its standard error; the next case is answered."""
    made = sandbox(script(misbehaving(what)))
    before, crashed, after = (next(made.ask([question])) for question in (FINE, BAD, FINE))

    assert [before.observation, crashed.observation, after.observation] == [ANSWERED, expected, ANSWERED]
    # Once in the process that had answered before, once more in a fresh one.
    assert crashed.deaths == 2


@pytest.mark.slow
def test_a_hang_is_observed(script: Script, sandbox: Make) -> None:
    """No answer within the limit is Hung; the next case is answered."""
    made = sandbox(script(misbehaving("time.sleep(60)")), SHORT)
    hung, after = (next(made.ask([question])).observation for question in (BAD, FINE))

    assert isinstance(hung, Hung)
    assert SHORT <= hung.seconds < 60
    assert after == ANSWERED
    assert made.tally.waited == hung.seconds


def test_a_deadlock_reported_by_go_is_a_hang(script: Script, sandbox: Make) -> None:
    """Go's runtime ends a program in which nothing can go on, which is a hang known at once and no crash."""
    said = "fatal error: all goroutines are asleep - deadlock!"
    made = sandbox(script(misbehaving(f"os.write(2, b'{said}'); os._exit(2)")))
    before, hung, after = (next(made.ask([question])) for question in (FINE, BAD, FINE))

    assert [before.observation, hung.observation, after.observation] == [ANSWERED, Hung(0.0, said), ANSWERED]
    assert hung.deaths == 2


@pytest.mark.slow
def test_a_busy_loop_hangs_too(script: Script, sandbox: Make) -> None:
    """A process that works for ever is not taken for one that waits for the processor."""
    made = sandbox(script(misbehaving("\n    while True: pass")), SHORT)

    assert isinstance(next(made.ask([BAD])).observation, Hung)


def test_stray_lines_do_not_matter(script: Script, sandbox: Make) -> None:
    """Prints before, after and in front of a reply are counted and skipped."""
    body = "print('DEBUG')\nprint('half a line... ', end='')\nreply(id='999', batches=[])\n" + REPLY + "\nprint('done')"
    made = sandbox(script(body))
    answers = list(made.ask([FINE] * 10))

    assert [answer.observation for answer in answers] == [ANSWERED] * 10
    assert made.tally.starts == 1
    assert made.tally.strays >= 28
    assert made.tally.first_stray == "DEBUG"


@pytest.mark.slow
def test_lines_instead_of_a_reply_are_garbage(script: Script, sandbox: Make) -> None:
    """Something that is printed in place of a reply is Garbled, not Hung."""
    made = sandbox(script(misbehaving("print('what?'); sys.stdout.flush(); continue")), SHORT)
    garbled, after = (next(made.ask([question])).observation for question in (BAD, FINE))

    assert isinstance(garbled, Garbled)
    assert "what?" in garbled.why
    assert after == ANSWERED


def test_a_reply_of_another_shape_is_garbage(script: Script, sandbox: Make) -> None:
    """A reply to the right question that is none of ours is Garbled at once."""
    made = sandbox(script(misbehaving("reply(id=id, batches=17); continue")))
    garbled, after = (next(made.ask([question])) for question in (BAD, FINE))

    assert isinstance(garbled.observation, Garbled)
    assert "$.batches" in garbled.observation.why
    assert garbled.seconds < made.seconds
    assert after.observation == ANSWERED


def test_a_line_without_end_is_cut(script: Script, sandbox: Make) -> None:
    """A line of 100 MB is not read to its end; the next case is answered."""
    flood = "block = 'x' * 1_000_000\n    for _ in range(100): sys.stdout.write(block)"
    made = sandbox(script(misbehaving(flood)), seconds=5)
    exceeded, after = (next(made.ask([question])).observation for question in (BAD, FINE))

    assert isinstance(exceeded, Exceeded)
    assert f"{MAX_LINE >> 20} MiB" in exceeded.what
    assert after == ANSWERED


def test_printing_without_reading_does_not_block(script: Script, sandbox: Make) -> None:
    """A testee that writes a megabyte before it reads on meets a runner that reads while it writes."""
    made = sandbox(script("for _ in range(100): print('y' * 10_000)\n" + REPLY), seconds=10)
    answers = list(made.ask([CaseRequest(b"z" * 20_000)] * 16))

    assert [answer.observation for answer in answers] == [ANSWERED] * 16


@pytest.mark.slow
def test_a_closed_standard_output_is_a_crash(script: Script, sandbox: Make) -> None:
    """A process that closes its standard output and lives on is Crashed, and ended."""
    made = sandbox(script(misbehaving("os.close(1); time.sleep(60)")))
    crashed = next(made.ask([BAD])).observation

    assert isinstance(crashed, Crashed)
    assert "closed its standard output" in crashed.stderr
    assert next(made.ask([FINE])).observation == ANSWERED


@pytest.mark.slow
def test_children_of_a_testee_are_ended_with_it(
    script: Script, sandbox: Make, tmp_path: Path, gone: Callable[[int], bool]
) -> None:
    """When a testee is replaced, what it started is gone too."""
    note = tmp_path / "pid"
    start = f"open({str(note)!r}, 'w').write(str(subprocess.Popen(['sleep', '60']).pid)); time.sleep(60)"
    made = sandbox(script(misbehaving(start)), seconds=1)

    assert isinstance(next(made.ask([BAD])).observation, Hung)
    assert gone(int(note.read_text()))


def test_an_orphan_that_holds_the_pipe_does_not_hide_a_crash(script: Script, sandbox: Make) -> None:
    """A testee that ends is Crashed even if a child of its own keeps its standard output open."""
    made = sandbox(script(misbehaving("subprocess.Popen(['sleep', '60']); os._exit(4)")), seconds=5)

    assert next(made.ask([BAD])).observation == Crashed(exit_code=4)


def test_a_kill_from_outside_is_retried(script: Script, sandbox: Make, tmp_path: Path) -> None:
    """If a testee is killed from outside, its request is sent again, and the answer counts."""
    note = tmp_path / "pid"
    wait = f"if not os.path.exists({str(note)!r}): open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    made = sandbox(script(misbehaving(wait)), seconds=10)

    def kill() -> None:
        while not (note.exists() and note.read_text()):
            time.sleep(0.01)
        os.kill(int(note.read_text()), signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()
    answered = next(made.ask([BAD]))
    killer.join()

    assert answered.observation == ANSWERED
    assert answered.deaths == 1
    assert made.tally.starts == 2


def test_killed_between_questions(script: Script, sandbox: Make, tmp_path: Path) -> None:
    """A testee that is killed between requests is replaced, and no answer is lost."""
    note = tmp_path / "pid"
    made = sandbox(script(REPLY, setup=f"open({str(note)!r}, 'w').write(str(os.getpid()))"))
    next(made.ask([FINE]))
    os.kill(int(note.read_text()), signal.SIGKILL)

    assert [answer.observation for answer in made.ask([FINE] * 8)] == [ANSWERED] * 8


@pytest.mark.parametrize("hello", ["", "many=True"])
@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("os._exit(1)", Crashed),
        pytest.param("time.sleep(60)", Hung, marks=pytest.mark.slow),
        ("reply(id=id, batches=17)", Garbled),
    ],
)
def test_the_guilty_case_is_found(what: str, kind: type, hello: str, script: Script, sandbox: Make) -> None:
    """Of many requests that are sent together, only those that crash the testee are charged."""
    many = "\nif 'many' in request:\n    continue\n"
    body = misbehaving(f"{what}; continue")
    last = "if request.get('many') and data == b'last': reply(id=id, many=[dict(batches=[])] * len(request['many']))"
    made = sandbox(
        script(f"if data == b'bad':\n    {what}; continue\n{last}{many}{REPLY}" if hello else body, hello=hello), SHORT
    )
    questions = [FINE, FINE, BAD, FINE, FINE, BAD, FINE, CaseRequest(b"last")]
    observations = [answer.observation for answer in made.ask(questions)]

    assert [type(observation) for observation in observations] == [
        Decoded, Decoded, kind, Decoded, Decoded, kind, Decoded, Decoded,
    ]  # fmt: skip


def test_many_are_one_line(script: Script, sandbox: Make) -> None:
    """A testee that announces `many` gets all questions in one line."""
    answer = "if data == b'last': reply(id=id, many=[dict(batches=[])] * len(request['many']))"
    made = sandbox(script(answer, hello="many=True"))

    assert [each.observation for each in made.ask([FINE] * 9 + [CaseRequest(b"last")])] == [ANSWERED] * 10


def test_crashes_in_a_row_cost_one_start_each(script: Script, sandbox: Make) -> None:
    """A process that had done nothing before needs no second death to be believed."""
    made = sandbox(script(misbehaving("os._exit(1)")))
    answers = list(made.ask([BAD] * 6))

    assert [answer.observation for answer in answers] == [Crashed(exit_code=1)] * 6
    assert made.tally.starts <= 7


def test_calibration_keeps_the_process_fresh(script: Script, sandbox: Make) -> None:
    """A process that has answered only trivial requests counts as fresh: one crash over a request is enough."""
    made = sandbox(script(misbehaving("os._exit(1)")))
    made.calibrate([b"a", b"b", b"c"])
    answer = next(made.ask([BAD]))

    assert answer.observation == Crashed(exit_code=1)
    assert answer.deaths == 1
    assert made.tally.starts == 1


@pytest.mark.slow
def test_lines_that_a_testee_loses_are_no_hangs(script: Script, sandbox: Make) -> None:
    """A testee that drops input which arrives before its reply gets its requests one by one."""
    made = sandbox(script("time.sleep(0.05)\nos.read(0, 65536) if select.select([0], [], [], 0)[0] else None\n" + REPLY,
                          setup="import select\nsys.stdin = open(0, buffering=1)"), SHORT)  # fmt: skip

    assert [answer.observation for answer in made.ask([CaseRequest(b"x" * 9000)] * 6)] == [ANSWERED] * 6
    assert made.tally.starts == 2


@pytest.mark.slow
def test_a_testee_that_never_answers_is_given_up(script: Script, sandbox: Make) -> None:
    """After a few requests without any answer the rest are not sent."""
    made = sandbox(script("pass"))
    made.calibrate([b"a", b"b"], most=0.3)
    observations = [answer.observation for answer in made.ask([FINE] * 20)]

    assert isinstance(observations[0], Hung)
    assert observations[MAX_UNANSWERED:] == [NotSent(NOT_SENT)] * (20 - MAX_UNANSWERED)
    other = next(made.another().ask([FINE])).observation
    assert other == NotSent(NOT_SENT)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "hello", "said"),
    [
        ("sys.exit('no such library')", "", "no such library"),
        ("", "protocol=2", "protocol 2"),
        ("os.kill(os.getpid(), signal.SIGABRT)", "", "signal 6"),
    ],
)
def test_no_hello_is_no_run(setup: str, hello: str, said: str, script: Script, sandbox: Make) -> None:
    """A testee that does not say hello cannot be run, and the error has the reason."""
    with pytest.raises(CannotRun, match=said):
        sandbox(script(REPLY, setup=setup, hello=hello)).hello()


SOON_GIVEN_UP = 0.4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("setup", "said"),
    [
        ("time.sleep(60)", r"no reply to hello within 0 s"),
        ("print('Up\\x1b[31m: port 80', flush=True); time.sleep(60)", r"first line was 'Up.*: port 80'"),
        ("while True: print('tick', flush=True); time.sleep(0.01)", "first line was 'tick'"),
        ("print('usage: me FILE', flush=True); sys.exit()", "exit code 0; its first line was 'usage: me FILE'"),
        ("while True: pass", "no reply to hello within 0 s"),
    ],
)
def test_a_testee_without_hello_is_given_up_at_once(setup: str, said: str, script: Script, sandbox: Make) -> None:
    """A program that does not speak the protocol is started once; the error quotes its first line."""
    connection = replace(script(REPLY, setup=setup), hello_seconds=SOON_GIVEN_UP)
    made = sandbox(connection)
    with pytest.raises(NoHello, match=said) as raised:
        made.hello()

    assert made.tally.starts == 1
    assert raised.value.exit_code == 2
    assert str(raised.value).isprintable()


@pytest.mark.slow
def test_loading_code_is_no_silence(script: Script, sandbox: Make) -> None:
    """A testee that works and takes memory has more time for hello than one that is silent."""
    # 64 MiB for each second of CPU time, on any machine.
    grow = "kept += [bytearray(1 << 16)] * (len(kept) < spent * 1024)"
    work = f"while (spent := time.process_time() - began) < 0.6:\n    {grow}"
    load = f"kept, began = [], time.process_time()\n{work}"
    made = sandbox(replace(script(REPLY, setup=load), hello_seconds=SOON_GIVEN_UP))

    assert made.hello().name == "script"
