"""The installed version of the distribution."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """The version of the distribution; `source` where it is not installed."""
    try:
        return version("kafkaproof")
    except PackageNotFoundError:
        return "source"
