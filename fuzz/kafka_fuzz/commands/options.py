"""What several commands take alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click


def campaign_option(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """`--dir`, the folder of a campaign, as the parameter `directory`."""
    folder = click.Path(file_okay=False, path_type=Path)
    return click.option("--dir", "directory", type=folder, default="kafkaproof-fuzz", show_default=True, help=about)
