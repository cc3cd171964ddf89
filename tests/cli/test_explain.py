"""`kafkaproof explain`: what it prints, for files, hex digits and cases."""

import io
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from rich.console import Console

from kafka_conformance.reports.byte_rows import rows_of
from kafka_conformance.reports.explain import HEX_WIDTH
from kafka_corpus.authoring.build import put, raw_batch, raw_header, raw_message, raw_record
from kafka_corpus.authoring.frames import pack
from kafka_corpus.vectors import load_vectors
from kafka_records import explain
from kafkaproof.commands.explain import explain_command, print_explanation

EXPLAINED = Path(__file__).parent / "explained"
TIME = 1524709879130

RECORDS = raw_record(
    key=b"key", headers=raw_header(b"trace", b"1") + raw_header(b"\xff\x1b[m", None), header_count=b"\x04"
) + raw_record(offset_delta=1, timestamp_delta=130, value=b"x" * 100)
V2 = {"record_count": 2, "base_timestamp": TIME, "max_timestamp": TIME + 130}
BROKEN_RECORD = raw_record(key=b"key", value_length=b"\x7e")
# Inputs of the expected outputs: NAME.txt is the printed text for these bytes.
INPUTS = {
    "lz4_batch": raw_batch(pack("lz4", RECORDS), attributes=3, **V2),
    "wrong_checksum": put(raw_batch(RECORDS, **V2), "crc", 1)
    + raw_batch(raw_record(key=b"\0\0\0\1", value=b"\0\0\0\0\0\7"), attributes=0x30, producer_id=7, producer_epoch=0)
    + raw_message(1, b"k", timestamp=TIME)[:30],
    "broken_inside_gzip": raw_batch(pack("gzip", BROKEN_RECORD + raw_record()), attributes=1, record_count=2),
}


def run(*args: str, given: bytes | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(explain_command, args, input=given)


def printed(data: bytes, *args: str) -> list[str]:
    """The lines printed for *data*."""
    return run("-", *args, given=data).output.splitlines()


@pytest.mark.parametrize("name", INPUTS)
def test_pages_stay_as_they_are(name: str) -> None:
    """The plain output is the one that was looked at (`python tests/cli/test_explain.py` writes it)."""
    assert run("-", given=INPUTS[name]).output == (EXPLAINED / f"{name}.txt").read_text(encoding="utf-8")


def test_plain_when_piped() -> None:
    """Piped output has no escape sequence, no trailing space and at most 110 columns."""
    for data in INPUTS.values():
        lines = printed(data)
        assert "\x1b" not in "".join(lines)
        assert [line for line in lines if line != line.rstrip()] == []
        assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("width", [60, 80, 100, 132])
def test_width(width: int) -> None:
    """`--width` holds but for what cannot be made narrower: offset, bytes and names."""
    assert max(map(len, printed(INPUTS["lz4_batch"], "--width", str(width)))) <= max(width, 84)


def test_colours_change_nothing_else() -> None:
    """A terminal gets the same lines, with colours."""
    explanation = explain(INPUTS["broken_inside_gzip"])
    shown = []
    for system in ("256", None):
        screen = io.StringIO()
        on = Console(file=screen, force_terminal=True, width=110, color_system=system, highlight=False)
        print_explanation("standard input", explanation, on)
        shown.append(screen.getvalue())

    assert "\x1b[" in shown[0]
    assert re.sub(r"\x1b\[[0-9;]*m", "", shown[0]) == shown[1]


def hex_rows(lines: list[str]) -> dict[int, tuple[int, int]]:
    """For each byte of the input that is shown: its line, and the column of its first digit."""
    places = {}
    for number, line in enumerate(lines):
        row = re.match(r"^( *)(\d+)  ((?:[0-9a-f]{2} ?)+)(?: |$)", line[: 8 + HEX_WIDTH])
        if row:
            for index in range(len(row[3].split())):
                places[int(row[2]) + index] = (number, row.start(3) + 3 * index)
    return places


@pytest.mark.slow
def test_the_caret_stands_under_the_byte() -> None:
    """In cases of the corpus that are broken outside compression, the caret is below the byte of the error."""
    pointed = 0
    for case in load_vectors()[::4]:
        if not isinstance(case.input, bytes) or len(case.input) > 2000:
            continue
        error = explain(case.input).error
        if error is None or error.inner_offset is not None or error.offset >= len(case.input):
            continue
        lines = printed(case.input)
        (caret,) = [number for number, line in enumerate(lines) if re.match(r" +\^\^", line)]
        above = hex_rows(lines).get(error.offset)
        if above == (caret - 1, lines[caret].index("^^")):
            pointed += 1
        else:  # a record or batch ends before the byte at which another one starts
            assert "··   end of these bytes" in lines[caret - 1], case.id
    assert pointed > 50


def test_the_caret_inside_compressed_bytes() -> None:
    """An error in decompressed bytes is marked there, after the rail."""
    lines = printed(INPUTS["broken_inside_gzip"])
    error = explain(INPUTS["broken_inside_gzip"]).error
    assert error is not None
    (caret,) = [number for number, line in enumerate(lines) if "^^" in line]

    assert lines[caret].startswith("  │ ")
    assert re.match(rf"  │ +{error.inner_offset}  ", lines[caret - 1])
    assert lines[caret].index("^^") == re.match(r"  │ +\d+  ", lines[caret - 1]).end()  # type: ignore[union-attr]


def test_the_caret_after_the_last_byte() -> None:
    """Where a byte is missing, the caret stands after the last one."""
    batch = raw_batch(raw_record(header_count=b""))
    lines = printed(batch + raw_batch(raw_record()))
    (caret,) = [number for number, line in enumerate(lines) if "^^" in line]

    assert lines[caret - 1] == f"{len(batch):>4}  ··   end of these bytes"
    assert "header_count: the varint needs another byte" in lines[caret]
    assert any("end of the input" in line for line in printed(batch))


@pytest.mark.parametrize(
    ("marked", "shown"),
    [
        (None, ["0…7", "8…15", "16…23", "24…31", "… 968 bytes more"]),
        (9, ["0…7", "8…15", "16…23", "24…31", "… 968 bytes more"]),
        (32, ["0…7", "8…15", "16…23", "24…31", "32…39", "… 960 bytes more"]),
        (501, ["0…7", "8…15", "16…23", "24…31", "… 464 bytes more", "496…503", "… 496 bytes more"]),
        (999, ["0…7", "8…15", "16…23", "24…31", "… 960 bytes more", "992…999"]),
    ],
)
def test_long_fields_are_shortened_around_the_error(marked: int | None, shown: list[str]) -> None:
    """Of a long field the first rows are shown, and the row with the byte that is wrong."""
    value = next(each for each in explain(raw_batch(raw_record(value=bytes(1000)))).section.fields if each.size == 1000)
    at = value.offset
    rows = rows_of(value, None if marked is None else marked + at)

    assert [row if isinstance(row, str) else f"{row.start - at}…{row.stop - 1 - at}" for row in rows] == shown


def test_errors_carry_their_rule() -> None:
    """Below the caret stand kind, message, path, and the rule with its statement and sources."""
    text = "\n".join(printed(INPUTS["wrong_checksum"]))

    assert "corrupt: stored crc 1, computed crc " in text
    assert "at batch.crc, byte 17" in text
    assert "CRC-07  A CRC that does not match is a CorruptRecordException." in text
    assert "sources: DefaultRecordBatch#ensureValid, " in text
    assert "seed 002:545" in text
    assert text.splitlines()[-1].startswith("✗ corrupt: ")


def test_hostile_bytes_are_escaped() -> None:
    """Control characters, escapes and direction marks of the input never reach the terminal."""
    hostile = "\x1b]0;title\x07\u202e\n\r\x9b".encode() + b"\xff"
    data = raw_batch(
        raw_record(key=hostile, value=hostile, headers=raw_header(hostile, hostile), header_count=b"\x02"),
    )
    output = run("-", given=data).output

    assert all(character.isprintable() or character == "\n" for character in output)
    assert r"\x1b]0;title\x07\u202e\n\r\x9b\xff" in output


def test_exit_codes() -> None:
    """0 when the input decodes, 1 when it is broken."""
    assert run("-", given=INPUTS["lz4_batch"]).exit_code == 0
    assert run("-", given=INPUTS["wrong_checksum"]).exit_code == 1
    assert run("-", given=b"").exit_code == 0


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "give one of FILE, --hex HEX… and --case ID"),
        (("a", "b"), "give one of FILE, --hex HEX… and --case ID"),
        (("a", "--case", "b"), "give one of FILE, --hex HEX… and --case ID"),
        (("--hex", "00", "--case", "b"), "give one of FILE, --hex HEX… and --case ID"),
        (("--hex", "0"), "--hex: 1 hex digits, one too few or too many"),
        (("--hex", "0g"), "--hex: 'g' is not a hex digit"),
        (("no such file",), "cannot read no such file: No such file or directory"),
        (("--case", "v2_crc.nothing_like_it"), "no case v2_crc.nothing_like_it in the corpus"),
    ],
)
def test_misuse_is_one_line(args: tuple[str, ...], message: str) -> None:
    """A usage error is reported in one line, with exit code 2."""
    result = run(*args)

    assert result.exit_code == 2
    assert result.output.startswith(f"Error: {message}")
    assert len(result.output.splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("spell", ["{0}", "0x{0}", "{1}", "{1}\n", "{2}"])
def test_hex_in_many_spellings(spell: str) -> None:
    """Spaces, 0x, line ends and the like in hex digits do no harm."""
    data = raw_batch(raw_record())
    digits = spell.format(data.hex(), data.hex(" "), ", ".join(f"0x{byte:02X}" for byte in data))

    assert run("--hex", digits, "--json").exit_code == 0
    assert run("--hex", *data.hex(" ").split()).exit_code == 0


def test_files_and_cases(tmp_path: Path) -> None:
    """A file, and the input of a case, of either kind."""
    path = tmp_path / "batch.bin"
    path.write_bytes(INPUTS["lz4_batch"])
    assert run(str(path)).output.splitlines()[0] == f"{path} · {len(INPUTS['lz4_batch'])} bytes"
    cases = load_vectors()
    decodes = next(case for case in cases if case.op == "decode" and case.expect.verdict == "valid")
    encodes = next(case for case in cases if case.op == "encode" and case.expect.verdict == "valid")
    refused = next(case for case in cases if case.op == "encode" and case.expect.verdict == "invalid")
    assert run("--case", decodes.id).output.startswith(f"{decodes.id}: {decodes.title}")
    assert run("--case", encodes.id).exit_code == 0
    assert "has no bytes to explain" in run("--case", refused.id).output
    assert f"is it {decodes.id}?" in run("--case", f"{decodes.id}x").output


@pytest.mark.parametrize("name", INPUTS)
def test_json(name: str) -> None:
    """`--json` prints one document with every field, and the error."""
    document = json.loads(run("-", "--json", given=INPUTS[name]).output)

    section = document["section"]
    assert "".join(raws(section)) == section["data"] == INPUTS[name].hex()
    error = explain(INPUTS[name]).error
    names = ("kind", "path", "offset", "inner_offset", "rule", "message")
    shown = document["error"] and [document["error"][key] for key in names]
    assert shown == (error and [getattr(error, key) for key in names])
    if error:
        assert document["error"]["statement"]
        assert document["error"]["sources"]
    assert document["valid"] == (document["error"] is None)


def raws(tree: dict[str, object]) -> list[str]:
    """The bytes of every field of a section or part, in order."""
    children = tree["children"]
    assert isinstance(children, list)
    return [raw for child in children for raw in ([child["raw"]] if "raw" in child else raws(child))]


if __name__ == "__main__":
    for name, data in INPUTS.items():
        (EXPLAINED / f"{name}.txt").write_text(run("-", given=data).output, encoding="utf-8")
