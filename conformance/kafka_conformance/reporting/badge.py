"""A badge: a picture of its own (SVG), and what shields.io asks an endpoint for (JSON)."""

from __future__ import annotations

from typing import Any, Final

from kafka_conformance.indented import indented
from kafka_conformance.reporting.collection import Entry
from kafka_conformance.reporting.html import environment

LABEL: Final = "Kafka records"
# Dark enough for white letters: contrast is above 4.5.
GREEN, AMBER, RED, GREY = "#1a7a3c", "#8a5a00", "#b3001b", "#56606e"
NAMES: Final = {GREEN: "brightgreen", AMBER: "orange", RED: "red", GREY: "lightgrey"}
LETTER: Final = 6.6
MARGIN: Final = 12
MIDDLING: Final = 0.5


def message(entry: Entry) -> str:
    """What it says."""
    if not entry.results.complete or entry.results.header.only:
        return "only a part was run"
    certificate = entry.report.certificate
    return f"{'certified' if certificate.certified else 'not certified'} · {certificate.score:.3f}"


def colour(entry: Entry) -> str:
    """Green is certified, amber is not, red is not by far; grey is unknown."""
    if not entry.results.complete or entry.results.header.only:
        return GREY
    if entry.report.certificate.certified:
        return GREEN
    return AMBER if entry.report.certificate.score >= MIDDLING else RED


def endpoint(entry: Entry) -> bytes:
    """The JSON of an endpoint badge."""
    badge: dict[str, Any] = {
        "schemaVersion": 1,
        "label": LABEL,
        "message": message(entry),
        "color": NAMES[colour(entry)],
        "isError": not entry.report.certificate.certified,
    }
    return indented(badge)


def picture(entry: Entry) -> str:
    """The SVG; it loads nothing."""
    text = message(entry)
    return environment().get_template("badge.svg").render(
        label=LABEL, message=text, left=_width(LABEL), right=_width(text), colour=colour(entry)
    )  # fmt: skip


def _width(text: str) -> int:
    return round(len(text) * LETTER) + MARGIN
