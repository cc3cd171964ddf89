"""Text from testees is harmless once it went through `hostile`."""

import pytest

from kafka_conformance.sanitize import printable, tail


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, Größe, 漢字", "plain, Größe, 漢字"),
        ("\x1b[2Jgone", r"\x1b[2Jgone"),
        ("two\nlines\r", r"two\nlines\r"),
        (b"\xff\xfe bytes", r"\xff\xfe bytes"),
        ("\u202eright to left", r"\u202eright to left"),
        ("\ud800 half a pair", r"\ud800 half a pair"),
    ],
)
def test_printable_escapes(text: str | bytes, expected: str) -> None:
    """Control characters, direction marks and bytes that are no text come out escaped."""
    assert printable(text) == expected


@pytest.mark.parametrize("text", ["x" * 10_000, b"x" * 10_000, "\n" * 10_000, b"\xff" * 10_000])
def test_printable_is_bounded(text: str | bytes) -> None:
    """The result has at most the given number of characters, for a text of any length."""
    shown = printable(text, 50)

    assert len(shown) == 50
    assert shown.endswith("…")


def test_tail_keeps_the_end() -> None:
    """Of a long standard error the last lines are kept, on one line."""
    assert tail(b"first\n\nsecond\x1b\nthird\n") == r"first | second\x1b | third"
    assert tail(b"noise\n" * 10_000 + b"panic: it broke\n", 40).endswith("panic: it broke")
    assert len(tail(b"noise\n" * 10_000, 40)) == 40


def test_the_reason_of_a_panic_outlives_its_frames() -> None:
    """Of a long stack the first lines are kept, for they say why it ended and in which function."""
    frames = b"".join(b"main.frame%d(0xc000)\n" % number for number in range(200))
    kept = tail(b"warning: old\npanic: index out of range\ngoroutine 1 [running]:\nlib.Decode()\n" + frames)

    assert kept.startswith("panic: index out of range | goroutine 1 [running]: | lib.Decode()")
    assert len(kept) <= 400
