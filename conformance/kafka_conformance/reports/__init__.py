"""Runs as pages and files that people and machines read: HTML, SARIF, badges, Markdown, certificates.

`collection` gathers result files, `details` says everything about one case,
each other module writes one format.  What a testee said is hostile text: it is
bounded and made printable before it gets here, and escaped by each format.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment


def page_environment(package: str = "kafka_conformance.reports") -> Environment:
    """Where the templates of *package* and the shared ones are; everything that they are given is escaped."""
    # The templates' engine takes a tenth of a second to import, and most importers of this package write no page.
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    loader = ChoiceLoader([PackageLoader(each, "assets") for each in (package, "kafka_conformance.reports")])
    return Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)


def asset(name: str) -> str:
    """A file of the page, exactly as it is put in."""
    return files("kafka_conformance.reports").joinpath("assets", name).read_text(encoding="utf-8")


def policy_hash(text: str) -> str:
    """How a content security policy names a script or style."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
