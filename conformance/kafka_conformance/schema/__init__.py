"""The JSON Schema of the testee protocol, generated from `protocol`.

`python -m kafka_conformance.schema` writes it; `--check` fails if the file is
not what the models say.
"""

from __future__ import annotations

from importlib.resources import files
from typing import Any, Final

import msgspec

from kafka_conformance.indented import indented
from kafka_conformance.protocol import ANSWERS, PROTOCOL, HelloReply, Reply, Request

FILE: Final = "protocol.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def build() -> dict[str, Any]:
    """The schema of one line, in either direction."""
    (requests, hello, reply), definitions = msgspec.json.schema_components(
        [Request, HelloReply, Reply], ref_template="#/$defs/{name}"
    )
    for answer in ("Reply", "Answer"):
        names = [name for name in ANSWERS if name in definitions[answer]["properties"]]
        definitions[answer]["anyOf"] = [{"required": [name]} for name in names]
    # Exactly one of the two, where the model has two optional fields.
    definitions["DecodeRequest"]["oneOf"] = [{"required": ["data"]}, {"required": ["many"]}]
    definitions["request"] = requests
    definitions["reply"] = {"anyOf": [hello, reply]}
    return {
        "$schema": DIALECT,
        "title": f"kafkaproof testee protocol, version {PROTOCOL}: one line",
        "anyOf": [{"$ref": "#/$defs/request"}, {"$ref": "#/$defs/reply"}],
        "$defs": dict(sorted(definitions.items())),
    }


def text() -> str:
    """The schema as the file holds it."""
    return indented(build()).decode()


def stored() -> str:
    """The file inside the package; empty if there is none."""
    source = files(__name__).joinpath(FILE)
    return source.read_text(encoding="utf-8") if source.is_file() else ""
