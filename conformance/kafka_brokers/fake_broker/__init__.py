"""A broker of ours that is none: it feeds Fetch with the bytes of a case, and catches what is produced.

It speaks just enough of Kafka's protocol for a client that reads from, or
writes to, an assigned partition: no transactions, groups of one member with
`GROUP_VERSIONS`, and every topic exists.  What it serves are tapes (`tape`): the
bytes as they are, then one record that says that this was all.
"""

from kafka_brokers.fake_broker.answers import GROUP_VERSIONS
from kafka_brokers.fake_broker.server import END, VERSIONS_BY_MAGIC, FakeBroker, Tape

__all__ = ["END", "GROUP_VERSIONS", "VERSIONS_BY_MAGIC", "FakeBroker", "Tape"]
