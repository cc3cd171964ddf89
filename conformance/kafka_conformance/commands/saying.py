"""What every command says with `--json`: one document on standard output, and nothing else there."""

from __future__ import annotations

from typing import Any

import click
import msgspec


def say_json(document: Any) -> None:
    """Print *document*, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2))
