"""Inputs as commands are given them: a file, a find's folder, or the beginning of its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import msgspec

from kafka_fuzz.finds import FIND, FOLDER, INPUT, Find


@dataclass(frozen=True, slots=True)
class Given:
    """An input: its bytes, the file that they are in, and the find that it shows, if it is one's."""

    data: bytes
    path: Path
    find: Find | None


def given_find(text: str, directory: Path) -> Given:
    """The input that *text* names; a usage error where there is none, or more than one."""
    path = Path(text)
    if path.is_file():
        return Given(path.read_bytes(), path, None)
    return of_folder(path if (path / FIND).is_file() else _named(text, directory))


def of_folder(folder: Path) -> Given:
    """The find in *folder*; a usage error where it cannot be read."""
    try:
        find = msgspec.json.decode((folder / FIND).read_bytes(), type=Find)
        return Given((folder / INPUT).read_bytes(), folder / INPUT, find)
    except (OSError, msgspec.MsgspecError) as error:
        raise click.UsageError(f"{folder} holds no find: {error}") from error


def _named(text: str, directory: Path) -> Path:
    folders = [path for path in sorted((directory / FOLDER).glob("*")) if path.name.startswith(text) and text]
    if len(folders) != 1:
        many = f"{len(folders)} finds begin with" if folders else "there is no file, and no find,"
        raise click.UsageError(f"{many} {text!r} in {directory}")
    return folders[0]
