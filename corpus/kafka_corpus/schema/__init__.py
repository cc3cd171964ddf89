"""The JSON Schema of one vector, generated from the structs in `vector_format`."""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, Final

import msgspec

from kafka_corpus.vector_format import SCHEMA_VERSION, Answer, BrokerAnswer, Vector

FILE: Final = "vector.schema.json"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def build_schema() -> dict[str, Any]:
    """The schema of one line."""
    models = [Vector, Answer, BrokerAnswer]
    (vector, answer, broker), definitions = msgspec.json.schema_components(models, ref_template="#/$defs/{name}")
    # Exactly one, where the struct has four optional fields.
    definitions["Input"]["oneOf"] = [{"required": [name]} for name in ("data", "batch", "recipe", "scenario")]
    definitions["Vector"]["properties"]["evidence"] = {
        "type": "object",
        "description": "answers by implementation and release; the reference has one only",
        "properties": {"reference": answer, "brokers": {"type": "object", "additionalProperties": broker}},
        "additionalProperties": {"type": "object", "additionalProperties": answer},
    }
    return {
        "$schema": DIALECT,
        "title": f"kafkaproof vector, version {SCHEMA_VERSION}: one line",
        **vector,
        "$defs": dict(sorted(definitions.items())),
    }


def clean_descriptions(document: Any) -> Any:
    """*document* with descriptions as they are on every Python: 3.13 and newer drop the indentation of docstrings."""
    if isinstance(document, dict):
        return {
            name: cleandoc(each) if name == "description" and isinstance(each, str) else clean_descriptions(each)
            for name, each in document.items()
        }
    return [clean_descriptions(each) for each in document] if isinstance(document, list) else document


def schema_text() -> bytes:
    """The schema as the file holds it."""
    return msgspec.json.format(msgspec.json.encode(clean_descriptions(build_schema())), indent=2) + b"\n"
