"""The wheel and the source distribution in environments of their own, as users have them, without a checkout."""

import email
import hashlib
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.metadata import Metadata
from tests.unpacking import unpack

ROOT = Path(__file__).resolve().parent.parent
ADAPTERS = "kafka_conformance/adapters/"
TESTEES = ROOT / "conformance" / "testees"
# What compilers and package tools would leave beside sources.
BUILD_OUTPUTS = {"target", "node_modules", "dist", "build", "testee", "classes", "packages"}

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Installed:
    """An environment with the wheel and nothing from this checkout, an empty folder to work in, and an empty cache."""

    folder: Path
    work: Path

    def environ(self, path: str = "", more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of commands; without *path* there is no compiler and no package tool on it."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "KAFKAPROOF"))}
        if not path:
            kept.pop("JAVA_HOME", None)
        own = str(self.folder / "bin")
        places = {"PATH": f"{own}{os.pathsep}{path}" if path else own, "XDG_CACHE_HOME": str(self.cache)}
        return {**kept, **places, **(more or {})}

    @property
    def cache(self) -> Path:
        """The empty cache."""
        return self.work.parent / "cache"

    def kafkaproof(
        self, *arguments: str, path: str = "", more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the installed command in the empty folder."""
        command = [str(self.folder / "bin" / "kafkaproof"), *arguments]
        environment = self.environ(path, more)
        return subprocess.run(command, cwd=self.work, env=environment, capture_output=True, text=True, check=False)


def build(source: Path, folder: Path, *targets: str) -> list[Path]:
    """The files that hatchling, the build backend, makes of *source* for *targets*."""
    options = [word for target in targets for word in ("--target", target)]
    command = [sys.executable, "-m", "hatchling", "build", *options, "--directory", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(folder.iterdir())


def sha256(path: Path) -> str:
    """The SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpacked(sdist: Path, folder: Path) -> Path:
    """The root of the source distribution, unpacked below *folder*."""
    unpack(sdist, folder)
    (root,) = folder.iterdir()
    return root


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The wheel and the source distribution of this checkout."""
    wheel, sdist = build(ROOT, tmp_path_factory.mktemp("dist"), "sdist", "wheel")
    return {"wheel": wheel, "sdist": sdist}


@pytest.fixture(scope="module")
def wheel(distributions: dict[str, Path]) -> Path:
    """The wheel of this checkout."""
    return distributions["wheel"]


def install(distribution: Path, folder: Path) -> Path:
    """A new virtual environment with *distribution* and without pip; dependencies are those of this interpreter."""
    python = folder / "bin" / "python"
    pip = (str(python), "-m", "pip", "--disable-pip-version-check", "--quiet")
    subprocess.run((sys.executable, "-m", "venv", str(folder)), check=True, capture_output=True)
    (packages,) = (folder / "lib").glob("python*/site-packages")
    # Folders in a .pth file are searched last, and their own .pth files, such as an editable install's, have no effect.
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    # `--ignore-installed`: pip sees the kafkaproof of this interpreter, and would try to remove it.
    options = ("--no-index", "--no-deps", "--no-build-isolation", "--ignore-installed")
    for command in ((*pip, "install", *options, str(distribution)), (*pip, "uninstall", "--yes", "pip")):
        subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel."""
    return install(wheel, tmp_path_factory.mktemp("environment"))


@pytest.fixture
def installed(environment: Path, tmp_path: Path) -> Installed:
    """The environment with an empty folder and an empty cache."""
    (tmp_path / "work").mkdir()
    return Installed(environment, tmp_path / "work")


def recipes() -> Iterator[tuple[str, list[str]]]:
    """The folder and the testees of each recipe in the checkout."""
    for path in sorted(TESTEES.glob("*/testee.toml")):
        given = tomllib.loads(path.read_text(encoding="utf-8"))
        yield path.parent.name, [given["name"], *(each["name"] for each in given.get("variants", ()))]


def test_the_wheel_holds_recipes_and_sources(wheel: Path) -> None:
    """Every file that a recipe names is in the wheel with its recipe, the harnesses of external engines too."""
    names = set(zipfile.ZipFile(wheel).namelist())
    folders = [folder for folder, _ in recipes()]
    assert len(folders) >= 9
    for folder in folders:
        given = tomllib.loads((TESTEES / folder / "testee.toml").read_text(encoding="utf-8"))
        wanted = {os.path.normpath(f"{ADAPTERS}{folder}/{source}") for source in ("testee.toml", *given["sources"])}
        assert wanted <= names, folder
    assert {f"kafka_fuzz/harnesses/{name}" for name in ("go/fuzz_test.go", "jazzer/FuzzDecode.java")} <= names
    assert {f"kafka_conformance/templates/{name}" for name in ("go/main.go", "python/testee.py")} <= names


def test_the_wheel_holds_no_build_outputs(tmp_path: Path) -> None:
    """Outputs of builds in the source folders stay out of the wheel."""
    copy = tmp_path / "checkout"
    copied = (
        "pyproject.toml", "README.md", "LICENSE", ".gitignore", "conformance/testees", "fuzz/harnesses",
        "templates",
        "tests/build_hooks.py", "tests/sbom.py", "constraints-hashed.txt", "conformance/kafka_brokers/jars.lock.json",
    )  # fmt: skip
    for name in copied:
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, copy / name)
    for output in ("kafkajs/node_modules/kafkajs/index.js", "rskafka/target/release/testee"):
        (copy / "conformance" / "testees" / output).parent.mkdir(parents=True)
        (copy / "conformance" / "testees" / output).write_text("built")
    (made,) = build(copy, tmp_path / "dist", "wheel")
    adapters = [Path(name) for name in zipfile.ZipFile(made).namelist() if name.startswith(ADAPTERS)]

    assert len(adapters) >= 50
    assert [path for path in adapters if BUILD_OUTPUTS & {*path.parts}] == []


def test_a_missing_toolchain_is_one_line(installed: Installed) -> None:
    """Without Go, franz-go cannot run, and the line that says so names Go."""
    done = installed.kafkaproof("certify", "franz-go")

    assert done.returncode == 3
    assert done.stderr.splitlines() == ["franz-go cannot run: go is not installed or not on the path"]
    assert list(installed.work.iterdir()) == []


def test_a_near_name_is_suggested(installed: Installed) -> None:
    """A misspelled testee is the user's mistake, and the message has the name that was meant."""
    done = installed.kafkaproof("certify", "franz_goo")

    assert done.returncode == 2
    assert "no testee 'franz_goo'; did you mean franz-go?" in done.stderr


def test_build_all_names_what_is_left_out(installed: Installed) -> None:
    """Each testee that cannot be built has a line with the programs that it takes; none built is no success."""
    done = installed.kafkaproof("testees", "build", "--all")
    lines = done.stdout.splitlines()
    names = [name for _, names in recipes() for name in names]

    assert done.returncode == 3
    assert len(names) >= 13
    assert sorted(line.split()[0] for line in lines[:-1]) == sorted(names)
    assert all(": left out: " in line and "not installed or not on the path" in line for line in lines[:-1])
    assert lines[-1] == f"{len(names)} testees: 0 built, 0 already built, {len(names)} left out, 0 failed"


def test_certify_all_ends_with_what_was_left_out(installed: Installed) -> None:
    """All known testees are tried; the table is followed by a line for each that did not run, with the reason."""
    done = installed.kafkaproof("certify", "--all", "--only", "v2_batch.offsets_wrap*", "--report", "results")
    names = {name for _, names in recipes() for name in names}
    lines = done.stdout.splitlines()
    left_out = {line.split()[2].rstrip(":"): line for line in lines if line.startswith("not run  ")}
    table = "\n".join(lines[: lines.index(next(iter(left_out.values())))])

    assert done.returncode == 1, done.stderr
    assert "reference" in table
    assert "kafka-python" in table
    assert names <= set(left_out)
    assert left_out["franz-go"] == "not run  franz-go: go is not installed or not on the path"
    written = json.loads((installed.work / "results" / "not-run.json").read_text(encoding="utf-8"))
    assert set(written) == set(left_out)


@pytest.mark.testees
def test_a_go_testee_out_of_the_wheel(installed: Installed) -> None:
    """The first use builds the adapter into the cache and says so on one line; the next use finds it there."""
    if shutil.which("go") is None:
        pytest.skip("needs go")
    # Its own build cache is in the user's cache folder, where the standard library is compiled already.
    go_cache = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    arguments = ("certify", "franz-go", "--only", "v2_batch", "--report", "results")
    path = os.environ["PATH"]
    first, second = (installed.kafkaproof(*arguments, path=path, more={"GOCACHE": go_cache}) for _ in range(2))
    building = [line for line in first.stderr.splitlines() if line.startswith("building ")]

    assert first.returncode in {0, 1}, first.stderr
    assert len(building) == 1
    assert building[0].startswith("building franz-go 1.22.2 (go) into ")
    assert str(installed.work.parent / "cache") in building[0]
    assert (second.returncode, "building" in second.stderr) == (first.returncode, False)
    assert second.stdout.splitlines()[:5] == first.stdout.splitlines()[:5]
    assert [path.name for path in installed.work.iterdir()] == ["results"]


# Commands in their order, in one empty folder: the exit code that is right, and a word of the output.
WALK = {
    "--version": (0, "kafkaproof 0."),
    "testees": (0, "franz-go"),
    "smoke kafka-python": (0, "ok"),
    "certify kafka-python --only v2_headers": (1, "next"),
    "certify reference --only v2_headers --report before": (0, "reference"),
    "report kafkaproof-partial --out report --baseline before": (1, "look at report"),
    "dossier kafkaproof-partial --out dossiers": (0, "FAIL"),
    "cross kafka-python reference --broker none --only v2_headers": (1, "full result"),
    "explain --case v2_headers.key_is_not_utf_8[0xff]": (0, "headers"),
    "corpus show v2_headers.key_is_not_utf_8[0xff]": (0, "REC-21"),
    "corpus check": (0, "everything holds"),
    "corpus export vendored": (0, "vendored"),
    "fuzz run --targets reference,explain --seconds 2": (0, "executions"),
    "fuzz triage": (0, "0 findings"),
    "fuzz report --out fuzz-report": (0, "fuzz-report"),
    "fuzz export programs": (0, "programs"),
    "fuzz bench": (3, ""),
    "broker list": (0, "4.4.0"),
    "broker compare 3.9.2 4.4.0": (1, "cases changed"),
    "refresh --dry-run": (2, ""),
}


def test_commands_need_no_checkout(installed: Installed) -> None:
    """Each command works from an empty folder; what needs a checkout says so on one line.

    The source distribution gives the same wheel, byte for byte, as another test shows.
    """
    for line, (code, word) in WALK.items():
        done = installed.kafkaproof(*line.split())
        assert (line, done.returncode) == (line, code), done.stdout + done.stderr
        assert word in done.stdout
        assert "Traceback" not in done.stderr
        assert code < 2 or re.search(r"^Error: .*checkout", done.stderr, re.MULTILINE), done.stderr
    for page in ("report/index.html", "fuzz-report/index.html", "vendored/README.md", "dossiers/README.md"):
        assert (installed.work / page).stat().st_size > 0, page


# Commands that write into the packages of a checkout.
WRITE_INTO_PACKAGES = (
    "corpus compile",
    "corpus evidence add --name other --version 1.0 -",
    "broker lock 4.4.0",
    "broker record 4.4.0",
    "fuzz corpus kafka-python",
    "fuzz promote abc",
)


@pytest.mark.parametrize("line", WRITE_INTO_PACKAGES)
def test_installed_packages_stay_as_they_are(line: str, installed: Installed) -> None:
    """A command that writes into the packages of a checkout refuses an installation, on one line, before any work."""
    (packages,) = (installed.folder / "lib").glob("python*/site-packages")
    before = state_of(packages)
    done = installed.kafkaproof(*line.split())

    assert len(before) > 800
    assert done.returncode == 3, done.stdout + done.stderr
    assert "writes into a checkout, and this is an installed package; " in done.stderr.splitlines()[-1]
    assert state_of(packages) == before


def state_of(folder: Path) -> dict[Path, tuple[int, int]]:
    """Size and time of each file below *folder*, without compiled modules."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    return {path: (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_two_builds_are_the_same_bytes(distributions: dict[str, Path], tmp_path: Path) -> None:
    """Another folder, other times and other permissions of files give the same wheel and source distribution.

    So does a build from the source distribution: what is published can be built again from it.
    """
    copy = unpacked(distributions["sdist"], tmp_path / "copied" / "somewhere else")
    (copy / "PKG-INFO").unlink()
    for path in copy.rglob("*"):
        os.utime(path, (1_900_000_000, 1_900_000_000))
        path.chmod(0o775 if os.access(path, os.X_OK) or path.is_dir() else 0o664)
    wheel, sdist = build(copy, tmp_path / "dist", "sdist", "wheel")

    assert sha256(wheel) == sha256(distributions["wheel"])
    assert sha256(sdist) == sha256(distributions["sdist"])


def test_the_source_distribution_is_the_repository(distributions: dict[str, Path]) -> None:
    """It has each file that git tracks, and PKG-INFO, and nothing else."""
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    with tarfile.open(distributions["sdist"]) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    command = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    tracked = {name for name in listed if name and (ROOT / name).is_file()}

    assert len(tracked) > 1000
    assert names - {"PKG-INFO"} == tracked


def test_metadata(wheel: Path) -> None:
    """The metadata is valid, names licence and Pythons, and leads to no file that an index does not have."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        raw = archive.read(name)
        licence = archive.read(name.replace("METADATA", "licenses/LICENSE"))
    metadata = Metadata.from_email(raw, validate=True)
    classifiers = metadata.classifiers or []

    assert metadata.license_expression == "Apache-2.0"
    assert metadata.license_files == ["LICENSE"]
    assert licence == (ROOT / "LICENSE").read_bytes()
    assert metadata.description_content_type == "text/markdown"
    assert [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)] == [
        "3.11", "3.12", "3.13", "3.14",
    ]  # fmt: skip
    description = str(email.message_from_bytes(raw).get_payload())
    assert len(description) > 4000
    assert re.findall(r"\]\((?!https?:)", description) == []
    assert "pip install kafkaproof && kafkaproof certify kafka-python" in description


def test_nothing_in_the_wheel_has_another_licence(wheel: Path) -> None:
    """No file has a notice of somebody else's copyright or licence, and no script is minified."""
    notice = re.compile(
        rb"copyright \(c\)|\(c\) (19|20)\d\d|@license|spdx-license|licensed under|all rights reserved", re.IGNORECASE
    )
    with zipfile.ZipFile(wheel) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    # Captured bytes and messages of codecs are data of the corpus.
    sources = {name: data for name, data in contents.items() if not name.endswith((".ndjson", "LICENSE", ".cdx.json"))}
    scripts = [data for name, data in sources.items() if name.endswith((".js", ".css"))]

    assert len(sources) > 600
    assert [name for name, data in sources.items() if notice.search(data)] == []
    assert len(scripts) >= 8
    assert max(len(line) for data in scripts for line in data.splitlines()) < 1000
    assert all(
        data == contents["kafka_corpus/pages/LICENSE"] for name, data in contents.items() if name.endswith("LICENSE")
    )


def test_the_wheel_has_its_bill_of_materials(wheel: Path) -> None:
    """It is valid CycloneDX, and lists what the lock files in the wheel name, and nothing besides."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (bill,) = [name for name in names if ".dist-info/sboms/" in name]
        text = archive.read(bill).decode()
    document = json.loads(text)
    locks = {
        entry["value"]
        for each in document["components"]
        for entry in each["properties"]
        if entry["name"] == "kafkaproof:lock"
    }
    inside = {name.replace("conformance/testees/", ADAPTERS).removeprefix("conformance/") for name in locks}

    assert bill.endswith("/sboms/kafkaproof.cdx.json")
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    assert document["metadata"]["component"]["purl"] == "pkg:pypi/kafkaproof@0.1.0"
    assert len(locks) >= 10
    assert {name.replace("fuzz/harnesses", "kafka_fuzz/harnesses") for name in inside} <= set(names)
    assert {each["purl"].partition("/")[0] for each in document["components"]} >= {"pkg:npm", "pkg:cargo", "pkg:golang"}


def test_description_for_an_index() -> None:
    """Relative pictures and links are left out of the description; the text of a link and all else stays."""
    page = runpy.run_path(str(ROOT / "tests" / "build_hooks.py"))["index_page"]
    text = "![a](docs/a.svg)\n\nSee [the page](docs/page.md#x), [there](https://example.org/).\n"

    assert page(text) == "See the page, [there](https://example.org/).\n"
    assert page("`a[0](x)` and\n```python\nf(x)[0]\n```\n").endswith("f(x)[0]\n```\n")


@pytest.mark.testees
def test_certify_all_testees_out_of_the_wheel(installed: Installed) -> None:
    """Each known testee whose programs are here is certified from an empty folder; the others are named.

    Builds are in the user's cache, where `tox -e testees` makes them first; their names hold the digest of the
    sources, so only a build of the same sources is used.
    """
    cache = {name: os.environ[name] for name in ("XDG_CACHE_HOME",) if name in os.environ}
    cache = cache or {"XDG_CACHE_HOME": str(Path.home() / ".cache")}
    arguments = ("certify", "--all", "--only", "v2_batch.offsets_wrap*", "--report", "results")
    done = installed.kafkaproof(*arguments, path=os.environ["PATH"], more=cache)
    not_run = installed.work / "results" / "not-run.json"
    left_out = json.loads(not_run.read_text(encoding="utf-8")) if not_run.exists() else {}
    ran = {path.parent.name for path in installed.work.glob("results/*/result.ndjson")}
    given = {path: tomllib.loads(path.read_text(encoding="utf-8")) for path in TESTEES.glob("*/testee.toml")}
    here = {each["name"] for each in given.values() if all(map(shutil.which, set(each["programs"]) - {"pip"}))}

    assert done.returncode in {0, 1}, done.stderr
    assert len(here) >= 1
    assert here & set(left_out) == set(), left_out
    names = {name for _, names in recipes() for name in names if name not in left_out}
    assert names | {"reference", "kafka-python", "kafka-python-client"} <= ran


@pytest.mark.broker
def test_a_broker_out_of_the_wheel(installed: Installed) -> None:
    """`broker start` fetches Kafka, starts it from an empty folder, and leaves nothing when it is interrupted."""
    cache = {"XDG_CACHE_HOME": os.environ.get("XDG_CACHE_HOME", str(Path.home() / ".cache"))}
    environment = installed.environ(os.environ["PATH"], cache)
    command = [str(installed.folder / "bin" / "kafkaproof"), "broker", "start", "4.4.0"]
    with subprocess.Popen(command, cwd=installed.work, env=environment, stdout=subprocess.PIPE, text=True) as broker:
        assert broker.stdout
        line = broker.stdout.readline()
        found = re.match(r"Kafka 4\.4\.0 at (\S+), logs in (\S+);", line)
        assert found, line
        case = "produce_crc.*"
        certified = installed.kafkaproof(
            "broker", "certify", "--bootstrap", found[1], "--against", "4.4.0", "--only", case, path=os.environ["PATH"]
        )
        broker.send_signal(signal.SIGINT)
        broker.wait(60)
    assert certified.returncode == 0, certified.stdout + certified.stderr
    assert not Path(found[2]).exists()
    assert {path.name for path in installed.work.iterdir()} == {"kafkaproof-partial"}


@pytest.mark.testees
@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13", "3.14"])
def test_each_python(version: str, wheel: Path, tmp_path: Path) -> None:
    """The wheel is installed with its requirements, from wheels alone, and certifies, explains and reports."""
    python = f"python{version}"
    probe = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
    if (
        shutil.which(python) is None
        or subprocess.run(probe, capture_output=True, check=False).stdout != f"{version}\n".encode()
    ):
        pytest.skip(f"there is no {python} here")
    folder = tmp_path / "environment"
    subprocess.run((python, "-m", "venv", str(folder)), check=True, capture_output=True)
    pip = (str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--only-binary", ":all:", str(wheel))
    subprocess.run(pip, check=True, capture_output=True)
    (tmp_path / "work").mkdir()
    installed = Installed(folder, tmp_path / "work")
    for line, code in {
        "smoke kafka-python": 0,
        "certify kafka-python --only v2_headers": 1,
        "certify reference --only v2_headers --report before": 0,
        "report kafkaproof-partial --out report": 0,
        "explain --case v2_headers.key_is_not_utf_8[0xff]": 0,
        "corpus check": 0,
        "fuzz run --targets reference --seconds 2": 0,
    }.items():
        done = installed.kafkaproof(*line.split())
        assert (line, done.returncode) == (line, code), done.stdout + done.stderr
        assert "Warning" not in done.stderr
    result = (installed.work / "kafkaproof-partial" / "kafka-python" / "result.ndjson").read_text(encoding="utf-8")
    assert f"CPython {version}." in result.splitlines()[0]
