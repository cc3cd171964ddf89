"""Write the protocol's JSON Schema, or with `--check` say whether it is up to date."""

from __future__ import annotations

import sys
from pathlib import Path

from kafka_conformance.testees import protocol


def main(arguments: list[str]) -> int:
    """Exit code 0, or 1 if `--check` found a difference."""
    if "--check" in arguments:
        if protocol.stored_schema() == protocol.protocol_schema_text():
            return 0
        command = "python -m kafka_conformance.testees.protocol_schema"
        print(f"{protocol.FILE} is out of date: run {command}", file=sys.stderr)
        return 1
    (Path(protocol.__file__).parent / protocol.FILE).write_text(protocol.protocol_schema_text(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
