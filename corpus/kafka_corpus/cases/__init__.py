"""The cases, grouped by what they are about; every module here is an area."""

import importlib
import pkgutil
from functools import cache

from kafka_corpus.case import Case
from kafka_corpus.registry import registered


@cache
def all_cases() -> tuple[Case, ...]:
    """Every case, built, sorted by id."""
    for module in pkgutil.iter_modules(__path__, f"{__name__}."):
        importlib.import_module(module.name)
    return tuple(sorted(registered(), key=lambda made: made.id))
