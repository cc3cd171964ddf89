"""Write the file map of ARCHITECTURE.md from the first lines of the modules.

python tests/file_map.py [--check]
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
START, END = "<!-- map -->\n", "<!-- /map -->"
PACKAGES = ("reference/kafka_records", "corpus/kafka_corpus", "conformance/kafka_conformance", "fuzz/kafka_fuzz")
# What is no Python module, in the order of the page.
OTHERS = {
    "reference/kafka_records/rules/": "the rule catalogue: one TOML file for each area",
    "corpus/kafka_corpus/vectors/*.ndjson": "the compiled vectors, one file for each area, one line for each id",
    "corpus/kafka_corpus/evidence/*.ndjson": "recorded answers of clients and brokers, one file for each area",
    "conformance/testees/": "adapters in other languages: their sources, one build file, a short README each",
    "fuzz/oss_fuzz/": "entry points for OSS-Fuzz, one for each target, written by `kafkaproof fuzz export`",
    "dossiers/": "findings in released codecs by cause, written by `kafkaproof dossier`; their states of disclosure",
    "templates/": "testees to start from, in five languages, each with fewer than 80 lines",
    "docs/certify-your-codec.md": "from nothing to a certified codec in CI, step by step",
    "docs/pipeline.md": "the pipeline on Spark: what it writes, how it is resumed, clusters, sizing",
    "action.yml": "the same as a GitHub Action",
    ".github/workflows/fuzz.yml": "fuzzes for an hour every night (`tox -e fuzz`)",
    "tests/": "see `tests/README.md`",
    ".ci/run": "what a new machine does: the README's two commands, and more where Java is there",
    ".ci/containers": "runs a command where brokers can run in containers",
}


def summary(module: Path) -> str:
    """The first sentence of a module's docstring, on one line."""
    text = ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""
    return " ".join(text.split("\n\n")[0].split()).split(". ")[0].removesuffix(".")


def modules(package: Path) -> Iterator[Path]:
    """The package itself, then its modules, then its subpackages, by name."""
    yield package / "__init__.py"
    yield from sorted(path for path in package.glob("*.py") if path.name != "__init__.py")
    for inner in sorted(path.parent for path in package.glob("*/__init__.py")):
        yield from modules(inner)


def rows() -> Iterator[str]:
    """One table for each package, and one for the rest."""
    for package in map(Path, PACKAGES):
        yield f"\n**`{package}`**: {summary(ROOT / package / '__init__.py')}.\n\n| file | holds |\n|---|---|"
        for module in modules(ROOT / package):
            name = module.relative_to(ROOT / package).as_posix()
            if name != "__init__.py":
                yield f"| `{name}` | {summary(module)} |"
    yield "\n**Elsewhere**\n\n| path | holds |\n|---|---|"
    yield from (f"| `{path}` | {what} |" for path, what in OTHERS.items())


def page() -> str:
    """ARCHITECTURE.md as it should be."""
    text = PAGE.read_text(encoding="utf-8")
    before, after = text.split(START)[0], text.split(END)[1]
    return f"{before}{START}{chr(10).join(rows()).lstrip()}\n{END}{after}"


def main(arguments: list[str]) -> int:
    """Write the page, or with --check only say whether it is up to date."""
    wanted = page()
    if "--check" in arguments:
        return int(wanted != PAGE.read_text(encoding="utf-8"))
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
