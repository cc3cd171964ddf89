"""A find that was folded, as programs read it."""

from __future__ import annotations

from typing import Any

from kafka_fuzz.triage.draft import title
from kafka_fuzz.triage.folding import Folded


def document(find: Folded) -> dict[str, Any]:
    """A find for programs."""
    return {
        "name": find.name,
        "key": find.key,
        "keys": find.keys,
        "state": find.state,
        "known_by": find.known_by,
        "cause": find.cause,
        "severity": find.severity,
        "target": find.outcome.target,
        "version": find.version,
        "title": title(find),
        "found": find.found,
        "size": len(find.data),
        "hex": find.data.hex(),
        "right": find.right,
        "count": find.count,
        "also": find.also,
        "why_not": find.why_not,
        "verdicts": find.verdicts,
        "left_out": find.left_out,
    }
