"""Findings accepted as known: entries of a `known.toml`; the same findings give the same file.

An entry holds what a reader needs to judge it again: the target, its keys, the
reason, and the smallest input, whose replay shows when the finding is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import escape
from pathlib import Path
from typing import Final

from kafka_corpus.known_issues import issue_list_text
from kafka_fuzz.broker.confirming import CONTEXT, sent_as
from kafka_fuzz.campaign.known_findings import EXPENSIVE, AlreadyKnown, KnownFinding, ReplayInput
from kafka_fuzz.findings import finding_folder
from kafka_fuzz.mutate.faults import FAULTS
from kafka_fuzz.triage.deduplicate import TriagedFinding
from kafka_fuzz.triage.draft import title

HEAD: Final = """\
# Known findings, each with its reason.  `kafkaproof fuzz known` writes the whole file: put remarks into `reason`.
# kafka_fuzz/campaign/known_findings.py describes the fields.
"""
# Bytes of an input that an entry may hold, so that the list stays readable.
LONGEST_REPRODUCER: Final = 2048


def accepted_entry(finding: TriagedFinding, reason: str, root: Path) -> KnownFinding:
    """The entry that makes *finding* known; *root* is the campaign with the recorded request."""
    outcome = finding.outcome
    # Without the fault that made it, the same input may have another key.
    keys = sorted({*finding.keys, *([outcome.key] if not finding.why_not else [])})
    is_read = finding.mode != "encode"
    is_expensive = is_read and outcome.kind in EXPENSIVE and finding.labels and finding.labels[0] in FAULTS
    return KnownFinding(
        id=f"{title(finding)} [{finding.name[:6]}]",
        testee=outcome.target,
        keys=tuple(map(escape, keys)),
        reason=f"{finding.version}: {reason}" if finding.version else reason,
        faults=(finding.labels[0],) if is_expensive else (),
        reproducer=reproducer_of(finding, root) if len(finding.data) <= LONGEST_REPRODUCER else None,
        mode=finding.mode,
    )


def reproducer_of(finding: TriagedFinding, root: Path) -> ReplayInput:
    """The input of *finding*; for a broker also how it is sent."""
    context = finding_folder(root, finding.key) / CONTEXT
    return ReplayInput(hex=finding.data.hex(), sent=sent_as(context.read_bytes()) if context.exists() else None)


def merged_entries(old: Iterable[KnownFinding], new: Iterable[KnownFinding]) -> list[KnownFinding]:
    """Both lists as one, an entry for each id, by target and id."""
    by_id = {each.id: each for each in (*old, *new)}
    return sorted(by_id.values(), key=lambda each: (each.testee, each.id))


def open_findings(findings: Sequence[TriagedFinding], known: AlreadyKnown) -> list[TriagedFinding]:
    """Findings that are still there and have a key that is not known."""
    return [each for each in findings if each.open and any(not known.reason(key, each.version) for key in each.keys)]


def known_list_file(known: Iterable[KnownFinding]) -> str:
    """The text of a `known.toml` with these entries."""
    return issue_list_text(HEAD, known)
