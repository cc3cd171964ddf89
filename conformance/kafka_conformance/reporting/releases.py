"""A codec's history as a page that needs nothing else."""

from __future__ import annotations

from markupsafe import Markup

from kafka_conformance.history import History
from kafka_conformance.judge import SEVERITIES
from kafka_conformance.reporting.html import asset, environment, policy_hash, words


def page(made: History) -> str:
    """The page; everything that a testee or a registry said is escaped."""
    style = asset("page.css")
    return environment().get_template("history.html").render(
        history=made, severities=SEVERITIES, words=words, style=Markup(style), style_hash=policy_hash(style)
    )  # fmt: skip
