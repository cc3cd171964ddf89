"""Output with `--json`: one document on standard output, and nothing else there."""

from __future__ import annotations

from typing import Any

import click

from kafka_conformance.sanitize import indented_json


def say_json(document: Any) -> None:
    """Print *document*, indented."""
    click.echo(indented_json(document), nl=False)
