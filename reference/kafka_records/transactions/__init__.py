"""Transactions in a partition: the markers that end them, and the index of those that were aborted."""

from kafka_records.transactions.index import AbortedTransaction, AbortIndex, abort_index, last_stable_offset
from kafka_records.transactions.marker import end_transaction

__all__ = ["AbortIndex", "AbortedTransaction", "abort_index", "end_transaction", "last_stable_offset"]
