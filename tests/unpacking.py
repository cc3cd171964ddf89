"""Unpacking archives on each Python that we support."""

import tarfile
from pathlib import Path


def unpack(archive: Path, folder: Path) -> None:
    """Unpack *archive*, which is ours, into *folder*; without the filter `data` before Python 3.11.4."""
    with tarfile.open(archive) as opened:
        if hasattr(tarfile, "data_filter"):
            opened.extraction_filter = tarfile.data_filter
        opened.extractall(folder)
