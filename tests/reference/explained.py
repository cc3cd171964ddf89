"""Views of an explanation for tests, and the digests of all explanations of the corpus.

`python -m tests.reference.explained` writes them, with `--check` it only compares.
"""

import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from random import Random

import msgspec
from tests.reference.topic_values import drawn, record_bytes, tables

import kafka_corpus
from kafka_corpus.answers import Described, described, described_record
from kafka_corpus.vectors import load_vectors
from kafka_records import explain
from kafka_records.explain import Field, Part
from kafka_records.internal_topics import COORDINATORS, MessageTable, version_layout

KEPT = Path(kafka_corpus.__file__).with_name("explained.ndjson")


def field(data: bytes, path: str, section: int = 0) -> Field:
    """The first field at *path*."""
    return next(each for each in explain(data).sections[section].fields if each.path == path)


def meanings(data: bytes, section: int = 0) -> list[str]:
    """The meaning of every field."""
    return [each.meaning for each in explain(data).sections[section].fields]


def titles(part: Part) -> list[str]:
    """The titles of a part's parts, outermost first."""
    parts = [child for child in part.children if isinstance(child, Part)]
    return [title for child in parts for title in (child.title, *titles(child))]


def descriptions() -> Iterator[Described]:
    """Digests of what is said of each decode case without a recipe, and of records of internal topics."""
    areas: dict[str, list[tuple[str, bytes]]] = {}
    for case in load_vectors():
        if isinstance(case.input, bytes):
            areas.setdefault(case.area, []).append((case.id, case.input))
    for area, inputs in sorted(areas.items()):
        digest = sha256(b"".join(described(data) for _, data in sorted(inputs))).hexdigest()
        yield Described(area=area, sha256=digest)
    for table, version in tables():
        for seed in range(2):
            key, value = sample(table, version, Random(seed), broken=seed > 0)
            digest = sha256(described_record(table.topic, key, value)).hexdigest()
            yield Described(topic=table.topic, key=key, value=value, sha256=digest)


def sample(table: MessageTable, version: int, rng: Random, *, broken: bool) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record; *broken*, one byte is another, or the end is cut off or goes on."""
    data = bytearray(record_bytes(table, version, drawn(version_layout(table.name, version), rng)))
    if broken:
        match rng.randrange(3):
            case 0:
                data[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
            case 1:
                del data[rng.randrange(len(data)) :]
            case _:
                data += b"\1"
    if table.name.endswith("Key"):
        return bytes(data), None
    if table.topic not in COORDINATORS:
        return None, bytes(data)
    same = (each for each, _ in tables() if (each.topic, each.id) == (table.topic, table.id))
    key = next(each for each in same if each.name.endswith("Key"))
    return record_bytes(key, 0, drawn(version_layout(key.name, 0), rng)), bytes(data)


def main(arguments: list[str]) -> int:
    """Write or check the digests; 1 if they differ."""
    data = b"".join(msgspec.json.encode(each) + b"\n" for each in descriptions())
    if "--check" in arguments:
        return int(KEPT.read_bytes() != data)
    KEPT.write_bytes(data)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
