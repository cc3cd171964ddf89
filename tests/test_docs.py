"""The pages of docs: their commands are run, and every link, path, command and option in them exists."""

import ast
import builtins
import doctest
import importlib
import os
import re
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from pathlib import Path
from textwrap import dedent

import click
import msgspec
import pytest

from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.testees.protocol import CodecAnswer
from kafka_fuzz.planted_bugs import PLANTED_BUGS
from kafka_fuzz.planted_bugs.bug import PatchEntry, patched_bug
from kafkaproof import cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in sorted(DOCS.rglob("*.md"))}
GENERATED = {name for name in PAGES if name.startswith("docs/command-line")}
TOP = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "corpus/README.md", "tests/README.md")
WRITTEN = {name: text for name, text in PAGES.items() if name not in GENERATED} | {
    name: (ROOT / name).read_text(encoding="utf-8") for name in TOP
}
LARGEST_PAGE = 16 * 1024
# tests/test_guide.py and .ci/run run the commands of these pages.
RUN_ELSEWHERE = {"docs/certify-your-codec.md", "README.md"}

# Commands that are run here: the exit codes that are right, and a word of the output, since Python's own failures
# end with 1 too.  The examples drive kafka-python, whose defects are no defect of the examples.
RUN_HERE = {
    'kafkaproof smoke "process:python example.py"': ({0}, "example.py"),
    'kafkaproof certify "process:python example.py"': ({0, 1}, "example.py"),
    'kafkaproof smoke "fetch:python consumer.py"': ({0}, "consumer.py"),
    "kafkaproof cross kafka-python aiokafka reference --broker none": ({1}, "cross matrix"),
    "kafkaproof corpus export vendored": ({0}, "vendored"),
    "kafkaproof corpus packages packages --ecosystem go": ({0}, "packages/go"),
    "kafkaproof fuzz run --targets reference,explain --seconds 5": ({0}, "executions"),
    "kafkaproof certify kafka-python-client --fetch-versions 4,7-9,12 --only 'legacy_shapes.m*'": (
        {0},
        "no outcome depends on the version",
    ),
    "kafkaproof edges list": ({0}, "fetch-versions"),
    "kafkaproof corpus trace": ({0}, "tested by cases"),
    "kafkaproof corpus trace --check": ({0}, "0 gaps"),
    "kafkaproof edges show proxies": ({0}, "kroxylicious"),
    "kafkaproof museum list": ({0}, "kafka-python-compacted-tail"),
    "kafkaproof museum show kafka-python-compacted-tail": ({0}, "CLN-03"),
    "kafkaproof broker compare 3.9.2 4.4.0": ({1}, "cases changed from 3.9.2 to 4.4.0"),
}
WITH_A_BROKER = ROOT / "tests" / "brokers" / "test_certify.py"


def example(page: str, mark: str) -> str:
    """The Python program that follows the comment *mark*."""
    found = re.search(rf"^<!-- {re.escape(mark)} -->\n```python\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL)
    assert found, mark
    return found[1]


def console(text: str) -> list[str]:
    """The commands printed in console blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line.removeprefix("$ ") for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def first_column(heading: str) -> list[str]:
    """The first cells of the table in the page on verdicts whose first column has this heading."""
    page = PAGES["docs/verdicts.md"]
    found = re.search(rf"^\| {heading} \|.*\n\|[-|]+\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert found, heading
    return [row.split(" | ")[0].removeprefix("| ").strip("`") for row in found[1].splitlines()]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", outside, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def named_commands(text: str) -> list[str]:
    """Every command line of `kafkaproof` in a page: in blocks and between backticks."""
    text = text.replace("\\\n", " ")
    lines = re.findall(r"^ *(?:\$ )?(?:.*&& )?(kafkaproof .*)$", text, re.MULTILINE)
    return [*lines, *re.findall(r"`(kafkaproof [^`]*)`", text)]


def unknown(line: str) -> str:
    """The part of a command line that does not exist: a command or an option; empty if all exists."""
    words = re.split(r"\s#|[|<>(…]", line)[0].split()
    command: click.Command = cli.kafkaproof
    context = click.Context(command, info_name="kafkaproof")
    for word in words[1:]:
        if word == "--":  # arguments follow
            return ""
        if word.startswith("--"):
            options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
            if word.partition("=")[0] not in {*options, "--help", "--version"}:
                return f"{word} of {line}"
        elif isinstance(command, click.Group) and not word.startswith("-"):
            below = command.get_command(context, word)
            if below is None:
                return "" if command.invoke_without_command else f"{word} of {line}"
            command = below
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the two programs of the pages in it, and nothing else."""
    directory = tmp_path_factory.mktemp("docs")
    for page, name in (("docs/protocol.md", "example.py"), ("docs/fetch-testees.md", "consumer.py")):
        (directory / name).write_text(example(page, name), encoding="utf-8")
    return directory


def test_every_command_is_run() -> None:
    """Each command in a console block is run here, by the tests of the guide, or with a broker."""
    broker = WITH_A_BROKER.read_text(encoding="utf-8")
    printed = [command for name, text in WRITTEN.items() if name not in RUN_ELSEWHERE for command in console(text)]
    assert set(RUN_HERE) <= set(printed)
    assert [command for command in printed if command not in RUN_HERE and command not in broker] == []


@pytest.mark.slow
@pytest.mark.parametrize("command", RUN_HERE)
def test_command(command: str, folder: Path) -> None:
    """A command of the pages ends with the right exit code, and reports on its subject."""
    codes, word = RUN_HERE[command]
    path = os.pathsep.join((sysconfig.get_path("scripts"), os.environ["PATH"]))
    env = os.environ | {"PATH": path}
    done = subprocess.run(command, cwd=folder, env=env, shell=True, capture_output=True, text=True, check=False)
    assert done.returncode in codes, done.stdout + done.stderr
    assert word in done.stdout
    assert "Traceback" not in done.stderr


def test_example_is_short(folder: Path) -> None:
    """The complete testee has about fifty lines."""
    lines = (folder / "example.py").read_text(encoding="utf-8").splitlines()
    assert 30 < sum(1 for line in lines if line.strip()) <= 55


def test_api_session() -> None:
    """The Python sessions of the API page give what they show."""
    failed, tried = doctest.testfile(str(DOCS / "api.md"), module_relative=False, encoding="utf-8")
    assert failed == 0
    assert tried >= 8


def test_batch_is_that_of_the_protocol() -> None:
    """The batch that the protocol page shows is one."""
    (block,) = re.findall(r"^```json\n(.*?)^```", PAGES["docs/protocol.md"], re.MULTILINE | re.DOTALL)
    assert msgspec.convert({"batches": [msgspec.json.decode(block)]}, CodecAnswer).batches


def test_pages_are_short() -> None:
    """Each page can be read in one sitting."""
    assert len(PAGES) > 15
    assert {name: size for name in PAGES if (size := (ROOT / name).stat().st_size) > LARGEST_PAGE} == {}


def test_index_lists_every_page() -> None:
    """The index of docs leads to every page, generated ones by way of the first."""
    linked = {f"docs/{link}" for link in re.findall(r"\]\(([\w-]+\.md)\)", PAGES["docs/README.md"])}
    assert linked == {name for name in PAGES if name.count("/") == 1} - {"docs/README.md"}


@pytest.mark.parametrize("name", [*WRITTEN, *sorted(GENERATED)])
def test_links_lead_somewhere(name: str) -> None:
    """Each relative link leads to a file, and its anchor to a heading."""
    text = WRITTEN.get(name) or PAGES[name]
    missing = []
    for link in re.findall(r"\]\((?!https?:|mailto:)([^)]+)\)", text):
        path, _, anchor = link.partition("#")
        target = (ROOT / name).parent / path if path else ROOT / name
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            missing.append(link)
    assert missing == []


@pytest.mark.parametrize("name", WRITTEN)
def test_commands_exist(name: str) -> None:
    """Each command and option of `kafkaproof` that a page names exists."""
    assert [what for line in named_commands(WRITTEN[name]) if (what := unknown(line))] == []


def test_unknown_commands_are_noticed() -> None:
    """The check above notices a command and an option that do not exist."""
    assert unknown("kafkaproof fuzz dance") == "dance of kafkaproof fuzz dance"
    assert unknown("kafkaproof certify x --louder") == "--louder of kafkaproof certify x --louder"
    assert sum(len(named_commands(text)) for text in WRITTEN.values()) > 100


@pytest.mark.parametrize("name", WRITTEN)
def test_paths_exist(name: str) -> None:
    """Each path of the repository that a page names between backticks exists."""
    roots = "reference|corpus|conformance|fuzz|pipeline|cli|benchmarks|tests|docs|templates|\\.ci|\\.github"
    named = re.findall(rf"`((?:{roots})/[\w./-]+)`", WRITTEN[name])
    here = (ROOT / name).parent
    missing = [path for path in named if not (ROOT / path).exists() and not (here / path).exists()]
    assert [path for path in missing if not re.search("NAME|AREA|OPERATION", path)] == []


@pytest.mark.parametrize("name", WRITTEN)
def test_environments_exist(name: str) -> None:
    """Each tox environment that a page names is in tox.ini."""
    tox = (ROOT / "tox.ini").read_text(encoding="utf-8")
    named = re.findall(r"`tox (?:run |devenv )?-e ([\w.,-]+)", WRITTEN[name])
    assert [each for each in named if f"[testenv:{each}]" not in tox] == []


@pytest.mark.parametrize(
    ("number", "module"),
    list(
        enumerate(
            ("kafka_corpus.cases.decode.v2_crc", "kafka_fuzz.mutate.fixup_profile", "kafka_fuzz.mutate.faults.records")
        )
    ),
)
def test_recipes_use_names_that_exist(number: int, module: str) -> None:
    """The code in docs/how-to-add.md uses names of the module to which it is added."""
    blocks = re.findall(r"^ *```python\n(.*?)^ *```", PAGES["docs/how-to-add.md"], re.MULTILINE | re.DOTALL)
    tree = ast.parse(dedent(blocks[number]))
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    bound |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used = {node.id for node in names} - bound - set(dir(builtins))
    assert used
    assert used - set(vars(importlib.import_module(module))) == set()


def test_recipe_of_a_planted_bug_fits_the_reference() -> None:
    """The planted bug in docs/how-to-add.md replaces text that the reference has once."""
    (block,) = re.findall(r"^```toml\n(.*?)^```", PAGES["docs/how-to-add.md"], re.MULTILINE | re.DOTALL)
    ((name, entry),) = msgspec.toml.decode(block, type=dict[str, PatchEntry]).items()
    assert name not in PLANTED_BUGS
    assert patched_bug(name, entry).decode(b"") == []


def test_exit_codes_are_those_of_the_command() -> None:
    """The table of exit codes has those of the command line."""
    codes = [cli.OK, cli.DISAGREEMENTS, cli.USAGE, cli.CANNOT_RUN, cli.INTERRUPTED]
    assert first_column("exit code") == [str(code) for code in codes]


def test_severities_are_those_of_the_judge() -> None:
    """The table of severities is the judge's list, worst first."""
    assert first_column("severity") == list(SEVERITIES)


@pytest.mark.slow
def test_command_reference_is_current() -> None:
    """docs/command-line.md and its pages are what `python tests/command_pages.py` writes."""
    pins = dict(line.split("==") for line in (ROOT / "constraints.txt").read_text().splitlines() if " ;" not in line)
    if version("click") != pins["click"]:
        pytest.skip("another version of click lays help out differently")
    # A process of its own: click keeps the help option of a command that ran before, and with it its names.
    command = [sys.executable, "tests/command_pages.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
