"""One codec's decompressor: its output and its refusals."""

from dataclasses import dataclass

import pytest

from kafka_records import RecordFormatError
from kafka_records.compression import decompress
from kafka_records.constants import Compression


@dataclass(frozen=True, slots=True)
class Stream:
    """Streams of a codec, of which at most so many bytes may come."""

    compression: Compression
    most: int

    def plain(self, data: bytes, most: int | None = None, magic: int = 2) -> bytes:
        """The decompressed bytes."""
        return decompress(self.compression, data, magic=magic, most=self.most if most is None else most)

    def kind_of(self, data: bytes) -> str:
        """The kind of the error, or nothing."""
        try:
            self.plain(data)
        except RecordFormatError as error:
            return error.kind
        return ""

    def refusal(self, data: bytes, most: int | None = None, magic: int = 2) -> tuple[str, str, int]:
        """Kind, rule and offset of the error."""
        with pytest.raises(RecordFormatError) as caught:
            self.plain(data, most, magic)
        return caught.value.kind, caught.value.rule, caught.value.offset
