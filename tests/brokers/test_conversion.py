"""`convert` and `fetch_view` against brokers that convert for old fetches: 0.10 to 3.9."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from tests.brokers.planted import plant
from tests.reference.conversion_cases import LOGS, is_exact, v2

from kafka_brokers import jvm
from kafka_brokers.releases import find_release
from kafka_brokers.wire import BrokerError, Client, ConnectionClosed, TopicPartition, tables
from kafka_corpus.answer_diff import masked
from kafka_records import FetchResult, TopicConfig, fetch_view
from kafka_records.broker.entries import file_entries, last_offset_of
from kafka_records.constants import MAGIC_VALUE_V2

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.sweep]

# Fetches that know v0, v0 and v1, and everything.
VERSIONS = (0, 1, 2, 3, 4)
RELEASES = ("2.8.2", "3.9.2")
OLD_RELEASES = ("0.10.2.2", "0.11.0.3", "1.1.1", "2.0.1")
# What a reader allows: everything; less than a header, than a batch, than all; more than is converted at a time.
LIMITS = ({}, *({"partition_max_bytes": size} for size in (0, 1, 100, 190, 40_000, 150_000)))


def logs_of(release: str) -> dict[str, bytes]:
    """The logs in formats that the release knows."""
    newest = max(find_release(release).magics)
    knows_all = newest == MAGIC_VALUE_V2
    return {
        name: log for name, log in LOGS.items() if knows_all or all(each.magic <= newest for each in file_entries(log))
    }


def answer(client: Client, where: TopicPartition, offset: int, version: int, **fields: int) -> FetchResult:
    """A broker's answer as a `FetchResult`."""
    try:
        found = client.fetch({where: offset}, version, max_wait_ms=0, **fields)
    except BrokerError as error:
        return FetchResult(error_code=error.code)
    if isinstance(found, ConnectionClosed):
        return FetchResult(closed=True)
    given = found[where]
    return FetchResult(
        error_code=given.error_code,
        records=given.records,
        aborted=given.aborted,
        high_watermark=given.high_watermark,
        last_stable_offset=given.last_stable_offset,
    )


def end_of(log: bytes) -> int:
    """The offset after the last batch."""
    *_, last = file_entries(log)
    return last_offset_of(last) + 1


def agree(theirs: FetchResult, ours: FetchResult, *, exact: bool) -> bool:
    """Whether two answers are the same; above compression if not *exact*."""
    if replace(theirs, records=b"", rule="") != replace(ours, records=b"", rule=""):
        return False
    return theirs.records == ours.records if exact else _agree(*sorted(map(opened, (theirs.records, ours.records))))


def _agree(fewer: tuple[list[bytes], bytes], more: tuple[list[bytes], bytes]) -> bool:
    """Where codecs give other sizes, one may have cut off what just fits the other."""
    entries, rest = fewer
    cut_off = rest[:8] == more[0][len(entries)][:8] if len(entries) < len(more[0]) else rest == more[1]
    return more[0][: len(entries)] == entries and cut_off


def opened(data: bytes) -> tuple[list[bytes], bytes]:
    """Entries above compression; and of the rest, if it does not fill the room, what it begins with."""
    found = list(file_entries(data))
    rest = data[sum(len(each.data) for each in found) :]
    return [masked(each.data) for each in found], b"" if rest == filling(len(rest)) else rest[:8]


def filling(size: int) -> bytes:
    """The start of an incomplete batch, in *size* bytes, which signals that more data follow (CNV-12)."""
    return (b"\xff" * 8 + max(size + 1, 61).to_bytes(4, "big")).ljust(size, b"\0")[:size]


def offsets(log: bytes) -> list[int]:
    """Where fetches begin: around the first batches and at the end."""
    end = end_of(log)
    return sorted({0, 1, 2, 3, 4, 5, end - 1, end, end + 1} & set(range(end + 2)))


def differences(
    release: str, client: Client, where: Mapping[str, TopicPartition], **fields: Any
) -> dict[tuple[str, int, int], object]:
    """Where broker and reference are not of one mind, by log, version and offset."""
    found: dict[tuple[str, int, int], object] = {}
    newest = client.newest(tables.FETCH)
    for name, log in logs_of(release).items():
        for version in VERSIONS:
            if version > newest:
                continue
            for offset in offsets(log):
                theirs = answer(client, where[name], offset, version, **fields)
                ours = fetch_view(
                    log, fetch_offset=offset, high_watermark=end_of(log), api_version=version, release=release, **fields
                )
                exact = is_exact(name) or version > 3
                if not agree(theirs, ours, exact=exact):
                    found[name, version, offset] = (theirs, ours)
    return found


@pytest.mark.parametrize("release", RELEASES)
def test_old_fetches_are_converted(release: str) -> None:
    """Every log is sent to every version from every offset within every limit as predicted, or refused."""
    with jvm.start_jvm(release) as broker:
        where = plant(broker, "logs", logs_of(release))
        with broker.client() as client:
            found = {str(fields): differences(release, client, where, **fields) for fields in LIMITS}
    assert {fields: each for fields, each in found.items() if each} == {}


@pytest.mark.parametrize("release", OLD_RELEASES)
def test_older_brokers_converted_otherwise(release: str) -> None:
    """So they are by brokers that converted all in one, or batch by batch, or as now but for less."""
    with jvm.start_jvm(release) as broker:
        where = plant(broker, "logs", logs_of(release))
        with broker.client() as client:
            assert differences(release, client, where) == {}
            assert differences(release, client, where, partition_max_bytes=190) == {}


@pytest.mark.parametrize("release", ["2.8.2", "3.9.2", "4.0.2"])
def test_topics_may_refuse(release: str) -> None:
    """A topic of compression.type=zstd refuses old fetches until 4.0; one without conversion, those that need it."""
    settings: dict[str, dict[str, str]] = {"zstd": {"compression.type": "zstd"}}
    if release < "4":
        settings["off"] = {"message.downconversion.enable": "false"}
    log = v2(0)
    with jvm.start_jvm(release) as broker, broker.client() as client:
        for name, config in settings.items():
            broker.create_topics({name: 1}, config)
            topic = TopicPartition(name, 0)
            produced = client.produce({topic: v2(0, partition_leader_epoch=-1)}, 9)
            assert isinstance(produced, dict)
            assert produced[topic].error_code == 0
            for version in (0, 1, 2, 3, 4, 9, 10):
                theirs = answer(client, topic, 0, version)
                ours = fetch_view(
                    log,
                    fetch_offset=0,
                    high_watermark=3,
                    api_version=version,
                    release=release,
                    config=TopicConfig.of(config),
                    down_conversion=name != "off",
                )
                assert (theirs.error_code, theirs.closed) == (0 if ours.closed else ours.error_code, ours.closed)
                assert theirs.high_watermark == ours.high_watermark
