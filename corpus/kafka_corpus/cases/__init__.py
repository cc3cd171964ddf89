"""The cases, grouped by operation; each module below is an area, named in the ids of its cases."""

import difflib
import importlib
import pkgutil
from collections.abc import Collection
from functools import cache

from kafka_corpus.case import Case
from kafka_corpus.registry import registered


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, built, sorted by id."""
    for module in _modules().values():
        importlib.import_module(module)
    return tuple(sorted(registered(), key=lambda made: made.id))


def cases_of(areas: Collection[str]) -> tuple[Case, ...]:
    """The cases of some areas, built, sorted by id.

    Raises:
        ValueError: there is no such area.
    """
    modules = _modules()
    if unknown := sorted(set(areas) - modules.keys()):
        near = difflib.get_close_matches(unknown[0], modules, 3)
        raise ValueError(f"there is no area {unknown[0]}" + (f"; there are {', '.join(near)}" if near else ""))
    for area in areas:
        importlib.import_module(modules[area])
    return tuple(sorted(registered(areas), key=lambda made: made.id))


@cache
def _modules() -> dict[str, str]:
    """The module of each area; an area is named after the last part."""
    found = (module.name for module in pkgutil.walk_packages(__path__, f"{__name__}.") if not module.ispkg)
    return {name.rpartition(".")[2]: name for name in found}
