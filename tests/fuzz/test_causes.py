"""Headings of findings: reviewed causes first, sentences otherwise, and never one for two causes."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random

import msgspec
import pytest

from kafka_conformance.causes import causes_of
from kafka_conformance.process.starting import native_folder, remove_stale_folders, with_own_folder
from kafka_conformance.runner.kept_results import KeptHeader
from kafka_conformance.testees.protocol import CodecAnswer, Refusal
from kafka_corpus.authoring.batches import batch_of, bytes_of
from kafka_corpus.authoring.messages import message_bytes, record_of
from kafka_corpus.vectors import load_vectors
from kafka_fuzz.campaign.known_findings import PACKAGED_CORPUS, AlreadyKnown, CorpusResult, read_corpus_results
from kafka_fuzz.campaign.plan import CampaignPlan, RoundReport, target_weight
from kafka_fuzz.campaign.recall import PLACES
from kafka_fuzz.campaign.supervisor import Campaign
from kafka_fuzz.differential.outcome_tuples import Grader, Prepared
from kafka_fuzz.findings import FindingStore, read_findings
from kafka_fuzz.mutate import Mutant, for_cell
from kafka_fuzz.mutate.model import reachable
from kafka_fuzz.targets.outcome import FAULT_PHRASES, SEVERITY, Outcome, corpus_key, fault_class, fault_phrase
from kafka_fuzz.triage.causes import (
    OPEN_TITLE,
    STOPS,
    CauseIndex,
    FindingTraits,
    Heading,
    finding_traits,
    formats_in_order,
    heading_of,
    heading_sentence,
    kept_index,
    measure_cause_recall,
    rows_that_ran,
)
from kafka_fuzz.triage.deduplicate import Smallest, gathered
from kafka_fuzz.triage.run import cases_of_titles, with_case_of_title, with_stops
from kafka_records.rules import all_rules

ROOT = Path(__file__).parents[2]
# A form such as "accepts invalid: records (malformed, REC)" or "wrong data: batches.length: NST".
GROUPS = "|".join(sorted({rule.group for rule in all_rules()}))
OLD_FORM = re.compile(
    rf"^[a-z ]+: |\([a-z]+, ({GROUPS})\)|: ({GROUPS})$|wrong_data|_invalid|_valid|_exception|\b({GROUPS})-\d\d\b|#|\|"
)


def corpus_outcomes() -> list[tuple[Outcome, str]]:
    """The outcomes in the keys of all corpus findings, each with the reference's verdict as far as the key has it."""
    found = []
    for result in read_corpus_results(PACKAGED_CORPUS).values():
        for key in result.keys:
            target, kind, *detail, last = key.split("|")
            function = "" if last.startswith(PLACES) else last
            rule = function if re.fullmatch(r"[A-Z][A-Z0-9]{2}-\d\d", function) else ""
            outcome = Outcome(target, kind, "|".join(detail), function)  # type: ignore[arg-type]  # a class of a key
            found.append((outcome, f"malformed {rule}" if rule else "ok"))
    return found


def test_no_heading_has_the_old_form() -> None:
    """Headings of all corpus findings are sentences without fields, rules, groups or placeholders."""
    sentences = {heading_sentence(*each) for each in corpus_outcomes()}
    assert len(sentences) > 150
    assert [text for text in sentences if OLD_FORM.search(text) or not re.match(r"[A-Z][a-z]+ ", text)] == []


@pytest.mark.parametrize("kind", ["accepts_invalid", "hang", "memory", "crash", "leaked_exception", *SEVERITY])
def test_each_rule_gives_a_sentence(kind: str) -> None:
    """Every rule of the catalogue gives a sentence for every outcome, with and without text of the testee."""
    for rule in all_rules():
        for detail in ("", "boom", "writing boom"):
            text = heading_sentence(Outcome("mine", kind, detail), f"malformed {rule.id}")  # type: ignore[arg-type]
            assert not OLD_FORM.search(text), text


def test_phrases_name_rules() -> None:
    """Each phrase stands for rules of the catalogue, none of them twice."""
    rules = [rule for some in FAULT_PHRASES.values() for rule in some]
    assert len(rules) == len(set(rules))
    assert set(rules) <= {rule.id for rule in all_rules()} | {f"LZ4-{number:02}" for number in range(1, 19)}
    assert heading_sentence(Outcome("mine", "accepts_invalid", "error"), "malformed HDR-05") == (
        "Accepts a message shorter than its header"
    )
    assert fault_phrase("HDR-05") == fault_phrase("LEG-03")
    assert fault_class("HDR-05") == fault_class("LEG-03") != fault_class("HDR-13")


def test_similar_cases_decide() -> None:
    """Equal traits count before similar ones, a testee before its library, and most cases before one."""
    index, traits = CauseIndex(), FindingTraits("crash", "signal 11", "NST-07", "v1 gzip")
    index.add("aiokafka-pure", traits, "of-another-row", "a.one")
    assert index.lookup("aiokafka", traits) == ("of-another-row", "a.one")
    for cause in ("exact", "exact", "odd"):
        index.add("aiokafka", traits, cause, "a.two")
    index.add("aiokafka", traits._replace(rule="CRC-07"), "similar", "a.three")
    assert index.lookup("aiokafka", traits) == ("exact", "a.two")
    assert index.lookup("aiokafka", traits._replace(rule="CRC-07"))[0] == "similar"
    assert index.lookup("aiokafka", traits._replace(detail="signal 6")) == ("", "")
    assert index.lookup("sarama", traits) == ("", "")


def test_formats_in_one_fetch_stand_for_a_cause() -> None:
    """Findings of mixed formats have the cause of such cases, if no single format has it, and folding is wanted."""
    mixed = formats_in_order(
        message_bytes(record_of(1, 0, b"k", b"v"), 1) + bytes_of(batch_of(base_offset=1, last_offset=1))
    )
    assert mixed == "messages batches"
    index, new = CauseIndex(), FindingTraits("rejects_valid", "new", "", "v1 none", mixed)
    for at in range(4):
        index.add("kafkajs", FindingTraits("wrong_data", f"field {at}", "", "v1 none", mixed), "mixes", "a.case")
    assert index.lookup("kafkajs", new) == ("", "")
    assert index.lookup("kafkajs", new, coarse=True) == ("mixes", "a.case")
    assert index.lookup("kafkajs", new._replace(formats="batches"), coarse=True) == ("", "")
    assert index.lookup("kafkajs", new._replace(kind="crash"), coarse=True) == ("", "")
    for at in range(5):
        index.add("kafkajs", FindingTraits("wrong_data", f"key {at}", "", "v1 none", "messages"), "mixes", "a.case")
    assert index.lookup("kafkajs", new, coarse=True) == ("", "")


def test_a_single_format_stands_for_a_cause_of_nearly_all_its_cases() -> None:
    """A library that reads each old message as a batch has one cause for all of them, and others are few."""
    index, new = CauseIndex(), FindingTraits("rejects_valid", "new", "", "v1 none", "messages")
    for at in range(99):
        index.add("kio", FindingTraits("wrong_data", f"field {at}", "", "v1 none", "messages"), "misread", "a.case")
    assert index.lookup("kio", new, coarse=True) == ("", "")
    index.add("kio", FindingTraits("wrong_data", "one more", "", "v1 none", "messages"), "misread", "a.case")
    assert index.lookup("kio", new, coarse=True) == ("misread", "a.case")
    for at in range(6):
        index.add("kio", FindingTraits("wrong_data", f"key {at}", "", "v1 none", "messages"), "other", "a.case")
    assert index.lookup("kio", new, coarse=True) == ("", "")


def test_findings_get_the_reviewed_cause_of_their_case(tmp_path: Path) -> None:
    """A finding like a case of the kept results has its reviewed cause as heading; another one has a sentence."""
    lines = (ROOT / "results" / "aiokafka-0.14.0.ndjson").read_bytes().splitlines()
    some = [line for line in lines if b'"backwards.inner_message_at_itself[v1-' in line]
    header = msgspec.json.decode(lines[0], type=KeptHeader)
    (tmp_path / "aiokafka-0.14.0.ndjson").write_bytes(b"\n".join([msgspec.json.encode(header), *some]) + b"\n")
    index = kept_index(tmp_path)
    hang = Outcome("aiokafka", "hang", "", "NST-07")
    heading = heading_of(index, hang, "malformed NST-07", b"")
    titles = {cause.id: cause.title for cause in causes_of("aiokafka")}
    assert heading.cause == "inner-size-endless-loop"
    assert (heading.library, heading.title) == ("aiokafka", titles[heading.cause])
    assert heading_of(index, hang, "malformed HDR-13", b"") == Heading("aiokafka", "Gives no answer to broken bytes")
    assert kept_index(tmp_path / "missing").votes == {}


def test_causes_about_a_text_need_no_case() -> None:
    """A reviewed cause whose only condition is the error's text has findings that no case resembles."""
    leak = Outcome("aiokafka", "leaked_exception", "UnicodeDecodeError: '…' codec can't decode byte #")
    assert heading_of(CauseIndex(), leak, "ok", b"").cause == "header-key-not-utf8"


def test_wrong_data_are_compared_by_field_and_relation() -> None:
    """A target in process and a testee have the same traits for one difference, and an encoder others."""
    inside = Outcome("mine", "wrong_data", "batches.records.timestamp", relation="rounded")
    outside = Outcome("mine", "wrong_data", "batches.records.timestamp rounded", "v2")
    assert finding_traits(inside, "ok", b"") == finding_traits(outside, "ok", b"")
    writes = Outcome("mine", "wrong_data", "writing batches.records.timestamp rounded", "v2")
    assert finding_traits(writes, "ok", b"").kind != finding_traits(inside, "ok", b"").kind


def test_corpus_findings_are_known_under_new_keys() -> None:
    """A key with a fault, or with the class of a rule, is known by the corpus; another rule or version is not."""
    keys = {"mine|accepts_invalid|error|HDR-14": "a.one", "mine|hang||HDR-14": "a.two"}
    known = AlreadyKnown((), {"mine": CorpusResult("1.0", "", keys)})
    assert known.reason("mine|accepts_invalid|error|HDR-14 record_count_too_low", "1.0").endswith("a.one")
    assert known.reason("mine|hang||HDR-13", "1.0").endswith("a.two")
    assert not known.reason("mine|hang||HDR-13", "2.0")
    assert not known.reason("mine|accepts_invalid|error|HDR-13 record_count_too_low", "1.0")
    assert corpus_key("mine|crash|boom|f") == "mine|crash|boom|f"


def of_fault(fault: str, data: bytes) -> Mutant:
    """A mutant with a cell of *fault*."""
    cell = next(cell for cell in sorted(reachable()) if cell.fault == fault)
    return for_cell(Random(1), cell)._replace(data=data)


def test_one_cause_hides_no_other(tmp_path: Path) -> None:
    """A finding keeps the first inputs of a few other faults, which triage lists under keys of their own."""
    store = FindingStore(tmp_path)
    outcome = Outcome("mine", "crash", "signal 11")
    faults = ("varint_too_long", "record_count_too_high", "inner_crc_wrong", "magic_unknown", "record_length_zero")
    for number, fault in enumerate((*faults, *faults)):
        store.add(outcome, of_fault(fault, bytes(10 + number)))
    (finding,) = read_findings(tmp_path)
    assert (finding.size, finding.count) == (10, 1)
    assert [other.size for other in finding.others] == [11, 12, 13]
    there = gathered([tmp_path])
    assert [len(each.data) for each in there.values()] == [10, 11, 12, 13]
    assert list(there)[1] == f"{finding.key}|input 2"
    store.add(outcome, of_fault("varint_too_long", b"x"))
    (smaller,) = read_findings(tmp_path)
    assert (smaller.size, len(smaller.others)) == (1, 3)


def test_a_known_cause_counts_once() -> None:
    """Recall counts reviewed causes of the testees that ran, not keys; what was not found has its case."""
    index = CauseIndex()
    index.causes["aiokafka", "decode"] |= {"one": "a.one", "two": "a.two"}
    index.causes["aiokafka-pure", "decode"] |= {"two": "b.two", "three": "b.three"}
    index.causes["aiokafka", "encode"] |= {"four": "a.four"}
    headings = [Heading("aiokafka", "One", "one")] * 3 + [
        Heading("aiokafka", "Something"),
        Heading("sarama", "Two", "two"),
    ]
    (row,) = measure_cause_recall(headings, index, {"decode": {"aiokafka", "aiokafka-pure"}, "encode": set()})
    assert (row.library, row.known, row.found, row.beyond) == ("aiokafka", 3, 1, 1)
    assert list(row.missed) == ["three", "two"]
    (row,) = measure_cause_recall(headings, index, {"decode": {"aiokafka"}, "encode": {"aiokafka"}})
    assert (row.known, row.found) == (3, 1)


def test_the_log_names_rows(tmp_path: Path) -> None:
    """The log names the testees of a round; one that did not run, or a round without an input, does not count."""
    reports = [
        RoundReport("differential", 0, 1, version="aiokafka 0.14.0, sarama did not run: no", executions=9),
        RoundReport("encode:kio", 1, 1, version="kio 1.0", executions=9),
        RoundReport("kafka-python", 2, 1, version="3.0", executions=9),
        RoundReport("aiokafka-pure", 3, 1, version="1.0"),
    ]
    (tmp_path / "log.ndjson").write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in reports))
    assert rows_that_ran(tmp_path) == {"decode": {"aiokafka", "kafka-python"}, "encode": {"kio"}}


def bytes_of_case(case: str) -> bytes:
    """The input of a case of the corpus."""
    (found,) = (each.input for each in load_vectors() if each.id == case)
    assert isinstance(found, bytes)
    return found


def sound_and_broken() -> tuple[bytes, bytes]:
    """A batch of v2, and the same with a wrong checksum."""
    cases = (each for each in load_vectors() if each.id.startswith("v2_record.") and each.expect.verdict == "valid")
    sound = next(each.input for each in cases if len(each.expect.batches) == 1)
    assert isinstance(sound, bytes)
    return sound, sound[:-1] + bytes([sound[-1] ^ 1])


def test_only_timestamps_are_cut_to_seconds() -> None:
    """A magic of 0 in place of 2 is another value."""
    magic = Outcome("mine", "wrong_data", "batches.magic rounded", "v2")
    assert heading_sentence(magic, "ok") == "Reads the magic of a batch wrongly: another value"


def test_a_silent_stop_is_one_heading_whatever_the_fault() -> None:
    """A codec that gives the entries before a broken one differs from one that takes the broken one."""
    sound, broken = sound_and_broken()
    data = sound + broken
    stops = Outcome("mine", "accepts_invalid", "error", "CRC-07", why="expected corrupt, got 1 batch")
    takes = msgspec.structs.replace(stops, why="expected corrupt, got 2 batches")
    assert finding_traits(stops, "corrupt CRC-07", data).detail == STOPS
    assert finding_traits(takes, "corrupt CRC-07", data).detail == ""
    titles = [heading_of(CauseIndex(), each, "corrupt CRC-07", data).title for each in (stops, takes)]
    assert titles == ["Raises no error at a broken entry, and gives the entries before it", "Accepts a wrong checksum"]


def test_further_inputs_have_what_was_seen_of_the_smallest(tmp_path: Path) -> None:
    """The number of entries that was given for one input says nothing of another."""
    sound, broken = sound_and_broken()
    stops = Outcome("mine", "accepts_invalid", "error", "CRC-07", why="expected corrupt, got 0 batches")
    store, cells = FindingStore(tmp_path), sorted(reachable())
    store.add(stops, Mutant(broken, "bytes", ("one",), None, cells[0]))
    store.add(stops, Mutant(sound + broken, "bytes", ("two",), None, cells[-1]))
    found = with_stops(gathered([tmp_path]))
    assert len(found) == 2
    traits = {finding_traits(each.finding.outcome, "corrupt CRC-07", each.data).detail for each in found.values()}
    assert traits == {STOPS}


def test_coarse_headings_have_the_cause_that_names_the_rule() -> None:
    """A reviewed cause with the same effect that names the broken rule is the heading, but does not count as found."""
    cause = next(each for each in causes_of("franz-go") if each.effect == "accepts_invalid" and len(each.rules) > 1)
    taken = Outcome("franz-go", "accepts_invalid", "error", cause.rules[1], why="expected an error, got 9 records")
    right = f"malformed {cause.rules[1]}"
    assert heading_of(CauseIndex(), taken, right, b"").cause != ""
    assert heading_of(CauseIndex(), taken, right, b"", coarse=False).cause == ""


@pytest.mark.parametrize(
    ("text", "otherwise"),
    [
        ("EOFError: no more bytes", "Lets EOFError escape on broken bytes"),
        ("unexpected EOF", "Lets an error escape: unexpected EOF"),
    ],
)
def test_an_unexpected_end_is_one_of_decompression_in_compressed_entries_only(text: str, otherwise: str) -> None:
    """Headers and records of uncompressed entries end early, too."""
    sound, broken = sound_and_broken()
    leak = Outcome("mine", "leaked_exception", text)
    compressed = bytes_of_case("v2_batch.empty_batch_with_a_codec[gzip]")

    def title(data: bytes, right: str = "corrupt CRC-07") -> str:
        return heading_of(CauseIndex(), leak, right, data).title

    assert [title(data) for data in (broken, sound + broken, b"")] == [otherwise] * 3
    of_decompression = "Lets errors of its decompression libraries escape"
    assert [title(data) for data in (compressed + broken, sound + compressed[:-1])] == [of_decompression] * 2
    assert title(b"", "malformed GZP-03") == of_decompression


def test_decompression_of_what_names_no_codec_has_a_heading_of_its_own() -> None:
    """One of an incomplete entry at the end, which no reader takes, is another; the function names a codec, too."""
    sound, _ = sound_and_broken()
    compressed = bytes_of_case("v2_batch.empty_batch_with_a_codec[gzip]")
    refuses = Outcome("mine", "rejects_valid", "gzip: invalid header")
    inside = Outcome("mine", "rejects_valid", "MemoryError", "mine.codec.lz4_decode")

    def title(outcome: Outcome, data: bytes) -> str:
        return heading_of(CauseIndex(), outcome, "ok", data).title

    assert title(refuses, sound) == "Decompresses an entry that names no codec"
    assert title(refuses, sound + compressed[:-1]) == "Decompresses an incomplete entry at the end"
    assert title(inside, bytes_of_case("compaction.retained_records[lz4-middle]")) == "Refuses valid lz4 data"


def refusals(folder: Path, *texts: str) -> dict[str, Smallest]:
    """Findings of a testee that refuses valid gzip data with each of *texts*."""
    (data,) = (case.input for case in load_vectors() if case.id == "v2_batch.empty_batch_with_a_codec[gzip]")
    assert isinstance(data, bytes)
    store = FindingStore(folder, mode="differential")
    for text in texts:
        store.add(Outcome("mine", "rejects_valid", text, "gzip"), Mutant(data, "bytes", (), None, min(reachable())))
    return gathered([folder])


def test_a_case_makes_its_own_error_known_only(tmp_path: Path) -> None:
    """Several errors stand under one title; a case without a reviewed cause shows one of them."""
    texts = ("gzip: invalid header", "Error: gzip: invalid header", "gzip: invalid checksum")
    found = refusals(tmp_path, *texts)
    by_text = {each.finding.outcome.detail: each.finding.outcome for each in found.values()}
    shown, same, other = (by_text[text] for text in texts)
    headings = {key: Heading("mine", "Refuses valid gzip data") for key in found}
    headings[shown.key] = headings[shown.key]._replace(case="a.case")
    titles = cases_of_titles(headings, found)
    assert with_case_of_title(headings[same.key], same, titles).case == "a.case"
    assert with_case_of_title(headings[other.key], other, titles).case == ""
    # Accepted bytes have no error.
    accepted = msgspec.structs.replace(same, kind="accepts_invalid")
    assert with_case_of_title(headings[same.key], accepted, titles).case == ""


@pytest.mark.parametrize(
    "case", ["v2_batch.empty_batch_with_a_codec[gzip]", "compression.no_payload_and_no_records[lz4]"]
)
def test_what_java_reads_in_two_ways_is_no_finding(case: str) -> None:
    """A batch without records that names a codec may be read or refused, in a campaign as in the corpus."""
    data = bytes_of_case(case)
    prepared, judge = Prepared(Mutant(data, "bytes", ("seed",), None, min(reachable()))), Grader("mine")
    refused = CodecAnswer(batches=[], error=Refusal("decompression", "EOF"))
    assert prepared.right.verdict == "acceptable"
    assert not judge.outcome(prepared, judge.grade(prepared, refused)).is_finding
    # Findings of campaigns that took the bytes for valid are known.
    old = Outcome("mine", "rejects_valid", "EOF", "gzip")
    assert heading_of(CauseIndex(), old, "ok", data)[1:2] == (OPEN_TITLE,)


def test_bytes_left_without_a_codec_are_no_error_of_decompression() -> None:
    """Kafka skips the bytes after a count of zero; a codec may say that they are left over, and nothing else."""
    data = bytes_of_case("v2_batch.count_of_zero_hides_the_payload[a record]")
    prepared, judge = Prepared(Mutant(data, "bytes", ("seed",), None, min(reachable()))), Grader("mine")

    refused = CodecAnswer(batches=[], error=Refusal("malformed", "bytes are left"))
    assert prepared.right.kinds == ("malformed", "truncated")
    assert not judge.outcome(prepared, judge.grade(prepared, refused)).is_finding
    old = Outcome("mine", "rejects_valid", "bytes are left", "v2")
    heading = heading_of(CauseIndex(), old, "ok", data)
    assert (heading.title, heading.case) == (OPEN_TITLE, "v2_batch.count_of_zero_hides_the_payload[a record]")


def test_a_campaign_ends_by_cpu_time_too(tmp_path: Path) -> None:
    """The rest of the time is the smaller of clock and CPU time, which the jobs share."""
    campaign = Campaign(CampaignPlan(("explain", "append"), tmp_path, 300.0, 2, cpu_seconds=100.0), lambda _: None)
    assert campaign.left == pytest.approx(50.0)
    campaign.states["explain"].cpu_seconds = 60.0
    campaign.states["append"].cpu_seconds = 41.0
    assert campaign.left == pytest.approx(-0.5)


def test_targets_get_equal_shares(tmp_path: Path) -> None:
    """The next round is for the target with the least CPU time for its weight, not with the fewest rounds."""
    targets = ("kafka-python", "differential:a,b", "reference")
    plan = CampaignPlan(targets, tmp_path, 300.0, 2)
    campaign = Campaign(plan, lambda _: None)
    assert campaign._next_target() == "kafka-python"
    for name, (seconds, rounds) in zip(targets, [(120.0, 4), (540.0, 1), (70.0, 9)], strict=True):
        campaign.states[name].cpu_seconds = seconds
        campaign._turns[name] = rounds
    assert campaign._next_target() == "kafka-python"
    campaign.states["kafka-python"].cpu_seconds = 139.0
    assert campaign._next_target() == "kafka-python"  # the reference has half the weight
    campaign.states["kafka-python"].cpu_seconds = 141.0
    assert campaign._next_target() == "reference"
    # All testees of a round together have the share of one target in process.
    shares = CampaignPlan((*targets, *(f"differential:{name}" for name in "cdefghij")), tmp_path, 60.0, 1)
    assert shares.each("differential:a,b") * 2 == pytest.approx(shares.each("kafka-python") * 2)
    assert target_weight("reference") * 2 == target_weight("differential")


def test_unpacked_libraries_are_removed(tmp_path: Path) -> None:
    """Java unpacks native libraries to a folder of this process; folders of ended processes are removed."""
    command = with_own_folder(["/usr/bin/java", "-cp", "x", "Main"])
    assert command == ["/usr/bin/java", f"-Djava.io.tmpdir={native_folder()}", "-cp", "x", "Main"]
    assert native_folder().is_dir()
    assert with_own_folder(["node", "x.js"]) == ["node", "x.js"]
    old, own = tmp_path / "kafkaproof-native-4194999-x", tmp_path / native_folder().name
    for folder in (old, own):
        folder.mkdir()
        (folder / "liblz4-java-1.so").write_bytes(b"")
    remove_stale_folders(tmp_path)
    assert (old.exists(), own.exists()) == (False, True)
