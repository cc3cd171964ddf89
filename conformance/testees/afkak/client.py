"""The Consumer of afkak, on Twisted's reactor, with its default options."""

import sys
from pathlib import Path
from queue import SimpleQueue

# The release that the build has installed, whatever this interpreter has.
sys.path.insert(0, str(Path(__file__).parent / "packages"))

import afkak
import requests_of_clients as requests
from afkak import Consumer, KafkaClient
from afkak.common import KafkaError
from twisted.internet import reactor
from twisted.internet.threads import blockingCallFromThread, deferToThread

KINDS = {
    "ChecksumError": "corrupt",
    "ConsumerFetchSizeTooSmall": "truncated",
    "UnsupportedCodecError": "unsupported_compression",
}


def consume(request, found):
    """Each request has a client and a consumer of its own; messages come in blocks."""
    done = SimpleQueue()
    client, consumer = blockingCallFromThread(reactor, start, request, found, done)
    failure = done.get()
    reactor.callFromThread(stop, client, consumer)
    if failure is not None:
        failure.raiseException()


def start(request, found, done):
    """Start the consumer: it gives all messages of a fetch to `processor`."""
    client = KafkaClient(request["bootstrap"])

    def processor(_consumer, messages):
        for each in messages:
            if found.add(each.message.key, each.message.value, offset=each.offset):
                done.put(None)
                return

    consumer = Consumer(client, request["topic"], request["partition"], processor)
    consumer.start(request["offset"]).addErrback(done.put)
    return client, consumer


def stop(client, consumer):
    """Stop the consumer; the answer does not wait for the fetch that is under way."""
    try:
        consumer.stop()
    finally:
        client.close()


def kind(error):
    """The kind of an exception."""
    name = type(error).__name__
    return KINDS.get(name, "malformed" if isinstance(error, KafkaError) else "other")


def serve():
    """Serve in a thread, as the reactor has the main one."""
    # snappy is a package that users add.
    requests.serve("afkak", afkak.__version__, [0], ["none", "gzip"], consume, kind)


deferToThread(serve).addBoth(lambda _: reactor.stop())
reactor.run(installSignalHandlers=False)
sys.exit(0)
