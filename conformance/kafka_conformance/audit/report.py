"""What an audit found, as `report.json` has it and the page shows it."""

from __future__ import annotations

import msgspec

from kafka_corpus.audit.joining import LogReport


class Report(msgspec.Struct, kw_only=True):
    """Everything that was found.

    Attributes:
        path: what was audited.
        now_ms: the time that timestamps were held against.
        severities: how many findings there are of each.
        logs: in the order of their paths.
    """

    path: str
    now_ms: int
    severities: dict[str, int]
    logs: list[LogReport]
