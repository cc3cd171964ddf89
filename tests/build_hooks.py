"""Hooks of the build: the bill of materials inside the wheel (PEP 770), and the description for a package index.

hatchling loads this file, as pyproject.toml names it.  Both results follow from files of the checkout alone, so
two builds of one state are the same.
"""

from __future__ import annotations

import json
import re
import runpy
import tempfile
from pathlib import Path
from typing import Any, Final

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

BILL: Final = "kafkaproof.cdx.json"


class BillOfMaterials(BuildHookInterface[Any]):
    """Adds `.dist-info/sboms/kafkaproof.cdx.json` to the wheel."""

    # hatchling gives both methods more than they need.
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        """Write the file outside of the checkout, and name it to the builder."""
        document = runpy.run_path(str(Path(self.root) / "tests" / "sbom.py"))["wheel_bill"](Path(self.root))
        self.folder = tempfile.TemporaryDirectory()
        path = Path(self.folder.name) / BILL
        path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        build_data["sbom_files"].append(str(path))

    def finalize(self, *_: object) -> None:
        """Remove the file, which is in the wheel."""
        self.folder.cleanup()


class Description(MetadataHookInterface):
    """Gives README.md as the description: its text, without pictures and links that only a checkout has."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set `readme`."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": index_page(text)}


def index_page(text: str) -> str:
    """*text* for a package index.

    >>> index_page("![a](docs/a.svg)\\n\\nSee [the page](docs/page.md#x), [there](https://example.org/).\\n")
    'See the page, [there](https://example.org/).\\n'
    """
    text = re.sub(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]+)\]\((?!https?:)[^)\s]+\)", r"\1", text)
    return text.replace("pip install . &&", "pip install kafkaproof &&")
