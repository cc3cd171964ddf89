"""Consumers of Python packages in folders of their own: `clients.py NAME` serves one of them.

The requests are those of kafka_conformance/process/client_testee.py.  Each library keeps its default options.
"""

import json
import platform
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

# The release that the build has installed, whatever this interpreter has.
sys.path.insert(0, str(Path(__file__).parent / "packages"))

SHOWN = 16 << 20  # bytes: of a flood of records the first are shown; the consumer reads on to its end

Consume = Callable[[dict[str, Any], "Delivered"], None]
Kind = Callable[[Exception], str]


class Delivered:
    """The records that a consumer delivers, up to the end record."""

    def __init__(self, end: str) -> None:
        self.end = end.encode()
        self.records: list[dict[str, Any]] = []
        self.size = 0

    def add(self, key: bytes | None, value: bytes | None, **fields: Any) -> bool:
        """Whether this is the end record."""
        if key == self.end:
            return True
        self.size += 100 + len(key or b"") + len(value or b"")
        if self.size < SHOWN:
            self.records.append({"key": text(key), "value": text(value), **fields})
        return False


def text(data: bytes | None) -> str | None:
    """Bytes as base64."""
    return None if data is None else b64encode(data).decode()


def serve(
    name: str, version: str, magics: list[int], compressions: list[str], consume: Consume, kind: Kind,
    committed: bool = True,
) -> None:  # fmt: skip
    """Answers until there are no more requests: *consume* reads, and *kind* names the library's own errors.

    A library without an isolation level is not *committed*.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not spoil a reply
    able = {"magics": magics, "compressions": compressions}
    runtime = f"{platform.python_implementation()} {platform.python_version()}"
    hello = {
        "protocol": 1, "name": name, "version": version, "language": "python", "runtime": runtime, "decode": able,
        "encode": {"magics": [], "compressions": []}, "committed": committed,
    }  # fmt: skip
    for line in sys.stdin:
        out.write(json.dumps(answer(json.loads(line), hello, consume, kind)) + "\n")
        out.flush()


def answer(request: dict[str, Any], hello: dict[str, Any], consume: Consume, kind: Kind) -> dict[str, Any]:
    """The answer to one request."""
    if request["op"] == "hello":
        return hello
    if request["op"] != "consume":
        return {"skipped": f"no operation {request['op']}"}
    found = Delivered(request["end"])
    try:
        consume(request, found)
    except Exception as error:  # any exception of the library is a refusal
        message = f"{type(error).__name__}: {error}"[:400]
        return {"records": found.records, "error": {"kind": kind(error), "message": message}}
    return {"records": found.records}


def kafka_python_2() -> None:
    """KafkaConsumer of kafka-python, in releases from 1.4 to 2.x, with the packages for its compressions."""
    import kafka
    from kafka import KafkaConsumer, TopicPartition, codec, errors

    kinds = {
        "CorruptRecordException": "corrupt",
        "InvalidMessageError": "corrupt",
        "UnsupportedCodecError": "unsupported_compression",
    }

    def consume(request: dict[str, Any], found: Delivered) -> None:
        partition = TopicPartition(request["topic"], request["partition"])
        consumer = KafkaConsumer(bootstrap_servers=request["bootstrap"], group_id=None)
        try:
            consumer.assign([partition])
            consumer.seek(partition, request["offset"])
            for record in consumer:
                # Header keys are text.
                headers = [[text(key.encode()), text(value)] for key, value in record.headers]
                fields = {"offset": record.offset, "timestamp": record.timestamp, "headers": headers}
                if found.add(record.key, record.value, **fields):
                    return
        finally:
            consumer.close()

    def kind(error: Exception) -> str:
        # What else Python throws is caught by nothing in it.
        given = next((kinds[each.__name__] for each in type(error).__mro__ if each.__name__ in kinds), "")
        return given or ("malformed" if isinstance(error, errors.KafkaError) else "other")

    compressions = ["none", "gzip", "snappy", "lz4", *(["zstd"] if hasattr(codec, "has_zstd") else [])]
    serve("kafka-python-2", kafka.__version__, [0, 1, 2], compressions, consume, kind, committed=False)


def afkak() -> None:
    """The Consumer of afkak, on Twisted's reactor, which has the main thread; snappy is its own extra."""
    import afkak as library
    from afkak.common import KafkaError
    from twisted.internet import reactor
    from twisted.internet.threads import blockingCallFromThread, deferToThread

    kinds = {
        "ChecksumError": "corrupt",
        "ConsumerFetchSizeTooSmall": "truncated",
        "UnsupportedCodecError": "unsupported_compression",
    }

    def consume(request: dict[str, Any], found: Delivered) -> None:
        done: SimpleQueue[Any] = SimpleQueue()
        client, consumer = blockingCallFromThread(reactor, start, request, found, done)
        failure = done.get()
        reactor.callFromThread(stop, client, consumer)
        if failure is not None:
            failure.raiseException()

    def start(request: dict[str, Any], found: Delivered, done: SimpleQueue[Any]) -> tuple[Any, Any]:
        client = library.KafkaClient(request["bootstrap"])

        def processor(_consumer: Any, messages: Any) -> None:
            for each in messages:
                if found.add(each.message.key, each.message.value, offset=each.offset):
                    done.put(None)
                    return

        consumer = library.Consumer(client, request["topic"], request["partition"], processor)
        consumer.start(request["offset"]).addErrback(done.put)
        return client, consumer

    def stop(client: Any, consumer: Any) -> None:
        # The answer does not wait for the fetch that is under way.
        try:
            consumer.stop()
        finally:
            client.close()

    def kind(error: Exception) -> str:
        return kinds.get(type(error).__name__, "malformed" if isinstance(error, KafkaError) else "other")

    deferToThread(serve, "afkak", library.__version__, [0], ["none", "gzip", "snappy"], consume, kind).addBoth(
        lambda _: reactor.stop()
    )
    reactor.run(installSignalHandlers=False)


{"afkak": afkak, "kafka-python-2": kafka_python_2}[sys.argv[1]]()
