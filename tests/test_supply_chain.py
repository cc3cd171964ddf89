"""Everything that the project fetches is pinned, and each way to fetch something else is refused."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from tests import sbom, supply_chain

ROOT = Path(__file__).resolve().parent.parent
HASH = "0" * 64
COMMIT = "0123456789abcdef0123456789abcdef01234567"
# Everything that the check and the bill of materials read.
READ = (
    ".github", "action.yml", "constraints.txt", "constraints-hashed.txt", "docs/certify-your-codec.md",
    "pyproject.toml", "templates", "conformance/testees", "conformance/brokers",
    "conformance/kafka_brokers/jars.lock.json", "fuzz/harnesses",
    "conformance/kafka_conformance/vector_packages/templates",
)  # fmt: skip


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The files of the project that the check reads."""
    for name in READ:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("node_modules", "target"))
        else:
            shutil.copyfile(ROOT / name, tmp_path / name)
    return tmp_path


def test_everything_is_pinned() -> None:
    """The check, as `tox -e lint` runs it, finds nothing."""
    done = subprocess.run(
        [sys.executable, "tests/supply_chain.py"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_copy_is_enough(copied: Path) -> None:
    """The copy that the planted changes start from is without findings."""
    assert supply_chain.check(copied) == []


# File, what is replaced in it (a pattern), by what, and what the finding says.
PLANTED = {
    "an action at a tag": (".github/workflows/fuzz.yml", r"checkout@\w+ # v[\d.]+", "checkout@v4", "no action at"),
    "an action at a branch": ("action.yml", r"upload-artifact@\w+", "upload-artifact@main", "no action at a full"),
    "a short hash": ("action.yml", r"setup-python@(\w{12})\w+", r"setup-python@\1", "no action at a full"),
    "no version": ("action.yml", r" # v7.0.0", "", "has no version"),
    "an action in a page": (
        "docs/certify-your-codec.md", r"uses: \./\.github/actions/kafkaproof", "uses: a/kafkaproof@v1", "no action",
    ),
    "an action of a recipe": ("templates/ci/github.yml", r"checkout@\w+ # v[\d.]+", "checkout@v4", "no action at"),
    "a publisher at a branch": (
        ".github/workflows/release.yml", r"pypi-publish@\w+", "pypi-publish@release/v1", "no action at a full",
    ),
    "an input in a script": (
        ".github/workflows/fuzz.yml", r'"\$MINUTES"', '"${{ inputs.minutes }}"', "an expression in a script",
    ),
    "an event in a block": (
        "action.yml", r"( +)rm -rf \"\$RESULTS\"", r'\1echo "${{ github.event.pull_request.title }}"', "an expression",
    ),
    "pip without hashes": (
        ".github/workflows/fuzz.yml", r"pip install --require-hashes.*", "pip install tox", "--require-hashes",
    ),
    "a tool without a hash": (".github/tox.txt", r"(?s)^.*\Z", f"tox==4.0\nuv==1.0 --hash=sha256:{HASH}\n", "tox=="),
    "a range": ("constraints-hashed.txt", r"click==[\d.]+", "click>=8", "is no package with a version"),
    "another version": ("constraints.txt", r"click==[\d.]+", "click==8.0.0", "other versions"),
    "a host": ("constraints-hashed.txt", r"\A", "--index-url https://example.org\n", "is no package"),
    "a requirement of a testee": (
        "conformance/testees/kio/requirements.txt", r"(kio==[\d.]+) \\\n( +--hash\S+( \\)?\n)+", r"\1\n", "no SHA-256",
    ),
    "npm without integrity": (
        "conformance/testees/kafkajs/package-lock.json", r'"integrity": "sha512-[^"]*"', '"x": "y"', "has no integrity",
    ),
    "an install script": (
        "conformance/testees/platformatic-kafka/package-lock.json", r'"license": "MIT"', '"hasInstallScript": true',
        "has install scripts",
    ),
    "npm ci with scripts": ("conformance/testees/kafkajs/testee.toml", r'"--ignore-scripts", ', "", "install scr"),
    "npm rebuild of all": ("conformance/testees/kafkajs/testee.toml", r"rebuild lz4", "rebuild kafkajs", "no reason"),
    "a crate without a checksum": (
        "conformance/testees/rskafka/Cargo.lock", r'\nchecksum = "\w+"', "", "has no checksum",
    ),
    "a Debian package without a sum": (
        "conformance/testees/librdkafka-debian/testee.toml", r'\["sha256sum".*\n', "['true'],\n", "no command compares",
    ),
    "cargo without its lock": ("conformance/testees/rskafka/testee.toml", r'"--locked", ', "", "without --locked"),
    "a Go module": ("conformance/testees/sarama/go.mod", r"sarama v[\d.]+", "sarama v9.9.9", "has no sum in go.sum"),
    "Maven without checks": ("conformance/testees/java-kafka-clients/testee.toml", r'"-C", ', "", "mvn without -C"),
    "a crate of a template without a checksum": (
        "conformance/kafka_conformance/vector_packages/templates/cargo/Cargo.lock.jinja", r'\nchecksum = "\w+"', "",
        "has no checksum",
    ),
    "a jar without a sum": (
        "conformance/testees/java-kafka-clients/jars.sha256", r"^\w+", "0", "is no sum of a jar",
    ),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_what_is_not_pinned_is_found(planted: str, copied: Path) -> None:
    """Each planted change, in a file of the project, is a finding."""
    name, pattern, replacement, said = PLANTED[planted]
    before = (copied / name).read_text(encoding="utf-8")
    after = re.sub(pattern, replacement, before, count=1)
    assert after != before
    (copied / name).write_text(after, encoding="utf-8")
    assert any(said in each.text for each in supply_chain.check(copied)), supply_chain.check(copied)


@pytest.mark.parametrize(
    "lock",
    [
        "conformance/testees/kafkajs/package-lock.json",
        "conformance/testees/rskafka/Cargo.lock",
        "conformance/testees/franz-go/go.sum",
        "conformance/brokers/kfake/go.sum",
        "conformance/kafka_conformance/vector_packages/templates/npm/package-lock.json.jinja",
        "conformance/kafka_conformance/vector_packages/templates/cargo/Cargo.lock.jinja",
        "conformance/kafka_conformance/vector_packages/templates/go/example/go.sum",
        "fuzz/harnesses/jazzer/jars.sha256",
        "constraints-hashed.txt",
    ],
)
def test_a_missing_lock_is_found(lock: str, copied: Path) -> None:
    """A project whose lock file is gone is a finding."""
    (copied / lock).unlink()
    assert any("has no" in each.text or "is missing" in each.text for each in supply_chain.check(copied))


@pytest.mark.parametrize(
    "form",
    [
        "run: echo {}", "run: 'echo {}'", "run: |\n      true\n      echo {}", "run: >-\n\n      {}",
        "run: echo\n      and {}", "run:\n      echo {}", '"run": echo {}', "script: |\n      f('{}')",
    ],
)  # fmt: skip
def test_expressions_in_scripts(form: str) -> None:
    """An expression is found in each form of a script, and none in `env`, `if` or `with` after it."""
    bad = f"  - name: x\n    {form.format('${{ github.event.issue.title }}')}\n"
    assert len(list(supply_chain.workflow_findings("x.yml", bad))) == 1
    good = f"    {form.format('$TITLE')}\n    env:\n      TITLE: ${{{{ github.event.issue.title }}}}\n"
    assert list(supply_chain.workflow_findings("x.yml", good)) == []


def test_pinned_actions() -> None:
    """A commit with its version passes, quoted or not; so does an action of the repository itself."""
    for used in (f"a/b@{COMMIT} # v1.2.3", f'"a/b/c@{COMMIT}" # v1.2.3', "./.github/actions/x"):
        assert list(supply_chain.workflow_findings("x.yml", f"- uses: {used}\n")) == []
    assert len(list(supply_chain.workflow_findings("x.yml", "- { name: x, uses: a/b@v1 }\n"))) == 1
    assert len(list(supply_chain.workflow_findings("x.yml", "- { run: 'echo ${{ inputs.x }}' }\n"))) == 1
    for used in (f"a/b@{COMMIT}", f"a/b@{COMMIT[:-1]} # v1.2.3", "a/b", "docker://image:latest"):
        assert len(list(supply_chain.workflow_findings("x.yml", f"- uses: {used}\n"))) == 1


def test_lists_of_exceptions_are_current() -> None:
    """Each exception is in use: a list that allows what is gone allows it again one day."""
    texts = [
        path.read_text(encoding="utf-8")
        for path in (ROOT / "action.yml", ROOT / ".github" / "workflows" / "release.yml")
    ]
    assert all(any(each in text for text in texts) for each in supply_chain.UNPINNED_ACTIONS)
    assert all(any(each in text for text in texts) for each in supply_chain.UNHASHED_INSTALLS)
    locks = [path.read_text(encoding="utf-8") for path in ROOT.glob("conformance/testees/*/package-lock.json")]
    scripts = {
        name.rpartition("node_modules/")[2]
        for text in locks
        for name, entry in json.loads(text)["packages"].items()
        if entry.get("hasInstallScript")
    }
    assert scripts == {*supply_chain.INSTALL_SCRIPTS, *supply_chain.NOT_INSTALLED}
    assert all((ROOT / name).is_file() for name in supply_chain.UNLOCKED)


@pytest.mark.slow
def test_bill_of_materials(tmp_path: Path) -> None:
    """It is valid CycloneDX, the same each time, names no registry, and has every kind of package with its hash."""
    document = sbom.bill_of_materials()
    text = json.dumps(document)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert text == json.dumps(sbom.bill_of_materials())
    assert "://" not in text
    names = {each["purl"].partition("/")[0] for each in document["components"]}
    assert names == {"pkg:pypi", "pkg:npm", "pkg:cargo", "pkg:golang", "pkg:generic"}
    for each in document["components"]:
        summed = {entry["name"] for entry in each["properties"]} & {"kafkaproof:sha256", "kafkaproof:go.sum"}
        assert each.get("hashes") or summed, each
    for command, code in (([], 0), (["--check"], 0)):
        assert sbom.main([*command, str(tmp_path / "bom.json")]) == code
    (tmp_path / "bom.json").write_text("{}")
    assert sbom.main(["--check", str(tmp_path / "bom.json")]) == 1


def test_a_changed_lock_changes_the_bill(copied: Path) -> None:
    """A package with another sum makes another document."""
    before = sbom.bill_of_materials(copied)
    path = copied / "conformance" / "testees" / "java-kafka-clients" / "jars.sha256"
    path.write_text(re.sub(r"^\w+", HASH, path.read_text(encoding="utf-8"), count=1), encoding="utf-8")
    assert sbom.bill_of_materials(copied) != before


def test_environments_in_the_checkout_are_not_in_the_bill(copied: Path) -> None:
    """A copy of the project that tox installs below the checkout adds nothing; a wheel of that checkout is the same."""
    before = sbom.bill_of_materials(copied)
    for lock in ("jars.sha256", "go.sum", "Cargo.lock", "package-lock.json", "requirements.txt"):
        for original in sorted(copied.glob(f"*/**/{lock}")):
            installed = copied / ".tox" / "slow" / "lib" / "site-packages" / original.relative_to(copied)
            installed.parent.mkdir(parents=True, exist_ok=True)
            installed.write_bytes(original.read_bytes())

    assert sbom.bill_of_materials(copied) == before
