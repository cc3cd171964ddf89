"""`check_codec`: functions of this process, put to the corpus."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafka_conformance
from kafka_conformance import CodecError, Deviation, NotDone, check_codec
from kafka_conformance.in_process import CodecFunctions, resource_limits
from kafka_conformance.runner.requests import is_heavy
from kafka_conformance.runner.results import read_results
from kafka_conformance.testees import kafka_python
from kafka_corpus.vector_format import CODEC_OPS
from kafka_corpus.vectors import load_vectors
from kafka_corpus.wire import BATCH_FIELDS, to_wire
from kafka_fuzz.planted_bugs import testees
from kafka_records import Batch, RecordFormatError, decode, encode


def as_dicts(data: bytes) -> Iterator[dict[str, Any]]:
    """The reference, as somebody's generator of plain dicts."""
    try:
        batches: tuple[Batch, ...] = decode(data)
        error = None
    except RecordFormatError as refusal:
        batches, error = refusal.batches, refusal
    for batch in batches:
        plain = {name: getattr(batch, name) for name in BATCH_FIELDS}
        yield plain | {"records": [_plain(record) for record in batch.records]}
    if error:
        raise error


def _plain(record: Any) -> dict[str, Any]:
    names = ("offset", "timestamp", "key", "value")
    return {name: getattr(record, name) for name in names} | {"headers": [tuple(header) for header in record.headers]}


@pytest.mark.slow
def test_reference_agrees_with_the_whole_corpus() -> None:
    """Batches of the reference's own type will do, and nothing is left out but cases made to exhaust a machine."""
    made = check_codec(decode, encode, name="reference")
    counts = made.results.counts()
    assert made.agrees
    cases = load_vectors(ops=CODEC_OPS)
    heavy = [case.id for case in cases if is_heavy(case)]
    assert 0 < len(heavy) < len(cases) / 100
    assert counts["agree"] == len(made.results.lines) == len(cases) - len(heavy)


@pytest.mark.slow
def test_plain_dicts_will_do() -> None:
    """A generator of dicts with bytes in them is a decoder; what it gave before an error is compared."""
    made = check_codec(as_dicts, only=["v2_batch", "truncation", "message_set", "FRM-*"])
    assert made.agrees
    assert made.results.counts()["agree"] > 300


def test_a_released_codec_is_caught() -> None:
    """kafka-python's decoder disagrees here where it does as a testee, and one error names the worst first."""
    with pytest.raises(AssertionError) as caught:
        check_codec(kafka_python.decode, only="v2_batch", name="kafka-python", version="3")
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("kafka-python 3 disagrees in ")
    assert lines[1].split()[0] == "wrong_data"
    assert "HDR-" in lines[1]
    assert lines[-1].startswith("look at one with: kafkaproof explain --case 'v2_batch.")


def test_report_without_an_error(tmp_path: Path) -> None:
    """With raises=False there is a report, and the result file is one that `kafkaproof report` reads."""
    path = tmp_path / "result.ndjson"
    made = check_codec(kafka_python.decode, only="v2_batch", raises=False, result=path)
    assert not made.agrees
    assert made.fresh[0].line.outcome == "wrong_data"
    assert read_results(path).complete
    assert read_results(path).lines == made.results.lines


def test_known_deviations_are_aside(tmp_path: Path) -> None:
    """Declared findings raise nothing, from a file as from values."""
    made = check_codec(kafka_python.decode, only="v2_batch", raises=False)
    declared = [Deviation(case=each.line.case, severity=each.line.outcome, reason="seen") for each in made.findings]  # type: ignore[arg-type]  # findings have severities
    assert check_codec(kafka_python.decode, only="v2_batch", deviations=declared).agrees
    file = tmp_path / "deviations.toml"
    entry = "[[deviation]]\ncase = '{}'\nseverity = '{}'\nreason = 'seen'\n"
    file.write_text("".join(entry.format(each.line.case, each.line.outcome) for each in made.findings))
    assert check_codec(kafka_python.decode, only="v2_batch", deviations=file).agrees


def test_a_stale_deviation_is_an_error() -> None:
    """A declared deviation that no longer happens is a failure of its own."""
    gone = Deviation(case="v2_batch", severity="crash", reason="it used to")
    with pytest.raises(AssertionError, match="stale deviation  v2_batch: crash no longer happens"):
        check_codec(decode, only="v2_batch", deviations=[gone])


def test_abilities_are_respected() -> None:
    """Cases of formats that a codec does not claim are not sent, and count as skipped."""
    made = check_codec(decode, magics=[2], compressions=["none"], only=["v1_message", "v2_batch"])
    skipped = {line.area for line in made.results.lines if line.outcome == "skipped"}
    sent = [line for line in made.results.lines if line.outcome == "agree"]
    assert skipped == {"v1_message", "v2_batch"}
    assert sent
    assert not [line for line in sent if "gzip" in line.case]


def _raising(error: BaseException) -> Any:
    def codec(_: bytes) -> list[Batch]:
        raise error

    return codec


@pytest.mark.parametrize(
    ("raised", "outcomes"),
    [
        (NotDone("not here"), {"crash"}),  # every API can express these cases
        (CodecError("corrupt", "bad sum"), {"agree", "rejects_valid", "wrong_error"}),
        (KeyError("leak"), {"agree", "rejects_valid"}),
        (MemoryError(), {"memory"}),
        (SystemExit(3), {"crash"}),
        (type("PanicException", (BaseException,), {})("index out of bounds"), {"crash"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_raised_is_an_observation(raised: BaseException, outcomes: set[str]) -> None:
    """Whatever a codec raises is judged; kinds are compared only where they are said."""
    made = check_codec(_raising(raised), only="v2_crc", raises=False)
    assert {line.outcome for line in made.results.lines} == outcomes


def test_an_interrupt_is_the_users() -> None:
    """Ctrl-C within a codec ends the test, and is no finding."""
    with pytest.raises(KeyboardInterrupt):
        check_codec(_raising(KeyboardInterrupt()), only="v2_crc")


def test_exceptions_have_the_kind_that_is_declared() -> None:
    """With `errors` an exception class stands for a kind, and another kind than the right one is a finding."""
    right = check_codec(decode, only="v2_crc", errors={RecordFormatError: "corrupt"}, raises=False)
    wrong = check_codec(decode, only="v2_crc", errors={RecordFormatError: "limit"}, raises=False)
    assert not [line for line in right.results.lines if line.outcome == "rejects_valid"]
    assert {each.line.outcome for each in wrong.findings} == {"wrong_error"}
    assert len(wrong.findings) > len(right.findings)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarm on this system")
@pytest.mark.parametrize("other", [0.0, 60.0])
def test_a_hang_is_ended(other: float) -> None:
    """A loop in Python is interrupted when its time is up; the alarm is gone afterwards, and one of others goes on."""

    def endless(_: bytes) -> list[Batch]:
        while True:
            try:
                time.sleep(0.001)
            except Exception:
                continue

    case = next(case for case in load_vectors("v2_batch") if isinstance(case.input, bytes))
    before = signal.setitimer(signal.ITIMER_REAL, other)
    observation = CodecFunctions(decode=endless, seconds=0.05).observe(case)
    left, interval = signal.setitimer(signal.ITIMER_REAL, *before)
    assert type(observation).__name__ == "Hung"
    assert interval == 0
    assert 0 < left < other - 0.05 if other else left == 0


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarm on this system")
def test_an_alarm_that_is_sooner_comes_first() -> None:
    """The alarm of others, as pytest-timeout's, is heard if it is due before the limit."""

    def heard(*_: object) -> None:
        raise InterruptedError

    handler, before = signal.signal(signal.SIGALRM, heard), signal.setitimer(signal.ITIMER_REAL, 0.05)
    try:
        with pytest.raises(InterruptedError), resource_limits(60.0, None):
            time.sleep(60)
    finally:
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *before)


@pytest.mark.skipif(sys.platform != "linux", reason="no limit on address space elsewhere")
def test_memory_is_limited() -> None:
    """More address space than allowed is a MemoryError; afterwards the limit is what it was."""
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with pytest.raises(MemoryError), resource_limits(None, 64 * 2**20):
        bytearray(512 * 2**20)
    assert resource.getrlimit(resource.RLIMIT_AS) == before


@pytest.mark.parametrize(
    "batch", [{"magic": 2, "records": [{"key": "a text"}]}, {"magic": "two"}, 5], ids=["text", "type", "number"]
)
def test_another_shape_is_reported_at_once(batch: Any) -> None:
    """A decode function that gives no batches is a mistake in the test, and one clear error."""
    with pytest.raises(TypeError, match="decode gave a batch of another shape: Expected"):
        check_codec(lambda _: [batch])


def test_another_shape_later_is_a_finding() -> None:
    """A codec that gives what is no batch for some inputs does not end the run."""

    def odd(data: bytes) -> list[dict[str, Any]]:
        return [{"magic": 2 if len(data) < 80 else "two"} for _ in decode(data)]

    made = check_codec(odd, only="v2_batch", raises=False)
    assert any("another shape" in each.line.why for each in made.findings)


def test_nothing_to_check_is_an_error() -> None:
    """Neither function, or a pattern that selects nothing, is said at once."""
    with pytest.raises(TypeError, match="needs decode, encode or both"):
        check_codec()
    with pytest.raises(ValueError, match="no case is selected by v3_"):
        check_codec(decode, only="v3_*")


def test_encoders_are_judged() -> None:
    """An encoder is given batches, and its bytes are compared."""
    made = check_codec(encode=lambda batch: kafka_python.encode(to_wire(batch)), only="v2_encode", raises=False)
    assert {line.op for line in made.results.lines} == {"encode"}
    assert made.results.counts()["lossy"] > 20


@pytest.mark.slow
def test_a_planted_mistake_is_caught() -> None:
    """A decoder that is wrong on purpose fails the assertion."""
    planted = next(each for each in vars(testees).values() if getattr(each, "caught_as", None) == "wrong_data")
    with pytest.raises(AssertionError, match="wrong_data"):
        check_codec(planted.decode)


def test_names_of_the_package() -> None:
    """The package exports its public names, and nothing else."""
    assert all(getattr(kafka_conformance, name) for name in kafka_conformance.__all__)
    with pytest.raises(AttributeError, match="no attribute 'check'"):
        _ = kafka_conformance.check
