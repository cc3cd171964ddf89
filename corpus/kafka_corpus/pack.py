"""Line files as they lie in the package: gzipped, since they are large and alike throughout.

    goldens/<area>.ndjson.gz    is <area>.ndjson to everybody who asks

Names, hashes and drift are those of the lines; the compressed bytes depend on
the zlib at hand and mean nothing.
"""

from __future__ import annotations

import gzip
import zlib
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Final

SUFFIX: Final = ".gz"


def unpack(data: bytes, name: str) -> bytes:
    """The lines in a packed file; ValueError if it is none."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise ValueError(f"{name} is not a gzip file: {error}") from None


def read(folder: Traversable, name: str) -> bytes:
    """The lines of the file called *name* in *folder*."""
    return unpack(folder.joinpath(name + SUFFIX).read_bytes(), name)


def write(path: Path, lines: bytes) -> None:
    """Keep *lines* as the file called *path*, without a time of day in it."""
    path.with_name(path.name + SUFFIX).write_bytes(gzip.compress(lines, mtime=0))
