"""Testees with a recipe: read, built once, skipped where a toolchain is missing, and known by name."""

import json
import re
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafka_conformance.judge.observation import ConsumedRecords, Decoded
from kafka_conformance.runner.requests import CaseRequest
from kafka_conformance.runner.sandbox import Sandbox
from kafka_conformance.runner.smoke import passed, smoke
from kafka_conformance.testees import recipe
from kafka_conformance.testees.connection import VIRTUAL_MACHINE_MEMORY, BadConnect, CannotRun
from kafka_conformance.testees.known import connect, find_testee, known_testees
from kafka_conformance.testees.recipe import BuildError, ToolchainMissing, first_error
from kafka_records import Batch, Record, encode
from kafkaproof.cli import kafkaproof
from kafkaproof.commands.testees import testees as command

SOURCES = Path(__file__).resolve().parents[2] / "conformance" / "testees"
SERVES = f"""
name = "toy"
about = "the reference, copied and run"
language = "python"
programs = ["sh"]
version = "1.0"
sources = ["testee.py"]
versioned = [["sh", "-c", "echo {{version}} > sent"]]
older = [{{ than = "0.9", commands = [["sh", "-c", "echo old >> sent"]] }}]
build = [["sh", "-c", "echo built >> $COUNT; cp * {{build}}"]]
run = [{sys.executable!r}, "{{build}}/testee.py"]

[[variants]]
name = "toy-second"
environment = {{ PLACE = "{{build}}/x" }}
"""
TESTEE = """
import sys
from kafka_conformance.testees import serve
from kafka_conformance.testees.interface import load_testee
serve.serve(load_testee("kafka_conformance.testees.reference"), sys.stdin.buffer, sys.stdout.buffer)
"""


@pytest.fixture
def toys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one testee, a cache of our own, and a file that counts builds."""
    (tmp_path / "testees" / "toy").mkdir(parents=True)
    (tmp_path / "testees" / "toy" / "testee.toml").write_text(SERVES)
    (tmp_path / "testees" / "toy" / "testee.py").write_text(TESTEE)
    monkeypatch.setenv(recipe.SOURCES_VARIABLE, str(tmp_path / "testees"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COUNT", str(tmp_path / "count"))
    monkeypatch.setenv("PYTHONPATH", ":".join(sys.path))
    return tmp_path


def toy(folder: Path) -> recipe.BuildRecipe:
    """The toy's recipe, read from its file on each call."""
    return recipe.read_recipes(folder / "testees" / "toy" / "testee.toml")[0]


def test_a_known_name_is_built_and_answers(toys: Path) -> None:
    """A testee with a recipe is built when it is first connected to, and answers as any other."""
    sandbox = Sandbox(connect("toy"))
    answer = next(sandbox.ask([CaseRequest(b"")])).observation
    sandbox.close()
    connect("toy")

    assert answer == Decoded(())
    assert (toys / "count").read_text() == "built\n"


def test_variants_share_a_build(toys: Path) -> None:
    """Two codecs in one program are two names and one build; `{build}` is known to their environment."""
    first, second = connect("toy"), connect("toy-second")

    assert (toys / "count").read_text() == "built\n"
    assert first.argv == second.argv
    assert second.name == "toy-second"
    assert dict(second.environment)["PLACE"] == str(Path(first.argv[1]).parent / "x")


def test_changed_sources_are_rebuilt(toys: Path) -> None:
    """A build is never used after its sources have changed."""
    before = recipe.build_testee(toy(toys))
    (toys / "testees" / "toy" / "testee.py").write_text(TESTEE + "# changed\n")

    assert not recipe.is_built(toy(toys))
    assert recipe.build_testee(toy(toys)) != before


def test_what_testees_share_is_built_into_each(toys: Path) -> None:
    """A source in a shared folder is copied into the build, and a change to it triggers a new build."""
    (toys / "testees" / "common").mkdir()
    shared = toys / "testees" / "common" / "shared.py"
    shared.write_text("first = 1\n")
    path = toys / "testees" / "toy" / "testee.toml"
    path.write_text(
        path.read_text().replace('sources = ["testee.py"]', 'sources = ["testee.py", "../common/shared.py"]')
    )
    before = recipe.build_testee(toy(toys))
    shared.write_text("second = 2\n")

    assert (before / "shared.py").read_text() == "first = 1\n"
    assert not recipe.is_built(toy(toys))
    assert (recipe.build_testee(toy(toys)) / "shared.py").read_text() == "second = 2\n"


def test_a_version_has_a_build_of_its_own(toys: Path) -> None:
    """NAME@VERSION runs the commands for another version first, those for older ones too, in its own place."""
    pinned, sent, old = (recipe.build_testee(toy(toys).at(version)) for version in ("1.0", "1.1", "0.8"))

    assert not (pinned / "sent").exists()
    assert (sent / "sent").read_text() == "1.1\n"
    assert (old / "sent").read_text() == "0.8\nold\n"
    assert connect("toy@1.1").argv[1] == str(sent / "testee.py")
    assert connect("toy@1.1").name == "toy@1.1"


@pytest.mark.parametrize("name", ["toy@", "toy@--help", "toy@1;2", "toy@1/..", "missing@1", "reference@1.0"])
def test_what_is_no_version(toys: Path, name: str) -> None:
    """A version goes into command lines, so it has to look like one; what has no releases has no versions."""
    assert toys.is_dir()
    with pytest.raises(BadConnect):
        find_testee(name)


def test_releases_before_the_first_name_another_testee(toys: Path) -> None:
    """The testee that is named is a variant, for which there is no such bound."""
    path = toys / "testees" / "toy" / "testee.toml"
    path.write_text('since = { release = "1.0", before = "toy-second" }\n' + path.read_text())
    recipe._read_all.cache_clear()

    with pytest.raises(BadConnect, match=r"^toy@0.8: 1.0 is the first release .*; certify toy-second@0.8$"):
        find_testee("toy@0.8")
    assert find_testee("toy@1.1") is not None
    assert find_testee("toy-second@0.8") is not None


def test_python_testees_have_versions_too() -> None:
    """Another release of a Python codec is installed into a folder of its own, with the same adapter."""
    known = find_testee("aiokafka-pure@0.11.0")

    assert known is not None
    assert known.module == "kafka_conformance.testees.aiokafka_"
    assert known.recipe is not None
    assert known.recipe.build[0][-1] == "aiokafka=={version}"
    assert known.version() == "0.11.0"
    assert dict(known.environment) == {"AIOKAFKA_NO_EXTENSIONS": "1"}


def test_old_releases_of_python_codecs() -> None:
    """A release without wheels is built from source; a dependency that changed is installed as it was."""
    builds = [
        found.recipe.build[0]
        for name in ("0.7.2", "0.8.1", "0.9.0")
        if (found := find_testee(f"aiokafka@{name}")) and found.recipe
    ]

    assert [":all:" in words for words in builds] == [False, True, True]
    assert ["kafka-python==2.0.2" in words for words in builds] == [True, True, False]


def test_an_older_release_may_be_published_elsewhere(shipped: tuple[recipe.BuildRecipe, ...]) -> None:
    """Below a bound, commands take the place of those for other versions, and more go before the build."""
    sarama = next(each for each in shipped if each.name == "sarama")
    modules = [
        [word for line in sarama.at(version).build for word in line if "@v" in word]
        for version in ("1.40.1", "1.38.1", "1.26.4")
    ]

    assert modules == [["github.com/IBM/sarama@v{version}"], *[["github.com/Shopify/sarama@v{version}"]] * 2]
    assert ["peer.go" in line for line in sarama.at("1.26.4").build].count(True) == 1
    assert not any("peer.go" in line for line in sarama.at("1.38.1").build)


def test_half_a_build_is_none(toys: Path) -> None:
    """A build that failed is not taken for a whole one, and the error is one line that says what was wrong."""
    path = toys / "testees" / "toy" / "testee.toml"
    text = path.read_text()
    path.write_text(text.replace("cp * {build}", "echo main.go:1:2: undefined: x >&2; exit 1"))

    log = recipe.build_log(recipe.build_directory(toy(toys), recipe.default_directory()))
    with pytest.raises(BuildError, match=r"^sh did not build toy 1\.0: main\.go:1:2: undefined: x \(log: ") as failed:
        recipe.build_testee(toy(toys))
    assert not recipe.is_built(toy(toys))
    assert str(failed.value).endswith(f"(log: {log})")
    assert log.read_text() == "main.go:1:2: undefined: x\n"


@pytest.mark.slow
def test_a_build_that_takes_long(
    toys: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its last line is reported now and then; at the limit it is ended, with the processes that it started."""
    monkeypatch.setattr(recipe, "PROGRESS_SECONDS", 0.1)
    monkeypatch.setattr(recipe, "BUILD_TIME_LIMIT", 2.5)
    path = toys / "testees" / "toy" / "testee.toml"
    child = toys / "child"
    path.write_text(path.read_text().replace("cp * {build}", f"echo Compiling x; sleep 60 & echo $! > {child}; wait"))

    with pytest.raises(BuildError, match=r"^sh did not build toy 1\.0 within 2\.5 s \(log: "):
        recipe.build_testee(toy(toys))
    assert re.search(r"still building toy 1\.0: \d s, Compiling x\n", capsys.readouterr().err)
    # It was killed; that it is gone takes a moment on a busy machine.
    started = Path("/proc", child.read_text().strip(), "exe")
    limit = time.monotonic() + 30
    while started.exists() and time.monotonic() < limit:
        time.sleep(0.05)
    assert not started.exists()


def test_a_missing_toolchain_is_reported(toys: Path) -> None:
    """A testee whose toolchain is not here cannot run, and the message names the program."""
    path = toys / "testees" / "toy" / "testee.toml"
    path.write_text(path.read_text().replace('["sh"]', '["no-such-compiler"]'))
    recipe._read_all.cache_clear()

    with pytest.raises(ToolchainMissing, match=r"^no-such-compiler is not installed or not on the path$"):
        recipe.build_testee(toy(toys))
    with pytest.raises(CannotRun, match=r"^toy cannot run: no-such-compiler is not installed or not on the path$"):
        connect("toy")


def test_build_command(toys: Path) -> None:
    """The command builds once and prints what it did; a testee that was named and is left out is no success."""
    place = recipe.build_directory(toy(toys), recipe.default_directory())
    first = CliRunner().invoke(command, ["build", "toy"])
    again = CliRunner().invoke(command, ["build", "--all", "--json"])
    ready = CliRunner().invoke(command, ["build", "toy", "kafka-python"])
    path = toys / "testees" / "toy" / "testee.toml"
    skipping = path.read_text().replace('["sh"]', '["no-such-compiler"]')
    path.write_text(skipping)
    recipe._read_all.cache_clear()
    skipped = CliRunner().invoke(command, ["build", "toy"])
    path.write_text(SERVES.replace("echo built", "exit 1; echo built"))
    recipe._read_all.cache_clear()
    failed = CliRunner().invoke(command, ["build", "toy"])

    assert first.stdout.startswith("toy 1.0: built in ")
    assert first.stderr == f"building toy 1.0 (python) into {place}\n"
    assert [line.partition(": ")[2] for line in ready.output.splitlines()] == ["already built", "nothing to build"]
    assert [each["state"] for each in json.loads(again.output)["testees"]] == ["ready", "ready"]
    why = "no-such-compiler is not installed or not on the path"
    assert (skipped.exit_code, skipped.output) == (3, f"toy 1.0: left out: {why}\n")
    assert failed.exit_code == 3
    assert failed.stdout.startswith("toy 1.0: failed: sh did not build toy 1.0: no error was named (log: ")


def test_build_all_leaves_out_what_cannot_be_built(toys: Path) -> None:
    """With `--all` a missing toolchain is reported, and is a failure only where it leaves nothing to build."""
    other = toys / "testees" / "other"
    other.mkdir()
    missing = SERVES.partition("[[variants]]")[0].replace('"toy"', '"other"').replace('["sh"]', '["no-such-compiler"]')
    (other / "testee.toml").write_text(missing)
    some = CliRunner().invoke(command, ["build", "--all"])
    (toys / "testees" / "toy" / "testee.toml").unlink()
    recipe._read_all.cache_clear()
    none = CliRunner().invoke(command, ["build", "--all"])

    assert some.exit_code == 0
    assert [line.split(":")[0] for line in some.stdout.splitlines()] == [
        "other 1.0",
        "toy 1.0",
        "toy-second 1.0",
        "3 testees",
    ]
    assert some.stdout.endswith("3 testees: 1 built, 1 already built, 1 left out, 0 failed\n")
    assert (none.exit_code, none.stdout.splitlines()[-1]) == (
        3,
        "1 testees: 0 built, 0 already built, 1 left out, 0 failed",
    )


def test_a_folder_without_recipes_is_an_error(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that the user names and that holds no recipe is reported with its path."""
    monkeypatch.setenv(recipe.SOURCES_VARIABLE, str(toys / "nowhere"))
    done = CliRunner().invoke(kafkaproof, ["testees", "build", "--all"])

    assert done.exit_code == 3
    assert done.output == f"KAFKAPROOF_TESTEES={toys / 'nowhere'} holds no */testee.toml\n"


def test_a_source_that_is_missing(toys: Path) -> None:
    """A source that the recipe names and that is not there is one line with the file of the recipe and its name."""
    one = replace(toy(toys), sources=("no.sum",))

    with pytest.raises(BuildError, match=r"testee\.toml: 'sources' names no\.sum, which is not there$"):
        recipe.build_testee(one)


def test_the_cache_cannot_be_written(toys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder that cannot be made is a failed build with one line, not a traceback."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(toys / "count" / "below"))
    (toys / "count").write_text("a file, no folder")

    with pytest.raises(BuildError, match=r"^toy 1\.0 cannot be built in .*below"):
        recipe.build_testee(toy(toys))


@pytest.mark.parametrize("arguments", [["build"], ["build", "--all", "toy"], ["build", "missing"]])
def test_build_command_wants_names_or_all(toys: Path, arguments: list[str]) -> None:
    """Nothing, both, and an unknown name are the user's mistakes."""
    assert toys.is_dir()
    assert CliRunner().invoke(command, arguments).exit_code == 2


def test_they_are_listed(toys: Path) -> None:
    """`kafkaproof testees` lists testees with a recipe after the built-in ones."""
    assert toys.is_dir()
    listed = json.loads(CliRunner().invoke(command, ["--json"]).output)["testees"]

    assert [each["name"] for each in listed][-2:] == ["toy", "toy-second"]
    assert listed[-1]["runs_here"]


@pytest.mark.parametrize("broken", ["name = 1 = 2", 'name = "x"', SERVES.replace('["sh"]', '"sh"'), "run ="])
def test_a_recipe_that_cannot_be_used(toys: Path, broken: str) -> None:
    """An error in a recipe is reported with the file's name."""
    path = toys / "testees" / "toy" / "testee.toml"
    path.write_text(broken)

    with pytest.raises(recipe.RecipeError, match=r"testee\.toml"):
        recipe.read_recipes(path)


def test_errors_of_tools() -> None:
    """Of what a tool prints, the line that says what is wrong is shown."""
    maven = "[INFO] x\n[ERROR] COMPILATION ERROR : \n[ERROR] Testee.java:[27,47] package x does not exist\n"

    assert first_error(maven) == "Testee.java:[27,47] package x does not exist"
    assert first_error("\x1b[1merror[E0432]\x1b[0m: unresolved import\nmore\n") == "error[E0432]: unresolved import"
    assert first_error("some\nlast line\n\n") == "last line"
    uv = "error: No solution found when resolving dependencies\n  cause: Because x==1 has no usable wheels\n"
    assert first_error(uv) == "Because x==1 has no usable wheels"
    pip = "ERROR: Ignored the following yanked versions: 2.6.2\nERROR: No matching distribution found for x==1\n"
    assert first_error(pip) == "ERROR: No matching distribution found for x==1"
    assert first_error("") == "no error was named"


@pytest.fixture
def shipped(monkeypatch: pytest.MonkeyPatch) -> tuple[recipe.BuildRecipe, ...]:
    """The recipes of the project, in the package or in a checkout beside it."""
    monkeypatch.delenv(recipe.SOURCES_VARIABLE, raising=False)
    return recipe.recipes()


def test_recipes_are_whole(shipped: tuple[recipe.BuildRecipe, ...]) -> None:
    """Every recipe of the project names sources that are there, has a README, and a name that is its own."""
    assert {"java-kafka-clients", "franz-go", "sarama", "kafka-go"} <= {each.name for each in shipped}
    assert len({known.name for known in known_testees()}) == len(known_testees())
    for each in shipped:
        assert [name for name in (*each.sources, "README.md") if not (each.folder / name).exists()] == [], each.name
        # Without commands for other versions, the version has to be in those for all.
        assert each.versioned or any("{version}" in word for line in each.build for word in line), each.name


def test_another_release_starts_from_what_is_there(shipped: tuple[recipe.BuildRecipe, ...], tmp_path: Path) -> None:
    """Files that a recipe removes before it requests another release are among its copied sources."""
    taken = []
    for each in shipped:
        recipe.copy_sources(each, tmp_path / each.name)
        for tool, *words in each.versioned:
            taken += [tmp_path / each.name / word for word in words if tool == "rm" and not word.startswith("-")]

    assert len(taken) >= 6
    assert [path for path in taken if not path.is_file()] == []


@pytest.mark.testees
@pytest.mark.parametrize(("name", "version"), [("franz-go", "1.22.1"), ("kafkajs", "2.2.3")])
def test_another_release_is_built_and_run(name: str, version: str) -> None:
    """A release that is not the one in the recipe says that it is itself, and reads a batch."""
    record = Record(offset=0, timestamp=1, key=b"key", value=None)
    log = encode(Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=1, records=(record,)))
    sandbox = Sandbox(connect(f"{name}@{version}"))
    try:
        assert sandbox.hello().version == version
        (answered,) = sandbox.ask([CaseRequest(log)])
    finally:
        sandbox.close()
    assert isinstance(answered.observation, Decoded | ConsumedRecords)
    assert answered.observation.error is None


def test_virtual_machines_get_their_memory(shipped: tuple[recipe.BuildRecipe, ...], toys: Path) -> None:
    """A testee that runs on a JVM gets more address space than one that does not."""
    assert shipped
    java = toys / "testees" / "toy" / "java"
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    path = toys / "testees" / "toy" / "testee.toml"
    path.write_text(path.read_text().replace(f"{sys.executable!r}", f"{str(java)!r}"))
    recipe._read_all.cache_clear()

    assert connect("toy").memory == VIRTUAL_MACHINE_MEMORY


NAMES = [each.name for path in sorted(SOURCES.glob("*/testee.toml")) for each in recipe.read_recipes(path)]


# Defects that show in every batch show in `smoke`, too: kio cuts its timestamps to seconds, and platformatic reads v0
# and v1 messages, which reach it in fetches, as v2 batches.
OLD_CHECKS = [
    f"{check} {magic}{rest}"
    for magic in (0, 1)
    for check, rest in (("decodes a batch of magic", ""), ("two of magic", " and a partial one"))
]
UNSOUND = {
    "kafka-go": [check for check in OLD_CHECKS if "0" in check],
    "kio": ["decodes a batch of magic 2", "two of magic 2 and a partial one"],
    "platformatic-kafka": OLD_CHECKS,
    "platformatic-kafka-client": OLD_CHECKS,
}
# Consumers without an isolation level, which get no aborted transactions.
WITHOUT_ISOLATION = {"kafka-go-conn", "kafka-python-2", "optiopay-kafka"}


@pytest.mark.testees
@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_real_ones_are_sound(shipped: tuple[recipe.BuildRecipe, ...], name: str) -> None:
    """Every testee whose toolchain is here builds, calls itself what we call it, and is sound."""
    chosen = next(each for each in shipped if each.name == name)
    if missing := chosen.missing():
        pytest.skip(f"needs {', '.join(missing)}")
    sandbox = Sandbox(connect(name))
    hello = sandbox.hello()
    sandbox.close()
    checks = list(smoke(connect(name)))

    assert (hello.name, hello.version) == (name, chosen.version)
    assert hello.many
    assert (hello.consumer and not hello.committed) == (name in WITHOUT_ISOLATION)
    assert [check.name for check in checks if not check.passed] == UNSOUND.get(name, [])
    assert passed(checks) == (name not in UNSOUND)
