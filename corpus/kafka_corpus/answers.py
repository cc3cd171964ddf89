"""Answers to cases: the reference's, recorded ones, and whether they are right.

`kafka_conformance` judges testees with severities; this module only checks
whether an answer contradicts a case, and where first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from importlib.resources import files
from itertools import product, repeat, zip_longest
from typing import Any, Final

import msgspec
from msgspec import UNSET

from kafka_corpus import prediction
from kafka_corpus.answer_diff import difference, masked, scenario_of
from kafka_corpus.authoring.batches import PLAIN, around, compressed
from kafka_corpus.authoring.build import raw_batch, raw_header, raw_record
from kafka_corpus.authoring.faults import resized, with_right_checksum
from kafka_corpus.authoring.frames import pack
from kafka_corpus.case import Case, Question
from kafka_corpus.prediction import above_compression, newest_predicted, or_error, predict, reasoned, step_payload
from kafka_corpus.scenario import FIRST_PRODUCER_ID, NEWEST_RELEASE, Clean, Produce, Scenario, Step
from kafka_corpus.vector_format import Answer, input_of
from kafka_corpus.wire import BATCH_FIELDS, RECORD_FIELDS, WireBatch, to_wire
from kafka_records import (
    Batch,
    Limits,
    LogState,
    Record,
    RecordFormatError,
    consume,
    decode,
    decode_control,
    encode,
    encode_control,
    explain,
)
from kafka_records.constants import MAGIC_VALUE_V2, RECORD_BATCH_OVERHEAD, Compression
from kafka_records.internal_topics import decode_topic_record
from kafka_records.log import split_entries
from kafka_records.message import decode_message
from kafka_records.sizes import estimate_compressed_size, estimate_size_upper_bound, sizeof_batch

_encoder = msgspec.json.Encoder()


def ask_reference(case: Case) -> Answer:
    """The full answer of `kafka_records`; for a scenario, its prediction for the newest release in range."""
    if isinstance(case.input, Scenario):
        answers = newest_predicted(case.input)
        return Answer(verdict="skipped") if answers is None else Answer(verdict="ok", answers=list(answers))
    given = input_of(case)
    try:
        if isinstance(given, Batch):
            return Answer(verdict="ok", data=encode(given))
        return Answer(verdict="ok", batches=list(map(to_wire, decode(given))))
    except RecordFormatError as error:
        before = list(map(to_wire, error.batches))
        answer = Answer(verdict="error", kind=error.kind, batches=before or UNSET)
        answer.rule, answer.path, answer.offset = error.rule, error.path, error.offset
        return answer


class Described(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A line of `explained.ndjson`: what is said of all cases of an area, of one record, or of memory.

    Attributes:
        area: of decode cases and encode cases, in the order of their ids.
        scenarios: area of cases that brokers get, in the order of their ids; each with its `described_releases`.
        limited: id of a decode case that is decoded with ever less memory.
        payload: produced to a broker, whose heap it fills to the last byte, or by one byte too many; or what a grid
            varies, or goes over.
        steps: for a broker, at one of the reference's own bounds, with payloads too large to keep.
        codec: of a frame.
        frame: around two records; frames that differ in a byte, and each beginning, are described as well.
        grid: what is varied; see `GRIDS`.
        magic: of what has the content *payload* in a frame of *codec*.
        release: of the broker.
        config: the topic's settings.
        topic: an internal topic; without it, the record is a control record.
        key: of the record.
        value: of the record.
        nearby: whether records that differ in a byte, two, or a length are described as well, and each beginning.
        sha256: of `described` of each input, end to end, or of `described_line`.
    """

    area: str = ""
    scenarios: str = ""
    limited: str = ""
    payload: bytes = b""
    steps: tuple[Step, ...] = ()
    codec: Compression = "none"
    frame: bytes = b""
    grid: str = ""
    magic: int = 2
    release: str = ""
    config: dict[str, str] = {}
    topic: str = ""
    key: bytes | None = None
    value: bytes | None = None
    nearby: bool = False
    sha256: str = ""


def kept_descriptions() -> list[Described]:
    """The lines of `explained.ndjson`, which `python -m tests.reference.explained` writes."""
    text = files("kafka_corpus").joinpath("explained.ndjson").read_bytes()
    return msgspec.json.Decoder(Described).decode_lines(text)


def kept_alone(inputs: Mapping[str, Question]) -> Iterator[tuple[bytes, Question]]:
    """Arguments of `described_kept` for the lines that are of no area; *inputs* of cases, by their ids."""
    for each in kept_descriptions():
        if not (each.area or each.scenarios):
            yield _encoder.encode(each), inputs.get(each.limited, b"")


def described(data: Question) -> bytes:
    """All that `explain` says of *data*, sizes of its records and the content of its control records, as JSON.

    What a codec's library says of data that it refuses is left out: another release says it in other words.
    Of a batch that is to be written, what its frame begins with.
    """
    if isinstance(data, Batch):
        return _frame_start(data)
    assert isinstance(data, bytes)
    explanation = explain(data)
    error = explanation.error
    values = error and (error.kind, error.path, error.offset, error.inner_offset, error.rule, error.message)
    batches = error.batches if error else decode(data)
    said = _encoder.encode(
        {
            "section": explanation.section,
            "fields": [len(section.fields) for section in explanation.sections],
            "counts": (explanation.batches, explanation.records),
            "error": values,
            "batches": list(map(_described_batch, batches)),
        }
    )
    return _LIBRARY_SAYS.sub(rb"\1", said)


# The texts of libraries in errors of `kafka_records.compression`.
_LIBRARY_SAYS: Final = re.compile(rb'(corrupt (?:deflate data|zstd frame|snappy block|lz4 block)): [^"\\]*')

# Bytes at the start of a frame that say what is in it, and do not depend on the release of a library.
FRAME_STARTS: Final[dict[Compression, int]] = {"gzip": 10, "snappy": 16, "lz4": 7, "zstd": 5}


def _frame_start(batch: Batch) -> bytes:
    if batch.compression not in FRAME_STARTS:
        return b""
    try:
        entry = encode(batch)
    except RecordFormatError:
        return b""
    payload = entry[RECORD_BATCH_OVERHEAD:] if batch.magic >= MAGIC_VALUE_V2 else decode_message(entry).value or b""
    return payload[: FRAME_STARTS[batch.compression]]


def _described_batch(batch: Batch) -> dict[str, Any]:
    """Sizes that writers reserve for records, and control records, read and written again."""
    first = batch.records[:1]
    upper = [
        estimate_size_upper_bound(batch.magic, batch.compression, each.key, each.value, each.headers) for each in first
    ]
    whole = sizeof_batch(batch.records, batch.base_offset)
    control = [_described_control(each) for each in batch.records] if batch.control else []
    return {"upper": upper, "whole": whole, "packed": estimate_compressed_size(whole, batch.compression), "is": control}


def _described_control(record: Record) -> Any:
    try:
        found = decode_control(record)
        return found, encode_control(found, offset=record.offset, timestamp=record.timestamp), encode_control(found)
    except RecordFormatError as error:
        return error.kind, error.path, error.offset, error.rule, error.message


# The newest patch of each minor release that predictions are about.
DESCRIBED_RELEASES: Final = (
    "0.8.2.2", "0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3", "1.0.2", "1.1.1", "2.0.1", "2.1.1", "2.2.2", "2.3.1",
    "2.4.1", "2.5.1", "2.6.3", "2.7.2", "2.8.2", "3.0.2", "3.1.2", "3.2.3", "3.3.2", "3.4.1", "3.5.2", "3.6.2",
    "3.7.2", "3.8.1", "3.9.2", "4.0.2", "4.1.2", "4.2.0", "4.3.1", "4.4.0",
)  # fmt: skip
# A payload that is larger takes long on every release.
LARGEST_DESCRIBED: Final = 1 << 20


def described_releases(case: Case) -> list[str]:
    """Releases whose predictions for *case* are kept: all for a cleaned log, for others the newest and a drawn one."""
    if (scenario := scenario_of(case)) is None:
        return []
    concerned = [release for release in DESCRIBED_RELEASES if scenario.concerns(release)]
    if any(isinstance(step, Clean) for step in scenario.steps):
        return concerned
    if any(len(step_payload(step)) > LARGEST_DESCRIBED for step in scenario.produces() if not step.is_null()):
        return []
    *older, newest = concerned or [NEWEST_RELEASE]
    return [*sorted(older, key=lambda release: sha256(f"{case.id} {release}".encode()).digest())[:1], newest]


def described_prediction(case: Case, release: str) -> bytes:
    """The predicted answers of *release* to *case*, above compression, and the reasons for them, as JSON."""
    scenario = scenario_of(case)
    found = scenario and reasoned(scenario, release)
    if not found:
        return b"null"
    answers = [msgspec.structs.replace(each, data=above_compression(each.data)) for each in found[0]]
    return _encoder.encode((answers, found[1]))


def described_line(line: Described, data: bytes = b"") -> bytes:
    """All that is said of *line*, which is of no area, as JSON; *data* is the input of the case that it limits."""
    if line.grid:
        return _encoder.encode(list(GRIDS[line.grid](line)))
    if line.nearby:
        return _encoder.encode([_outcome_of_record(line.topic, *each) for each in _nearby_records(line)])
    if line.topic:
        return _described_record(line.topic, line.key, line.value)
    if line.key:
        return _encoder.encode(_described_control(Record(0, 5, line.key, line.value)))
    if line.frame:
        return _encoder.encode(list(map(_outcomes_of_frame, repeat(line.codec), _nearby(line.frame, lengths=False))))
    return _described_produce(line) if line.payload or line.steps else _described_limits(data)


def is_described(case: Case) -> bool:
    """Whether `described` is about the input of *case*."""
    return isinstance(case.input, bytes | Batch)


def described_kept(line: bytes, data: Question) -> bytes:
    """`described_line` of a line as JSON, whose steps then are of this module's own classes."""
    assert isinstance(data, bytes)
    return described_line(msgspec.json.decode(line, type=Described), data)


def _nearby_records(line: Described) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Key and value; of a control record, and of a record without a value, other keys, too."""
    if line.key and not (line.topic and line.value):
        yield from ((key, line.value) for key in _nearby(line.key))
    if line.value is not None:
        yield from ((line.key, value) for value in _nearby(line.value))


# Unsigned varints: lengths 32,767 and 32,768 as compact ones, -1, and the least int32.
_LENGTHS: Final = tuple(map(bytes.fromhex, ("808002", "818002", "ffffffff0f", "8080808008")))


def _nearby(data: bytes, *, lengths: bool = True) -> Iterator[bytes]:
    """*data*; one byte more; each beginning; and each byte as another.

    With *lengths* also each as two bytes of 0xFF, and as a length at a bound.
    """
    yield from (data, data + b"\0")
    for at, byte in enumerate(data):
        head, tail = data[:at], data[at + 1 :]
        yield head
        others = {0, 0xFF, (byte + 1) % 256, (byte - 1) % 256, byte ^ 0x80} - {byte}
        yield from (head + bytes((other,)) + tail for other in sorted(others))
        if lengths:
            yield head + b"\xff\xff" + tail[1:]
            yield from (head + length + tail for length in _LENGTHS)


def _outcome_of_record(topic: str, key: bytes | None, value: bytes | None) -> Any:
    """The content of a record of *topic*, or of a control record; or the error."""
    if not topic:
        return _described_control(Record(0, 5, key, value))
    try:
        return decode_topic_record(topic, key, value)
    except RecordFormatError as error:
        return error.kind, error.path, error.offset, error.rule, error.message


# What a decoder may take without any allowance, and for each byte of input; below it there is no memory at all.
# Both are copied from `kafka_records.budget`, so that a mutant of it does not move the range.
START: Final = 16 * 1024 * 1024
PER_INPUT_BYTE: Final = 8
# Enough for every case that is described.
MOST_ALLOWANCE: Final = 1 << 16


def _described_limits(data: bytes) -> bytes:
    """Allowances of memory at which the outcome for *data* changes, in ascending order, each with its outcome, as JSON.

    The usual allowance comes first.  All of it is the reference's own promise (CMP-10), which no testee shares.
    """
    least = -(START + PER_INPUT_BYTE * len(data))
    first = least, _outcome(data, least)
    steps = first, *_outcome_steps(data, first, (MOST_ALLOWANCE, _outcome(data, MOST_ALLOWANCE)))
    return _encoder.encode((Limits().max_output_bytes, [(most, *outcome) for most, outcome in steps]))


Outcome = tuple[Any, ...]


def _outcome(data: bytes, most: int) -> Outcome:
    """How decoding within *most* bytes ends, and how many batches there are."""
    try:
        return "ok", len(decode(data, limits=Limits(most)))
    except RecordFormatError as error:
        return error.kind, error.rule, error.path, error.offset, error.inner_offset, len(error.batches)


def _outcome_steps(data: bytes, low: tuple[int, Outcome], high: tuple[int, Outcome]) -> Iterator[tuple[int, Outcome]]:
    """Each allowance above that of *low*, up to that of *high*, at which the outcome becomes another.

    With more memory decoding only gets further, so that equal outcomes have no other between them.
    """
    if low[1] == high[1]:
        return
    if high[0] - low[0] == 1:
        yield high
        return
    most = (low[0] + high[0]) // 2
    between = most, _outcome(data, most)
    yield from _outcome_steps(data, low, between)
    yield from _outcome_steps(data, between, high)


def _described_produce(line: Described) -> bytes:
    """The predicted answer to the payload of *line*, or the answers to its steps with the reasons, as JSON.

    Where the heap or the stack of a broker ends depends on the machine, so that this is no scenario for brokers.
    """
    if line.steps:
        return _encoder.encode(reasoned(Scenario(steps=line.steps, config=line.config), line.release))
    scenario = Scenario(steps=(Produce(data=line.payload),), config=line.config)
    return _encoder.encode(predict(scenario, line.release))


# Releases that read compressed records in three ways.
FRAME_RELEASES: Final = ("1.0.2", "2.8.2", "4.4.0")


def _outcomes_of_frame(codec: Compression, frame: bytes) -> tuple[Any, ...]:
    """How a batch of two records in *frame* is decoded, and what brokers answer to it."""
    data, _ = compressed(codec, frame)
    kind, *others = _outcome(data, Limits().max_output_bytes)
    scenario = Scenario(steps=(Produce(data=data),))
    said = (reasoned(scenario, release) or ((), []) for release in FRAME_RELEASES)
    return kind, others[:1], [(*(each.error_code for each in answers), reasons) for answers, reasons in said]


# --- grids: what is near, and functions of the reference over many inputs ---------------------------------------------

MAGIC_OF_V2, OLD_PRODUCE = 2, 2
MAGIC_AT: Final = 16


def _neighbours(line: Described) -> Iterator[bytes]:
    """Neighbours of the payload with right checksums, its beginnings also with sizes that fit; or those around it.

    Of a frame, what is around its neighbours.
    """
    if line.frame:
        yield from (around(frame, line.magic, line.codec)[0] for frame in _nearby(line.frame, lengths=False))
        return
    yield line.payload
    for data in _nearby(line.payload, lengths=False):
        if line.codec != "none":
            plain = data if line.magic == MAGIC_OF_V2 else _sealed(data)
            yield around(pack(line.codec, plain, magic=line.magic), line.magic, line.codec)[0]
        else:
            yield _sealed(data)
            if len(data) != len(line.payload) and len(data) > MAGIC_AT:
                yield resized(data)


def _sealed(data: bytes) -> bytes:
    """*data* with the right checksum in each entry, up to one that is none."""
    done: list[bytes] = []
    with suppress(RecordFormatError):
        done += (with_right_checksum(data[start:end]) for start, end in split_entries(data))
    return b"".join(done) + data[sum(map(len, done)) :]


def _payloads(line: Described) -> Iterator[Any]:
    """The answers to neighbours of a payload, with right checksums."""
    version = None if line.magic == MAGIC_OF_V2 else OLD_PRODUCE
    log = LogState(log_end_offset=21, leader_epoch=4)
    for data in _neighbours(line):
        yield prediction.appended(log, data, line.release, version=version, settings=line.config)


def _consumed(line: Described) -> Iterator[Any]:
    """The records that an application gets of a log, for each offset and list of aborted transactions."""
    producers = FIRST_PRODUCER_ID, FIRST_PRODUCER_ID + 1
    for offset, first, who in product(prediction.OFFSETS, (0, 1, 3, 5, 7, 12), producers):
        for aborted in ((), ((who, first),), ((who, first), (FIRST_PRODUCER_ID, 3))):
            yield or_error(partial(consume, line.payload, fetch_offset=offset, aborted=aborted))
        yield or_error(partial(consume, line.payload, fetch_offset=offset))


# Texts about as long as an explanation shows, and as it looks at: of one byte, two and four each, with bytes that
# are no text at the start, at the place where they are cut, and at the end.
LONGEST, LOOKED_AT = 48, 1024
CHARACTERS: Final = tuple(each.encode() for each in ("x", "\u00fc", "\U0001f600", "\n", '"', "\\", "\u202e"))


def _texts(_: Described) -> Iterator[Any]:
    """The words for keys and values that are texts, or are none."""
    for character, count in product(
        CHARACTERS, (0, 1, LONGEST - 1, LONGEST, LONGEST + 1, 4 * LONGEST, 4 * LONGEST + 1)
    ):
        yield _said_of_value(character * count)
    for character, length, at in product(CHARACTERS, range(LOOKED_AT - 5, LOOKED_AT + 5), (0, LOOKED_AT - 6)):
        text = (character * LOOKED_AT)[:length]
        yield _said_of_value(text[:at] + b"\xff" + text[at + 1 :])
    for character, length, start in product(CHARACTERS[:3], range(LOOKED_AT - 5, LOOKED_AT + 5), range(4)):
        yield _said_of_value((b"x" * start + character * LOOKED_AT)[:length])
    for mixed in range(9):
        yield _said_of_value(b"\n" * mixed + b"x" * (8 - mixed))


def _said_of_value(value: bytes) -> str:
    header = raw_header(value[:LONGEST], value)
    record = raw_record(key=value, value=value, headers=header, header_count=b"\x02")
    return described(raw_batch(record)).decode()


# Days since 1970: about the ends of months, in years with a leap day and without, of both centuries; and far away.
DAYS: Final = tuple(
    first + more
    for year in (-719_529, -719_163, -141_428, -25_568, 0, 365, 730, 10_957, 11_323, 46_385, 47_481, 2_932_896)
    for first in (year, *(year + month for month in (31, 59, 60, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)))
    for more in (-1, 0, 1)
)
DAY: Final = 86_400_000


def _times(_: Described) -> Iterator[Any]:
    """The words for timestamps."""
    around_zero = (
        -(1 << 63),
        (1 << 63) - 1,
        *(each + more for each in (0, 999, 59_999, DAY - 1) for more in (-1, 0, 1)),
    )
    for ms in (*around_zero, *(day * DAY + day % 997 for day in DAYS)):
        yield described(raw_batch(raw_record(), base_timestamp=ms, max_timestamp=ms)).decode()


def _inks(line: Described) -> Iterator[Any]:
    """The explanation of a payload within more and more memory, by single bytes about each price.

    A field costs a KiB, and each decompressed byte four bytes.
    """
    least = -(START + PER_INPUT_BYTE * len(line.payload))
    for kib, plain, more in product(range(40), (0, len(PLAIN)), (-1, 0, 1)):
        section = explain(line.payload, limits=Limits(least + 1024 * kib + 4 * plain + more)).section
        yield sha256(_encoder.encode(section)).hexdigest()


GRIDS: Final[dict[str, Callable[[Described], Iterator[Any]]]] = {
    "bytes": lambda line: (described(data).decode() for data in _neighbours(line)),
    "cleanings": lambda line: prediction.cleaning_grid(line.payload, line.release),
    "consumed": _consumed,
    "conversions": lambda line: prediction.conversion_grid(_neighbours(line), line.release),
    "fetches": lambda line: prediction.fetch_grid(line.payload, line.release),
    "inks": _inks,
    "markers": lambda line: prediction.marker_grid(line.release),
    "payloads": _payloads,
    "pending": lambda line: prediction.pending_grid(line.release),
    "producers": lambda line: prediction.producer_grid(line.release),
    "recoveries": lambda line: prediction.recovery_grid(_neighbours(line), line.release),
    "settings": lambda line: prediction.setting_grid(line.release),
    "texts": _texts,
    "times": _times,
    "versions": lambda line: prediction.version_grid(line.release),
}


def _described_record(topic: str, key: bytes | None, value: bytes | None) -> bytes:
    """All that is said of a record of an internal topic, as JSON."""
    found = _outcome_of_record(topic, key, value)
    batch = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=5, records=(Record(0, 5, key, value),))
    return _encoder.encode((found, explain(encode(batch), topic=topic).section))


def brief(case: Case, answer: Answer) -> Answer:
    """The answer with hashes in place of fields that are as *case* expects."""
    short = msgspec.structs.replace(answer)
    if answer.answers is not UNSET and not difference(case.expect.answers, answer.answers, case.expect.compare):
        short.answers = UNSET
    if answer.batches is not UNSET:
        short.batches_sha256 = batches_hash(answer.batches)
        if answer.batches == list(map(to_wire, case.expect.batches)):
            short.batches = UNSET
    if answer.data is not UNSET and not data_difference(case, answer.data):
        short.data = UNSET
        if case.expect.compare == "exact":
            # Compressed bytes are another library's choice, so their hash says nothing.
            short.data_sha256 = sha256(answer.data).hexdigest()
    return short


def batches_hash(batches: Sequence[WireBatch]) -> str:
    """SHA-256 of the batches as JSON, in the canonical form of vectors."""
    return sha256(_encoder.encode(list(batches))).hexdigest()


def disagreement(case: Case, answer: Answer) -> str:
    """Why *answer* contradicts *case*, or an empty string.

    *answer* may be full or brief.  A skipped case contradicts nothing.
    """
    match answer.verdict:
        case "skipped":
            return ""
        case "ok" if isinstance(case.input, Scenario):
            return _scene_disagreement(case, answer)
        case "error":
            return _error_disagreement(case, answer)
        case "ok":
            return _ok_disagreement(case, answer)
    return f"{answer.verdict} {answer.message}".strip()


def _scene_disagreement(case: Case, answer: Answer) -> str:
    return "" if answer.answers is UNSET else difference(case.expect.answers, answer.answers, case.expect.compare)


def _error_disagreement(case: Case, answer: Answer) -> str:
    expect = case.expect
    if expect.verdict == "valid":
        return f"refused ({answer.kind} {answer.message or answer.path})"
    if expect.kinds and answer.kind not in expect.kinds:
        return f"error kind {answer.kind}, expected {' or '.join(expect.kinds)}"
    if answer.batches is UNSET:
        return ""
    return batches_difference(case, answer.batches[: len(expect.batches)]) or _too_many(case, answer.batches)


def _too_many(case: Case, given: Sequence[WireBatch]) -> str:
    return f"{len(given)} batches before the error" if len(given) > len(case.expect.batches) else ""


def _ok_disagreement(case: Case, answer: Answer) -> str:
    if case.expect.verdict == "invalid":
        return "accepted"
    if case.op == "encode":
        return "" if answer.data is UNSET else data_difference(case, answer.data)
    if answer.batches is not UNSET:
        short = len(answer.batches) < len(case.expect.batches)
        return batches_difference(case, answer.batches) or (f"{len(answer.batches)} batches" if short else "")
    return "" if answer.batches_sha256 == batches_hash(list(map(to_wire, case.expect.batches))) else "other batches"


def batches_difference(case: Case, given: Sequence[WireBatch]) -> str:
    """The first field in which *given* is not what *case* expects; fewer batches are no difference."""
    names = ("records",) if case.expect.compare == "records" else BATCH_FIELDS
    if len(given) > len(case.expect.batches):
        return f"{len(given)} batches, expected {len(case.expect.batches)}"
    for index, (want, have) in enumerate(zip(map(to_wire, case.expect.batches), given, strict=False)):
        if different := _struct_difference(want, have, names):
            return f"batches[{index}].{different}"
    return ""


def _struct_difference(want: Any, have: Any, names: Sequence[str]) -> str:
    for name in names:
        expected, given = getattr(want, name), getattr(have, name)
        # Fields that a codec does not expose are not compared.
        if given is UNSET or given == expected:
            continue
        different = _records_difference(expected, given) if name == "records" else f"{name} is {given!r:.80}"
        if different:
            return different
    return ""


def _records_difference(expected: Sequence[Any], given: Sequence[Any]) -> str:
    if len(expected) != len(given):
        return f"records: {len(given)}, expected {len(expected)}"
    for index, (want, have) in enumerate(zip(expected, given, strict=True)):
        if different := _struct_difference(want, have, RECORD_FIELDS):
            return f"records[{index}].{different}"
    return ""


def data_difference(case: Case, data: bytes) -> str:
    """Where the bytes written for *case* are not right."""
    if data == case.expect.data:
        return ""
    try:
        return _read_difference(case, data)
    except RecordFormatError as error:
        return f"bytes that cannot be read: {error}"


def _read_difference(case: Case, data: bytes) -> str:
    right = case.expect.data
    if decode(data) != ((case.input,) if right is None else decode(right)):
        return "bytes that read as another batch"
    if right is None:
        return ""
    match case.expect.compare:
        case "exact":
            return _first_byte(right, data)
        case "masked":
            return _first_byte(masked(right), masked(data))
    return ""


def _first_byte(right: bytes, data: bytes) -> str:
    for at, (want, have) in enumerate(zip_longest(right, data)):
        if want != have:
            return f"byte {at} differs"
    return ""
