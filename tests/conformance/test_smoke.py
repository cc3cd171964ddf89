"""`smoke` distinguishes a sound adapter from a broken one."""

from base64 import b64encode
from collections.abc import Callable

import pytest

from kafka_conformance.runner import smoke as module
from kafka_conformance.runner.smoke import SmokeCheck, passed, schema_problem, smoke
from kafka_conformance.testees.connection import ConnectionSpec
from kafka_conformance.testees.known import connect
from kafka_records import Batch, Record, encode

Script = Callable[..., ConnectionSpec]

RECORD = Record(0, 1_700_000_000_000, b"key", b"value")
PLAIN = Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=RECORD.timestamp, records=(RECORD,))


def unusual_batch() -> Batch:
    """The batch that most writers cannot express."""
    given = module.unusual_case().input
    assert isinstance(given, Batch)
    return given


SCHEMA = "every line fits the JSON Schema"


def checks(connection: ConnectionSpec) -> dict[str, SmokeCheck]:
    """The checks by name."""
    return {check.name: check for check in smoke(connection)}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reference", "kafka-python", "aiokafka", "planted:prints-stray-lines"])
def test_sound_adapters_pass(name: str) -> None:
    """Adapters that are sound pass every check, prints on standard output tolerated."""
    made = checks(connect(name))

    assert [check for check in made.values() if not check.passed] == []
    assert {"hello", "decodes a batch of magic 0", "an error for a malformed batch", "replies in order"} < made.keys()
    assert ("DEBUG" in made["standard output"].note) == (name == "planted:prints-stray-lines")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "failing"),
    [
        ("planted:accept-all", "an error for a malformed batch"),
        ("planted:refuse-all", "decodes a batch of magic 2"),
        ("planted:swaps-key-and-value", "decodes a batch of magic 1"),
        ("planted:writes-no-crc", "encodes a batch of magic 2"),
    ],
)
def test_broken_adapters_fail(name: str, failing: str) -> None:
    """Each mistake shows in the check that is about it."""
    assert checks(connect(name))[failing].problem


@pytest.mark.parametrize(
    ("body", "hello", "failing"),
    [
        ("reply(id=id, batches=[], extra=1)", "protocol=3", "hello"),
        ("reply(id='other', batches=[])", "", "decodes a batch of magic 2"),
        ("reply(id=id, batches=[dict(magic='2')])", "", SCHEMA),
        ("os._exit(1)", "", "it answers"),
        ("reply(id=id, batches=[]) if len(data) else reply(id=id, skipped=5)", "many=True", "answers many at once"),
    ],
)
def test_scripts_that_are_not_sound(body: str, hello: str, failing: str, script: Script) -> None:
    """A wrong protocol, wrong ids, wrong shapes and an early end are distinct failures."""
    made = checks(script(body, hello=hello))

    assert made[failing].problem
    assert not passed(list(made.values()))


@pytest.mark.parametrize(("before", "passes"), [("[{}, {}]", True), ("[{}]", False)])
def test_a_refused_tail_is_the_codecs_own(before: str, passes: bool, script: Script) -> None:
    """An error for a partial batch at the end is noted and not judged, if the two batches before it are returned."""
    refused = f"reply(id=id, batches={before}, error=dict(kind='truncated', message='too short'))"
    check = checks(script(f"{refused} if len(data) > 200 else reply(id=id, batches=[{{}}])"))

    assert check["two of magic 2 and a partial one"].passed is passes
    assert ("too short" in check["two of magic 2 and a partial one"].note) is passes


@pytest.mark.parametrize(
    ("answer", "problem", "note"),
    [
        ("reply(id=id, skipped='its builder counts from 0')", "", "it is skipped: its builder counts from 0"),
        ("reply(id=id, error=dict(kind='', message='no such option'))", "rejects_valid: no such option", ""),
        (f"reply(id=id, data={b64encode(encode(PLAIN)).decode()!r})", "wrong_data: batches[0].base_offset", ""),
        (f"reply(id=id, data={b64encode(encode(unusual_batch())).decode()!r})", "", ""),
    ],
    ids=["skipped", "error", "another batch", "written"],
)
def test_a_batch_that_an_api_cannot_express_is_skipped(answer: str, problem: str, note: str, script: Script) -> None:
    """An adapter that leaves out a field, or reports an error, is advised to answer `skipped`."""
    encodes = "encode=dict(magics=[2], compressions=['none'])"
    check = checks(script(answer, hello=encodes))["writes or skips an unusual batch"]

    assert check.problem.startswith(problem)
    assert check.passed == (not problem)
    assert ("answer `skipped` with the reason" in check.problem) == bool(problem)
    assert check.note == note


def test_skipping_a_plain_batch_is_a_failure(script: Script) -> None:
    """An adapter that announces magic 2 writes a batch of one record."""
    check = checks(script("reply(id=id, skipped='later')", hello="encode=dict(magics=[2], compressions=['none'])"))
    assert check["encodes a batch of magic 2"].problem == "a plain batch is skipped: later"


@pytest.mark.parametrize(("consumer", "decoded"), [(False, False), (True, True)])
def test_what_only_writes_is_given_nothing_to_decode(consumer: bool, decoded: bool, script: Script) -> None:
    """A codec that announces formats to write and none to read only writes; a client's formats are unknown."""
    hello = f"encode=dict(magics=[2], compressions=['none']), consumer={consumer}"
    made = checks(script("reply(id=id, skipped='no decode here')", hello=hello))

    assert ("decodes a batch of magic 2" in made) is decoded
    assert "encodes a batch of magic 2" in made


def test_a_broken_line_is_no_failure(script: Script) -> None:
    """The protocol never sends a broken line, so the testee's reaction is noted and not judged."""
    made = checks(script("reply(id=id, skipped='no')"))

    assert "allowed" in made["a line that is no JSON"].note


@pytest.mark.parametrize("installed", [True, False])
def test_lines_are_validated_either_way(installed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the schema or, where jsonschema is not installed, with the models, the same lines pass."""
    if not installed:
        monkeypatch.setattr(module, "_validator", lambda: None)

    assert schema_problem(b'{"id":"7","batches":[]}') == ""
    assert schema_problem(b'{"id":"7","batches":[{"records":[{"timestamp":null,"key":null}]}]}') == ""
    assert schema_problem(b'{"protocol":1,"name":"x","version":"1"}') == ""
    assert schema_problem(b'{"id":"7","batches":5}')
    assert schema_problem(b'{"protocol":"1"}')
    assert schema_problem(b"{broken")
