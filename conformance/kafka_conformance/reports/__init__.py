"""Runs as pages and files that people and machines read: HTML, SARIF, badges, Markdown, certificates.

`collection` gathers result files, `details` says everything about one case,
each other module writes one format.  What a testee said is hostile text: it is
bounded and made printable before it gets here, and escaped by each format.
"""

from __future__ import annotations
