"""`kafkaproof explain`: every byte of a file, of hex digits or of a case, with its meaning."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from difflib import get_close_matches
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, NoReturn

import click
import msgspec
from rich.console import Console
from rich.text import Text

from kafka_brokers.releases import SUPPORTED, SUPPORTED_AS_OF
from kafka_conformance.judge.grade import grade_table
from kafka_conformance.reports.explain import explanation_lines
from kafka_conformance.sanitize import indented_json, printable
from kafka_records import Batch, Explanation, Record, RecordFormatError, decode, decode_control, encode, explain
from kafka_records.explain import Field, Part, Section
from kafka_records.internal_topics import INTERNAL_TOPICS, decode_topic_record, snapshot_fault, topic_of_path
from kafka_records.log import split_entries
from kafka_records.rules import rule

VALID, BROKEN, USAGE = 0, 1, 2
# Bytes that are explained at once, and that are read at once.
MOST: Final = 16 << 20
CHUNK: Final = 1 << 20
PIPED_WIDTH = 110
WIDEST = 120
# Files that end with a footer.
SNAPSHOT: Final = ".checkpoint"
# What may stand between and before hex digits, as people paste them.
HEX_DECORATION = re.compile(r"0x|\\x|[\s,:_'\"-]", re.IGNORECASE)


class Misuse(click.ClickException):
    """The arguments contradict each other or the input; one line, exit code 2."""

    exit_code = USAGE


@click.command("explain")
@click.argument("file", nargs=-1)
@click.option("--hex", "digits", multiple=True, metavar="HEX…", help="The bytes themselves; spaces and 0x do no harm.")
@click.option("--case", "case_id", metavar="ID", help="The input of a case of the corpus.")
@click.option("--from", "start", type=click.IntRange(min=0), metavar="BYTE",
              help="Where in FILE to begin, for a file that is larger than 16 MiB.")  # fmt: skip
@click.option("--length", type=click.IntRange(1, MOST), metavar="BYTES", help="How many bytes of FILE, at most 16 MiB.")
@click.option(
    "--topic",
    type=click.Choice(INTERNAL_TOPICS),
    metavar="NAME",
    help="The internal topic whose records these are; by default the name of FILE's folder says it.",
)
@click.option(
    "--records",
    "as_records",
    is_flag=True,
    help="Print one JSON line for each record of an internal topic: offset, time, type, key and value.",
)
@click.option("--grade", "grades", is_flag=True, help="The table that grades findings, and the supported releases.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--width", type=click.IntRange(60, 1000), help="Characters a line; otherwise the terminal's, at most 120."
)
@click.option("--no-color", is_flag=True, help="Plain text, as when piped.")
def explain_command(
    file: tuple[str, ...],
    digits: tuple[str, ...],
    case_id: str | None,
    start: int | None,
    length: int | None,
    topic: str | None,
    as_records: bool,
    grades: bool,
    as_json: bool,
    width: int | None,
    no_color: bool,
) -> NoReturn:
    """Show every byte of FILE ("-" is standard input) with its field, its value and its meaning.

    Keys and values of internal topics are opened, too: of __consumer_offsets, __transaction_state,
    __share_group_state, __cluster_metadata (with snapshots, *.checkpoint) and __remote_log_metadata.

    Exit codes: 0 it can be decoded, 1 it is broken, or a record of an internal topic is, 2 usage.
    """
    if grades:
        if file or digits or case_id is not None:
            raise Misuse("--grade takes no input")
        show_grades(as_json=as_json)
        sys.exit(VALID)
    title, data = given(file, digits, case_id, start, length)
    if topic is None and len(file) == 1 and not digits:
        topic = topic_of_path(Path(file[0]).absolute().as_posix())
    snapshot = len(file) == 1 and not digits and file[0].endswith(SNAPSHOT) and start is None and length is None
    if as_records:
        if topic is None:
            raise Misuse(f"--records needs --topic, one of {', '.join(INTERNAL_TOPICS)}")
        sys.exit(print_records(read_topic(topic, data, snapshot=snapshot)))
    explanation = explain(data, topic=topic or "")
    broken = read_topic(topic, data, snapshot=snapshot).faults() if topic else []
    if as_json:
        click.echo(to_json(title, explanation, broken))
    else:
        print_explanation(title, explanation, output_console(width, plain=no_color), broken)
    sys.exit(BROKEN if explanation.error or broken else VALID)


def show_grades(*, as_json: bool) -> None:
    """Print the rows of the table; the first that fits a finding decides."""
    rows = [
        {"number": number, "grade": grade, "conditions": conditions, "reason": reason}
        for number, grade, conditions, reason in grade_table()
    ]
    if as_json:
        document = {"supported": str(SUPPORTED), "reviewed": SUPPORTED_AS_OF, "rows": rows}
        click.echo(indented_json(document).decode().rstrip())
        return
    click.echo(f"Supported releases: {SUPPORTED}, reviewed on {SUPPORTED_AS_OF}. The first row that fits decides.")
    for row in rows:
        click.echo(f"\n{row['number']:>2}  {row['grade']:<10}  {row['conditions']}\n                {row['reason']}")


def given(
    file: tuple[str, ...], digits: tuple[str, ...], case_id: str | None, start: int | None, length: int | None
) -> tuple[str, bytes]:
    """A title for the input, and its bytes; of a file those of the window from *start* on."""
    if (digits or case_id is not None) and (start is not None or length is not None):
        raise Misuse("--from and --length are about FILE")
    if digits and case_id is None:
        # A shell splits what was pasted with spaces; the rest arrives as arguments.
        return "hex", from_hex(" ".join((*digits, *file)))
    if case_id is not None and not digits and not file:
        return from_case(case_id)
    if case_id is None and len(file) == 1:
        return from_file(file[0], start, length)
    raise Misuse("give one of FILE, --hex HEX… and --case ID")


def from_file(name: str, start: int | None, length: int | None) -> tuple[str, bytes]:
    """A window of a file, or of standard input; all of it if none is wanted and it has at most `MOST` bytes."""
    title = "standard input" if name == "-" else name
    try:
        with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as source:
            data = window(source, start or 0, length or MOST + 1)
    except OSError as error:
        raise Misuse(f"cannot read {printable(name)}: {error.strerror or error}") from None
    if len(data) > MOST:
        if start is None:
            raise Misuse(f"{printable(title)} has more than 16 MiB; choose a part with --from BYTE and --length BYTES")
        data = data[:MOST]
    if start:
        title = f"{title} from byte {start:,}"
    return title, data


def window(source: BinaryIO, start: int, length: int) -> bytes:
    """At most *length* bytes of *source* from *start* on; a pipe is read up to there.  Raises `OSError`."""
    if source.seekable():
        source.seek(start)
    else:
        while start and (passed := source.read(min(start, CHUNK))):
            start -= len(passed)
    found = bytearray()
    while len(found) < length and (data := source.read(min(length - len(found), CHUNK))):
        found += data
    return bytes(found)


def from_hex(text: str) -> bytes:
    """The bytes that hex digits stand for, whatever decorates them."""
    bare = HEX_DECORATION.sub("", text)
    wrong = re.search("[^0-9a-fA-F]", bare)
    if wrong:
        raise Misuse(f"--hex: {printable(wrong[0])!r} is not a hex digit")
    if len(bare) % 2:
        raise Misuse(f"--hex: {len(bare)} hex digits, one too few or too many")
    return bytes.fromhex(bare)


def from_case(case_id: str) -> tuple[str, bytes]:
    """The input of a decode case, the expected output of an encode case, or all payloads that a scenario produces."""
    # No other way in needs the corpus.
    from kafka_corpus.prediction import step_payload
    from kafka_corpus.scenario import Scenario
    from kafka_corpus.vector_format import input_of
    from kafka_corpus.vectors import load_vectors

    cases = {case.id: case for case in load_vectors()}
    if case_id not in cases:
        near = get_close_matches(case_id, cases, 1)
        hint = f"; is it {near[0]}?" if near else ""
        raise Misuse(f"no case {printable(case_id)} in the corpus{hint}")
    case = cases[case_id]
    if isinstance(case.input, Scenario):
        payloads = b"".join(step_payload(step) for step in case.input.produces() if not step.is_null())
        return f"{case.id}: {case.title} (what is produced)", payloads
    source = input_of(case)
    data = source if isinstance(source, bytes) else encoded_batch(case_id, source, case.expect.data)
    return f"{case.id}: {case.title}", data


def encoded_batch(case_id: str, batch: Batch, expected: bytes | None) -> bytes:
    """The bytes that stand for *batch*."""
    if expected is not None:
        return expected
    try:
        return encode(batch)
    except ValueError as error:
        raise Misuse(f"{case_id} has no bytes to explain: {error}") from None


def output_console(width: int | None, *, plain: bool) -> Console:
    """Standard output: coloured on a terminal, plain otherwise."""
    on = Console(highlight=False)
    if on.is_terminal and not plain:
        return Console(highlight=False, width=width or min(on.width, WIDEST))
    return Console(highlight=False, width=width or PIPED_WIDTH, color_system=None)


def print_explanation(title: str, explanation: Explanation, on: Console, broken: Sequence[str] = ()) -> None:
    """Print an explanation, and how many faults there are in what its batches hold."""
    name = Text(f"{printable(title)} · {explanation.section.title.removeprefix('input of ')}", "bold")
    on.print(name, soft_wrap=True)
    more = f"; and {len(broken) - 1:,} more, --records shows them" if len(broken) > 1 else ""
    for line in explanation_lines(explanation, on.width, f"{broken[0]}{more}" if broken else ""):
        on.print(line, soft_wrap=True)


class TopicContent(NamedTuple):
    """The batches in bytes of an internal topic.

    Attributes:
        topic: the topic.
        batches: those that can be read.
        error: why reading ended in a batch, if it did.
        ends: the fault of the ends of a snapshot; empty if there is none.
        left: bytes after the last whole batch.
        size: all bytes.
    """

    topic: str
    batches: Sequence[Batch]
    error: RecordFormatError | None
    ends: str
    left: int
    size: int

    def lines(self) -> Iterator[dict[str, Any]]:
        """A dictionary for each record."""
        for batch in self.batches:
            for record in batch.records:
                line: dict[str, Any] = {"offset": record.offset, "timestamp": record.timestamp}
                if batch.transactional:
                    line["producer_id"] = batch.producer_id
                yield line | (control_line(record) if batch.control else record_line(self.topic, record))

    def faults(self) -> list[str]:
        """The faults beside a batch that is broken, in words."""
        found = [f"offset {line['offset']}: {line['error']}" for line in self.lines() if "error" in line]
        if self.ends:
            found.append(f"{self.ends} (TOP-15)" + (f"; {self.tail}" if self.tail else ""))
        return found

    @property
    def tail(self) -> str:
        """The bytes at the end, in words; empty if there are none."""
        return f"{self.left:,} bytes not read: the batch there is larger" if self.left else ""


def read_topic(topic: str, data: bytes, *, snapshot: bool) -> TopicContent:
    """The records in *data*, bytes of an internal topic, or all bytes of a *snapshot*."""
    batches: Sequence[Batch]
    try:
        batches, error = decode(data), None
        end = max((end for _, end in split_entries(data)), default=0)
    except RecordFormatError as broken:
        batches, error, end = broken.batches, broken, len(data)
    ends = snapshot_fault((batches[0], batches[-1]) if batches else None) if snapshot and error is None else ""
    return TopicContent(topic, batches, error, ends, len(data) - end, len(data))


def print_records(content: TopicContent) -> int:
    """Print a JSON line for each record of an internal topic, faults at the end; the exit code."""
    broken = False
    for line in content.lines():
        broken |= "error" in line
        click.echo(msgspec.json.encode(line, enc_hook=str).decode())
    if content.error is not None:
        click.echo(f"error: {printable(str(content.error))}", err=True)
        return BROKEN
    if content.ends:
        click.echo(f"error: {content.ends} (TOP-15)", err=True)
    if content.left == content.size > 0:
        click.echo("error: there is no whole batch; the bytes may begin within one", err=True)
        return BROKEN
    if content.tail:
        click.echo(content.tail, err=True)
    return BROKEN if broken or content.ends else VALID


def record_line(topic: str, record: Record) -> dict[str, Any]:
    """The content of a record of an internal topic; what cannot be read is hex, with the error."""
    try:
        found = decode_topic_record(topic, record.key, record.value)
    except RecordFormatError as error:
        return {"error": str(error), "key": hex_of(record.key), "value": hex_of(record.value)}
    line = {"type": found.type, "version": found.version, "key": hex_of(found.key), "value": hex_of(found.value)}
    remarks = [f"{each.message} (at {each.path}, byte {each.offset}; {each.rule})" for each in found.remarks]
    return line | ({"remarks": remarks} if remarks else {})


def control_line(record: Record) -> dict[str, Any]:
    """The content of a control record."""
    try:
        found = decode_control(record)
    except RecordFormatError as error:
        return {"error": str(error), "key": hex_of(record.key), "value": hex_of(record.value)}
    return {"control": found.type, "value": hex_of(found.value)}


def hex_of(value: Any) -> Any:
    """*value* with all byte strings as hex."""
    match value:
        case bytes():
            return value.hex()
        case dict():
            return {name: hex_of(each) for name, each in value.items()}
        case tuple():
            return [hex_of(each) for each in value]
    return value


def to_json(title: str, explanation: Explanation, broken: Sequence[str] = ()) -> str:
    """One JSON document with every field; byte strings are hex."""
    document = {
        "input": title,
        "valid": explanation.error is None and not broken,
        "batches": explanation.batches,
        "records": explanation.records,
        "error": error_tree(explanation),
        "broken": broken,
        "section": section_tree(explanation.section),
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode()


def error_tree(explanation: Explanation) -> dict[str, Any] | None:
    """The error with its rule."""
    error = explanation.error
    if error is None:
        return None
    broken = rule(error.rule)
    names = ("kind", "message", "path", "offset", "inner_offset", "rule")
    return {name: getattr(error, name) for name in names} | {"statement": broken.statement, "sources": broken.sources}


def section_tree(section: Section) -> dict[str, Any]:
    """A section with all that is in it."""
    return {
        "title": section.title,
        "origin": section.origin,
        "data": section.data.hex(),
        "children": [child_tree(child) for child in section.root.children],
    }


def child_tree(child: Part | Field) -> dict[str, Any]:
    """A part with its children, or a field."""
    if isinstance(child, Field):
        plain: dict[str, Any] = msgspec.to_builtins(child, builtin_types=(bytes,))
        return {name: value.hex() if isinstance(value, bytes) else value for name, value in plain.items()}
    return {
        "title": child.title,
        "path": child.path,
        "offset": child.offset,
        "size": child.size,
        "children": [child_tree(each) for each in child.children],
        "opened": section_tree(child.opened) if child.opened else None,
    }
