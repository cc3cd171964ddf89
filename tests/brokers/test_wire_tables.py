"""The tables of requests: their bytes, their versions, and what is refused."""

import struct
from contextlib import suppress
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_brokers.wire import tables
from kafka_brokers.wire.connection import Request, frame, open_response
from kafka_brokers.wire.errors import GarbledResponse, UnsupportedVersion
from kafka_brokers.wire.schema import Api, WireField, read_unsigned_varint, side, unsigned_varint

INTEGERS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
APIS = [value for value in vars(tables).values() if isinstance(value, Api)]
EVERY_VERSION = [(api, version) for api in APIS for version in range(api.oldest, api.newest + 1)]


def ids(pair: object) -> str:
    """A short name for a parameter."""
    return pair.name if isinstance(pair, Api) else str(pair)


def values(field: WireField, version: int) -> st.SearchStrategy[Any]:
    """Values that a field may hold in *version*."""
    one: st.SearchStrategy[Any]
    if isinstance(field.type, tuple):
        one = bodies(field.type, version)
    elif field.type in INTEGERS:
        bits = INTEGERS[field.type]
        one = st.integers(-(1 << bits), (1 << bits) - 1)
    else:
        one = {"bool": st.booleans(), "uuid": st.uuids(), "string": st.text(max_size=5), "bytes": st.binary()}[
            field.type
        ]
    whole = st.lists(one, max_size=2) if field.many else one
    return st.none() | whole if version >= field.null else whole


def bodies(fields: tuple[WireField, ...], version: int) -> st.SearchStrategy[dict[str, Any]]:
    """Dictionaries with every field of *version*."""
    present = {each.name: values(each, version) for each in fields if each.since <= version <= each.until}
    return st.fixed_dictionaries(present)


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=ids)
@settings(max_examples=8)
@given(data=st.data())
def test_what_is_written_is_read(api: Api, version: int, data: st.DataObject) -> None:
    """A request or response in any version is read back as it was written, to the last byte."""
    for which, fields in (("request", api.request), ("response", api.response)):
        body = data.draw(bodies(fields, version))
        codec = side(api, version, which)  # type: ignore[arg-type]  # one of the two
        out: list[bytes] = []
        codec.write(out, body)
        raw = b"".join(out)
        assert codec.read(raw, 0) == (body, len(raw))


@pytest.mark.parametrize(("api", "version"), EVERY_VERSION, ids=ids)
@settings(max_examples=8)
@given(data=st.data())
def test_cut_responses_are_garbled(api: Api, version: int, data: st.DataObject) -> None:
    """A response that ends early, or goes on, is refused with `GarbledResponse`, never otherwise."""
    body = data.draw(bodies(api.response, version))
    if body.get("error_code") == 35:
        body["error_code"] = 0  # an old ApiVersions, which has a shape of its own
    out: list[bytes] = []
    side(api, version, "response").write(out, body)
    raw = b"".join(out)
    cut = data.draw(st.integers(0, len(raw) - 1))
    for wrong in (raw[:cut], raw + b"\0"):
        with pytest.raises(GarbledResponse, match=api.name):
            api.decode(version, wrong)


@given(st.binary(max_size=200))
def test_noise_is_garbled_or_read(data: bytes) -> None:
    """Whatever bytes come back, reading them gives a message or `GarbledResponse`."""
    for api in APIS:
        with suppress(GarbledResponse):
            assert isinstance(api.decode(api.newest, data), dict)


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        # Size, key 18, version, correlation id 7, client id; from version 3 on tags and compact strings.
        (0, "0000000c 0012 0000 00000007 0002 6d65"),
        (3, "00000017 0012 0003 00000007 0002 6d65 00 06 6c69626272 03 3432 00".replace("6c69626272", "6c69626162")),
    ],
)
def test_golden_api_versions(version: int, expected: str) -> None:
    """A request for ApiVersions, written down byte by byte from the protocol guide."""
    body = {"client_software_name": "libab", "client_software_version": "42"}
    assert frame(Request(tables.API_VERSIONS, version, body), 7, "me") == bytes.fromhex(expected)


def test_golden_produce() -> None:
    """A produce request in version 9, the first flexible one, written down byte by byte."""
    body = {
        "acks": 1,
        "timeout_ms": 256,
        "topic_data": [
            {"name": "t", "partition_data": [{"index": 2, "records": b"abc"}, {"index": 3, "records": None}]}
        ],
    }
    expected = "00 0001 00000100 02 0274 03 00000002 04 616263 00 00000003 00 00 00 00"
    assert tables.PRODUCE.encode(9, body) == bytes.fromhex(expected)


def test_golden_fetch_with_topic_ids() -> None:
    """A fetch request in version 17 names topics by id, and leaves default tags out."""
    body = {"topics": [{"topic_id": UUID(int=5), "partitions": [{"partition": 1, "fetch_offset": 9}]}]}
    topic = f"02 {UUID(int=5).hex} 02 00000001 ffffffff 0000000000000009 ffffffff ffffffffffffffff 7fffffff 00 00"
    expected = f"000001f4 00000001 7fffffff 00 00000000 ffffffff {topic} 01 01 00"
    assert tables.FETCH.encode(17, body) == bytes.fromhex(expected)


def test_unknown_tags_are_kept() -> None:
    """A tagged field that no table knows does not disturb the others, and is not lost."""
    raw = bytes.fromhex("0000 01 00000000 02 01 08 0000000000000005 09 02 abcd")
    answer = tables.API_VERSIONS.decode(3, raw)
    assert answer["finalized_features_epoch"] == 5
    assert answer["unknown_tags"] == {9: b"\xab\xcd"}


def test_refused_api_versions_comes_in_version_0() -> None:
    """A broker that does not have the requested version of ApiVersions answers in version 0, and that is read."""
    raw = struct.pack(">hihhh", 35, 1, 18, 0, 2)
    answer = open_response(Request(tables.API_VERSIONS, 4, {}), 1, b"\0\0\0\1" + raw)
    assert answer == {"error_code": 35, "api_keys": [{"api_key": 18, "min_version": 0, "max_version": 2}]}


def test_answers_to_something_else_are_garbled() -> None:
    """A response with another correlation id is refused."""
    with pytest.raises(GarbledResponse, match="request 2"):
        open_response(Request(tables.END_TXN, 0, {}), 2, b"\0\0\0\1" + bytes(6))


@pytest.mark.parametrize("version", [-1, 14])
def test_versions_have_bounds(version: int) -> None:
    """A version that the table does not have is refused by name."""
    with pytest.raises(UnsupportedVersion, match="Produce v"):
        tables.PRODUCE.encode(version, {"topic_data": []})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"topic_data": [], "ack": 1}, "no such fields: ack"),
        ({}, "version 3 needs topic_data"),
        ({"topic_data": None}, "no null here"),
    ],
)
def test_our_own_mistakes(body: dict[str, Any], message: str) -> None:
    """A misspelt, missing or null field in a request of ours is an error, not other bytes."""
    with pytest.raises(ValueError, match=message):
        tables.PRODUCE.encode(3, body)


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints(value: int) -> None:
    """Lengths and tags are read back as they were written."""
    raw = unsigned_varint(value)
    assert read_unsigned_varint(raw, 0) == (value, len(raw))
