"""Check the limits of the repository: sizes of pages and modules, names that stand for one thing, and words.

python tests/house_check.py [--list] [--no-words] [PATH...]

Exit code 1 if a limit is exceeded.  PATH restricts names and words to files below it; `--list` prints every
finding instead of the first ones of each kind; `--no-words` leaves words and titles out.
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
PAGES: Final = {"ARCHITECTURE.md": 10_000, "README.md": 9_500}
DOCS_PAGE: Final = 16 * 1024
MAX_MODULES: Final = 420
MAX_LINES: Final = 800
MIN_LINES: Final = 60
# Modules below MIN_LINES whose concept is that small; `__init__.py` and cases are exempt.
MAX_SMALL_MODULES: Final = 60
# The higher package keeps a name; the later one of two has to be renamed.
PACKAGES: Final = (
    "kafka_records",
    "kafka_corpus",
    "kafka_brokers",
    "kafka_conformance",
    "kafka_fuzz",
    "kafka_pipeline",
    "kafkaproof",
    "benchmarks",
)
# Names that may be defined more than once: entry points, methods of one protocol, the public API and what it wraps.
SHARED_NAMES: Final = {
    "main",
    "run",
    "serve",
    "decode",
    "encode",
    "explain",
    "append",
    "committed",
    "columns",
    "opened",
    "consume",
    "audit",
    "compress",
    "decompress",
    "Record",
    "Batch",
    "Header",
}
SHOWN: Final = 12

WORDS: Final = (
    "lie lies lied told tell tells telling zoo zoos animal animals prey hunt hunts miniature miniatures canary "
    "canaries sing sings sung brood broods nest nests hatch hatched hatches hatching company patience kin ledger "
    "ledgers goldens asked asks asking wishes wished unsteady mend mended mends mending sealing anew nobody behind "
    "whoever dear"
)
PHRASES: Final = (
    r"step(s|ped)? over|no news|made small|verdict vectors?|side (target|engine)s?|falls? over|fell over|brought up|"
    r"said once|read once more|stands? in line|"
    # "find" as a noun
    r"(a|an|the|each|every|one|new|known|this|of|all|which|whose|its|no) finds?"
    r"(?= (is|are|was|were|that|of|in|by|has|have|with|and|or|on)\b|[.,;:)]|$)"
)
PROSE: Final = re.compile(rf"\b({'|'.join(WORDS.split())}|{PHRASES})\b", re.IGNORECASE)
TITLES: Final = re.compile(r"(What|Who|Whoever|How who|Said once)\b")
# Words of identifiers, split at underscores and capitals.
IDENTIFIERS: Final = frozenset(
    f"{WORDS} finds findstore fold folded folds reducer forking families slots worth plays played stage wish sealed "
    "repair company vector_of dear catches".split()
) - {"sealed", "repair", "vector_of"}
PARTS: Final = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z]+")
# Kafka's, Python's and numerical terms that share a word with the list; by the start of the path.
EXEMPT_WORDS: Final = {
    "pipeline/kafka_pipeline/columnar/": {"fold", "folded", "folds"},  # CRC folding by carry-less multiplication
    "tests/pipeline/": {"fold", "folded", "folds"},
    "tests/cli/test_refresh.py": {"goldens"},  # the name of an area
    "conformance/kafka_conformance/runner/bisect.py": {"goldens"},  # the name of an area, part of an id
    "corpus/kafka_corpus/cases/decode/goldens.py": {"goldens"},  # the name of an area, part of ids
    "fuzz/kafka_fuzz/targets/outcome.py": {"lie"},  # part of the keys in lists of known findings
    "tests/fuzz/test_broker_target.py": {"lie"},
    "tests/fuzz/test_writing.py": {"lie"},
    "fuzz/kafka_fuzz/mutate/model.py": {"behind"},  # part of a label in saved campaigns
    "fuzz/kafka_fuzz/mutate/faults/frames.py": {"behind"},  # part of cells in saved campaigns
    "corpus/kafka_corpus/cases/found.py": {"asked"},  # a field of the files that `fuzz promote` wrote
}
# Former names in files that users have, which are still read; the prefix `lie ` of faults in stored keys.
FORMER_NAMES: Final = {
    "fuzz/kafka_fuzz/findings.py": {"asked", "canaries", "canary", "lie", "lies", "told"},
    "fuzz/kafka_fuzz/campaign/recall.py": {"lie"},
    "fuzz/kafka_fuzz/campaign/replay.py": {"lie"},
    "tests/fuzz/test_broker_target.py": {"lie"},
    "tests/fuzz/test_known.py": {"asked", "canaries", "canary", "lie", "lies"},
}
EXEMPT_ANYWHERE: Final = {"slots"}  # `@dataclass(slots=True)` and `__slots__`
# Names of other projects' interfaces.
FOREIGN_NAMES: Final = {"getStageInfo", "getActiveStageIds", "text_string_to_metric_families"}  # Spark, Prometheus
# Values of such constants are names in files of earlier releases.
# Fields of `profiles` in JSON reports that are dropped words elsewhere.
CONTRACT_FIELDS: Final = {"asked"}
OLD_NAMES: Final = re.compile(r"_?OLD_[A-Z_]+")
EXEMPT_FILES: Final = ("tests/house_check.py", "tests/test_house_rules.py", "CHANGELOG.md")


class Finding(NamedTuple):
    """One exceeded limit: the rule, the place (`path` or `path:line`), and a sentence."""

    rule: str
    place: str
    text: str


def tracked() -> list[str]:
    """Every file that git tracks or would add, relative to the root."""
    listed = subprocess.run(
        ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    return sorted(name for name in listed.stdout.decode().split("\0") if name and (ROOT / name).is_file())


def sizes(files: Iterable[str]) -> Iterator[Finding]:
    """Pages and modules over their limit, too many modules, and tracked files that `.gitignore` names."""
    files = list(files)
    for name in files:
        limit = PAGES.get(name) or (DOCS_PAGE if name.startswith("docs/") and name.endswith(".md") else 0)
        size = (ROOT / name).stat().st_size
        if limit and size > limit:
            yield Finding("page", name, f"has {size:,} bytes; the limit is {limit:,}")
    modules = [
        name for name in files if name.endswith(".py") and not name.startswith("tests/") and "/cases/" not in name
    ]
    if len(modules) > MAX_MODULES:
        yield Finding("modules", ".", f"there are {len(modules)} modules; the limit is {MAX_MODULES}")
    small = []
    for name in modules:
        lines = len((ROOT / name).read_text(encoding="utf-8").splitlines())
        if lines > MAX_LINES:
            yield Finding("long module", name, f"has {lines} lines; the limit is {MAX_LINES}")
        if lines < MIN_LINES and not name.endswith(("__init__.py", "__main__.py")):
            small.append(name)
    if len(small) > MAX_SMALL_MODULES:
        yield Finding("short modules", ".", f"{len(small)} have fewer than {MIN_LINES} lines: {', '.join(small)}")
    ignored = subprocess.run(
        ("git", "ls-files", "-ci", "--exclude-standard"), cwd=ROOT, capture_output=True, check=True
    )
    for name in ignored.stdout.decode().splitlines():
        yield Finding("ignored file", name, "is tracked although .gitignore names it")


def package_of(name: str) -> str:
    """The package that a file is in; empty for any other file."""
    return next((package for package in PACKAGES if f"{package}/" in f"{name}/"), "")


def doubled_names(files: Iterable[str]) -> Iterator[Finding]:
    """Public classes and functions of modules whose name stands for something else already."""
    places: dict[str, list[tuple[int, str, int]]] = defaultdict(list)
    for name in files:
        package = package_of(name)
        if not package or not name.endswith(".py") or "/cases/" in name or name.startswith("tests/"):
            continue
        for node in ast.parse((ROOT / name).read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.name[0] != "_":
                places[node.name].append((PACKAGES.index(package), name, node.lineno))
    for name, found in sorted(places.items()):
        if name in SHARED_NAMES:
            continue
        first, *others = sorted(found)
        for _, path, line in others:
            yield Finding("name", f"{path}:{line}", f"{name} is defined in {first[1]}:{first[2]}, too")


def banned_words(name: str) -> Iterator[Finding]:
    """Dropped words in the identifiers, docstrings, comments and texts of one file."""
    text = (ROOT / name).read_text(encoding="utf-8")
    exempt = EXEMPT_ANYWHERE.union(
        *(words for start, words in (EXEMPT_WORDS | FORMER_NAMES).items() if name.startswith(start))
    )
    yield from _of_page(name, text, exempt) if name.endswith(".md") else of_module(name, text, exempt)


def _of_page(name: str, text: str, exempt: set[str]) -> Iterator[Finding]:
    for number, line in enumerate(text.splitlines(), 1):
        yield from _prose(name, number, line, exempt)
        if line.startswith("#") and TITLES.match(line.lstrip("# ")):
            yield Finding("title", f"{name}:{number}", line)


def of_module(name: str, text: str, exempt: set[str]) -> Iterator[Finding]:
    """Dropped words and titles in the Python module *text*."""
    for part in Path(name).with_suffix("").parts:
        yield from _identifier(name, 1, part, exempt)
    tree = ast.parse(text)
    seen, places = parts_of_ids(tree) if "/cases/" in name else (set(), set())
    fields, keys = contract_fields(tree)
    seen |= FOREIGN_NAMES | fields
    places |= places_of_old_names(tree) | keys
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME and token.string not in seen:
            seen.add(token.string)
            yield from _identifier(name, token.start[0], token.string, exempt)
        elif token.type in {tokenize.COMMENT, tokenize.STRING} and token.start not in places:
            for offset, line in enumerate(token.string.splitlines()):
                yield from _prose(name, token.start[0] + offset, line, exempt)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node) or ""
            if TITLES.match(docstring):
                yield Finding("title", f"{name}:{getattr(node, 'lineno', 1)}", docstring.splitlines()[0])


def contract_fields(tree: ast.Module) -> tuple[set[str], set[tuple[int, int]]]:
    """The `CONTRACT_FIELDS` that name nothing but fields in *tree*, and the places of strings that are such a name.

    A field is an annotation in a class, an attribute or a keyword argument.
    """
    declared = {
        id(each.target)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        for each in node.body
        if isinstance(each, ast.AnnAssign)
    }
    others: set[str] = set()
    places: set[tuple[int, int]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and id(node) not in declared:
            others.add(node.id)
        elif isinstance(node, ast.arg):
            others.add(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.alias):
            others.add(node.name)
        elif isinstance(node, ast.Constant) and node.value in CONTRACT_FIELDS:
            places.add((node.lineno, node.col_offset))
    return CONTRACT_FIELDS - others, places


def places_of_old_names(tree: ast.Module) -> set[tuple[int, int]]:
    """Places of the strings in constants whose names begin with `OLD_`."""
    constants = [
        node
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and OLD_NAMES.fullmatch(node.target.id)
    ]
    strings = (each for node in constants for each in ast.walk(node) if isinstance(each, ast.Constant))
    return {(each.lineno, each.col_offset) for each in strings if isinstance(each.value, str)}


def parts_of_ids(tree: ast.Module) -> tuple[set[str], set[tuple[int, int]]]:
    """Parts of a case module that may not change: names of case functions, and places of labels and of input bytes."""
    names, places = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and any(
            isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == "case"
            for each in node.decorator_list
        ):
            names.add(node.name)
        elif isinstance(node, ast.Dict):
            places |= {(key.lineno, key.col_offset) for key in node.keys if isinstance(key, ast.Constant)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, bytes):
            places.add((node.lineno, node.col_offset))
    return names, places


def _prose(name: str, number: int, line: str, exempt: set[str]) -> Iterator[Finding]:
    for match in PROSE.finditer(line):
        if match[0].lower() not in exempt:
            yield Finding("word", f"{name}:{number}", f"{match[0]!r} in: {line.strip()[:100]}")


def _identifier(name: str, number: int, identifier: str, exempt: set[str]) -> Iterator[Finding]:
    for part in PARTS.findall(identifier):
        if part.lower() in IDENTIFIERS and part.lower() not in exempt:
            yield Finding("identifier", f"{name}:{number}", identifier)


def check(below: tuple[str, ...] = (), *, with_words: bool = True) -> list[Finding]:
    """Every exceeded limit; with *below*, names and words of those files only."""
    files = tracked()
    texts = [name for name in files if name.endswith((".py", ".md")) and name not in EXEMPT_FILES]
    wanted = [name for name in texts if with_words and name.startswith(below or "")]
    words = [found for name in wanted for found in banned_words(name)]
    names = [found for found in doubled_names(files) if found.place.startswith(below or "")]
    return [*([] if below else sizes(files)), *names, *words]


def main(arguments: list[str]) -> int:
    """Print what exceeds a limit; exit code 1 if anything does."""
    paths = tuple(argument for argument in arguments if not argument.startswith("--"))
    by_rule: dict[str, list[Finding]] = defaultdict(list)
    for finding in check(paths, with_words="--no-words" not in arguments):
        by_rule[finding.rule].append(finding)
    for rule, found in by_rule.items():
        shown = found if "--list" in arguments else found[:SHOWN]
        sys.stdout.writelines(f"{each.place}: {rule}: {each.text}\n" for each in shown)
        if len(shown) < len(found):
            sys.stdout.write(f"... {rule}: {len(found):,} in all; --list prints them\n")
    return 1 if by_rule else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
