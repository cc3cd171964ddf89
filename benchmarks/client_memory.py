"""Measure what Kafka's Java client takes for inputs that ask for memory: `python -m benchmarks.client_memory`.

Each case is sent to a fresh `java-consumer`.  The figure is the kernel's high-water mark of
the JVM's resident memory (`VmHWM`) less what the JVM held before the request, in MiB.
It goes into `conformance/kafka_conformance/judge/client_memory.toml`, beside memory findings of other codecs.
"""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from kafka_conformance.judge import memory
from kafka_conformance.process.child import Child, ReadFailure, await_hello
from kafka_conformance.process.cpu_time import PROC, process_tree
from kafka_conformance.process.time_limits import TimeLimit
from kafka_conformance.runner.requests import request_for, single_line
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_conformance.testees.protocol import HelloReply
from kafka_corpus.case import Case
from kafka_corpus.vectors import load_vectors

CLIENT: Final = "java-consumer"
FILE: Final = Path(memory.__file__).with_name(memory.FILE)
# Areas and functions whose inputs ask for memory.
PATTERNS: Final = (
    "resources.*",
    "backwards.*_at_itself*",
    "history.*_reserved_unseen",
    "lz4.content_size_wrong*",
    "v2_batch.count_far_too_large*",
    "v2_batch.count_near_the_largest*",
    "v2_headers.count_above_the_bytes_left*",
    "v2_record.*_length_*",
)
SECONDS: Final = 30.0
# As of an application: with the testee's own heap, 1.5 GiB, an allocation of a gigabyte fails and takes nothing.
HEAP: Final = "4g"
GIB: Final = 1 << 30


def chosen_cases(patterns: tuple[str, ...]) -> list[Case]:
    """The cases to decode that one of *patterns* names."""
    return [
        case
        for case in load_vectors()
        if case.op == "decode" and any(fnmatchcase(case.id, pattern) for pattern in patterns)
    ]


def resident(pids: list[int], field: str) -> int:
    """Bytes that processes hold (`VmRSS`), or held at most (`VmHWM`)."""
    texts = [PROC.joinpath(str(pid), "status").read_text(encoding="ascii") for pid in pids]
    return sum(int(found[1]) * 1024 for text in texts if (found := re.search(rf"{field}:\s+(\d+) kB", text)))


def measure_case(connection: ConnectionSpec, case: Case) -> tuple[int, str]:
    """Bytes taken for *case*, and the runtime; -1 if there was no answer."""
    child = Child(connection)
    try:
        child.send(b'{"op":"hello"}\n') if not child.known else None
        hello = await_hello(child, TimeLimit(SECONDS), lambda _: None)
        assert isinstance(hello, HelloReply), hello
        jvm = process_tree(child.pid)[1:]
        before = resident(jvm, "VmRSS")
        child.send(single_line("1", request_for(case, committed=hello.committed)))
        answered = not isinstance(child.read_line(TimeLimit(SECONDS)), ReadFailure)
        return resident(jvm, "VmHWM") - before if answered else -1, hello.runtime
    finally:
        child.kill()


def main(patterns: tuple[str, ...]) -> None:
    """Measure, and write the file; a case without an answer has no figure."""
    figures, runtime = dict(memory.client_memory().cases), ""
    connection = connect(CLIENT, memory=8 * GIB)
    # This variable goes before the command line.
    connection = replace(connection, environment=(*connection.environment, ("_JAVA_OPTIONS", f"-Xmx{HEAP}")))
    cases = chosen_cases(patterns)
    for number, case in enumerate(cases, start=1):
        taken, runtime = measure_case(connection, case)
        if taken >= 0:
            figures[case.id] = -(-taken // memory.MIB)
        sys.stderr.write(f"{number} of {len(cases)}: {case.id}: {taken // memory.MIB:,} MiB\n")
    head = {"client": CLIENT, "version": memory.client_memory().version, "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    lines = [f'{name} = "{value}"' for name, value in (head | {"runtime": runtime}).items()]
    comment = (
        "# MiB of resident memory that the client took for a case; `python -m benchmarks.client_memory` measures it."
    )
    rows = [f'"{name}" = {mib}' for name, mib in sorted(figures.items())]
    FILE.write_text("\n".join([*lines, f'heap = "{HEAP}"', "", comment, "[cases]", *rows, ""]), encoding="utf-8")


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or PATTERNS)
