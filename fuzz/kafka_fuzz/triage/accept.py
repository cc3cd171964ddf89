"""Findings accepted as known: entries of a `known.toml`; the same findings give the same file.

The list holds what a reader needs to judge it again: the target, its keys, the
reason, and the smallest input, whose replay shows when it is fixed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from glob import escape
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_fuzz.broker.confirming import CONTEXT
from kafka_fuzz.broker.replay import sent_as
from kafka_fuzz.campaign.known_findings import EXPENSIVE, AlreadyKnown, KnownFinding, ReplayInput, read_known_list
from kafka_fuzz.findings import finding_folder
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.triage.deduplicate import TriagedFinding
from kafka_fuzz.triage.draft import title

HEAD: Final = """\
# Finds that are no news, and why.  `kafkaproof fuzz known` writes this file whole: what there is to say goes into
# `about`.  See kafka_fuzz/campaign/known.py for what an entry may hold.
"""
# A reproducer is for reading, too.
LONGEST_REPRODUCER: Final = 2048
# JSON leaves it as it is, TOML does not; for all else the escapes of both are the same.
_BARE: Final = re.compile("[A-Za-z0-9_-]+")
_UNSEEN: Final = re.compile("\\x7f")


def accepted_entry(find: TriagedFinding, reason: str, root: Path) -> KnownFinding:
    """The entry that makes *find* known; *root* is the campaign with the recorded request."""
    outcome = find.outcome
    # The input alone may have another key than with the fault that made it.
    keys = sorted({*find.keys, *([outcome.key] if not find.why_not else [])})
    is_read = find.asked != "encode"
    dear = is_read and outcome.kind in EXPENSIVE and find.labels and find.labels[0] in FAULTS
    return KnownFinding(
        id=f"{title(find)} [{find.name[:6]}]",
        target=outcome.target,
        keys=tuple(map(escape, keys)),
        about=f"{find.version}: {reason}" if find.version else reason,
        faults=(find.labels[0],) if dear else (),
        reproducer=canary_of(find, root) if len(find.data) <= LONGEST_REPRODUCER else None,
        mode=find.asked,
    )


def canary_of(find: TriagedFinding, root: Path) -> ReplayInput:
    """Its input, and for a broker how that is sent."""
    context = finding_folder(root, find.key) / CONTEXT
    return ReplayInput(hex=find.data.hex(), sent=sent_as(context.read_bytes()) if context.exists() else None)


def merged_entries(old: Iterable[KnownFinding], new: Iterable[KnownFinding]) -> list[KnownFinding]:
    """Both lists as one, an entry for each id, by target and id."""
    by_id = {each.id: each for each in (*old, *new)}
    return sorted(by_id.values(), key=lambda each: (each.target, each.id))


def open_finds(finds: Sequence[TriagedFinding], news: AlreadyKnown) -> list[TriagedFinding]:
    """Those of *finds* that are there, and of which some key is still news."""
    return [find for find in finds if find.open and any(not news.reason(key, find.version) for key in find.keys)]


def listed_entries(path: Path) -> list[KnownFinding]:
    """The entries of that file; none where there is no file.  ValueError for one that is no list."""
    return read_known_list(path) if path.exists() else []


def text_of(known: Sequence[KnownFinding]) -> str:
    """The file with these entries."""
    return HEAD + "".join(f"\n[[known]]\n{''.join(_rows(each))}" for each in known)


def _rows(known: KnownFinding) -> Iterator[str]:
    defaults = msgspec.to_builtins(KnownFinding(id="", target="", keys=()))
    for name, value in msgspec.to_builtins(known).items():
        if name in ("id", "target", "keys") or value != defaults[name]:
            yield f"{name} = {toml(value)}\n"


def toml(value: Any) -> str:
    """*value* as TOML writes it on one line.

    >>> toml({"hex": "00", "n.n": 1}), toml(["a\\x7f"])
    ('{ hex = "00", "n.n" = 1 }', '["a\\\\u007f"]')
    """
    if isinstance(value, dict):
        rows = (f"{key_of(key)} = {toml(each)}" for key, each in value.items() if each is not None)
        return "{ " + ", ".join(rows) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return _UNSEEN.sub(lambda sign: f"\\u{ord(sign[0]):04x}", json.dumps(value, ensure_ascii=False))
    return str(value)


def key_of(name: str) -> str:
    """*name* as a key of one table: with a dot in it, it would be one of a table in that."""
    return name if _BARE.fullmatch(name) else toml(name)
