"""Merging: smaller, and nothing lost; or nothing changed."""

import resource
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kafka_fuzz.campaign.merge import Covered, Merged, checked, recover_corpora, sibling_folder, swap
from kafka_fuzz.campaign.store import CORPUS_FOLDER, INDEX, Corpus, CorpusEntry
from kafka_fuzz.mutate import Mutant, MutantCell
from kafkaproof.commands.fuzz import fuzz
from kafkaproof.commands.fuzz.engines import merged_as_noted

CELLS = [MutantCell(2, "none", name, "small", "", "entry", "only") for name in ("crc", "size")]


def mutant(data: bytes, cell: MutantCell = CELLS[0]) -> Mutant:
    """Bytes of which nothing is known."""
    return Mutant(data, "bytes", ("seed",), None, cell)


def filled(root: Path, target: str = "explain") -> Corpus:
    """Three inputs, the first two of which do the same."""
    corpus = Corpus(root, target)
    corpus.keep(mutant(b"0"), "b")
    corpus.keep(mutant(b"1"), "b")
    corpus.keep(mutant(b"22", CELLS[1]), "c")
    corpus.close()
    return corpus


@pytest.mark.slow
def test_merged(tmp_path: Path) -> None:
    """The real command, on a real target: what adds nothing goes, what adds something stays under its hash."""
    filled(tmp_path).keep(mutant(b"cut off", CELLS[1]), "d")
    (tmp_path / CORPUS_FOLDER / "explain" / f"{sha256(b'cut off').hexdigest()}.bin").write_bytes(b"cut")
    corpus = filled(tmp_path)
    command = [sys.executable, "-m", "kafkaproof", "fuzz", "merge", "--dir", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, check=False)
    (said,) = msgspec.json.decode(done.stdout, type=list[Merged])
    assert (done.returncode, said.refused, said.before, said.damaged) == (0, "", 4, 1), done.stderr
    after = Corpus(tmp_path, "explain")
    assert len(after.entries) == said.after < 3
    assert after.cells >= corpus.cells
    assert after.buckets >= corpus.buckets - {"d"}
    assert after.lines > corpus.lines  # they were not known before
    assert {path.name for path in after.folder.iterdir()} == {INDEX, *(f"{sha}.bin" for sha in after.entries)}


@pytest.mark.parametrize("target", ["differential:reference,sarama", "encode", "broker:4.4.0"])
def test_what_others_answered_is_merged_as_noted(target: str, tmp_path: Path) -> None:
    """No testee runs again: of inputs with equal answers the smallest stays, with its recorded cells and answers."""
    corpus = filled(tmp_path, target)
    corpus.keep(mutant(b"333", CELLS[1]), "b")  # a cell and an answer that two smaller ones have
    corpus.keep(mutant(b"0"), "d")  # what is there already did something else, too
    corpus.keep(mutant(b"cut off"), "e")
    corpus.close()
    (corpus.folder / f"{sha256(b'cut off').hexdigest()}.bin").write_bytes(b"cut")
    said = CliRunner().invoke(fuzz, ["merge", "--dir", str(tmp_path), "--json"])
    assert said.exit_code == 0
    folder = corpus.folder.name
    assert msgspec.json.decode(said.stdout, type=list[Merged]) == [Merged(folder, 5, 2, damaged=1)]
    after = Corpus(tmp_path, target)
    assert {after.data(entry) for entry in after.entries.values()} == {b"0", b"22"}
    assert (after.cells, after.buckets) == (set(CELLS), {"b", "c", "d"})
    again = CliRunner().invoke(fuzz, ["merge", "--dir", str(tmp_path), "--json"])
    assert msgspec.json.decode(again.stdout, type=list[Merged]) == [Merged(folder, 2, 2)]


def test_a_full_disk_keeps_the_corpus(tmp_path: Path) -> None:
    """Where the new folder cannot be written, one line says so, the old one stays, and the next merge succeeds."""
    corpus = filled(tmp_path, "differential")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        full = merged_as_noted("differential", tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert "too large" in full.refused
    assert Corpus(tmp_path, "differential").entries == corpus.entries
    assert merged_as_noted("differential", tmp_path) == Merged("differential", 3, 2)
    assert {path.name for path in (tmp_path / CORPUS_FOLDER).iterdir()} == {"differential"}


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    """An input that was not written whole gets no line in the index, and the error names its file."""
    corpus, data = Corpus(tmp_path, "explain"), b"whole" * 4096
    corpus.keep(mutant(b"0"), "b")
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, limits[1]))
    try:
        with pytest.raises(OSError, match=sha256(data).hexdigest()):
            corpus.keep(mutant(data), "c")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert len(Corpus(tmp_path, "explain").entries) == 1


def test_nothing_may_be_lost(tmp_path: Path) -> None:
    """An empty result, a lost cell, and a file that is not what it is called are each a reason to refuse."""
    corpus, merged = filled(tmp_path / "old"), filled(tmp_path / "new")
    entries = list(merged.entries.values())
    assert checked(merged.folder, entries, corpus) == ""
    assert checked(merged.folder, [], corpus) == "nothing would be kept"
    assert checked(merged.folder, entries[:2], corpus) == "1 cells would be lost"
    (merged.folder / f"{entries[0].sha}.bin").write_bytes(b"half")
    assert "not written whole" in checked(merged.folder, entries, corpus)


def test_a_line_is_enough() -> None:
    """An input is kept for one line that no smaller one covers."""
    entry = CorpusEntry("1", 1, "bytes", (), CELLS[0], "b")
    covered = Covered()
    assert covered.takes(entry)
    assert not covered.takes(entry)
    assert covered.takes(msgspec.structs.replace(entry, lines=("m:1",)))


def test_killed_while_swapping(tmp_path: Path) -> None:
    """A merge that was killed between its two renames is undone; a swap that was not leaves the new folder."""
    corpus = filled(tmp_path)
    corpus.folder.rename(sibling_folder(tmp_path, "explain", ".old"))
    assert Corpus(tmp_path, "explain").entries == {}
    recover_corpora(tmp_path)
    assert Corpus(tmp_path, "explain").entries == corpus.entries
    sibling_folder(tmp_path, "explain", ".new").mkdir()
    swap(tmp_path, "explain")
    assert list(corpus.folder.iterdir()) == []
