"""`append` against real brokers: error code, base offset and stored bytes of every payload that there is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.brokers.append_live import Partitions
from tests.brokers.append_payloads import Named, batches, messages, sequences
from tests.reference.append_cases import OUTLINES, PARTITION, RECORDS, REQUEST, TIMES, Produce
from tests.reference.append_codec_cases import CODECS
from tests.reference.append_message_cases import MESSAGES

from kafka_brokers import jvm
from kafka_brokers.wire import Client
from kafka_brokers.wire.transactions import Producer, add_partitions, init_producer_id
from kafka_corpus.authoring.build import raw_batch, raw_record
from kafka_corpus.case import Recipe
from kafka_corpus.known_issues import KnownIssue, load_issues
from kafka_corpus.recipes import build_recipe
from kafka_corpus.vectors import load_vectors
from kafka_records import Producing
from kafka_records.broker.releases import behaviour

pytestmark = [pytest.mark.broker, pytest.mark.slow]

RELEASES = ("4.4.0", "2.8.2")
OLD_RELEASES = ("1.1.1", "0.10.2.2")
LIST = Path(__file__).with_name("append_differences.toml")
# Produced with a version that both releases have.
VERSION = 9
LARGEST = 3_000_000  # bytes
TABLE = REQUEST + PARTITION + RECORDS + TIMES + OUTLINES + CODECS + MESSAGES
Settings = dict[str, str]
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
SETTINGS: tuple[Settings, ...] = (
    {},
    APPEND_TIME,
    {"compression.type": "uncompressed"},
    {"compression.type": "gzip"},
    {"compression.type": "lz4", **APPEND_TIME},
    {"compression.type": "zstd"},
    {"cleanup.policy": "compact"},
)
# Besides, for what is made from a seed.
MORE_SETTINGS: tuple[Settings, ...] = (
    {"compression.type": "snappy"},
    {"cleanup.policy": "delete, compact", "compression.type": "gzip"},
    {"message.timestamp.before.max.ms": "3600000", "message.timestamp.difference.max.ms": "3600000"},
    {"max.message.bytes": "500"},
    {"max.message.bytes": "1000", "compression.type": "uncompressed"},
)
OLD_FORMATS: tuple[Settings, ...] = tuple(
    {"message.format.version": version, **more}
    for version in ("0.10.0", "0.9.0")
    for more in ({}, APPEND_TIME, {"compression.type": "uncompressed"}, {"compression.type": "lz4"})
)
SEED = 20_241
MADE = {"4.4.0": 700, "2.8.2": 400, "1.1.1": 250, "0.10.2.2": 250}  # a configuration
TRANSACTIONAL, CONTROL = 16, 32
IN_TRANSACTION = Producing(transactional_id=True)


@pytest.fixture(scope="module", params=RELEASES)
def running(request: pytest.FixtureRequest) -> Iterator[tuple[str, Client]]:
    """A running broker's release, and a client."""
    yield from serving(request.param)


def serving(release: str) -> Iterator[tuple[str, Client]]:
    """Start a broker and connect."""
    with jvm.start_jvm(release) as broker, broker.client() as client:
        yield release, client


KNOWN = load_issues(LIST, KnownIssue)
FLAKY = tuple(case for issue in KNOWN if issue.state == "flaky" for case in issue.cases)


def listed(release: str) -> set[str]:
    """The cases of the known differences of a release."""
    return {case for issue in KNOWN if release in issue.versions for case in issue.cases}


def tabled(release: str) -> Iterator[tuple[Mapping[str, str], list[Produce]]]:
    """The cases of a release by their configuration."""
    found: dict[tuple[tuple[str, str], ...], list[Produce]] = defaultdict(list)
    for case in TABLE:
        if release in case.codes:
            found[tuple(sorted(case.config.items()))].append(case)
    assert found
    for settings, cases in found.items():
        yield dict(settings), cases


def table_differences(release: str, client: Client) -> list[object]:
    """Where broker, table and `append` are not of one mind."""
    found: list[object] = []
    for settings, cases in tabled(release):
        partitions = Partitions(client, release, settings)
        for case in cases:
            theirs, mine, rule = partitions.compare(case.payload, case.version)
            if theirs != mine or theirs.error_code != case.codes[release]:
                found.append((case.name, case.codes[release], theirs[:3], mine[:3], rule))
            partitions.renew()
    return found


def test_the_table_is_what_brokers_answer(running: tuple[str, Client]) -> None:
    """Every payload of the unit tests has the error code that the table says, and is stored as predicted."""
    assert table_differences(*running) == []


@pytest.mark.parametrize("release", OLD_RELEASES)
def test_old_brokers_answer_as_the_table_says(release: str) -> None:
    """So it is with the brokers that store v0 and v1."""
    for each in serving(release):
        assert table_differences(*each) == []


def corpus() -> Iterable[Named]:
    """The corpus as produce payloads: as it is, and with base offset 0 where that is another."""
    for case in load_vectors():
        if case.op != "decode" or case.id.startswith(FLAKY):
            continue
        data = build_recipe(case.input) if isinstance(case.input, Recipe) else case.input
        if isinstance(data, bytes) and len(data) <= LARGEST:
            yield case.id, data
            if len(data) >= 8 and any(data[:8]):
                yield f"{case.id} at 0", bytes(8) + data[8:]


def differences(
    release: str, client: Client, settings: Mapping[str, str], payloads: Iterable[Named], versions: tuple[int, ...]
) -> dict[str, Any]:
    """Where broker and `append` part; a version is drawn for each payload."""
    rng = Random(SEED)
    partitions = Partitions(client, release, settings)
    found = {}
    for name, payload in payloads:
        version = rng.choice(versions)
        theirs, mine, rule = partitions.compare(payload, version)
        if theirs != mine:
            found[name] = (settings, version, theirs[:3], mine[:3], rule)
    return found


@pytest.mark.sweep
def test_the_corpus_is_predicted(running: tuple[str, Client]) -> None:
    """Every case of the corpus is answered and stored as `append` says, but for what is listed."""
    release, client = running
    payloads = list(corpus())
    assert len(payloads) > 3000
    found: dict[str, Any] = {}
    for settings in SETTINGS:
        found |= differences(release, client, settings, payloads, (VERSION,))
    assert found.keys() == listed(release), found


def made(release: str, seed: int, number: int) -> Iterable[Named]:
    """Payloads from a seed: messages, and for releases of which more is promised batches too."""
    kinds = [messages(seed, number)]
    if release in RELEASES:
        kinds.append(batches(seed, number))
        kinds.append(sequences(seed, number // 5))
    return (each for each in chain(*kinds) if not each[0].startswith(FLAKY))


def all_settings(release: str) -> tuple[Settings, ...]:
    """Every configuration that says something to a release."""
    settings = SETTINGS + MORE_SETTINGS + (OLD_FORMATS if behaviour(release).honours_message_format else ())
    codecs = ("gzip", "snappy", "lz4", "uncompressed", "zstd")[: behaviour(release).codecs]
    return tuple(each for each in settings if each.get("compression.type", "gzip") in codecs)


def made_differences(release: str, client: Client) -> dict[str, Any]:
    """Where the two part over payloads from seeds, another seed for each configuration."""
    oldest, newest = behaviour(release).produce
    # Messages are for versions up to 2; where old brokers miss batches in later ones, they close the connection.
    newest = newest if release in RELEASES else 2
    found: dict[str, Any] = {}
    for number, settings in enumerate(all_settings(release)):
        payloads = made(release, SEED + number, MADE[release])
        found |= differences(release, client, settings, payloads, tuple(range(oldest, newest + 1)))
    return found


@pytest.mark.sweep
def test_what_is_made_from_seeds_is_predicted(running: tuple[str, Client]) -> None:
    """Some ten thousand payloads with something wrong in most: all answered and stored as `append` says."""
    assert made_differences(*running) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("release", OLD_RELEASES)
def test_what_is_made_from_seeds_is_predicted_of_old_brokers(release: str) -> None:
    """So it is with the brokers that store v0 and v1."""
    for each in serving(release):
        assert made_differences(*each) == {}


@pytest.mark.sweep
@pytest.mark.parametrize("release", RELEASES)
def test_a_leader_that_has_been_elected_again(release: str) -> None:
    """A later leader epoch is in whatever is stored (HDR-07)."""
    with jvm.start_jvm(release) as broker:
        broker.kill()
        broker.restart()
        with broker.client() as client:
            for number, settings in enumerate(SETTINGS[:4]):
                assert differences(release, client, settings, batches(SEED + number, 100), (VERSION,)) == {}


def transactional(producer: Producer, sequence: int, *, size: int = 1, epoch: int = 0, attributes: int = 0) -> bytes:
    """A batch of *producer*, in a transaction unless *attributes* say otherwise; *epoch* is added to its own."""
    return raw_batch(
        b"".join(raw_record(offset_delta=at) for at in range(size)),
        record_count=size,
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch + epoch,
        base_sequence=sequence,
        attributes=attributes or TRANSACTIONAL,
    )


def produce_versions(release: str) -> tuple[int, ...]:
    """Those that know transactional ids."""
    oldest, newest = behaviour(release).produce
    return tuple(range(max(oldest, 3), newest + 1))


@pytest.mark.sweep
def test_transactions_are_predicted(running: tuple[str, Client]) -> None:
    """`append` predicts a partition of a running transaction, step by step, in every version (TXN-02 to TXN-08)."""
    release, client = running
    partitions = Partitions(client, release, {})
    for version in produce_versions(release):
        name = f"predicted-{version}"
        producer = init_producer_id(client, name)
        partitions.renew()
        assert set(add_partitions(client, name, producer, [partitions.where]).values()) == {0}
        steps = (
            (transactional(producer, 0), name, IN_TRANSACTION),
            (transactional(producer, 1, size=2), name, IN_TRANSACTION),
            (transactional(producer, 1, size=2), name, IN_TRANSACTION),
            (transactional(producer, 5), name, IN_TRANSACTION),
            (transactional(producer, 3), None, Producing()),
            (transactional(producer, 3, attributes=TRANSACTIONAL | CONTROL), name, IN_TRANSACTION),
            (transactional(producer, 0, epoch=1), name, Producing(transactional_id=True, producer="other epoch")),
            (transactional(producer, 3), name, IN_TRANSACTION),
        )
        for number, (payload, transactional_id, producing) in enumerate(steps):
            theirs, mine, rule = partitions.compare(payload, version, transactional_id, producing)
            assert theirs == mine, (version, number, rule)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("id_of", "producing"),
    [
        ("known", Producing(transactional_id=True, in_transaction=False)),
        ("other", Producing(transactional_id=True, producer="unknown", in_transaction=False)),
    ],
)
def test_partitions_outside_of_the_transaction(running: tuple[str, Client], id_of: str, producing: Producing) -> None:
    """`append` predicts a partition that has not been added to a transaction, in every version (TXN-05)."""
    release, client = running
    partitions = Partitions(client, release, {})
    for version in produce_versions(release):
        producer = init_producer_id(client, f"known-{version}-{id_of}")
        for sequence in (0, 5):
            partitions.renew()
            payload = transactional(producer, sequence)
            theirs, mine, rule = partitions.compare(payload, version, f"{id_of}-{version}-{id_of}", producing)
            assert theirs == mine, (version, sequence, rule)
