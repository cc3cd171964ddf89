"""`kafkaproof explain` of internal topics: the topic by the folder's name, a JSON line for each record, and misuse."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.pipeline.topic_damage import COMMIT, COMMITTED, METADATA, OFFSETS, TOPIC, batch_of, log_file, snapshot

from kafkaproof.commands.explain import explain_command

FIELDS = {"offset": 5, "leader_epoch": 1, "metadata": "m", "commit_timestamp": 7}


def run(*args: str, given: bytes | None = None) -> Result:
    """Run the command."""
    return CliRunner().invoke(explain_command, args, input=given)


def lines(done: Result) -> list[dict[str, object]]:
    """The printed JSON lines."""
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_line_for_each_record(tmp_path: Path) -> None:
    """Fields by name, a tombstone as null, remarks and errors where there are some, and control records."""
    contents = ((COMMIT, COMMITTED), (COMMIT, None), (b"\0\x63", b"?"), (COMMIT, b"\0"))
    path = log_file(tmp_path, OFFSETS, batch_of(7, *contents))
    done = run("--records", str(path))
    assert done.exit_code == 1
    commit, tombstone, unknown, broken = lines(done)
    key = {"group": "g", "topic": "t", "partition": 0}
    assert commit == {
        "offset": 7, "timestamp": 1_700_000_000_000, "type": "OffsetCommit", "version": 3, "key": key, "value": FIELDS,
    }  # fmt: skip
    assert (tombstone["key"], tombstone["value"], tombstone["version"]) == (key, None, None)
    assert (unknown["type"], unknown["key"], unknown["value"]) == (99, "0063", "3f")
    assert unknown["remarks"] == [
        "record type 99 is unknown: the coordinator passes over the record (at key.type, byte 0; TOP-02)"
    ]
    assert broken["error"] == "the length claims 2 bytes, 1 are left (at value, byte 0; TOP-04)"
    assert broken["value"] == "00"


def test_snapshots_and_standard_input(tmp_path: Path) -> None:
    """A snapshot needs no option, and bytes of standard input need --topic."""
    path = log_file(tmp_path, METADATA, snapshot(TOPIC), "bootstrap.checkpoint")
    named = run("--records", str(path))
    assert [line.get("control", line.get("type")) for line in lines(named)] == [
        "snapshot_header",
        "TopicRecord",
        "snapshot_footer",
    ]
    assert run("--records", "--topic", METADATA, "-", given=snapshot(TOPIC)).output == named.output
    assert run("--records", "-", given=snapshot(TOPIC)).exit_code == 2


def test_a_broken_batch_comes_after_what_can_be_read(tmp_path: Path) -> None:
    """The records before it are printed, the error is a line on standard error, and the exit code is 1."""
    broken = batch_of(1, (COMMIT, COMMITTED))[:-1] + b"?"
    done = run("--records", str(log_file(tmp_path, OFFSETS, batch_of(0, (COMMIT, COMMITTED)) + broken)))
    assert (done.exit_code, len(lines(done))) == (1, 1)
    assert done.stderr.startswith("error: ")


def test_a_record_that_no_broker_loads_is_broken(tmp_path: Path) -> None:
    """The last line, JSON and the exit code say so; a remark alone is no fault."""
    path = log_file(tmp_path, OFFSETS, batch_of(7, (COMMIT, COMMITTED), (None, COMMITTED), (None, COMMITTED)))
    done = run(str(path))
    assert done.exit_code == 1
    assert done.stdout.rstrip().endswith(
        "✗ broken: offset 8: a record without a key (at key, byte 0; TOP-01); and 1 more, --records shows them"
    )
    document = json.loads(run("--json", str(path)).stdout)
    assert (document["valid"], len(document["broken"]), document["error"]) == (False, 2, None)
    assert run("--records", str(path)).exit_code == 1
    path.write_bytes(batch_of(7, (COMMIT, COMMITTED), (b"\0\x63", b"?")))
    assert [run(*args, str(path)).exit_code for args in ((), ("--json",), ("--records",))] == [0, 0, 0]


def test_a_snapshot_that_was_cut_is_broken(tmp_path: Path) -> None:
    """Also where the cut is between two batches; a part of it that was chosen has no ends."""
    path = log_file(tmp_path, METADATA, snapshot(TOPIC)[:-5], "cut.checkpoint")
    records, plain = run("--records", str(path)), run(str(path))
    assert (records.exit_code, plain.exit_code) == (1, 1)
    assert "its last record is no control record, and should be snapshot_footer (TOP-15)" in records.stderr
    assert "bytes not read: the batch there is larger" in records.stderr
    assert "snapshot_footer (TOP-15)" in " ".join(plain.stdout.split())
    path.write_bytes(snapshot(TOPIC, footer=False))
    assert [run(*args, str(path)).exit_code for args in (("--records",), (), ("--records", "--length", "1000"))] == [
        1,
        1,
        0,
    ]


def test_bytes_that_are_not_read_are_mentioned(tmp_path: Path) -> None:
    """A log may end within a batch; bytes without any batch are an error, and an empty log is not."""
    whole = batch_of(0, (COMMIT, COMMITTED))
    path = log_file(tmp_path, OFFSETS, whole * 2)
    cut, shifted = run("--records", "--length", "150", str(path)), run("--records", "--from", "7", str(path))
    assert (cut.exit_code, len(lines(cut)), cut.stderr) == (
        0, 1, f"{150 - len(whole)} bytes not read: the batch there is larger\n",
    )  # fmt: skip
    assert (shifted.exit_code, shifted.stdout, "no whole batch" in shifted.stderr) == (1, "", True)
    path.write_bytes(b"")
    assert (run("--records", str(path)).exit_code, run("--records", str(path)).output) == (0, "")


@pytest.mark.parametrize("args", [(), ("--json",)])
def test_every_byte_of_a_value_is_named(args: tuple[str, ...], tmp_path: Path) -> None:
    """The explanation has the fields of the value; in a topic of users it has not."""
    path = log_file(tmp_path, OFFSETS, batch_of(0, (COMMIT, COMMITTED)))
    assert "commit_timestamp" in run(*args, str(path)).output
    other = log_file(tmp_path, "orders", path.read_bytes())
    assert "commit_timestamp" not in run(*args, str(other)).output
    assert "commit_timestamp" in run(*args, "--topic", OFFSETS, str(other)).output


def test_an_unknown_topic_is_misuse() -> None:
    """One line, exit code 2, and the topics that there are."""
    done = run("--topic", "orders", "--hex", "00")
    assert done.exit_code == 2
    assert "__consumer_offsets" in done.output
