"""Write the protocol's JSON Schema, or with `--check` say whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_conformance import schema


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 if `--check` found a difference."""
    if "--check" in arguments:
        if schema.stored() == schema.text():
            return 0
        print(f"{schema.FILE} is out of date: run python -m kafka_conformance.schema", file=sys.stderr)
        return 1
    (Path(schema.__file__).parent / schema.FILE).write_text(schema.text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
