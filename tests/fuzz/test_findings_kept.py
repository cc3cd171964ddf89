"""Every finding of an in-process target is on disk when its round is over, whatever kind of outcome it is."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from kafka_fuzz.targets import NAMES
from kafka_fuzz.targets.base import TooLong, guard
from kafka_fuzz.targets.outcome import CLASSES, GOOD

PLANTED = Path(__file__).with_name("planted_findings.py")
PROMISES = {
    "roundtrip": {"wrong_data"},
    "explain": {"wrong_data"},
    "append": {"wrong_data"},
    "convert": set(),
    "decompress": {"memory promise"},
}
ANYWHERE = {"leaked_exception", "memory", "hang", "crash", "amplification"}
OF_CODECS = {"wrong_data", "accepts_invalid", "rejects_valid"}


@pytest.mark.slow
@pytest.mark.timeout(600)  # a dozen campaigns, each of processes that crash or hang
@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is counted in KiB there")
@pytest.mark.parametrize("name", NAMES)
def test_each_kind_of_finding_is_on_disk(tmp_path: Path, name: str) -> None:
    """An outcome of each kind, each defect that a target can have, and a leak that shows only once."""
    if "kafka" in name:
        pytest.importorskip(name.removesuffix("-pure").replace("-python", ""))
    command = [sys.executable, str(PLANTED), name, str(tmp_path)]
    kept = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)

    for kind in CLASSES:
        assert kept.pop(f"said {kind}") == ([] if kind in GOOD else [kind])
    assert kept.pop("flaky") == ["leaked_exception"]
    assert kept.keys() == ANYWHERE | PROMISES.get(name, OF_CODECS)
    lost = {label: kinds for label, kinds in kept.items() if label.removesuffix(" promise") not in kinds}
    assert lost == {}


def interrupted(call: Callable[[], object], number: signal.Signals, moment: int) -> bool:
    """Raise signal *number* at one *moment* in *call* at which Python handles signals; whether there was such a moment.

    Python handles signals when a function starts and when one that is written in C returns.
    """
    left = moment

    def count(_frame: FrameType, event: str, _given: object) -> None:
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left == 0:
                signal.raise_signal(number)

    sys.setprofile(count)
    try:
        call()
    finally:
        sys.setprofile(None)
    return left <= 0


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGVTALRM, TooLong), (signal.SIGINT, KeyboardInterrupt)], ids=["tick", "ctrl-c"]
)
def test_the_clock_is_off_after_the_call(number: signal.Signals, raised: type[BaseException]) -> None:
    """Whenever a tick or Ctrl-C comes, the clock is off afterwards, and no later tick raises `TooLong` elsewhere."""
    guard(1000.0).call(int)  # the signal is the guard's from now on
    raising = []
    moment = 0
    there = True
    while there:
        moment += 1
        try:
            there = interrupted(lambda: guard(1000.0).call(len, b""), number, moment)
        except raised:
            raising.append(moment)
        assert signal.getitimer(signal.ITIMER_VIRTUAL) == (0.0, 0.0)
        assert guard.current is None
        signal.raise_signal(signal.SIGVTALRM)
    assert raising


# A worker that gets a tick of the guard's clock at another moment after each input, and its count of inputs.
TICKING = """
import json, signal, sys
from dataclasses import replace
from pathlib import Path
from kafka_fuzz.campaign import fork_worker
from kafka_fuzz.campaign.plan import RoundPlan
from kafka_fuzz.targets.base import TargetResult

inputs = 0

def ask(mutant):
    global inputs
    inputs += 1
    left = inputs % MOMENTS

    def count(frame, event, given):
        nonlocal left
        if event in ("call", "c_return"):
            left -= 1
            if left == 0:
                ring()

    sys.setprofile(count)
    return TargetResult("ok")

def ring():
    for _ in range(64):  # more ticks than the limit of an input has
        signal.raise_signal(signal.SIGVTALRM)

MOMENTS = 64
plan = RoundPlan(
    target="aiokafka-pure", directory=Path(sys.argv[1]), seed=1, cpu_seconds=float("inf"), executions=640
)
made = fork_worker.open_fork_server(plan, lambda _: None)
made.target = replace(made.target, check=ask)
skips = made.skips.skips

def ticks_again(mutant):
    if signal.getitimer(signal.ITIMER_VIRTUAL)[0]:  # it runs between two inputs, and rings sooner or later
        ring()
    return skips(mutant)

made.skips.skips = ticks_again
made.run()
print(json.dumps([made.restarts, made.failure, made.box.progress().executions]))
"""


@pytest.mark.slow
def test_a_round_survives_ticks_at_any_moment(tmp_path: Path) -> None:
    """A tick that comes when an input is just over ends no round."""
    pytest.importorskip("aiokafka")
    command = [sys.executable, "-c", TICKING, str(tmp_path)]
    restarts, failure, executions = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
    assert (restarts, failure) == (0, "")
    assert executions >= 640
