"""Findings of an audit: a kind with its rule and severity, the place, and a sentence."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal, NamedTuple

import msgspec

Severity = Literal["error", "warning", "note"]
SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "note")
# Of one kind in one stretch; the rest is only counted.
MOST_LISTED: Final = 1000


class Kind(NamedTuple):
    """A kind of finding: the rule that it breaks, how bad it is, and what it is called."""

    rule: str
    severity: Severity
    title: str


KINDS: Final[dict[str, Kind]] = {
    "tail": Kind("SEG-03", "error", "bytes after the last whole batch"),
    "active_tail": Kind("SEG-08", "warning", "bytes after the last whole batch of the last segment"),
    "preallocated": Kind("SEG-08", "note", "zeros after the last batch of the last segment"),
    "below_segment": Kind("SEG-09", "error", "a batch below the base offset of its segment"),
    "beyond_segment": Kind("SEG-12", "error", "an offset too far above the base offset of its segment"),
    "negative_range": Kind("HDR-10", "error", "a last offset below the base offset"),
    "offset_outside": Kind("HDR-09", "error", "a record outside of the offsets of its batch"),
    "offsets_disorder": Kind("OFF-07", "error", "offsets that do not grow within a batch"),
    "overlap": Kind("OFF-14", "error", "duplicate offsets"),
    "gap": Kind("OFF-13", "note", "missing offsets"),
    "gap_in_contiguous": Kind("OFF-14", "error", "missing offsets in a log that should have all"),
    "leader_epoch_back": Kind("SEG-17", "warning", "a leader epoch below the one before it"),
    "max_timestamp": Kind("TIM-07", "warning", "a max timestamp that is not the largest"),
    "wrapper_timestamp": Kind("NST-23", "warning", "a wrapper whose timestamp is not the largest"),
    "future": Kind("TIM-10", "warning", "a timestamp in the future"),
    "negative_timestamp": Kind("TIM-04", "warning", "a timestamp below -1"),
    "unknown_attributes": Kind("ATT-13", "note", "attribute bits without a meaning"),
    "not_idempotent": Kind("HDR-22", "note", "an epoch or sequence without a producer"),
    "no_sequence": Kind("PID-03", "warning", "a producer's batch without a sequence"),
    "transaction_without_producer": Kind("TXN-01", "error", "a transactional batch without a producer"),
    "marker_broken": Kind("SEG-13", "error", "an end marker that cannot be read: a broker does not start on it"),
    "marker_records": Kind("TXN-17", "warning", "a marker's batch with more than one record"),
    "marker_compressed": Kind("TXN-15", "warning", "an end marker that is compressed"),
    "sequence_break": Kind("PID-07", "error", "a gap in the sequences without missing offsets"),
    "sequence_cleaned": Kind("CLN-17", "note", "a gap in the sequences where offsets are missing"),
    "sequence_expired": Kind("PID-19", "note", "a gap in the sequences after a long time"),
    "duplicate": Kind("PID-09", "error", "a batch that is stored twice"),
    "epoch_start": Kind("PID-13", "error", "a new producer epoch that does not start at sequence 0"),
    "epoch_back": Kind("PID-14", "error", "a producer epoch below an earlier one"),
    "coordinator_back": Kind("TXN-21", "warning", "a marker of an older coordinator"),
    "mixed_transaction": Kind("TXN-06", "error", "data outside of its producer's open transaction"),
    "hanging": Kind("TXN-05", "warning", "a transaction that is open longer than the longest timeout"),
    "open": Kind("TXN-05", "note", "a transaction that is open where the log ends"),
    "index_size": Kind("SEG-16", "error", "an index whose size is no multiple of its entries'"),
    "index_order": Kind("SEG-16", "error", "index entries that do not grow"),
    "index_boundary": Kind("SEG-16", "error", "an index entry that is not at a batch"),
    "index_offset": Kind("SEG-16", "error", "an index entry whose batch begins above its offset"),
    "index_beyond": Kind("SEG-16", "error", "an index entry after the end of its segment"),
    "timeindex_time": Kind("SEG-16", "error", "a time index entry that its batch contradicts"),
    "aborted_missing": Kind("SEG-16", "error", "an aborted transaction that the index does not have"),
    "snapshot_broken": Kind("SEG-15", "error", "a producer snapshot that cannot be read"),
    "snapshot_state": Kind("SEG-15", "error", "a producer snapshot that contradicts the log before it"),
    "topic_record": Kind("TOP-04", "error", "a record of a coordinator that cannot be read"),
    "topic_type": Kind("TOP-02", "warning", "a coordinator's record of an unknown type, which is passed over"),
    "topic_version": Kind("TOP-03", "error", "a group coordinator's value of an unknown version"),
    "transaction_version": Kind("TOP-03", "warning", "a transaction's state of an unknown version, passed over"),
    "topic_rest": Kind("TOP-12", "warning", "bytes after the last field of a coordinator's record"),
    "topic_tag": Kind("TOP-07", "warning", "a tagged field whose size is not that of its value"),
    "topic_protocol": Kind("TOP-13", "note", "a group's member whose subscription or assignment cannot be read"),
    "metadata_record": Kind("TOP-08", "error", "a metadata record that cannot be read"),
    "metadata_type": Kind("TOP-09", "error", "a metadata record of an unknown type"),
    "metadata_version": Kind("TOP-10", "warning", "a metadata record of an unknown version"),
    "metadata_snapshot": Kind("TOP-15", "error", "a snapshot of KRaft without its header or footer"),
    "not_read": Kind("SEG-01", "error", "a file that cannot be read"),
    "gone": Kind("SEG-01", "note", "a file that was removed while the audit ran"),
    "checkpoint_broken": Kind("SEG-17", "warning", "a leader epoch checkpoint that cannot be read"),
}
UNREADABLE: Final = "unreadable"


class AuditFinding(msgspec.Struct, frozen=True, array_like=True):
    """Something that was found.

    Attributes:
        kind: of `KINDS`, or `unreadable` for what the decoder refuses.
        rule: the rule that it breaks.
        severity: an error, a warning, or a note, which is no reason to worry.
        file: the file.
        position: the byte in the file at which the entry starts; -1 if it is about no entry.
        offset: Kafka's offset; -1 if there is none.
        message: a sentence, with whatever numbers belong to it.
    """

    kind: str
    rule: str
    severity: Severity
    file: str
    position: int
    offset: int
    message: str

    @property
    def title(self) -> str:
        """Title of the kind."""
        return title_of(self.kind)


def title_of(kind: str) -> str:
    """The title of a kind; every other is an entry that the decoder refuses."""
    return KINDS[kind].title if kind in KINDS else "an entry that cannot be read"


class AuditFindings:
    """Findings of one stretch or log: the first of each kind, and how many there are of each rule."""

    def __init__(self, most: int = MOST_LISTED) -> None:
        self.most = most
        self.listed: list[AuditFinding] = []
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, file: str, position: int, offset: int, message: str) -> None:
        """One more of *kind*."""
        rule, severity, _ = KINDS[kind]
        self.put(AuditFinding(kind, rule, severity, file, position, offset, message))

    def put(self, finding: AuditFinding) -> None:
        """One more, as it is."""
        name = f"{finding.kind} {finding.rule} {finding.severity}"
        self.counts[name] += 1
        if self.counts[name] <= self.most:
            self.listed.append(finding)

    def more(self, kind: str, number: int) -> None:
        """Count more findings of *kind* without listing them."""
        rule, severity, _ = KINDS[kind]
        if number > 0:
            self.counts[f"{kind} {rule} {severity}"] += number
