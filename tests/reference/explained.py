"""Views of an explanation for tests."""

from kafka_records import explain
from kafka_records.explain import Field, Part


def field(data: bytes, path: str, section: int = 0) -> Field:
    """The first field at *path*."""
    return next(each for each in explain(data).sections[section].fields if each.path == path)


def meanings(data: bytes, section: int = 0) -> list[str]:
    """The meaning of every field."""
    return [each.meaning for each in explain(data).sections[section].fields]


def titles(part: Part) -> list[str]:
    """The titles of a part's parts, outermost first."""
    parts = [child for child in part.children if isinstance(child, Part)]
    return [title for child in parts for title in (child.title, *titles(child))]
