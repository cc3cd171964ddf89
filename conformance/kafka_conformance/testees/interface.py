"""Python testees: a module (or an object) with these six names.

It may have `append`, `consume` and `committed` besides.

`serve` connects it to the protocol, so an adapter only drives its codec.  An
adapter raises `CodecError` for what its codec refuses, with the best kind it
knows, and `NotDone` for what its codec cannot do at all.  Any other exception
that leaks out of a decoder becomes an error of kind `other` that names the
exception class, as its callers do not expect it.  A writer may say no to its
arguments with whatever Python has, so there it is `malformed`.  `MemoryError`
is such an exception: the runner measures what a testee takes.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Final, Literal, Protocol, cast, runtime_checkable

from kafka_conformance.testees.protocol import Aborted, AppendRequest, Capability, CodecAnswer
from kafka_corpus.wire import WireBatch
from kafka_records import Kind


class CodecError(Exception):
    """The codec refused the bytes, or the batch."""

    def __init__(self, kind: Kind | Literal["other"], message: str, batches: Sequence[WireBatch] = ()) -> None:
        super().__init__(message)
        self.kind = kind
        self.batches = list(batches)


class NotDone(Exception):
    """The codec has no such feature, or no way to ask for it."""


class Testee(Protocol):
    """The six names.

    `decode` gives every complete batch of the input, a trailing partial one
    dropped; fields that the codec does not expose stay `UNSET`.  `encode`
    gives the bytes of one batch.
    """

    @property
    def NAME(self) -> str: ...
    @property
    def VERSION(self) -> str: ...
    @property
    def DECODES(self) -> Capability: ...
    @property
    def ENCODES(self) -> Capability: ...
    def decode(self, data: bytes, /) -> list[WireBatch]: ...
    def encode(self, batch: WireBatch, /) -> bytes: ...


@runtime_checkable
class Appending(Protocol):
    """The additional function of a testee that predicts a broker."""

    def append(self, request: AppendRequest, /) -> CodecAnswer: ...


@runtime_checkable
class Consuming(Protocol):
    """The function that a consumer has instead of `decode`, which raises `NotDone`."""

    def consume(self, data: bytes, /) -> CodecAnswer: ...


@runtime_checkable
class Committing(Protocol):
    """The additional function of a consumer that leaves out aborted transactions."""

    def committed(self, data: bytes, aborted: Sequence[Aborted], /) -> CodecAnswer: ...


NAMES: Final = ("NAME", "VERSION", "DECODES", "ENCODES", "decode", "encode")


def load_testee(reference: str) -> Testee:
    """The testee that *reference* names: a module, or an attribute of one.

    Raises:
        ImportError: there is no such module, or what it needs is not installed.
        AttributeError: the module has no such attribute.
    """
    try:
        found: object = import_module(reference)
    except ModuleNotFoundError as error:
        parent, _, name = reference.rpartition(".")
        if error.name != reference or not parent:
            raise
        found = getattr(import_module(parent), name)
    missing = [name for name in NAMES if not hasattr(found, name)]
    if missing:
        raise AttributeError(f"{reference} is no testee: it has no {', '.join(missing)}")
    return cast(Testee, found)
