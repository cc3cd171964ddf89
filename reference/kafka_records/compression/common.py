"""Parts that all codecs share: the error of a refusal, and output that stops at its limit."""

from __future__ import annotations

from kafka_records.errors import RecordFormatError


def refused(message: str, at: int, rule: str) -> RecordFormatError:
    """The codec refuses the compressed bytes; *at* counts from their start."""
    return RecordFormatError("decompression", message, offset=at, rule=rule)


def over_limit(most: int, at: int) -> RecordFormatError:
    """There is more output than *most* bytes (CMP-10: Kafka itself sets no limit)."""
    return RecordFormatError("limit", f"decompression gives more than {most} bytes", offset=at, rule="CMP-10")


class Output:
    """Decompressed bytes, at most *most* of them."""

    __slots__ = ("data", "most")

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self.most = most

    @property
    def room(self) -> int:
        """How many bytes may still come."""
        return self.most - len(self.data)

    def add(self, block: bytes, at: int) -> None:
        """Append *block*, which came from compressed byte *at*."""
        if len(block) > self.room:
            raise over_limit(self.most, at)
        self.data += block
