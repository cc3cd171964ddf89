"""`corpus check` finds whatever was tampered with."""

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_corpus import compiler, ledger, pack
from kafka_corpus.build import put, reseal
from kafka_corpus.case import Case
from kafka_corpus.check import check
from kafka_records import Batch


def drifts(cases: list[Case], root: Path) -> list[tuple[str, str]]:
    """Which checks fail where; a corpus of five cases lacks most rules, so that is passed over."""
    return [(drift.check, drift.where) for drift in check(cases, root) if drift.check != "rules"]


def replaced(path: Path, old: bytes, new: bytes) -> None:
    """Change bytes in a file, which must be there."""
    data = lines_of(path)
    assert old in data
    kept(path, data.replace(old, new, 1))


def lines_of(path: Path) -> bytes:
    """What the file holds, unpacked where it is kept packed."""
    return pack.read(path.parent, path.name) if path.suffix == ".ndjson" else path.read_bytes()


def kept(path: Path, data: bytes) -> None:
    """Write the file as it is kept."""
    if path.suffix == ".ndjson":
        pack.write(path, data)
    else:
        path.write_bytes(data)


def test_untouched(sample: list[Case], root: Path) -> None:
    """Nothing is found where nothing was changed, and compiling again changes no file."""
    assert drifts(sample, root) == []
    assert compiler.write(compiler.compile_corpus(sample, root), root) == []


def test_tampered_golden(sample: list[Case], root: Path) -> None:
    """A changed expectation in a vector file is found, with the id of its case."""
    replaced(root / "goldens" / "sample.ndjson", b'"max_timestamp":1700000000000', b'"max_timestamp":1700000000001')
    assert drifts(sample, root) == [("vectors", "sample.accepts")]


def test_missing_line(sample: list[Case], root: Path) -> None:
    """A vector that was deleted is found."""
    path = root / "goldens" / "sample.ndjson"
    kept(path, b"".join(lines_of(path).splitlines(keepends=True)[:-1]))
    assert drifts(sample, root) == [("vectors", "sample.writes")]


def test_other_form(sample: list[Case], root: Path) -> None:
    """Spaces that change nothing are still not the canonical form."""
    replaced(root / "goldens" / "sample.ndjson", b'":', b'": ')
    assert drifts(sample, root) == [("files", "goldens/sample.ndjson")]


def test_unreadable_golden(sample: list[Case], root: Path) -> None:
    """A vector file that is no JSON is found, and nothing crashes."""
    replaced(root / "goldens" / "sample.ndjson", b"{", b"<<<<<<<")
    assert drifts(sample, root) == [("files", "goldens/sample.ndjson")]


@pytest.mark.parametrize("name", ["goldens/MANIFEST.json", "schema/vector.schema.json"])
def test_tampered_file(sample: list[Case], root: Path, name: str) -> None:
    """A changed number in the manifest or the schema is found."""
    replaced(root / name, b"version", b"Version")
    found = check(sample, root)
    assert name in [drift.where for drift in found] or found[0].check == "compile"


def test_missing_and_foreign_files(sample: list[Case], root: Path) -> None:
    """A file that is missing and one that belongs to no area are found; compiling mends both."""
    (root / "schema" / "vector.schema.json").unlink()
    pack.write(root / "goldens" / "gone.ndjson", b"")
    assert drifts(sample, root) == [("files", "goldens/gone.ndjson"), ("files", "schema/vector.schema.json")]
    compiler.write(compiler.compile_corpus(sample, root), root)
    assert drifts(sample, root) == []


def test_tampered_ledger(sample: list[Case], root: Path) -> None:
    """A changed hash in the ledger is found: it says that the id asked something else once."""
    path = root / "goldens" / "ids.ndjson"
    entry = json.loads(lines_of(path).splitlines()[0])
    replaced(path, entry["sha256"].encode(), b"0" * 64)
    assert drifts(sample, root) == [("ids", "sample.accepts")]


def test_shortened_ledger(sample: list[Case], root: Path) -> None:
    """A line that was taken out of the ledger is found."""
    path = root / "goldens" / "ids.ndjson"
    kept(path, b"".join(lines_of(path).splitlines(keepends=True)[1:]))
    assert drifts(sample, root) == [("files", "goldens/ids.ndjson")]


def test_builder_drifts(sample: list[Case], root: Path) -> None:
    """A function that makes other bytes than it did is found, in the ledger and in the vectors."""
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
    compiler.write(compiler.compile_corpus([*sample, new], root), root)
    assert drifts([*sample, new], root) == []
    assert ledger.parse(lines_of(root / "goldens" / "ids.ndjson"))[-1].id == "sample.new"


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
    """Where another codec library is installed, bytes that differ in compression only are kept as they were."""
    replaced(root / "goldens" / "MANIFEST.json", compiler.here()["gzip"].encode(), b"0.9")
    old = sample[1].expect.data
    assert old is not None
    stored = compiler.stored_cases(root)[1]
    assert stored.expect.data == old
    recompressed = replace(sample[1], expect=replace(sample[1].expect, data=weaker(old)))
    settled = compiler.settle([recompressed], root)
    assert settled[0].expect.data == old
    another = replace(sample[1], expect=replace(sample[1].expect, data=put(old, "base_offset", 5)))
    assert compiler.settle([another], root)[0].expect.data != old


def weaker(batch: bytes) -> bytes:
    """The gzip *batch*, compressed in another way."""
    payload = gzip.compress(gzip.decompress(batch[61:]), 0, mtime=0)
    return reseal(put(batch[:61] + payload, "batch_length", 49 + len(payload)))
