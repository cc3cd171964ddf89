"""The dictionary: what the layout tables say, in the form that libFuzzer and AFL read."""

import re
from pathlib import Path

import pytest

from kafka_fuzz.mutate.dictionary import dictionary_entries, dictionary_text, dictionary_words, main
from kafka_records import decode
from kafka_records.layout import BATCH_V2


def test_every_field_has_words() -> None:
    """Each fixed field but the checksum has its edges; each edge stands there once."""
    assert len(set(dictionary_words())) == len(dictionary_words())
    widths = {len(word) for word in dictionary_words()}
    assert {field.width for field in BATCH_V2.fields} <= widths


@pytest.mark.parametrize(
    "word", [b"\x82SNAPPY\0", b"\x1f\x8b", b"\x28\xb5\x2f\xfd", (-(2**31)).to_bytes(4, "big", signed=True)]
)
def test_words_that_matter(word: bytes) -> None:
    """Magics of the codecs and edges of the types are in it."""
    assert any(each.startswith(word) for each in dictionary_words())


def test_words_that_are_entries() -> None:
    """The smallest entry of each magic is one word, and decodes."""
    smallest = [dictionary_entries()[f"{name}.smallest"] for name in ("message_v0", "message_v1", "batch_v2")]

    assert [batch.magic for batch in decode(b"".join(smallest))] == [0, 1, 2]


def test_the_form(tmp_path: Path) -> None:
    """Each line is a comment, or a name and bytes that read back as the word."""
    read = {}
    for line in dictionary_text().splitlines():
        if not line.startswith("#"):
            match = re.fullmatch(r'([A-Za-z0-9_.]+)="((?:\\x[0-9a-f]{2})+)"', line)
            assert match, line
            read[match[1]] = bytes.fromhex(match[2].replace("\\x", ""))
    assert tuple(read.values()) == tuple(dictionary_entries().values())


def test_check(tmp_path: Path) -> None:
    """--check says whether the file is what would be written."""
    path = tmp_path / "kafka.dict"

    assert main(["--check", str(path)]) == 1
    assert main([str(path)]) == 0
    assert main(["--check", str(path)]) == 0
    path.write_text("old", encoding="utf-8")
    assert main(["--check", str(path)]) == 1
    assert main([]) == 2
