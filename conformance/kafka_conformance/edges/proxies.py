"""Proxies: bytes into the proxy held against bytes out of it, in both directions.

`opened` starts a proxy, or takes one that runs, between a client and a broker of
ours (`relay`).  Each row sends requests through it: the record bytes of the corpus,
each version of Produce and Fetch, errors, large and split frames.  A change of a
record is a finding unless it is declared.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

from kafka_brokers.wire import tables
from kafka_brokers.wire.errors import ERROR_NAMES, GarbledResponse
from kafka_brokers.wire.partitions import TopicPartition
from kafka_brokers.wire.schema import UNKNOWN_TAGS, Api, Message
from kafka_conformance.edges import EdgeCell, EdgeGrade, EdgeRow, edge_address, said
from kafka_conformance.edges.relay import (
    FIRST,
    HOST,
    OTHER_BYTES,
    PARTITIONS,
    RECORD_CHANGES,
    TOPICS,
    UNKNOWN_TAGS_CHANGE,
    ProxyClient,
    RelayClosed,
    Relayed,
    RelayReply,
    RelayRequest,
    RelaySilent,
    ScriptedBroker,
    StartedProxy,
    fetch_of,
    fetched_of,
    fill_proxy_command,
    free_ports,
    is_odd,
    one_batch,
    produce_of,
    record_changes,
    request_changes,
    response_changes,
    side_bytes,
    stored_of,
    tag_bytes,
)
from kafka_conformance.edges.running import CannotRunEdges
from kafka_conformance.testees.recipe import (
    BuildError,
    BuildRecipe,
    build_testee,
    built_command,
    folder_of_sources,
    read_recipes,
)
from kafka_corpus.case import Case, Op
from kafka_corpus.evidence import load_evidence
from kafka_corpus.scenario import Produce, Scenario, StepAnswer
from kafka_corpus.vectors import load_vectors, package_root
from kafka_records import Batch, RecordFormatError, decode

RECIPE: Final = "kroxylicious/proxy.toml"
KAFKA_PROXY: Final = "kafka-proxy"
KAFKA_PROXY_COMMAND: Final = (
    "kafka-proxy server --bootstrap-server-mapping {upstream},{listen} --dynamic-listeners-disable "
    "--http-disable --log-level error"
)
# Declared changes of the known proxies that change records.
DECLARED: Final = {
    "kroxylicious-uppercase": ("values",),
    # A header of an encrypted record says how it was encrypted.
    "kroxylicious-encryption": ("values", "headers"),
    "kroxylicious-own-filter": ("values",),
}
# Ports that a proxy may take from {listen} on, one for each broker.
PORTS: Final = 8
# Requests without a response after which a row ends.
MOST_SILENT: Final = 4
# Of the payloads that brokers refuse and of damaged ones, a filter gets one in so many: most close its connection.
SHARE_OF_FILTERS: Final = 6
# Changes that a message shows.
MOST_SHOWN: Final = 3
MIB: Final = 1 << 20
LARGE: Final = (MIB * 3 // 2, 6 * MIB, 24 * MIB)
_DECODE: Final[tuple[Op, ...]] = ("decode",)
# The magic of an entry is in this byte, the attributes of a v2 batch in the next but five.
_MAGIC, _ATTRIBUTES, _PRODUCER_ID = 16, 22, 43
_COMPRESSION, _TRANSACTIONAL, _CONTROL = 0x07, 0x10, 0x20
_LAST_OF_OLD: Final = 2
NOT_STRICT: Final[dict[str, EdgeGrade]] = {
    "client id": "NON_STRICT",
    UNKNOWN_TAGS_CHANGE: "NON_STRICT",
    OTHER_BYTES: "INFO",
}
_IN_FOLDER: Final = ("/bin/sh", "-c", 'cd "$1" && shift && exec "$@"', "sh")
ADDRESS: Final = re.compile(r"[\w.\-\[\]:]+:\d+")


def columns() -> Sequence[str]:
    """The known proxies."""
    return [*(recipe.name for recipe in _recipes()), KAFKA_PROXY]


def _recipes() -> tuple[BuildRecipe, ...]:
    return read_recipes(folder_of_sources() / RECIPE)


# ---- record bytes of the corpus ----


@dataclass(frozen=True, slots=True)
class Payload:
    """Record bytes of a case.

    Attributes:
        id: of the case.
        data: the bytes.
        error_code: the recorded answer of a broker to them.
        aborted: producer id and first offset of aborted transactions.
    """

    id: str
    data: bytes
    error_code: int = 0
    aborted: tuple[tuple[int, int], ...] = ()


@cache
def produced_payloads() -> dict[str, list[Payload]]:
    """The payloads that the corpus has recorded answers of brokers for, by row; each byte string once."""
    recorded = load_evidence(package_root())
    found: dict[str, list[Payload]] = {}
    seen: set[bytes] = set()
    for case in load_vectors(ops=("decode", "append")):
        line = recorded.get(case.id)
        answers = line.by_release() if line else {}
        for at, data in _payloads_of(case):
            given = [steps[at] for release, steps in answers.items() if at < len(steps) and _is_supported(release)]
            if data in seen or not given:
                continue
            seen.add(data)
            codes = [_code(answer) for answer in given]
            accepted = 0 in codes
            row = _produce_row(data) if accepted else "produce-refused"
            found.setdefault(row, []).append(Payload(case.id, data, 0 if accepted else codes[-1]))
    return found


def _payloads_of(case: Case) -> Iterator[tuple[int, bytes]]:
    if isinstance(case.input, bytes):
        yield 0, case.input
    elif isinstance(case.input, Scenario):
        for at, step in enumerate(case.input.steps):
            if isinstance(step, Produce) and step.is_plain() and isinstance(step.data, bytes):
                yield at, step.data


def _is_supported(release: str) -> bool:
    return release.startswith(("2.8", "3.", "4."))


def _code(answer: StepAnswer) -> int:
    # A broker that closes the connection, or is silent, is played by UNKNOWN_SERVER_ERROR.
    return -1 if answer.closed or answer.silent else answer.error_code


def _produce_row(data: bytes) -> str:
    if len(data) > _MAGIC and data[_MAGIC] < 2:
        return "produce-v0-v1"
    attributes = data[_ATTRIBUTES] if len(data) > _ATTRIBUTES else 0
    if attributes & _COMPRESSION:
        return "produce-compressed"
    if data[_PRODUCER_ID : _PRODUCER_ID + 8] != b"\xff" * 8:
        return "produce-producer-ids"
    has_headers = any(record.headers for batch in _batches(data) for record in batch.records)
    return "produce-headers" if has_headers else "produce-v2"


def _batches(data: bytes) -> tuple[Batch, ...]:
    try:
        return decode(data)
    except RecordFormatError:
        return ()


@cache
def fetched_payloads() -> dict[str, list[Payload]]:
    """The inputs of decode cases, by row; each byte string once."""
    found: dict[str, list[Payload]] = {}
    seen: set[bytes] = set()
    for case in load_vectors(ops=_DECODE):
        if isinstance(case.input, bytes) and case.input not in seen:
            seen.add(case.input)
            row = _fetch_row(case.input) if case.expect.verdict == "valid" else "fetch-damaged"
            found.setdefault(row, []).append(Payload(case.id, case.input, aborted=case.aborted or ()))
    return found


def _fetch_row(data: bytes) -> str:
    if len(data) > _MAGIC and data[_MAGIC] < 2:
        return "fetch-v0-v1"
    attributes = data[_ATTRIBUTES] if len(data) > _ATTRIBUTES else 0
    if attributes & (_TRANSACTIONAL | _CONTROL):
        return "fetch-transactions"
    return "fetch-compressed" if attributes & _COMPRESSION else "fetch-v2"


# ---- judging ----


@dataclass(slots=True)
class ProxyTally:
    """The outcome of the requests of one row.

    Attributes:
        allow: changes that are declared.
        cases: number of requests.
        changes: number of requests with each change.
        first: the first request with it, of those with its grade.
        seen: the gravest grade of each change.
        grades: grades of changes that are not those of *worst*.
        worst: the grade of any other change.
        note: more for the detail.
        not_run: why there was nothing to send.
        allowed: declared changes that happened.
    """

    allow: frozenset[str]
    cases: int = 0
    changes: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    seen: dict[str, EdgeGrade] = field(default_factory=dict)
    grades: dict[str, EdgeGrade] = field(default_factory=dict)
    worst: EdgeGrade = "FAIL"
    note: str = ""
    not_run: str = ""
    allowed: set[str] = field(default_factory=set)

    def add(self, label: str, changes: Iterable[str], *, odd: bool = False) -> None:
        """Count one request; with *odd* record bytes, which no producer writes, a filter has no FAIL."""
        self.cases += 1
        found = set(changes)
        # Other values have other lengths and another checksum.
        implied = {"encoding"} if self.allow else set()
        self.allowed |= found & self.allow
        for change in found - self.allow - implied:
            self.changes[change] += 1
            grade = self.grades.get(change) or NOT_STRICT.get(change, self.worst)
            softer: EdgeGrade = "NON_STRICT" if odd and self.allow and grade == "FAIL" else grade
            known = self.seen.get(change, softer)
            if change not in self.first or _RANKS.index(softer) < _RANKS.index(known):
                self.first[change], self.seen[change] = label, softer

    def cell(self, row: str) -> EdgeCell:
        """The cell of the table."""
        if self.not_run:
            return EdgeCell(row=row, grade="not run", outcome=self.not_run)
        observed = {"requests": self.cases, "changes": dict(sorted(self.changes.items())), "first": self.first}
        if not self.changes:
            outcome = f"{', '.join(sorted(self.allowed))} as declared" if self.allowed else "the same bytes"
            return EdgeCell(row=row, grade="PASS", outcome=outcome, detail=self.note, observed=observed)
        order = list(RECORD_CHANGES)
        ranked = sorted(self.changes, key=lambda name: (order.index(name) if name in order else -1, name))
        worst = min(ranked, key=lambda name: _RANKS.index(self.seen[name]))
        shown = [f"{self.changes[name]} of {self.cases}: {name}, first {self.first[name]}" for name in ranked]
        detail = "; ".join([*shown, *([self.note] if self.note else [])])
        outcome = ", ".join(ranked[:MOST_SHOWN])
        return EdgeCell(row=row, grade=self.seen[worst], outcome=outcome, detail=said(detail), observed=observed)


_RANKS: Final[tuple[EdgeGrade, ...]] = ("HOSTILE", "FAIL", "NON_STRICT", "INFO")


def changes_of(request: RelayRequest, reply: RelayReply, got: Relayed) -> set[str]:
    """Names of what the proxy changed in one request and its response."""
    found = {"request lost"} if got.arrived is None else request_changes(request, got.arrived)
    if got.how:
        found.add("connection closed" if got.how == "closed" else "no response")
    elif got.answered is not None and reply.body is not None:
        found |= response_changes(request, got.correlation_id, reply, got.answered)
    if got.arrived is None and got.answered is not None:
        found = {"answered by the proxy"}
    return found


class ProxyCheck:
    """One proxy, with a client before it and a broker after it."""

    def __init__(self, proxy: StartedProxy, broker: ScriptedBroker, version: str, allow: Iterable[str] = ()) -> None:
        """*allow* are declared changes of records.

        Raises:
            CannotRunEdges: no ApiVersions come through it.
        """
        self.version = version
        self.allow = frozenset(allow)
        self.broker = broker
        self._proxy = proxy
        proxy.ensure()
        self.client = ProxyClient(proxy.address, broker)
        try:
            self.ranges = self._ranges(0)
            self._follow_leader()
        except (RelayClosed, RelaySilent, GarbledResponse, OSError) as error:
            tail = proxy.process.tail() if proxy.process else ""
            raise CannotRunEdges(said(f"no ApiVersions and Metadata come through the proxy: {error} {tail}")) from error

    def _ranges(self, version: int) -> dict[int, tuple[int, int]]:
        answer = self.client.demand(tables.API_VERSIONS, version, {})
        return {each["api_key"]: (each["min_version"], each["max_version"]) for each in answer["api_keys"]}

    def _follow_leader(self) -> None:
        """Go on with the address that Metadata gives for the leader, unless it is the broker's own."""
        answer = self.client.demand(tables.METADATA, 1, {"topics": [{"name": TOPICS[0]}]})
        leader = answer["brokers"][0]
        address = leader["host"], leader["port"]
        self.client.close()
        if address != (self.broker.host, self.broker.port):
            self.client = ProxyClient(address, self.broker)

    def newest(self, api: Api, limit: int = 99) -> int | None:
        """The newest version through the proxy, up to *limit*; None if there is none."""
        oldest, newest = self.ranges.get(api.key, (0, -1))
        found = min(newest, api.newest, limit)
        return found if found >= max(oldest, api.oldest) else None

    def versions(self, api: Api) -> range:
        """All versions through the proxy."""
        newest = self.newest(api)
        oldest = max(self.ranges.get(api.key, (0, -1))[0], api.oldest)
        return range(oldest, -1 if newest is None else newest + 1)

    def __call__(self, row: EdgeRow) -> EdgeCell:
        """Send the requests of *row*, and judge."""
        tally = ProxyTally(self.allow)
        self.client.close()
        try:
            self._proxy.ensure()
            ROWS[row.id](self, tally)
        except (RelayClosed, RelaySilent, GarbledResponse, OSError) as error:
            tally.add("the connection", ["not reachable"])
            tally.note = said(error)
        finally:
            self.client.close()
        return tally.cell(row.id)

    def send(
        self, tally: ProxyTally, label: str, request: RelayRequest, reply: RelayReply, *, odd: bool = False
    ) -> Relayed:
        """One request, counted; a proxy that ended is started again."""
        got = self.client.one(request, reply)
        found = changes_of(request, reply, got)
        if got.how == "closed" and self._proxy.ensure():
            found.add("the proxy ended")
        tally.add(label, found, odd=odd)
        if tally.changes["no response"] >= MOST_SILENT:
            raise RelaySilent(f"ended after {MOST_SILENT} requests without a response")
        return got

    def send_together(
        self, tally: ProxyTally, label: str, pairs: Sequence[tuple[RelayRequest, RelayReply]], pieces: int = 0
    ) -> None:
        """Several requests without waiting, each counted."""
        requests, replies = [each for each, _ in pairs], [each for _, each in pairs]
        for at, got in enumerate(self.client.several(requests, replies, pieces=pieces)):
            tally.add(f"{label} {at}", changes_of(requests[at], replies[at], got))


# ---- rows ----


def _api_versions(check: ProxyCheck, tally: ProxyTally) -> None:
    narrowed = []
    for version in (0, 3):
        ranges = check._ranges(version)
        for api in (tables.PRODUCE, tables.FETCH):
            (oldest, newest), broker = ranges.get(api.key, (0, -1)), check.broker.offered[api]
            wrong = {"not offered"} if newest < oldest else {"more than the broker has"}
            tally.add(f"{api.name}, ApiVersions {version}", () if broker[0] <= oldest <= newest <= broker[1] else wrong)
            narrowed += [f"{api.name} {oldest} to {newest}"] if (oldest, newest) != broker and not version else []
    tally.note = f"narrowed to {', '.join(narrowed)}" if narrowed else ""


def _metadata(check: ProxyCheck, tally: ProxyTally) -> None:
    tally.grades["addresses of the broker"] = "INFO"
    for version in (1, 4, 9, 12):
        if version not in check.versions(tables.METADATA):
            continue
        fields = {"topics": [{"name": topic} for topic in TOPICS]}
        answer = check.client.demand(tables.METADATA, version, fields)
        right = check.broker.metadata(fields)
        own = {"addresses of the broker"} if answer["brokers"][0]["port"] == check.broker.port else set()
        for each in (*answer["brokers"], *right["brokers"]):
            each["host"] = each["port"] = ""
        wrong = {name for name, value in answer.items() if name in right and value != _of_version(right[name], value)}
        tally.add(f"Metadata {version}", own | {name.replace("_", " ") for name in wrong})


def _of_version(right: Any, like: Any) -> Any:
    """*right* with the fields that *like*, which a version has, can hold."""
    if isinstance(right, list) and isinstance(like, list) and len(right) == len(like):
        return [_of_version(one, other) for one, other in zip(right, like, strict=True)]
    if isinstance(right, dict) and isinstance(like, dict):
        return {name: _of_version(right.get(name), value) for name, value in like.items()}
    return right


def _produced(row: str, limit: int = 99) -> Callable[[ProxyCheck, ProxyTally], None]:
    def run(check: ProxyCheck, tally: ProxyTally) -> None:
        version = check.newest(tables.PRODUCE, limit)
        if version is None:
            tally.not_run = f"Produce up to {limit} is not offered"
            return
        if row == "produce-refused" and tally.allow:
            # A filter that has to read records may refuse what is none.
            tally.grades |= dict.fromkeys(("answered by the proxy", "connection closed", "request lost"), "NON_STRICT")
        step = SHARE_OF_FILTERS if row == "produce-refused" and tally.allow else 1
        for at, payload in enumerate(produced_payloads().get(row, [])[::step]):
            code = payload.error_code
            reply = stored_of(version, error_code=code, base_offset=-1 if code else at)
            request = produce_of(version, {FIRST: payload.data})
            check.send(tally, payload.id, request, reply, odd=is_odd(payload.data, produced=True))

    return run


def _fetched(row: str) -> Callable[[ProxyCheck, ProxyTally], None]:
    def run(check: ProxyCheck, tally: ProxyTally) -> None:
        version = _needed(check.newest(tables.FETCH))
        if row == "fetch-damaged" and tally.allow:
            tally.grades |= dict.fromkeys(("connection closed", "error code", "number of records"), "NON_STRICT")
        step = SHARE_OF_FILTERS if row == "fetch-damaged" and tally.allow else 1
        for payload in fetched_payloads().get(row, [])[::step]:
            aborted = [{"producer_id": who, "first_offset": first} for who, first in payload.aborted]
            fields = {"aborted_transactions": aborted} if payload.aborted else {}
            reply = fetched_of(version, {FIRST: payload.data}, **fields)
            check.send(tally, payload.id, fetch_of(version), reply, odd=is_odd(payload.data, produced=False))

    return run


def _needed(version: int | None) -> int:
    if version is None:
        raise GarbledResponse("the proxy offers no version of the request")
    return version


def _produce_versions(check: ProxyCheck, tally: ProxyTally) -> None:
    for version in check.versions(tables.PRODUCE):
        fields = {"acks": 1, "timeout_ms": 1234} | ({"transactional_id": "txn-é"} if version >= 3 else {})
        reply = stored_of(version, base_offset=1 << 40, log_append_time_ms=1_700_000_000_000, log_start_offset=5)
        check.send(tally, f"Produce {version}", produce_of(version, {FIRST: one_batch()}, **fields), reply)


def _acks(check: ProxyCheck, tally: ProxyTally) -> None:
    for version in check.versions(tables.PRODUCE):
        for transactional in (None, "t", "transaction-" * 12) if version >= 3 else (None,):
            named = {} if transactional is None else {"transactional_id": transactional}
            for acks in (0, 1, -1):
                request = produce_of(version, {FIRST: one_batch()}, acks=acks, **named)
                reply = stored_of(version) if acks else RelayReply(None)
                after = (produce_of(version, {FIRST: one_batch(b"next")}), stored_of(version, base_offset=77))
                check.send_together(tally, f"Produce {version}, acks {acks}", [(request, reply), after])


def _null_records(check: ProxyCheck, tally: ProxyTally) -> None:
    for version in check.versions(tables.PRODUCE):
        for data in (None, b""):
            check.send(tally, f"Produce {version}, {data!r}", produce_of(version, {FIRST: data}), stored_of(version))


def _fetch_empty(check: ProxyCheck, tally: ProxyTally) -> None:
    for version in check.versions(tables.FETCH):
        for data in (None, b""):
            check.send(tally, f"Fetch {version}, {data!r}", fetch_of(version), fetched_of(version, {FIRST: data}))


def _produce_large(check: ProxyCheck, tally: ProxyTally) -> None:
    version = _needed(check.newest(tables.PRODUCE))
    for size in LARGE:
        request = produce_of(version, {FIRST: one_batch(b"V" * size)})
        check.send(tally, f"{size} bytes", request, stored_of(version))


def _fetch_large(check: ProxyCheck, tally: ProxyTally) -> None:
    version = _needed(check.newest(tables.FETCH))
    for size in LARGE:
        check.send(tally, f"{size} bytes", fetch_of(version), fetched_of(version, {FIRST: one_batch(b"V" * size)}))


def _many_partitions(check: ProxyCheck, tally: ProxyTally) -> None:
    several = [TopicPartition(topic, index) for topic in TOPICS for index in range(PARTITIONS)]
    payloads: dict[TopicPartition, bytes | None] = {
        each: one_batch(f"{each.topic} {each.partition}".upper().encode()) for each in several
    }
    version = _needed(check.newest(tables.PRODUCE))
    check.send(tally, f"Produce {version}", produce_of(version, payloads), stored_of(version, several))
    version = _needed(check.newest(tables.FETCH))
    check.send(tally, f"Fetch {version}", fetch_of(version, several), fetched_of(version, payloads))


_TAGS: Final = {500: b"", 1000: b"not known yet", 16_384: b"\xff" * 200}


def _tagged_fields(check: ProxyCheck, tally: ProxyTally) -> None:
    # No release and no client has a tagged field at these places yet.
    tally.worst = "NON_STRICT"
    tags = {UNKNOWN_TAGS: _TAGS}
    for api in (tables.PRODUCE, tables.FETCH):
        version = _needed(check.newest(api))
        if not api.is_flexible(version):
            tally.not_run = f"{api.name} {version} has no tagged fields"
            return
        plain = _pair(check, api, b"VALUE")
        tagged = _with_tags(api, version, plain, tags)
        for place, (request, reply) in tagged.items():
            check.send(tally, f"{api.name}, {place}", request, reply)


def _with_tags(
    api: Api, version: int, plain: tuple[RelayRequest, RelayReply], tags: Message
) -> dict[str, tuple[RelayRequest, RelayReply]]:
    """The same request and response with unknown tagged fields, each time at another place."""
    request, reply = plain
    before, after = request.fields(), api.decode(version, reply.body or b"")
    inner = ("topic_data", "partition_data") if api is tables.PRODUCE else ("topics", "partitions")
    outer = ("responses", "partition_responses") if api is tables.PRODUCE else ("responses", "partitions")
    found = {
        "request header": (RelayRequest(api, version, request.body, request.client_id, tag_bytes(_TAGS)), reply),
        "response header": (request, RelayReply(reply.body, tag_bytes(_TAGS))),
    }
    for depth, place in enumerate(("body", "topic", "partition")):
        one, other = _tagged_at(before, inner[:depth], tags), _tagged_at(after, outer[:depth], tags)
        tagged = RelayRequest(api, version, side_bytes(api, version, "request", one))
        found[f"request {place}"] = tagged, reply
        found[f"response {place}"] = request, RelayReply(side_bytes(api, version, "response", other))
    return found


def _tagged_at(message: Message, path: Sequence[str], tags: Message) -> Message:
    if not path:
        return message | tags
    first, *rest = path
    return message | {first: [_tagged_at(each, rest, tags) for each in message[first]]}


def _pair(check: ProxyCheck, api: Api, value: bytes, number: int = 0) -> tuple[RelayRequest, RelayReply]:
    """A plain request in the newest version with its response."""
    version = _needed(check.newest(api))
    data: dict[TopicPartition, bytes | None] = {FIRST: one_batch(value)}
    if api is tables.PRODUCE:
        return produce_of(version, data), stored_of(version, base_offset=number)
    return fetch_of(version), fetched_of(version, data, log_start_offset=number)


def _request_headers(check: ProxyCheck, tally: ProxyTally) -> None:
    for api in (tables.PRODUCE, tables.FETCH):
        for version in sorted({check.versions(api)[0], min(check.versions(api)[-1], 8), check.versions(api)[-1]}):
            for client_id in (None, b"", "zürich".encode(), b"x" * 5000):
                request = produce_of(version, {FIRST: one_batch()}) if api is tables.PRODUCE else fetch_of(version)
                reply = stored_of(version) if api is tables.PRODUCE else fetched_of(version, {FIRST: one_batch()})
                sent = RelayRequest(api, version, request.body, client_id)
                shown = "null" if client_id is None else said(client_id.decode())[:12]
                check.send(tally, f"{api.name} {version}, client id {shown or 'empty'}", sent, reply)
        for number in (0, -1, 0x7FFF_FFFF, -0x8000_0000):
            request, reply = _pair(check, api, b"VALUE")
            got = check.client.one(request, reply, correlation_id=number)
            tally.add(f"{api.name}, correlation id {number}", changes_of(request, reply, got))


def _segments(check: ProxyCheck, tally: ProxyTally) -> None:
    for pieces in (1, 7):
        for api in (tables.PRODUCE, tables.FETCH):
            request, reply = _pair(check, api, b"VALUE")
            cut = RelayReply(reply.body, pieces=pieces)
            check.send_together(tally, f"{api.name}, {pieces} bytes each", [(request, cut), (request, cut)], pieces)


def _pipelined(check: ProxyCheck, tally: ProxyTally) -> None:
    version = _needed(check.newest(tables.PRODUCE))
    pairs = []
    for at in range(48):
        value = b"REQUEST %d" % at
        if at % 8 == 3:
            pairs.append((produce_of(version, {FIRST: one_batch(value)}, acks=0), RelayReply(None)))
        else:
            pairs.append(_pair(check, tables.FETCH if at % 3 == 1 else tables.PRODUCE, value, at))
    check.send_together(tally, "request", pairs)


def _produce_errors(check: ProxyCheck, tally: ProxyTally) -> None:
    newest = _needed(check.newest(tables.PRODUCE))
    leader: dict[str, Any] = {"current_leader": {"leader_id": 5, "leader_epoch": 9}} if newest >= 10 else {}
    for code, name in ERROR_NAMES.items():
        fields: dict[str, Any] = (
            {"record_errors": [{"batch_index": 3, "batch_index_error_message": "bad record"}]} if code == 87 else {}
        )
        reply = stored_of(
            newest, error_code=code, base_offset=-1, error_message=f"the broker's reason: {name}", **fields,
            **(leader if code == 6 else {}),
        )  # fmt: skip
        check.send(tally, name, produce_of(newest, {FIRST: one_batch()}), reply)


def _fetch_errors(check: ProxyCheck, tally: ProxyTally) -> None:
    version = _needed(check.newest(tables.FETCH))
    moved = {
        "current_leader": {"leader_id": 5, "leader_epoch": 9},
        "diverging_epoch": {"epoch": 3, "end_offset": 44},
    }
    for code, name in ERROR_NAMES.items():
        fields = moved if code in (6, 74) and version >= 12 else {}
        reply = fetched_of(version, {FIRST: b""}, error_code=code, high_watermark=-1, **fields)
        check.send(tally, name, fetch_of(version), reply)
        if code:
            whole = fetched_of(version, {}, top_error=code)
            check.send(tally, f"{name} of the response", fetch_of(version), whole)


def _fetch_partial(check: ProxyCheck, tally: ProxyTally) -> None:
    version = _needed(check.newest(tables.FETCH))
    whole, following = one_batch(b"FIRST"), one_batch(b"SECOND", offset=1)
    for kept in (1, 8, 12, 16, 17, 40, len(following) - 1):
        reply = fetched_of(version, {FIRST: whole + following[:kept]})
        check.send(tally, f"{kept} bytes of the second batch", fetch_of(version), reply)


def _fetch_versions(check: ProxyCheck, tally: ProxyTally) -> None:
    for version in check.versions(tables.FETCH):
        fields: dict[str, Any] = {"max_wait_ms": 1, "min_bytes": 3}
        fields |= {"isolation_level": 1} if version >= 4 else {}
        fields |= {"session_id": 21, "session_epoch": 4} if version >= 7 else {}
        fields |= {"rack_id": "rack é"} if version >= 11 else {}
        more = {"session_id": 21, tables.THROTTLE: 3, "preferred_read_replica": 2}
        reply = fetched_of(version, {FIRST: one_batch(b"VALUE", records=3)}, **more)
        check.send(tally, f"Fetch {version}", fetch_of(version, **fields), reply)


def _throttle(check: ProxyCheck, tally: ProxyTally) -> None:
    for milliseconds in (1, 5000, 0x7FFF_FFFF):
        more: dict[str, Any] = {tables.THROTTLE: milliseconds}
        version = _needed(check.newest(tables.PRODUCE))
        label = f"{milliseconds} ms"
        check.send(tally, label, produce_of(version, {FIRST: one_batch(b"VALUE")}), stored_of(version, **more))
        version = _needed(check.newest(tables.FETCH))
        check.send(tally, label, fetch_of(version), fetched_of(version, {FIRST: one_batch(b"VALUE")}, **more))


def _disconnect(check: ProxyCheck, tally: ProxyTally) -> None:
    for api in (tables.PRODUCE, tables.FETCH):
        request, reply = _pair(check, api, b"VALUE")
        for cut in (None, 2, 6, 20):
            broken = RelayReply(None, close=True) if cut is None else RelayReply(reply.body, cut=cut)
            got = check.client.one(request, broken)
            found = {"request lost"} if got.arrived is None else request_changes(request, got.arrived)
            found |= {"": {"made up a response"}, "silent": {"left open"}, "closed": set()}[got.how]
            tally.add(f"{api.name}, {'before' if cut is None else f'{cut} bytes into'} the response", found)


def _round_trip(check: ProxyCheck, tally: ProxyTally) -> None:
    putting, getting = _needed(check.newest(tables.PRODUCE)), _needed(check.newest(tables.FETCH))
    rows = ("produce-v2", "produce-headers", "produce-compressed", "produce-producer-ids")
    for payload in (each for row in rows for each in produced_payloads().get(row, ())[::8]):
        got = check.client.one(produce_of(putting, {FIRST: payload.data}), stored_of(putting))
        if got.arrived is None:
            tally.add(payload.id, {"request lost"}, odd=is_odd(payload.data, produced=True))
            continue
        on_disk = got.arrived.fields()["topic_data"][0]["partition_data"][0]["records"]
        back = check.client.one(fetch_of(getting), fetched_of(getting, {FIRST: on_disk}))
        if back.answered is None:
            how = "connection closed" if back.how == "closed" else "no response"
            tally.add(payload.id, {how}, odd=is_odd(payload.data, produced=True))
            continue
        # The header of a Fetch response without tags of ours has five bytes, or four in old versions.
        body = back.answered[5 if tables.FETCH.is_flexible(getting) else 4 :]
        seen = tables.FETCH.decode(getting, body)["responses"][0]["partitions"][0]["records"]
        tally.add(payload.id, record_changes(payload.data, seen), odd=is_odd(payload.data, produced=True))


ROWS: Final[dict[str, Callable[[ProxyCheck, ProxyTally], None]]] = {
    "api-versions": _api_versions,
    "metadata": _metadata,
    "produce-v2": _produced("produce-v2"),
    "produce-headers": _produced("produce-headers"),
    "produce-producer-ids": _produced("produce-producer-ids"),
    "produce-compressed": _produced("produce-compressed"),
    "produce-v0-v1": _produced("produce-v0-v1", _LAST_OF_OLD),
    "produce-refused": _produced("produce-refused"),
    "produce-versions": _produce_versions,
    "acks": _acks,
    "null-records": _null_records,
    "produce-large": _produce_large,
    "many-partitions": _many_partitions,
    "tagged-fields": _tagged_fields,
    "request-headers": _request_headers,
    "segments": _segments,
    "pipelined": _pipelined,
    "produce-errors": _produce_errors,
    "fetch-v2": _fetched("fetch-v2"),
    "fetch-compressed": _fetched("fetch-compressed"),
    "fetch-transactions": _fetched("fetch-transactions"),
    "fetch-v0-v1": _fetched("fetch-v0-v1"),
    "fetch-damaged": _fetched("fetch-damaged"),
    "fetch-partial": _fetch_partial,
    "fetch-empty": _fetch_empty,
    "fetch-large": _fetch_large,
    "fetch-versions": _fetch_versions,
    "fetch-errors": _fetch_errors,
    "throttle": _throttle,
    "disconnect": _disconnect,
    "round-trip": _round_trip,
}


# ---- starting ----


@contextmanager
def opened(column: str) -> Iterator[ProxyCheck]:
    """Start the known proxy *column*, or the one of `proxy:COMMAND LINE`.

    Raises:
        CannotRunEdges: it cannot be had here, or nothing comes through it.
    """
    name = column.removeprefix("proxy:")
    known = {recipe.name: recipe for recipe in _recipes()}
    if name == KAFKA_PROXY:
        if shutil.which(KAFKA_PROXY) is None:
            raise CannotRunEdges("kafka-proxy is not on the path; install a release of grepplabs' kafka-proxy")
        with running_proxy(KAFKA_PROXY_COMMAND, version=_kafka_proxy_version()) as check:
            yield check
    elif name in known:
        recipe = known[name]
        try:
            command = shlex.join(built_command(recipe, build_testee(recipe)))
        except BuildError as error:
            raise CannotRunEdges(f"{name}: {error}") from error
        with running_proxy(command, version=recipe.version, allow=DECLARED.get(name, ())) as check:
            yield check
    else:
        with running_proxy(name) as check:
            yield check


def _kafka_proxy_version() -> str:
    done = subprocess.run([KAFKA_PROXY, "version"], capture_output=True, text=True, timeout=30, check=False)
    found = re.search(r"v?(\d+\.\d+\.\d+)", done.stdout + done.stderr)
    return found[1] if found else ""


@contextmanager
def running_proxy(
    what: str, *, upstream: str = "", version: str = "", allow: Iterable[str] = ()
) -> Iterator[ProxyCheck]:
    """A proxy at `HOST:PORT`, or started by a command line with `{upstream}` and `{listen}`.

    Args:
        what: address or command line.
        upstream: where our broker listens, `HOST:PORT`; needed for a proxy that runs already.
        version: of the proxy, as far as it is known.
        allow: declared changes of records.

    Raises:
        BadEdgesError: *what* or *upstream* names no port.
        CannotRunEdges: it cannot be started, or nothing comes through it.
    """
    running = ADDRESS.fullmatch(what) is not None
    if running and not upstream:
        raise CannotRunEdges(f"a proxy that runs needs: kafkaproof certify proxy:{what} --upstream HOST:PORT")
    if not running and not ("{listen" in what and "{upstream" in what):
        raise CannotRunEdges("the command line of the proxy needs the places {upstream} and {listen}")
    address = edge_address(upstream) if upstream else (HOST, 0)
    listen = edge_address(what) if running else (HOST, free_ports(PORTS))
    try:
        broker = ScriptedBroker(address)
    except OSError as error:
        raise CannotRunEdges(f"the broker cannot listen at {upstream}: {error}") from error
    with broker, tempfile.TemporaryDirectory(prefix="kafkaproof-proxy-") as folder:
        filled = [] if running else fill_proxy_command(shlex.split(what), broker, listen)
        # In the caller's folder, which relative paths are meant from.
        command = [*_IN_FOLDER, str(Path.cwd()), *filled] if filled else []
        proxy = StartedProxy(listen, command, Path(folder))
        try:
            yield ProxyCheck(proxy, broker, version, allow)
        finally:
            proxy.stop()
