"""Transactions as the cleaner passes them: whose data can go, and when a marker is no longer needed.

CleanedTransactionMetadata.  Whether data was aborted is known before its marker
comes, from the index of aborted transactions (CLN-12).
"""

from __future__ import annotations

from collections.abc import Sequence

from kafka_records.broker.entries import Entry
from kafka_records.compaction.entries import marker_of
from kafka_records.compaction.releases import Cleaning
from kafka_records.conversion.files import last_offset_of
from kafka_records.transactions import AbortedTransaction


class Transactions:
    """Those that are open where the cleaner has got to; it reads each entry once, in order."""

    def __init__(self, aborted: Sequence[AbortedTransaction], rules: Cleaning) -> None:
        self._rules = rules
        self._coming = sorted(aborted, key=lambda each: each.first_offset, reverse=True)
        self._committed: set[int] = set()
        # By producer: whether a batch of the aborted transaction has been seen.
        self._aborted: dict[int, bool] = {}

    def can_discard(self, entry: Entry) -> bool:
        """Whether *entry* is aborted data (CLN-12), or a marker of which no data is left (CLN-11, CLN-13)."""
        offset = last_offset_of(entry)
        while self._coming and self._coming[-1].first_offset <= offset:
            self._aborted.setdefault(self._coming.pop().producer_id, False)
        return self._on_control(entry) if entry.is_control else self._on_batch(entry)

    def _on_control(self, entry: Entry) -> bool:
        match marker_of(entry, self._rules.does):
            case "abort":
                return not self._aborted.pop(entry.producer_id, False)
            case "commit":
                seen = entry.producer_id in self._committed
                self._committed.discard(entry.producer_id)
                return not seen
            case None:
                return True  # TXN-18: it was cleaned before
            case _:
                return False

    def _on_batch(self, entry: Entry) -> bool:
        if not entry.is_transactional:
            return False
        if entry.producer_id in self._aborted:
            self._aborted[entry.producer_id] = True
            return True
        self._committed.add(entry.producer_id)
        return False
