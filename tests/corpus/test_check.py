"""`corpus check` finds whatever was tampered with."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_corpus import compiler, compressed_bytes
from kafka_corpus.authoring.build import put, reseal
from kafka_corpus.case import Case
from kafka_corpus.check import check
from kafka_corpus.evidence import EVIDENCE, CaseEvidence
from kafka_corpus.registry import produced, stored
from kafka_corpus.vector_format import content_hash
from kafka_records import Batch


def drifts(cases: list[Case], root: Path) -> list[tuple[str, str]]:
    """Which checks fail where; a corpus of five cases lacks most rules, so that is passed over."""
    return [(drift.check, drift.where) for drift in check(cases, root) if drift.check != "rules"]


def replaced(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes in a file, which must be there."""
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


def test_untouched(sample: list[Case], root: Path) -> None:
    """Nothing is found where nothing was changed, and compiling again changes no file."""
    assert drifts(sample, root) == []
    assert compiler.write_compiled(compiler.compile_corpus(sample, root), root) == []


def test_tampered_vector(sample: list[Case], root: Path) -> None:
    """A changed expectation in a vector file is found, with the id of its case."""
    replaced(root / "vectors" / "sample.ndjson", b'"max_timestamp":1700000000000', b'"max_timestamp":1700000000001')
    assert drifts(sample, root) == [("vectors", "sample.accepts")]


def test_missing_line(sample: list[Case], root: Path) -> None:
    """A vector that was deleted is found."""
    path = root / "vectors" / "sample.ndjson"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))
    assert drifts(sample, root) == [("vectors", "sample.writes")]


def test_other_form(sample: list[Case], root: Path) -> None:
    """Spaces that change nothing are still not the canonical form."""
    replaced(root / "vectors" / "sample.ndjson", b'":', b'": ')
    assert drifts(sample, root) == [("files", "vectors/sample.ndjson")]


def test_unreadable_file(sample: list[Case], root: Path) -> None:
    """A vector file that is no JSON, as after a merge with conflicts, is found with its line, and nothing crashes."""
    replaced(root / "vectors" / "sample.ndjson", b"{", b"<<<<<<<")
    assert drifts(sample, root) == [("files", "vectors/sample.ndjson")]


def test_tampered_schema(sample: list[Case], root: Path) -> None:
    """A changed schema is found."""
    replaced(root / "schema" / "vector.schema.json", b"version", b"Version")
    assert drifts(sample, root) == [("files", "schema/vector.schema.json")]


def test_missing_and_foreign_files(sample: list[Case], root: Path) -> None:
    """A file that is missing and one that belongs to no area are found; compiling corrects both."""
    (root / "schema" / "vector.schema.json").unlink()
    (root / "vectors" / "gone.ndjson").write_bytes(b"")
    assert drifts(sample, root) == [("files", "schema/vector.schema.json"), ("files", "vectors/gone.ndjson")]
    compiler.write_compiled(compiler.compile_corpus(sample, root), root)
    assert drifts(sample, root) == []


def test_tampered_hash(sample: list[Case], root: Path) -> None:
    """A changed content hash is found: the id had another content before."""
    path = root / "vectors" / "sample.ndjson"
    line = json.loads(path.read_bytes().splitlines()[0])
    replaced(path, line["sha256"].encode(), b"0" * 64)
    assert drifts(sample, root) == [("ids", "sample.accepts"), ("vectors", "sample.accepts")]


def test_tampered_retired_line(sample: list[Case], root: Path) -> None:
    """A retired line whose content does not match its hash is found."""
    compiler.write_compiled(compiler.compile_corpus(sample[1:], root, retire=["sample.accepts"]), root)
    assert drifts(sample[1:], root) == []
    replaced(root / "vectors" / "sample.ndjson", b'"max_timestamp":1700000000000', b'"max_timestamp":1700000000001')
    assert drifts(sample[1:], root) == [("ids", "sample.accepts")]


def test_stale_reference_answer(sample: list[Case], root: Path) -> None:
    """An answer of the reference that is not today's is found, and `compile --all` records it again."""
    replaced(root / "vectors" / "sample.ndjson", b'"rule":"CRC-07"', b'"rule":"CRC-99"')
    assert drifts(sample, root) == [("vectors", "sample.refuses")]
    assert compiler.write_compiled(compiler.compile_corpus(sample, root), root) == []
    compiler.write_compiled(compiler.compile_corpus(sample, root, reuse=False), root)
    assert drifts(sample, root) == []


def test_evidence_in_another_form(sample: list[Case], root: Path) -> None:
    """An evidence file whose lines are not sorted, as after a merge by hand, is found, and compiling corrects it."""
    lines = [CaseEvidence(case.id, content_hash(case)) for case in sample[:2]]
    (root / "evidence" / "sample.ndjson").write_bytes(b"".join(EVIDENCE.text([line]) for line in reversed(lines)))
    assert drifts(sample, root) == [("files", "evidence/sample.ndjson")]
    compiler.write_compiled(compiler.compile_corpus(sample, root), root)
    assert drifts(sample, root) == []
    (root / "evidence" / "sample.ndjson").write_bytes(b"=======\n")
    (found,) = check(sample, root)
    assert found.where == "evidence/sample.ndjson"
    assert "line 1: " in found.what


def test_builder_drifts(sample: list[Case], root: Path) -> None:
    """A function that makes other bytes than it did is found, as a broken promise and in the vectors."""
    data = sample[2].input
    assert isinstance(data, bytes)
    epoch = put(data, "partition_leader_epoch", 7)
    batch = replace(sample[2].expect.batches[0], partition_leader_epoch=7)
    sample[2] = replace(sample[2], input=epoch, expect=replace(sample[2].expect, batches=(batch,)))
    found = drifts(sample, root)
    assert ("ids", "sample.reads") in found
    assert ("vectors", "sample.reads") in found


def test_new_case(sample: list[Case], root: Path) -> None:
    """A new function is found until it is compiled."""
    new = replace(sample[3], id="sample.new", title="new", input=bytes(17))
    new = replace(new, expect=replace(new.expect, kinds=("malformed",)))
    assert ("vectors", "sample.new") in drifts([*sample, new], root)
    compiler.write_compiled(compiler.compile_corpus([*sample, new], root), root)
    assert drifts([*sample, new], root) == []


def test_reference_disagrees(sample: list[Case], root: Path) -> None:
    """A case with a wrong expectation is found, for the reference does not agree."""
    wrong = replace(sample[3], id="sample.wrong", input=put(b"\x00" * 61, "magic", 2))
    found = check([*sample, wrong], root)
    reasons = [drift.what for drift in found if drift.check == "reference"]
    assert reasons == ["the reference does not agree: error kind malformed, expected corrupt"]


def test_repeated_question(sample: list[Case], root: Path) -> None:
    """Two cases that ask the same are found."""
    again = replace(sample[4], id="sample.writes_again")
    assert ("inputs", "sample.writes_again") in drifts([*sample, again], root)


def test_rules(sample: list[Case], root: Path) -> None:
    """A rule that is none is found, and so is one without a case in its direction."""
    found = check([*sample, replace(sample[2], id="sample.cites", rules=("XYZ-01",))], root)
    said = {(drift.where, drift.what) for drift in found if drift.check == "rules"}
    assert ("sample.cites", "cites XYZ-01, which is not in the catalogue") in said
    assert ("VAR-01", "can be checked by encode, and no encode case cites it") in said
    assert "HDR-01" not in {where for where, _ in said}


def test_big_input_is_refused(sample: list[Case], root: Path) -> None:
    """More than 128 KiB, of bytes or in a batch, is refused."""
    batch = sample[4].input
    assert isinstance(batch, Batch)
    big = replace(batch, records=(batch.records[0]._replace(value=bytes(131073)),))
    for given, size in ((bytes(131073), 131073), (big, 131073)):
        with pytest.raises(ValueError, match=rf"sample\.big: an input of {size} bytes"):
            compiler.compile_corpus([replace(sample[0], id="sample.big", input=given)], root)


def test_other_library(sample: list[Case], root: Path) -> None:
    """Of a line that other codec libraries made, bytes that differ in compression only are kept as they were."""
    old = sample[1].expect.data
    assert old is not None
    recompressed = [sample[0], replace(sample[1], expect=replace(sample[1].expect, data=weaker(old))), *sample[2:]]
    assert ("ids", "sample.packs") in drifts(recompressed, root)
    named(root, "sample.packs")
    assert drifts(recompressed, root) == []
    another = replace(sample[1], expect=replace(sample[1].expect, data=put(old, "base_offset", 5)))
    assert ("ids", "sample.packs") in drifts([sample[0], another, *sample[2:]], root)


def test_other_library_of_a_scenario(sample: list[Case], root: Path) -> None:
    """A payload that is compressed in another way, and what a broker stores of it, are kept as they were."""
    packed = sample[1].expect.data or b""
    made = [scenario_case(data) for data in (packed, weaker(packed), put(packed, "base_timestamp", 5))]
    compiler.write_compiled(compiler.compile_corpus(made[:1], root, rewrite_ids=True), root)
    assert drifts(made[1:2], root) != []
    named(root, "sample.produces")
    assert drifts(made[1:2], root) == []
    assert ("ids", "sample.produces") in drifts(made[2:], root)


def scenario_case(payload: bytes) -> Case:
    """A case that produces *payload*, and gets it back."""
    stored_as = reseal(put(payload, "partition_leader_epoch", 0))
    draft = produced(payload, stored(stored_as))
    return Case(
        id="sample.produces", title="produces", rules=("HDR-01",), area="sample", op=draft.op, input=draft.input,
        expect=draft.expect,
    )  # fmt: skip


def named(root: Path, id_: str) -> None:
    """Have the line of *id_* say that another gzip made its bytes."""
    path = root / "vectors" / "sample.ndjson"
    lines = path.read_bytes().splitlines(keepends=True)
    end = b',"libraries":{"gzip":"0.9"}}\n'
    assert compressed_bytes.installed_libraries()["gzip"] != "0.9"
    path.write_bytes(b"".join(line[:-2] + end if id_.encode() in line else line for line in lines))


def weaker(batch: bytes) -> bytes:
    """The gzip *batch*, compressed in another way."""
    payload = gzip.compress(gzip.decompress(batch[61:]), 0, mtime=0)
    return reseal(put(batch[:61] + payload, "batch_length", 49 + len(payload)))
