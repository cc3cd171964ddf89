"""A codec as functions of this process: what they do with a case, as an observation like any testee's."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kafka_conformance.hostile import printable
from kafka_conformance.in_process.limits import Late, limited
from kafka_conformance.observation import (
    Crashed,
    Decoded,
    Encoded,
    Exceeded,
    Garbled,
    Hung,
    Observation,
    Refused,
    Skipped,
)
from kafka_conformance.protocol import PROTOCOL, Capability, HelloReply, Refusal
from kafka_conformance.smoke import golden
from kafka_conformance.testee import CodecError, NotDone
from kafka_corpus.case import Case
from kafka_corpus.vectors import input_of
from kafka_corpus.wire import WireBatch, to_wire
from kafka_records import Batch, Kind
from kafka_records.constants import COMPRESSIONS

Given = WireBatch | Batch | Mapping[str, Any]
Decode = Callable[[bytes], Iterable[Given]]
Encode = Callable[[Batch], bytes]
Errors = Mapping[type[Exception], Kind]

MAGICS: Final = (0, 1, 2)
SECONDS: Final = 5.0
MEMORY: Final[int | None] = None
# What raises when an extension in Rust panics: no Exception, and no module to import it from.
PANIC: Final = "PanicException"


@dataclass(frozen=True, slots=True, kw_only=True)
class Codec:
    """The functions, and what they can be asked.

    Attributes:
        decode: bytes to batches; `check_codec` says which.
        encode: a `kafka_records.Batch` to bytes.
        magics: the formats that they know.
        compressions: the compressions that they know.
        errors: what the codec's exceptions mean; None if kinds of errors are not to be compared.
        seconds: how long one case may take; None for no limit.
        memory: bytes of address space that one case may take; None for no limit.
    """

    decode: Decode | None = None
    encode: Encode | None = None
    name: str = ""
    version: str = ""
    magics: tuple[int, ...] = MAGICS
    compressions: tuple[str, ...] = COMPRESSIONS
    errors: Errors | None = None
    seconds: float | None = SECONDS
    memory: int | None = MEMORY

    def hello(self) -> HelloReply:
        """What it would say of itself as a testee."""
        able = Capability(list(self.magics), list(self.compressions))
        return HelloReply(
            protocol=PROTOCOL,
            name=self.name or _name_of(self.decode or self.encode),
            version=self.version,
            language="python",
            runtime=f"{platform.python_implementation()} {platform.python_version()}",
            decode=able if self.decode else Capability(),
            encode=able if self.encode else Capability(),
        )

    def does(self, case: Case) -> bool:
        """Whether there is a function for *case*."""
        return {"decode": self.decode, "encode": self.encode}.get(case.op) is not None

    def check_shape(self) -> None:
        """Raise `TypeError` if `decode` gives something that is no batch, even for the plainest input."""
        plainest = golden(2)
        seen = self.observe(plainest) if self.does(plainest) else None
        if isinstance(seen, Garbled):
            raise TypeError(seen.why)

    def observe(self, case: Case) -> Observation:
        """What the function for *case* does; its failures are observations too, but an interrupt goes through."""
        given = input_of(case)
        batches: list[WireBatch] = []
        try:
            with limited(self.seconds, self.memory):
                if isinstance(given, Batch):
                    return Encoded(bytes(self._encode(given)))
                for batch in self._decode(given):
                    batches.append(_as_wire(batch))  # noqa: PERF401  # those before an error are kept
            return Decoded(tuple(batches))
        except BaseException as raised:
            return self._of_error(raised, case, batches)

    def _decode(self, data: bytes) -> Iterable[Given]:
        if self.decode is None:
            raise NotDone("there is no decode")
        return self.decode(data)

    def _encode(self, batch: Batch) -> bytes:
        if self.encode is None:
            raise NotDone("there is no encode")
        return self.encode(batch)

    def _of_error(self, raised: BaseException, case: Case, batches: list[WireBatch]) -> Observation:
        match raised:
            case NotDone():
                return Skipped(printable(str(raised)))
            case NotABatch():
                return Garbled(printable(str(raised)))
            case CodecError():
                return _refused(raised.kind, str(raised), raised.batches or batches)
            case MemoryError():
                return Exceeded("it raised MemoryError")
            case Exception():
                told = f"{type(raised).__name__}: {raised}"
                return _refused(self._kind(raised, case), told, batches)
            case Late():
                return Hung(self.seconds or 0.0)
        if isinstance(raised, SystemExit) or type(raised).__name__ == PANIC:
            return Crashed(stderr=printable(f"{type(raised).__name__}: {raised}"))
        raise raised

    def _kind(self, raised: Exception, case: Case) -> str:
        if self.errors is None:
            return case.expect.kinds[0] if case.expect.kinds else "malformed"
        return next((kind for type_, kind in self.errors.items() if isinstance(raised, type_)), "malformed")


class NotABatch(TypeError):
    """What `decode` gave is none of the shapes that it may give."""


def _as_wire(given: Given) -> WireBatch:
    if isinstance(given, WireBatch):
        return given
    if isinstance(given, Batch):
        return to_wire(given)
    try:
        # Bytes are bytes: text, as in the protocol's base64, would be a mistake.
        return msgspec.convert(given, WireBatch, builtin_types=(bytes, bytearray, memoryview))
    except msgspec.ValidationError as error:
        raise NotABatch(f"decode gave a batch of another shape: {error}") from error


def _refused(kind: str, message: str, batches: list[WireBatch]) -> Observation:
    refusal = Refusal(kind, printable(message))
    return Decoded(tuple(batches), refusal) if batches else Refused(refusal)


def _name_of(function: object) -> str:
    return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', 'codec')}".lstrip(".")
