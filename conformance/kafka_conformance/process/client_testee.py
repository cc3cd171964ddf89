"""A client library as a testee: its consumer and its producer in a process of their own, on fake brokers of ours.

The recipe of a known testee names the client's command line (`client = true`).  It gets
one line of JSON for each request, and answers with one:

{"op": "hello"}     what a testee says of itself, as in the testee protocol
{"op": "consume", "bootstrap", "topic", "partition", "offset", "end"}
                    {"records": [RECORD, …]} up to the end record, with `error` where the client reports one
{"op": "produce", "bootstrap", "topic", "partition", "batch": BATCH}
                    {"records": []} when the records were acknowledged, or `error`, or `skipped`

`consume` has `"committed": true` where records of aborted transactions are to be left
out, so that a client whose default is another sets its option.  A client that has no
such option says `"committed": false` in its hello, and is not sent these cases.  A
`batch` with a producer id is for an idempotent producer; the broker assigns the id
and the epoch.

The magic that a producer writes follows from the versions that its broker offers; the environment may want a Produce
version (`fake_broker.PRODUCE_VERSION`).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import msgspec
from msgspec import UNSET

from kafka_brokers.fake_broker import GROUP_VERSIONS, VERSIONS_BY_MAGIC
from kafka_conformance.process.fetch_client import BadLine, LongRunningClient
from kafka_conformance.testees import serve
from kafka_conformance.testees.client_parts import (
    ConsumerBroker,
    ProducerBroker,
    check_expressible,
    one_request,
    producer_limits,
)
from kafka_conformance.testees.interface import CodecError, NotDone
from kafka_conformance.testees.protocol import Aborted, CodecAnswer
from kafka_corpus.wire import WireBatch, from_wire
from kafka_records import Batch

TOPIC = "produced"
# Of a batch that leaves in parts, as on a crowded machine.
TRIES = 3


class ClientTestee:
    """A consumer and a producer, served by the testee protocol."""

    def __init__(self, command: Sequence[str]) -> None:
        self._broker = ConsumerBroker(versions=GROUP_VERSIONS)
        self._writers: dict[int, ProducerBroker] = {}
        self._client = LongRunningClient(command, self._broker.address)
        self._number = 0
        hello = self._client.hello()
        self.NAME, self.VERSION = hello.name, hello.version
        self.LANGUAGE, self.RUNTIME = hello.language, hello.runtime
        self.DECODES, self.ENCODES = hello.decode, hello.encode
        if hello.committed:
            self.committed = self._committed

    def decode(self, _data: bytes) -> NoReturn:
        """Not supported: a consumer exposes no batches; see `consume`."""
        raise NotDone("a consumer exposes no batches")

    def consume(self, data: bytes) -> CodecAnswer:
        """The records that the client's consumer delivers of *data*, from a topic of its own."""
        return self._read(data, (), committed=False)

    def _committed(self, data: bytes, aborted: Sequence[Aborted]) -> CodecAnswer:
        """The records delivered when some transactions were *aborted*."""
        return self._read(data, aborted, committed=True)

    def _read(self, data: bytes, aborted: Sequence[Aborted], *, committed: bool) -> CodecAnswer:
        self._number += 1
        topic = f"case-{self._number}"
        tape = self._broker.serve(topic, data, 0, aborted)
        try:
            return self._client.read(topic, tape, op="consume", committed=committed)
        except BadLine as error:
            sys.exit(f"what the client printed is no answer: {error}")
        finally:
            self._broker.withdraw(topic)

    def encode(self, batch: WireBatch) -> bytes:
        """The bytes that the client's producer sends for *batch*."""
        wanted = from_wire(batch)
        if wanted.magic not in VERSIONS_BY_MAGIC:
            raise NotDone("its producer has no such magic")
        check_expressible(wanted, "producer", *producer_limits(wanted))
        caught: list[bytes] = []
        for _ in range(TRIES):
            caught = self._write(wanted, batch)
            if len(caught) == 1:
                break
        return one_request(caught)

    def _write(self, wanted: Batch, batch: WireBatch) -> list[bytes]:
        broker = self._writer(wanted.magic)
        broker.caught()
        if wanted.producer_id != -1:
            broker.producer = (wanted.producer_id, wanted.producer_epoch)
        where = {"bootstrap": broker.address, "topic": TOPIC, "partition": 0}
        answer = self._client.ask({"op": "produce", **where, "batch": msgspec.to_builtins(batch)})
        if answer.skipped is not UNSET:
            raise NotDone(answer.skipped)
        if answer.error is not UNSET:
            raise CodecError("malformed", answer.error.message)
        return broker.caught()

    def _writer(self, magic: int) -> ProducerBroker:
        """The broker of a release that takes *magic*.  The topic is listed, as some clients produce to no other."""
        if magic not in self._writers:
            self._writers[magic] = ProducerBroker(magic)
            self._writers[magic].serve(TOPIC, b"")
        return self._writers[magic]

    def close(self) -> None:
        """End the client."""
        self._client.close()
        for broker in (self._broker, *self._writers.values()):
            broker.close()


def main(command: list[str]) -> None:
    """Serve until standard input ends."""
    try:
        testee = ClientTestee(command)
    except OSError as error:
        sys.exit(f"the client cannot be run: {error}")
    serve.serve(testee, sys.stdin.buffer, sys.stdout.buffer)
    testee.close()


if __name__ == "__main__":
    main(sys.argv[1:])
