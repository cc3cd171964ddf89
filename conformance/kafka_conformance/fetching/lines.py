"""What a client prints, and what it means: one JSON object a line.

    {"offset": 0, "timestamp": 1700000000000, "key": "a2V5", "value": null, "headers": [["aA==", "dg=="]]}
    {"error": {"kind": "corrupt", "message": "…"}}      or {"error": "…"}
    {"skipped": "no zstd here"}

Fields that a client does not know are left out.  Bytes are base64; `encoding`
beside them says `hex` or `text` where they are that.  Text with U+FFFD in it is
taken as not told: the bytes behind that are gone.  A client that stays up
answers with one line, `{"records": [RECORD, …]}`, and `error` beside it.

Lines that are no JSON object are somebody's log, and are passed over.
"""

from __future__ import annotations

from base64 import b64decode
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET, UnsetType

from kafka_conformance.fake_broker import END
from kafka_conformance.hostile import printable
from kafka_conformance.protocol import Answer, Refusal
from kafka_corpus.wire import WireRecord

Encoding = Literal["base64", "hex", "text"]
REPLACED: Final = "\N{REPLACEMENT CHARACTER}"


class BadLine(ValueError):
    """A JSON object that is nothing of the above."""


class Record(msgspec.Struct):
    """A record as a client prints it; null is none for key and value, and nothing said elsewhere."""

    offset: int | None = None
    timestamp: int | None = None
    key: str | None | UnsetType = UNSET
    value: str | None | UnsetType = UNSET
    headers: list[tuple[str, str | None]] | None = None
    encoding: Encoding | None = None

    def wire(self, encoding: Encoding = "base64") -> WireRecord:
        """The record in the protocol's shape.  Raises `BadLine`."""
        how = self.encoding or encoding
        headers = None if self.headers is None else [_header(each, how) for each in self.headers]
        return WireRecord(
            offset=UNSET if self.offset is None else self.offset,
            timestamp=UNSET if self.timestamp is None else self.timestamp,
            key=data(self.key, how),
            value=data(self.value, how),
            # One that is not told is all that can be compared away: a list has no holes.
            headers=UNSET if headers is None or any(UNSET in each for each in headers) else headers,
        )


class Line(Record):
    """A line: a record, an error, or what a client that stays up answers."""

    records: list[Record] | None = None
    error: Any = None
    skipped: str | None = None

    def refusal(self) -> Refusal | None:
        """The error in it."""
        if not self.error:
            return None
        if isinstance(self.error, dict):
            return Refusal(str(self.error.get("kind") or ""), str(self.error.get("message") or ""))
        return Refusal(message=str(self.error))

    def answer(self) -> Answer:
        """The whole answer of a client that stays up.  Raises `BadLine`."""
        refusal = self.refusal()
        if self.skipped is not None:
            return Answer(skipped=self.skipped)
        if self.records is None and refusal is None:
            raise BadLine("an answer has records, error or skipped")
        records = up_to_the_end([each.wire(self.encoding or "base64") for each in self.records or ()])
        return Answer(records=records) if refusal is None else Answer(records=records, error=refusal)


_decoder = msgspec.json.Decoder(Line)


def parse(line: bytes) -> Line | None:
    """What *line* says; None if it is no JSON object.  Raises `BadLine`."""
    if not line.lstrip().startswith(b"{"):
        return None
    try:
        return _decoder.decode(line)
    except msgspec.ValidationError as error:
        raise BadLine(f"{error}: {printable(line)}") from error
    except (ValueError, RecursionError):
        return None


def _header(header: tuple[str, str | None], encoding: Encoding) -> tuple[Any, Any]:
    return data(header[0], encoding), data(header[1], encoding)


def data(text: str | None | UnsetType, encoding: Encoding) -> bytes | None | UnsetType:
    """The bytes that *text* stands for.  Raises `BadLine`."""
    if text is None or text is UNSET:
        return text
    try:
        match encoding:
            case "hex":
                return bytes.fromhex(text)
            case "text":
                return UNSET if REPLACED in text else text.encode()
        return b64decode(text, validate=True)
    except ValueError as error:
        raise BadLine(f"{printable(text)} is no {encoding}") from error


def is_end(record: WireRecord) -> bool:
    """Whether this is the record that ends a case."""
    return END in (record.key, record.value)


def up_to_the_end(records: list[WireRecord]) -> list[WireRecord]:
    """The records before the one that ends the case."""
    at = next((index for index, each in enumerate(records) if is_end(each)), len(records))
    return records[:at]
