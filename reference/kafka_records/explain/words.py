"""Values in plain words: times, texts, sizes, bits.

What comes from the input is hostile: no control character leaves here unescaped.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_records.constants import NO_TIMESTAMP
from kafka_records.explain.model import Note

# A text longer than this is shortened; the bytes are still all there.
LONGEST_TEXT = 48
DAY_MS = 86_400_000


class Words(NamedTuple):
    """Texts of a field: its value as text, the meaning, details, the rule."""

    shown: str
    meaning: str = ""
    notes: tuple[Note, ...] = ()
    rule: str | None = None


def timestamp(ms: int) -> str:
    """Milliseconds since 1970 as a date and time.

    >>> timestamp(1524709879130), timestamp(-1), timestamp(-2)
    ('2018-04-26 02:31:19.130 UTC', 'no timestamp', '1969-12-31 23:59:59.998 UTC')
    """
    if ms == NO_TIMESTAMP:
        return "no timestamp"
    days, rest = divmod(ms, DAY_MS)
    seconds, fraction = divmod(rest, 1000)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    return f"{date(days)} {hour:02}:{minute:02}:{second:02}.{fraction:03} UTC"


def date(days: int) -> str:
    """The Gregorian date *days* after 1970-01-01; `datetime` ends at year 9999, an int64 does not.

    >>> date(0), date(19782), date(-719529), date(106751991167)
    ('1970-01-01', '2024-02-29', '-0001-12-31', '+292278994-08-17')
    """
    # Counted from 0000-03-01, so that the leap day is the last day of a year.
    era, day = divmod(days + 719_468, 146_097)
    year = (day - day // 1460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    year += 400 * era + (month >= 10)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{(month + 2) % 12 + 1:02}-{day - (153 * month + 2) // 5 + 1:02}"


def text(data: bytes) -> str:
    """Bytes as a quoted text, everything unprintable escaped, shortened if it is long.

    >>> text(b'a "b"'), text(b"\\x1b[31m\\xff"), text("\u00fc\u202e".encode())
    ('"a \\\\"b\\\\""', '"\\\\x1b[31m\\\\xff"', '"\u00fc\\\\u202e"')
    """
    # Four bytes make a character at most; a longer cut would only be thrown away.
    characters = data[: 4 * LONGEST_TEXT].decode("utf-8", "surrogateescape")
    shown = "".join(map(escaped, characters[:LONGEST_TEXT]))
    cut = len(shown) > LONGEST_TEXT or len(characters) > LONGEST_TEXT or len(data) > 4 * LONGEST_TEXT
    return f'"{shown[:LONGEST_TEXT]}…' if cut else f'"{shown}"'


def escaped(character: str) -> str:
    """One character, or its escape.

    >>> [escaped(character) for character in 'a\\n\\udcff\\\\"']
    ['a', '\\\\n', '\\\\xff', '\\\\\\\\', '\\\\"']
    """
    if character in '\\"':
        return f"\\{character}"
    if "\udc80" <= character <= "\udcff":
        return f"\\x{ord(character) - 0xDC00:02x}"  # a byte that is not UTF-8
    return character if character.isprintable() else ascii(character)[1:-1]


def is_text(data: bytes) -> bool:
    """Whether *data* is UTF-8 with little in it that would have to be escaped."""
    try:
        characters = data[:1024].decode()
    except UnicodeDecodeError as error:
        if len(data) <= 1024 or error.start < 1020:  # the cut may have split a character
            return False
        characters = data[: error.start].decode()
    return sum(map(str.isprintable, characters)) * 4 >= len(characters) * 3


def content(data: bytes) -> Words:
    """A key or value that may be anything: a text if it looks like one."""
    return Words(text(data), size(len(data))) if is_text(data) else Words(size(len(data)), "binary")


def size(count: int) -> str:
    """So many bytes.

    >>> size(1), size(12345)
    ('1 byte', '12,345 bytes')
    """
    return number(count, "byte")


def number(count: int, noun: str) -> str:
    """So many things.

    >>> number(2, "batch"), number(1, "record"), number(2, "entry")
    ('2 batches', '1 record', '2 entries')
    """
    if count == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{count:,} {plural}"


def span(first: int, last: int) -> str:
    """A range of offsets or bytes, both ends in it.

    >>> span(0, 1), span(5, 5)
    ('0…1', '5')
    """
    return str(first) if first == last else f"{first}…{last}"


def pattern(value: int, mask: int, width: int) -> str:
    """The bits of *value* under *mask*, in groups of four, the others as dots.

    >>> pattern(0x0B, 0x07, 8)
    '.... .011'
    """
    digits = ["." if not mask >> bit & 1 else str(value >> bit & 1) for bit in reversed(range(width))]
    return " ".join("".join(digits[start : start + 4]) for start in range(0, width, 4))


def overlong(used: int, shortest: int) -> str:
    """A remark on a varint with more bytes than it needs (VAR-05), or nothing."""
    if used == shortest:
        return ""
    return f"overlong: {size(used)} where {shortest} would do"


def joined(*texts: str) -> str:
    """The texts that are not empty, one after the other."""
    return "; ".join(filter(None, texts))


def length_of(what: str, value: int) -> str:
    """The meaning of a nullable length: every negative one is null."""
    if value < 0:
        return f"null: no {what}" if value == -1 else f"null as well: a negative length is read like -1, no {what}"
    return f"an empty {what}" if value == 0 else f"a {what} of {size(value)}"
