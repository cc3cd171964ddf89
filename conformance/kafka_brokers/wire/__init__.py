"""Kafka's wire protocol in bytes of our own: tables of fields, a socket, typed errors.

Only what producing, fetching and transactions need.  Nothing here looks into
records: they go out as they were given, and come back as they were stored.
"""

from kafka_brokers.wire.client import Client
from kafka_brokers.wire.connection import Connection, ConnectionClosed
from kafka_brokers.wire.errors import BrokerError, GarbledResponse, Silent, Unreachable, UnsupportedVersion, WireError
from kafka_brokers.wire.partitions import Fetched, Produced, TopicPartition

__all__ = [
    "BrokerError",
    "Client",
    "Connection",
    "ConnectionClosed",
    "Fetched",
    "GarbledResponse",
    "Produced",
    "Silent",
    "TopicPartition",
    "Unreachable",
    "UnsupportedVersion",
    "WireError",
]
