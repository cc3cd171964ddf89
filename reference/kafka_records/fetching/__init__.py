"""Fetches: the bytes that a broker sends (`fetch_view`), and the records that a consumer reads from them."""

from kafka_records.fetching.consumer import Consumed, committed, consume
from kafka_records.fetching.segment import IndexEntry, offset_index
from kafka_records.fetching.view import FetchResult, fetch_view

__all__ = ["Consumed", "FetchResult", "IndexEntry", "committed", "consume", "fetch_view", "offset_index"]
