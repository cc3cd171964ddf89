"""Former names of files and fields of campaigns, which are still read."""

from __future__ import annotations

from typing import Final

# Fields of known.toml, by the former name of its table.
KNOWN_FINDINGS: Final = {
    "known": {"target": "testee", "about": "reason", "lies": "faults", "canary": "reproducer", "asked": "mode"}
}
# The file of replay results.
REPLAYS: Final = "canaries.json"
# Fields of findings, of the log, of the list of triage, and of the reach of findings.
FIELDS: Final = {
    "asked": "mode",
    "vector": "outcomes",
    "finds": "findings",
    "finds_new": "new_findings",
    "told": "result",
    "lie": "fault",
}


def with_current_fields(data: bytes) -> bytes:
    """Lines of compact JSON in which former names of fields are replaced.

    A string in JSON never holds an unescaped quote, so that only keys are replaced.

    >>> with_current_fields(b'{"asked":"encode","why":"\\\\"asked\\\\":"}')
    b'{"mode":"encode","why":"\\\\"asked\\\\":"}'
    """
    for former, name in FIELDS.items():
        data = data.replace(f'"{former}":'.encode(), f'"{name}":'.encode())
    return data
