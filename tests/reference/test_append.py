"""`append` against what real brokers answered: error codes by rule and release."""

from __future__ import annotations

import pytest
from tests.reference.append_cases import NOW, OUTLINES, PARTITION, RECORDS, REQUEST, TIMES, Produce
from tests.reference.append_codec_cases import CODECS
from tests.reference.append_message_cases import MESSAGES

from kafka_corpus.vectors import load_vectors
from kafka_records import AppendResult, LogState, RecordFormatError, TopicConfig, append
from kafka_records.broker.releases import CHANGES, MINORS, behaviour
from kafka_records.constants import INT32_MAX, INT64_MAX
from kafka_records.layout import BATCH_V2, ENTRY
from kafka_records.log import split_entries

CASES = REQUEST + PARTITION + RECORDS + TIMES + OUTLINES + CODECS + MESSAGES
LOG = LogState(log_end_offset=100, leader_epoch=7)


def appended(case: Produce, release: str) -> AppendResult:
    """The result of `append` for *case*."""
    config = {"max.message.bytes": "4000000", **case.config}
    return append(LOG, case.payload, TopicConfig.of(config), release=release, api_version=case.version, now_ms=NOW)


CASES_BY_RELEASE = tuple((case, release) for case in CASES for release in case.codes)


@pytest.mark.parametrize(("case", "release"), CASES_BY_RELEASE, ids=lambda each: getattr(each, "name", each))
def test_error_codes_are_those_of_brokers(case: Produce, release: str) -> None:
    """The code is the one that a broker of that release answered, with nothing stored on an error."""
    result = appended(case, release)
    assert result.error_code == case.codes[release]
    if result.error_code:
        assert (result.base_offset, result.stored, result.path, result.log) == (-1, b"", None, LOG)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_deciding_rule_is_named(case: Produce) -> None:
    """The result names the rule that decided, on the newest release of the case."""
    assert appended(case, next(iter(case.codes))).rule == case.rule


@pytest.mark.parametrize(("case", "release"), CASES_BY_RELEASE, ids=lambda each: getattr(each, "name", each))
def test_what_is_stored_is_where_the_offsets_say(case: Produce, release: str) -> None:
    """The stored bytes end at the log's new end, and offsets of v2 batches start at its old one."""
    result = appended(case, release)
    if not result.stored or case.name in LEFT_AS_THEY_ARE:
        return
    assert result.base_offset == LOG.log_end_offset
    starts = [start for start, _ in split_entries(result.stored)]
    offset, size = ENTRY.struct.unpack_from(result.stored, starts[-1])
    if result.stored[16] == 2:
        header = BATCH_V2.struct.unpack_from(result.stored)
        assert (offset, header[2]) == (LOG.log_end_offset, LOG.leader_epoch)
        offset += header[6]
    assert offset + 1 == result.log.log_end_offset
    assert starts[-1] + 12 + size == len(result.stored)


# Releases before 2.4 leave all entries after the first compressed one as they came.
LEFT_AS_THEY_ARE = {"two wrappers", "wrapper and message", "two v2 by an old request"}


def test_there_are_cases_for_each_release() -> None:
    """The table covers four releases, some two hundred payloads at the most."""
    counts = {
        release: sum(release in case.codes for case in CASES) for release in ("4.4.0", "2.8.2", "1.1.1", "0.10.2.2")
    }
    assert min(counts.values()) > 70


@pytest.mark.no_cover  # thousands of payloads, and no line that only they reach
@pytest.mark.parametrize(
    "release",
    [
        *("4.4.0", "0.10.2.2"),
        *(pytest.param(each, marks=pytest.mark.slow) for each in ("4.1.2", "3.9.2", "2.8.2", "2.4.1", "1.1.1")),
    ],
)
def test_nothing_escapes(release: str) -> None:
    """Every case of the corpus has an answer in every release, whatever its bytes are."""
    config = TopicConfig.of({"compression.type": "gzip"})
    count = 0
    for case in load_vectors():
        if case.op == "decode" and isinstance(case.input, bytes):
            result = append(
                LOG, case.input, config, release=release, api_version=7 if release != "0.10.2.2" else 2, now_ms=NOW
            )
            assert bool(result.stored) <= (result.error_code == 0)
            count += 1
    assert count > 2000


@pytest.mark.parametrize("release", ["", "newest", "0.8.2.2", "5.0.0", "4.x", "4"])
def test_releases_that_are_not_known(release: str) -> None:
    """A release that is not in the table is refused with a name."""
    with pytest.raises(RecordFormatError, match="no release") as caught:
        append(LOG, b"", TopicConfig(), release=release, api_version=7, now_ms=NOW)
    assert (caught.value.kind, caught.value.path) == ("malformed", "release")


@pytest.mark.parametrize(
    ("log", "now_ms", "path"),
    [
        (LogState(log_end_offset=-1), NOW, "log_end_offset"),
        (LogState(log_end_offset=INT64_MAX), NOW, "log_end_offset"),
        (LogState(leader_epoch=INT32_MAX + 1), NOW, "leader_epoch"),
        (LogState(leader_epoch=-2), NOW, "leader_epoch"),
        (LogState(), INT64_MAX + 1, "now_ms"),
        (LogState(), -1, "now_ms"),
    ],
)
def test_numbers_that_kafka_has_no_room_for(log: LogState, now_ms: int, path: str) -> None:
    """Offsets, epochs and times outside of Java's types are refused by name."""
    with pytest.raises(RecordFormatError) as caught:
        append(log, b"", TopicConfig(), release="4.4.0", api_version=9, now_ms=now_ms)
    assert (caught.value.kind, caught.value.path) == ("malformed", path)


@pytest.mark.parametrize(
    ("log", "now_ms"),
    [
        (LogState(log_end_offset=INT64_MAX - INT32_MAX, leader_epoch=INT32_MAX), INT64_MAX),
        (LogState(leader_epoch=-1), 0),
    ],
)
@pytest.mark.parametrize("release", ["4.4.0", "2.8.2", "0.10.2.2"])
def test_the_largest_numbers(release: str, log: LogState, now_ms: int) -> None:
    """Every payload has an answer where offset, epoch and time are as large or as small as they can be."""
    settings = {"message.timestamp.type": "LogAppendTime", "compression.type": "gzip"}
    for case in CASES:
        for config in (case.config, {**case.config, **settings}):
            version = 2 if release == "0.10.2.2" else case.version
            result = append(
                log, case.payload, TopicConfig.of(config), release=release, api_version=version, now_ms=now_ms
            )
            assert bool(result.stored) <= (result.error_code == 0)


def test_patch_releases_stand_for_their_minor() -> None:
    """4.1.2 and 4.1.0 behave alike; every change belongs to a release that is known."""
    assert behaviour("4.1.0") == behaviour("4.1.2") != behaviour("4.0.2")
    assert set(CHANGES) <= MINORS


@pytest.mark.parametrize(("release", "version"), [("4.4.0", 2), ("4.4.0", 99), ("2.8.2", 10), ("0.10.2.2", 3)])
def test_versions_that_a_release_lacks(release: str, version: int) -> None:
    """A produce version that the release does not have is UNSUPPORTED_VERSION (PRD-09)."""
    result = append(LOG, b"", TopicConfig(), release=release, api_version=version, now_ms=NOW)
    assert (result.error_code, result.rule, result.whole_request) == (35, "PRD-09", True)


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("size 13", True),
        ("26 bytes", True),
        ("transactional", True),
        ("codec 5 before 7", True),
        ("second overflows", True),
        ("two batches", False),
        ("magic 1", False),
        ("second of size 0", False),
        ("corrupt", False),
    ],
)
def test_which_errors_are_of_the_whole_request(name: str, whole: bool) -> None:
    """A framing error of the first batch fails all partitions, what is declared later only its own (PRD-02, PRD-03)."""
    (case,) = (case for case in REQUEST + PARTITION if case.name == name)
    assert appended(case, "4.4.0").whole_request is whole
