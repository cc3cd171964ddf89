"""Testees that Hypothesis makes of everything that a process can do: the run ends, loses no case and leaves nothing."""

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from tests.conformance.conftest import SCRIPT
from tests.conformance.test_detached_processes import DETACH

from kafka_conformance.process.cpu_time import is_zombie
from kafka_conformance.process.descendants import children
from kafka_conformance.runner.run import RunPlan, run
from kafka_conformance.testees.connection import MIB, CannotRun, ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_corpus.case import Case

# What a testee may do before it says hello, or to a case, in the testee's own Python.  `garbage` and `id` are there.
DEEDS = {
    "output": (
        "pass",
        "sys.stdout.write('::error ::x\\n')",
        "sys.stdout.buffer.write(bytes(range(256)) * 9 + b'\\n')",
        "sys.stdout.write('[' * 100000 + '\\n')",
        "sys.stdout.write('{\"id\": \"1\", \"batches\": [')",
        "sys.stdout.write('x\\n' * 20000)",
        "sys.stderr.write('\\x1b[2J::error ::x\\n' * 5000)",
        "reply(id=[[]], batches=7)",
        "reply(id=id, error=dict(kind='x' * 5000, message='\\x1b[31m'))",
        "reply(id=id, skipped='<script>')",
        "reply(id=id, many=[])",
        "reply(id='1', batches=[])",
        "sys.stdout.write('{\"id\": \"1\", \"batches\": [], \"x\": NaN, \"x\": 1e999}\\n')",
    ),
    "streams": ("os.close(0)", "os.close(1)", "os.close(2)", "os.dup2(1, 0)", "os.set_blocking(1, False)"),
    "signals": (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)",
        "os.kill(os.getpid(), signal.SIGSEGV)",
        "os.kill(os.getpid(), signal.SIGKILL)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
        "os.killpg(0, signal.SIGTERM)",
        "os.abort()",
    ),
    "ends": ("os._exit(0)", "os._exit(255)", "sys.exit('bye')", "raise RecursionError", "1 / 0"),
    "children": (
        "detach({left!r})",
        "os.fork()",
        "subprocess.Popen(['sleep', '300'])",
        "subprocess.Popen(['sleep', '300'], start_new_session=True)",
        "[detach({left!r}) for _ in range(4)]",
        "os.setsid() if os.fork() else time.sleep(300)",
        "__import__('ctypes').CDLL(None).prctl(36, 0, 0, 0, 0); detach({left!r})",
        "__import__('threading').Thread(target=time.sleep, args=(300,), daemon=True).start()",
    ),
    "files": (
        "os.chdir('/')",
        "os.umask(0o777)",
        "open({folder!r} + '/x', 'wb').write(b'x' * 100000)",
        "os.mkfifo({folder!r} + '/fifo' + str(time.time()))",
        "os.symlink('/dev/zero', {folder!r} + '/link' + str(time.time()))",
    ),
    "memory": (
        "held = b'x' * (400 << 20)",
        "held = bytearray(1 << 40)",
        "detach({left!r}, lambda: b'x' * (300 << 20))",
    ),
    "time": ("time.sleep(300)", "exec('while True: pass')", "time.sleep(0.2)"),
    "descriptors": (
        "[os.open('/dev/null', 0) for _ in range(900)]",
        "[os.pipe() for _ in range(400)]",
        "for n in range(3, 64):\n    try: os.write(n, b'garbage 7\\n')\n    except OSError: pass",
        "__import__('resource').setrlimit(7, (3, 3))",
    ),
}  # fmt: skip
LONG = pytest.mark.timeout(600)
deeds = st.sampled_from(sorted(DEEDS)).flatmap(lambda kind: st.sampled_from(DEEDS[kind]))
testees: st.SearchStrategy[dict[str, object]] = st.builds(
    dict,
    setup=st.lists(deeds, max_size=1) | st.just([]),
    deeds=st.lists(st.tuples(st.integers(0, 5), deeds), min_size=1, max_size=3),
    answers=st.booleans(),
    many=st.booleans(),
)


def hostile(folder: Path, plan: dict[str, object]) -> ConnectionSpec:
    """The testee of *plan*: each deed at the case of its number."""

    def filled(deed: str) -> str:
        return deed.replace("{left!r}", repr(str(folder / "left"))).replace("{folder!r}", repr(str(folder)))

    setup = DETACH.format() + "at = 0\nid = '1'\n"
    setup += "".join(f"{filled(deed)}\n" for deed in plan["setup"])  # type: ignore[attr-defined]  # a list
    body = "        at += 1\n"
    for at, deed in plan["deeds"]:  # type: ignore[attr-defined]  # pairs
        body += f"        if at == {at + 1}:\n{indent(filled(deed), ' ' * 12)}\n"
    body += "        reply(id=id, batches=[])\n" if plan["answers"] else ""
    path = folder / "testee.py"
    many = "many=True" if plan["many"] else ""
    path.write_text(SCRIPT.format(body=body, hello=many, setup=setup), encoding="utf-8")
    spec = connect(f"process:{sys.executable} -S -E {path}")
    return replace(spec, memory=200 * MIB, hello_seconds=1.0, seconds=0.2)


def of_run(folder: Path) -> list[str]:
    """Commands of living processes that were started with a file in *folder*."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:
            continue
        if str(folder).encode() in words:
            found.append(words.decode("utf-8", "replace"))
    return found


def living() -> set[int]:
    """Children of this process that have not ended."""
    return {pid for pid in children() if not is_zombie(pid)}


def descriptors() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def attack(folder: Path, cases: list[Case], plan: dict[str, object]) -> None:
    """Run the testee of *plan*, and look at what it left."""
    folder.mkdir()
    before = living()
    path = folder / "result.ndjson"
    try:
        found = run(RunPlan(connection=hostile(folder, plan), cases=cases, corpus="0" * 64, path=path, jobs=2))
    except CannotRun:
        found = None

    if found is not None:
        assert found.complete
        assert sorted(line.case for line in found.lines) == sorted(case.id for case in cases)
    assert of_run(folder) == []
    assert living() <= before
    folder.rename(folder.with_name(f"done-{folder.name}"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "number_of_seed"),
    [
        pytest.param(6, 20, id="a few"),
        *(pytest.param(20, 21 + part, id=f"part {part}", marks=LONG) for part in range(4)),
    ],
)
def test_hostile_testees(
    tmp_path: Path, small_cases: Callable[[], list[Case]], count: int, number_of_seed: int
) -> None:
    """Every case has a line, no exception but `CannotRun` comes out, and no process, descriptor or child is left."""
    cases, number = small_cases(), iter(range(10 * count))

    @seed(number_of_seed)
    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), derandomize=False,
    )  # fmt: skip
    @given(testees)
    def each(plan: dict[str, object]) -> None:
        attack(tmp_path / str(next(number)), cases, plan)

    before = descriptors()
    each()
    assert next(number) >= count
    # Hypothesis and the run's threads may keep some open; each of the testees would add some.
    assert descriptors() <= before + 2


@pytest.fixture
def small_cases() -> Callable[[], list[Case]]:
    """Eight small decode cases of the smoke test's."""
    from kafka_conformance.runner.smoke import sample_case

    return lambda: [replace(sample_case(2, base_offset=at), id=f"hostile.case[{at}]") for at in range(8)]
