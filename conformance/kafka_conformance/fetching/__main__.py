"""Serve a client as a testee: `python -m kafka_conformance.fetching COMMAND…`; used by `fetch:`."""

from __future__ import annotations

import sys
from pathlib import PurePath
from typing import Final

from kafka_conformance import serve
from kafka_conformance.fake_broker import FakeBroker
from kafka_conformance.fetching.clients import client
from kafka_conformance.fetching.lines import BadLine
from kafka_conformance.protocol import Answer, Capability
from kafka_conformance.testee import NotDone
from kafka_corpus.wire import WireBatch
from kafka_records import Batch, Record, encode


class Fetching:
    """A testee that is a client on a fake broker.

    Nothing tells what a client reads; it is asked everything, and says
    `skipped` itself.
    """

    DECODES: Final = Capability()
    ENCODES: Final = Capability()
    LANGUAGE: Final = "consumer"
    RUNTIME: Final = "on a fake broker"

    def __init__(self, command: list[str]) -> None:
        self._broker = FakeBroker()
        self._client = client(command, self._broker)
        self._number = 0
        # The first case is ours: a client says its name and version when it connects (KIP-511).
        self.consume(encode(Batch(magic=2, base_offset=0, last_offset=0, records=(Record(0, 0, None, None),))))
        self.NAME = self._broker.client.name or PurePath(command[0]).name
        self.VERSION = self._broker.client.version or "unknown"

    def consume(self, data: bytes) -> Answer:
        """What the client delivers of *data*, on a topic of its own."""
        self._number += 1
        topic = f"case-{self._number}"
        tape = self._broker.serve(topic, data)
        try:
            return self._client.read(topic, tape)
        except BadLine as error:
            # No answer, and nothing of the client's codec: the process ends, and this is its last word.
            sys.exit(f"what the client printed is no record and no error: {error}")
        except OSError as error:
            sys.exit(f"the client cannot be run: {error}")
        finally:
            self._broker.withdraw(topic)

    def decode(self, _data: bytes) -> list[WireBatch]:
        """A consumer tells no batches: see `consume`."""
        raise NotDone("a consumer tells no batches")

    def encode(self, _batch: WireBatch) -> bytes:
        """Not asked: nothing is announced."""
        raise NotDone("a consumer writes nothing")

    def close(self) -> None:
        """End the client."""
        self._client.close()
        self._broker.close()


def main(command: list[str]) -> None:
    """Serve until standard input ends."""
    try:
        fetching = Fetching(command)
    except OSError as error:
        sys.exit(f"the client cannot be run: {error}")
    serve.serve(fetching, sys.stdin.buffer, sys.stdout.buffer)
    fetching.close()


if __name__ == "__main__":
    main(sys.argv[1:])
