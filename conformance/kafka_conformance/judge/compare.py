"""Where two lists of batches differ: the first field, and what was left out.

Only what the testee exposes is compared.  A field that it leaves out is named,
so that a report can say how much of the format was looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from msgspec import UNSET

from kafka_conformance.sanitize import printable
from kafka_corpus.wire import BATCH_FIELDS, RECORD_FIELDS, WireBatch, WireHeader, WireRecord

# Enough to group findings by; a batch of a million wrong records needs no more.
MAX_DIFFERENCES: Final = 8
MAX_VALUE: Final = 60

HEADER_FIELDS: Final = tuple(name for name in BATCH_FIELDS if name != "records")
# What `compare: records` looks at in a batch itself: nothing but its records.
NO_FIELDS: Final[tuple[str, ...]] = ()

_SURROGATE: Final = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs; `lossy` if what is left of the value is right, or another form of it does as well."""

    path: str
    expected: Any
    given: Any
    lossy: bool = False
    equivalence: str = ""

    def __str__(self) -> str:
        text = f"{self.path}: expected {shown_value(self.expected)}, got {shown_value(self.given)}"
        return f"{text}; equivalent: {self.equivalence}" if self.equivalence else text


@dataclass(slots=True)
class Comparison:
    """Differences in order, and the fields that the testee does not expose."""

    differences: list[Difference] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


def compare(
    expected: Sequence[WireBatch], given: Sequence[WireBatch], *, prefix: bool = False, records_only: bool = False
) -> Comparison:
    """Compare *given* with *expected*; with *prefix*, fewer batches will do."""
    comparison = Comparison()
    if not records_only and list(given) == list(expected):
        return comparison
    fields = NO_FIELDS if records_only else HEADER_FIELDS
    for difference in _batches(expected, given, fields, comparison.left_out):
        comparison.differences.append(difference)
        if len(comparison.differences) >= MAX_DIFFERENCES:
            return comparison
    missing = len(given) < len(expected) and not prefix
    if missing or len(given) > len(expected):
        comparison.differences.append(Difference("batches.length", len(expected), len(given)))
    return comparison


def compare_records(expected: Sequence[WireRecord], given: Sequence[WireRecord]) -> Comparison:
    """Compare records without batch boundaries."""
    comparison = Comparison()
    for difference in _records("", expected, given, comparison.left_out):
        comparison.differences.append(difference)
        if len(comparison.differences) >= MAX_DIFFERENCES:
            break
    return comparison


def _batches(
    expected: Sequence[WireBatch], given: Sequence[WireBatch], fields: Sequence[str], left_out: set[str]
) -> Iterator[Difference]:
    for index, (want, have) in enumerate(zip(expected, given, strict=False)):
        path = f"batches[{index}]"
        yield from _struct(path, want, have, fields, left_out)
        if have.records is UNSET:
            left_out.add("records")
        elif want.records is not UNSET:
            yield from _records(f"{path}.", want.records, have.records, left_out)


def _records(
    path: str, expected: Sequence[WireRecord], given: Sequence[WireRecord], left_out: set[str]
) -> Iterator[Difference]:
    for index, (want, have) in enumerate(zip(expected, given, strict=False)):
        if want != have:
            yield from _record(f"{path}records[{index}]", want, have, left_out)
    if len(expected) != len(given):
        yield Difference(f"{path}records.length", len(expected), len(given))


def _record(path: str, want: WireRecord, have: WireRecord, left_out: set[str]) -> Iterator[Difference]:
    names: set[str] = set()
    for difference in _struct(path, want, have, RECORD_FIELDS, names):
        if difference.path.endswith(".headers"):
            yield from _headers(difference.path, difference.expected, difference.given)
        else:
            yield difference
    left_out |= {f"records.{name}" for name in names}


def _struct(path: str, want: Any, have: Any, fields: Sequence[str], left_out: set[str]) -> Iterator[Difference]:
    for name in fields:
        expected, given = getattr(want, name), getattr(have, name)
        if given is UNSET and expected is not UNSET:
            left_out.add(name)
        elif given != expected and expected is not UNSET:
            yield Difference(f"{path}.{name}", expected, given)


def _headers(path: str, expected: Sequence[WireHeader], given: Sequence[WireHeader]) -> Iterator[Difference]:
    if list(expected) != list(given) and list(given) in (_by_key(expected), _sorted(expected), _as_object(expected)):
        keys = [[key or b"" for key, _ in headers] for headers in (expected, given)]
        yield Difference(path, b" ".join(keys[0]), b" ".join(keys[1]), lossy=True)
        return
    for index, (want, have) in enumerate(zip(expected, given, strict=False)):
        if want[0] != have[0]:
            yield Difference(f"{path}[{index}].key", want[0], have[0], lossy=have[0] in _as_text(want[0] or b""))
        if want[1] != have[1]:
            yield Difference(f"{path}[{index}].value", want[1], have[1])
    if len(expected) != len(given):
        yield Difference(f"{path}.length", len(expected), len(given))


def _by_key(headers: Sequence[WireHeader]) -> list[WireHeader]:
    """The headers as a map of lists shows them: those of one key together, where its first one was."""
    first = {key: index for index, (key, _) in reversed(list(enumerate(headers)))}
    return sorted(headers, key=lambda header: first[header[0]])


def _sorted(headers: Sequence[WireHeader]) -> list[WireHeader]:
    """The headers as a sorted map shows them."""
    return sorted(headers, key=lambda header: header[0] or b"")


def _as_object(headers: Sequence[WireHeader]) -> list[WireHeader]:
    """The headers as an object of JavaScript shows them: keys that are numbers first, in order."""
    grouped = _by_key(headers)
    numbers = [header for header in grouped if _is_number(header[0])]
    rest = [header for header in grouped if not _is_number(header[0])]
    return sorted(numbers, key=lambda header: int(header[0] or b"")) + rest


def _is_number(key: bytes | None) -> bool:
    return key is not None and key.isdigit() and str(int(key)).encode() == key


def _as_text(key: bytes) -> set[bytes]:
    """The bytes that a key that is not UTF-8 can become when a codec converts it to text and back.

    REC-21: keys are bytes on the wire; Java replaces what is not UTF-8 by U+FFFD,
    one for each ill-formed part or one for each byte, others drop it.
    """
    try:
        key.decode()
    except UnicodeDecodeError:
        replaced = key.decode(errors="replace")
        per_byte = key.decode(errors="surrogateescape")
        per_byte = "".join("\ufffd" if "\udc80" <= char <= "\udcff" else char for char in per_byte)
        # To Java an encoded surrogate is one ill-formed part, to Python three.
        per_surrogate = _SURROGATE.sub("\ufffd".encode(), key).decode(errors="replace")
        others = (per_surrogate, key.decode(errors="ignore"), key.decode("latin-1"))
        return {text.encode() for text in (replaced, per_byte, *others)}
    return set()


def shown_value(value: Any) -> str:
    """A short text for a value: bytes as text if printable, else as hex after `0x`."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return _shown_bytes(value)
    return printable(str(value), MAX_VALUE)


def _shown_bytes(value: bytes) -> str:
    if value.isascii() and value.decode().isprintable() and len(value) <= MAX_VALUE:
        return f'"{value.decode()}"'
    rest = f"… ({len(value)} bytes)" if len(value) > MAX_VALUE // 4 else ""
    return f"0x{value[: MAX_VALUE // 4].hex()}{rest}"
