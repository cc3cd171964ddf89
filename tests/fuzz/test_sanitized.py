"""Targets under AddressSanitizer: a read outside of an object is a crash, whose key has the function."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from kafka_conformance.judge.observation import Crashed
from kafka_conformance.testees.recipe import BuildError, ToolchainMissing
from kafka_fuzz.executors import NoTarget, open_executor
from kafka_fuzz.targets import sanitized
from kafka_fuzz.targets.outcome import Outcome, ending_cause, sanitizer_report
from kafka_fuzz.targets.sanitized import build_sanitized, sanitizer_environment
from kafka_fuzz.triage.causes import heading_of, heading_sentence, kept_index

REPORT = """\
==7==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x6070003719e9 at pc 0x7f3a7538037b bp 0x1 sp 0x2
READ of size 4 at 0x6070003719e9 thread T0
    #0 0x7f3a00000001 in __interceptor_memcpy ../../../../src/libsanitizer/sanitizer_common/x.inc:827
    #1 0x7f3a7538037a in __pyx_f_4mine_4ints_unpack_int32 mine/codec.c:4397
    #2 0x7f3a7538037a in __pyx_f_4mine_5codec_5Batch__check_sums mine/codec.c:6425
    #3 0x7f3a75380d2f in __pyx_f_4mine_5codec_5Batch_new mine/codec.c:5831
0x6070003719e9 is located 2 bytes to the right of 40-byte region
allocated by thread T0 here:
    #0 0x7f3a77b3f9cf in __interceptor_malloc (/usr/lib/libasan.so.8+0xbb9cf)
"""


def test_the_key_of_a_report_has_its_top_frame() -> None:
    """Helpers that the compiler put into the function, and functions of the sanitizer, are not the top frame."""
    found = sanitizer_report(REPORT)

    assert found is not None
    assert found[:2] == ("AddressSanitizer heap-buffer-overflow READ", "mine.codec.Batch._check_sums")
    assert found.sentence.endswith("in mine.codec.Batch._check_sums at codec.c:6425")
    assert ending_cause(Crashed(signal=6, stderr=REPORT.replace("\n", " | "))) == found[:2]
    assert sanitizer_report("Segmentation fault") is None
    outcome = Outcome("mine", "crash", *found[:2])
    assert heading_sentence(outcome, "malformed HDR-05") == (
        "Reads outside of its memory in mine.codec.Batch._check_sums: heap-buffer-overflow"
    )


def test_findings_of_the_build_are_those_of_its_library(tmp_path: Path) -> None:
    """A finding of `aiokafka-asan` stands under aiokafka."""
    outcome = Outcome("aiokafka-asan", "crash", "AddressSanitizer SEGV READ", "aiokafka.record.f")
    assert heading_of(kept_index(tmp_path / "none"), outcome, "malformed HDR-05", b"").library == "aiokafka"


def test_without_a_compiler_the_reason_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a build nor a process is tried."""
    pytest.importorskip("aiokafka")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    with pytest.raises(ToolchainMissing, match="gcc"):
        build_sanitized("aiokafka-asan")
    with pytest.raises(NoTarget, match="gcc"), open_executor("aiokafka-asan"):
        pass


def test_without_the_library_the_reason_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """`minimise` and triage report a target whose library is not installed like any that cannot run."""

    def missing(distribution: str) -> str:
        raise PackageNotFoundError(distribution)

    monkeypatch.setattr(sanitized, "version", missing)
    with pytest.raises(NoTarget, match="aiokafka is not installed"), open_executor("aiokafka-asan"):
        pass


@pytest.mark.parametrize("fails", [False, True])
def test_a_compiler_that_does_not_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, fails: bool) -> None:
    """The build may be cached, and the compiler gone or broken since."""
    if fails:
        (tmp_path / "gcc").write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "gcc").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BuildError, match="gcc does not run"):
        sanitizer_environment(tmp_path)


# A codec that reads as many bytes of a copy of its input as the first one says.
DAMAGED = """
#include <stdlib.h>
#include <string.h>
static inline int byte_at(const unsigned char *copy, int at) { return copy[at]; }
int checksum(const unsigned char *data, int size) {
    unsigned char *copy = malloc(size);
    memcpy(copy, data, size);
    int sum = 0;
    for (int at = 0; at < data[0] % 64; at++) sum += byte_at(copy, at);
    free(copy);
    return sum;
}
"""
# A fork server whose target is that codec; prints the keys of its findings.
CAMPAIGN = """
import ctypes, json, sys
from dataclasses import replace
from pathlib import Path
from kafka_fuzz.campaign import fork_worker
from kafka_fuzz.campaign.plan import RoundPlan
from kafka_fuzz.targets.base import TargetResult

codec = ctypes.CDLL(sys.argv[2])

def check(mutant):
    codec.checksum(bytes([63]) + mutant.data[:20], 1 + len(mutant.data[:20]))
    return TargetResult("ok")

plan = RoundPlan(target="explain", directory=Path(sys.argv[1]), seed=1, number=0, cpu_seconds=0.5)
made = fork_worker.open_fork_server(plan, lambda _: None)
made.target = replace(made.target, check=check)
made.run()
print(json.dumps([made.failure, sorted(made.findings.findings)]))
"""


def run_damaged(folder: Path, environment: dict[str, str], *flags: str) -> list[object]:
    """The failure of a short round of the damaged codec, and the keys of its findings."""
    folder.mkdir()
    (folder / "codec.c").write_text(DAMAGED)
    library = folder / "codec.so"
    command = ["gcc", "-g", "-O1", *flags, "-shared", "-fPIC", "-o", str(library), str(folder / "codec.c")]
    subprocess.run(command, check=True)
    ended = subprocess.run(
        [sys.executable, "-c", CAMPAIGN, str(folder), str(library)],
        capture_output=True, text=True, env=environment, timeout=120, check=True,
    )  # fmt: skip
    found: list[object] = json.loads(ended.stdout)
    return found


@pytest.mark.testees
def test_a_damaged_build_is_found_under_the_sanitizer_alone(tmp_path: Path) -> None:
    """A read after the end of a copy on the heap is a crash with its function; the plain build does not show it."""
    try:
        environment = sanitizer_environment(tmp_path)
    except (BuildError, OSError) as error:
        pytest.skip(f"no AddressSanitizer: {error}")

    checked = run_damaged(tmp_path / "asan", environment, "-fsanitize=address")
    plain = run_damaged(tmp_path / "plain", dict(os.environ))

    assert checked == ["", ["explain|crash|AddressSanitizer heap-buffer-overflow READ|checksum"]]
    assert plain == ["", []]
