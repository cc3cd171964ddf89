"""Serve a Python testee over standard input and output: `python -m kafka_conformance.testees.serve MODULE`.

One reply to each request, in order, flushed by line.  A line that is no request
gets an error reply, and serving goes on.
"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Sequence
from typing import BinaryIO

import msgspec
from msgspec import UNSET

from kafka_brokers.fake_broker import magic_of_fetch, magic_of_produce, wanted_fetch_version, wanted_produce_version
from kafka_conformance.testees import protocol
from kafka_conformance.testees.client_parts import (
    FIRST,
    FIRST_PRODUCED,
    ZSTD_PRODUCE,
    ConsumerBroker,
    ProducerBroker,
    narrowed,
)
from kafka_conformance.testees.interface import (
    Appending,
    CodecError,
    Committing,
    Consuming,
    NotDone,
    Testee,
    load_testee,
)
from kafka_conformance.testees.protocol import (
    Aborted,
    Capability,
    CodecAnswer,
    CodecReply,
    HelloRefusal,
    HelloReply,
    Refusal,
)
from kafka_corpus.wire import to_wire
from kafka_records import encode


def hello(testee: Testee) -> HelloReply:
    """The testee's identity."""
    return HelloReply(
        protocol=protocol.PROTOCOL,
        name=testee.NAME,
        version=testee.VERSION,
        language=getattr(testee, "LANGUAGE", "python"),
        runtime=getattr(testee, "RUNTIME", f"{platform.python_implementation()} {platform.python_version()}"),
        decode=testee.DECODES,
        encode=testee.ENCODES,
        append=isinstance(testee, Appending),
        many=True,
        consumer=isinstance(testee, Consuming),
        committed=isinstance(testee, Committing),
    )


def hello_through_fetch(testee: Testee, version: int) -> HelloReply | HelloRefusal:
    """The identity of a client on a broker with Fetch up to *version*: it only reads what brokers send in it.

    An error if the client does not speak that version, which its first fetch shows.
    """
    reply = hello(testee)
    first = decode_answer(testee, encode(FIRST[magic_of_fetch(version)]))
    reply.decode, reply.encode = narrowed(reply.decode, version), Capability()
    why = ""
    if others := sorted(ConsumerBroker.all_fetched() - {version}):
        why = f"it fetches in version {others[-1]}, not in {version}"
    elif not ConsumerBroker.all_fetched():
        why = f"it sends no Fetch {version}" + ("" if first.error is UNSET else f": {first.error.message}")
    elif not (reply.decode.magics and reply.decode.compressions):
        why = f"it reads no format that brokers send in Fetch {version}"
    return HelloRefusal(protocol=protocol.PROTOCOL, error=Refusal("limit", why)) if why else reply


def hello_through_produce(testee: Testee, version: int) -> HelloReply | HelloRefusal:
    """The identity of a client on a broker with Produce up to *version*: it only writes what producers send in it.

    An error if the client does not speak that version, which its first produce request shows.
    """
    reply, magic = hello(testee), magic_of_produce(version)
    first = encode_answer(testee, protocol.EncodeRequest(id="first", batch=to_wire(FIRST_PRODUCED[magic])))
    written = [each for each in (magic,) if each in reply.encode.magics]
    codecs = [each for each in reply.encode.compressions if each != "zstd" or version >= ZSTD_PRODUCE]
    reply.encode = Capability(written, codecs if written else [])
    why = ""
    if others := sorted(ProducerBroker.all_produced() - {version}):
        why = f"it produces in version {others[-1]}, not in {version}"
    elif not ProducerBroker.all_produced():
        why = f"it sends no Produce {version}" + ("" if first.error is UNSET else f": {first.error.message}")
    return HelloRefusal(protocol=protocol.PROTOCOL, error=Refusal("limit", why)) if why else reply


def decode_answer(testee: Testee, data: bytes, aborted: Sequence[Aborted] | None = None) -> CodecAnswer:
    """The testee's answer for *data*; with *aborted* transactions, for the committed records."""

    def answer() -> CodecAnswer:
        if aborted is not None and isinstance(testee, Committing):
            return testee.committed(data, aborted)
        return testee.consume(data) if isinstance(testee, Consuming) else CodecAnswer(batches=testee.decode(data))

    return _answered(answer, protocol.LEAKED)


def encode_answer(testee: Testee, request: protocol.EncodeRequest) -> CodecAnswer:
    """The bytes that the testee writes for the batch in *request*."""
    return _answered(lambda: CodecAnswer(data=bytes(testee.encode(request.batch))))


def append_answer(testee: Testee, request: protocol.AppendRequest) -> CodecAnswer:
    """The testee's prediction of a broker's answer."""
    if not isinstance(testee, Appending):
        return CodecAnswer(skipped="append is not done by this testee")
    return _answered(lambda: testee.append(request))


def _answered(answer: Callable[[], CodecAnswer], leaked: str = "malformed") -> CodecAnswer:
    """The result of *answer*; its exceptions are answers too, those that are not documented of kind *leaked*."""
    try:
        return answer()
    except NotDone as reason:
        return CodecAnswer(skipped=str(reason))
    except CodecError as refusal:
        error = Refusal(refusal.kind, str(refusal))
        return CodecAnswer(batches=refusal.batches, error=error) if refusal.batches else CodecAnswer(error=error)
    except Exception as leak:  # MemoryError too: the runner measures memory itself
        return CodecAnswer(error=Refusal(leaked, f"{type(leak).__module__}.{type(leak).__qualname__}: {leak}"))


def reply_to(testee: Testee, line: bytes) -> CodecReply | HelloReply | HelloRefusal:
    """The reply to one line, whatever it holds."""
    try:
        request = protocol.parse_request(line)
    except (ValueError, RecursionError) as error:
        refusal = Refusal("malformed", f"not a request of protocol {protocol.PROTOCOL}: {error}")
        return CodecReply(id=protocol.request_id(line) or "", error=refusal)
    match request:
        case protocol.HelloRequest():
            if (produce := wanted_produce_version()) is not None:
                return hello_through_produce(testee, produce)
            wanted = wanted_fetch_version()
            return hello(testee) if wanted is None else hello_through_fetch(testee, wanted)
        case protocol.DecodeRequest(many=many) if many is not UNSET:
            return CodecReply(id=request.id, many=[decode_answer(testee, data) for data in many])
        case protocol.DecodeRequest(data=data, aborted=aborted) if data is not UNSET:
            return _with_id(request.id, decode_answer(testee, data, None if aborted is UNSET else aborted))
        case protocol.DecodeRequest():
            return CodecReply(id=request.id, error=Refusal("malformed", "decode needs data or many"))
        case protocol.EncodeRequest():
            return _with_id(request.id, encode_answer(testee, request))
        case protocol.AppendRequest():
            return _with_id(request.id, append_answer(testee, request))


def _with_id(request_id: str, answer: CodecAnswer) -> CodecReply:
    return CodecReply(id=request_id, **msgspec.structs.asdict(answer))


def serve(testee: Testee, source: BinaryIO, sink: BinaryIO) -> None:
    """Answer every line of *source* until it ends."""
    for line in source:
        if line.strip():
            sink.write(protocol.reply_line(reply_to(testee, line)))
            sink.flush()


def main(arguments: list[str]) -> None:
    """Serve the testee named on the command line; a closed pipe is a normal end."""
    try:
        serve(load_testee(arguments[0]), sys.stdin.buffer, sys.stdout.buffer)
    except BrokenPipeError:
        # The pipe is closed: without this the interpreter reports an error at exit.
        sys.stderr.close()


if __name__ == "__main__":
    main(sys.argv[1:])
