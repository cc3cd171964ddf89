"""The nightly workflow: its shell steps run here, against planted findings; only counts leave in the clear."""

from __future__ import annotations

import base64
import configparser
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import pyrage
import pytest
import yaml
from benchmarks.shrink import TARGET, benchmark_inputs

from kafka_fuzz.campaign.plan import unknown_targets
from kafka_fuzz.campaign.sealed import open_sealed
from kafka_fuzz.findings import FindingStore, finding_input, read_findings
from kafka_fuzz.shrink.search import as_mutant
from kafka_fuzz.targets import TARGETS
from kafkaproof.cli import kafkaproof
from kafkaproof.commands.fuzz.run import split_targets
from kafkaproof.commands.fuzz.seal import IDENTITY_VARIABLE, RECIPIENT_VARIABLE

ROOT: Final = Path(__file__).resolve().parent.parent.parent
WORKFLOW: Final = yaml.safe_load((ROOT / ".github" / "workflows" / "fuzz.yml").read_text(encoding="utf-8"))
STEPS: Final = WORKFLOW["jobs"]["fuzz"]["steps"]
TOX: Final = configparser.ConfigParser(interpolation=None)
TOX.read(ROOT / "tox.ini")
FOLDER: Final = "kafkaproof-fuzz"
SEALED: Final = f"{FOLDER}.sealed"
IDENTITY: Final = pyrage.x25519.Identity.generate()
PUBLIC: Final = str(IDENTITY.to_public())

# In the place of tox: the commands of tox.ini, with this Python, in the working directory.  A campaign is short and has
# one planted bug; what takes brokers or compilers prints all findings, as the worst that it might do.
SHIM: Final = f"""#!{sys.executable}
import os, subprocess, sys
from pathlib import Path
sys.path.insert(0, {str(ROOT / "tests" / "fuzz")!r})
sys.path.insert(0, {str(ROOT)!r})
_, run, flag, environment, *given = sys.argv
assert (run, flag) == ("run", "-e"), sys.argv
given = given[1:]
if environment == "fuzz-testees":
    sys.exit(0)
if environment == "fuzz-reach" or "broker:4.4.0" in given:
    for path in Path("{FOLDER}").rglob("find.json"):
        print(path, path.read_text())
        print(path.with_name("input.bin").read_bytes().hex(), file=sys.stderr)
    sys.exit(3)
if environment == "fuzz":
    assert given[0] == "--minutes" and given[1] == "60", given
    given = ["--seconds", "1", "--targets", "differential:reference,planted:drops-headers"]
from test_nightly import commands_of
code = 0
for command in commands_of(environment, given):
    if "merge" not in command:
        code = code or subprocess.run([sys.executable, "-m", *command], check=False).returncode
sys.exit(code)
"""


def commands_of(environment: str, given: list[str] | None = None) -> list[list[str]]:
    """The commands of a tox environment, `commands_pre` first, with *given* or the default in place of `{posargs}`."""
    section = TOX[f"testenv:{environment}"]
    lines = [line for name in ("commands_pre", "commands") for line in section.get(name, "").splitlines() if line]
    words = shlex.join(given) if given else r"\1"
    said = [re.sub(r"\{posargs:?([^}]*)\}", words, line).removeprefix("- ") for line in lines]
    return [shlex.split(line.replace("{tox_root}{/}", "").replace("{/}", "/")) for line in said]


def options_of(words: list[str]) -> set[str]:
    """The options of a command of ours."""
    command: click.Command = kafkaproof
    for word in words[1:]:
        if not isinstance(command, click.Group) or word.startswith("-"):
            break
        command = command.get_command(click.Context(command), word)  # type: ignore[assignment]  # else the test fails
    return {name for option in command.params for name in option.opts}


def tox_runs() -> Iterator[list[str]]:
    """The words of each line that runs tox."""
    for step in STEPS:
        for line in step.get("run", "").splitlines():
            if line.strip().startswith("tox run"):
                yield shlex.split(re.split(r">>|\|", line)[0])


@dataclass
class Night:
    """One run of the workflow in *folder*: its steps in their order, as GitHub runs them.

    *printed* is the log, *kept* are the files that are cached or uploaded, by name, *failed* names steps that failed.
    """

    folder: Path
    secrets: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    printed: str = ""
    kept: dict[str, bytes] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Put programs in place of tox and pip."""
        programs = self.folder / "bin"
        programs.mkdir(parents=True, exist_ok=True)
        (self.folder / "temp").mkdir(exist_ok=True)
        for name, text in (("tox", SHIM), ("pip", "#!/bin/sh\n")):
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)

    @property
    def work(self) -> Path:
        """The checkout."""
        (self.folder / "work").mkdir(exist_ok=True)
        return self.folder / "work"

    def filled(self, text: str) -> str:
        """An `env` value with its one expression evaluated."""
        match = re.fullmatch(r"\$\{\{ (secrets|vars|inputs)\.(\w+)(?: \|\| '(\w+)')? \}\}", text)
        assert match, text
        given = {"secrets": self.secrets, "vars": self.variables, "inputs": {}}[match[1]]
        return given.get(match[2], match[3] or "")

    def is_due(self, condition: str) -> bool:
        """Whether a step with this `if` runs."""
        if condition == "always() && steps.folder.outcome == 'success'":
            return "folder" not in self.failed
        if condition == f"always() && steps.folder.outcome == 'success' && hashFiles('{SEALED}') != ''":
            return "folder" not in self.failed and (self.work / SEALED).exists()
        assert not condition, condition
        return not self.failed

    def run(self, plant: bool = True) -> Night:
        """Run all steps."""
        for step in STEPS:
            if not self.is_due(step.get("if", "")):
                continue
            if "run" in step:
                self._run(step)
            elif re.search("cache/save|upload", step["uses"]):
                self.kept[step["uses"].split("@")[0]] = (self.work / step["with"]["path"]).read_bytes()
            if plant and step.get("id") == "folder" and not self.failed:
                plant_findings(self.work / FOLDER)
        return self

    def _run(self, step: dict[str, Any]) -> None:
        summary = self.folder / "temp" / "summary"
        environment = {name: self.filled(text) for name, text in step.get("env", {}).items()}
        path = os.pathsep.join((str(self.folder / "bin"), os.environ["PATH"]))
        runner = {"PATH": path, "RUNNER_TEMP": str(summary.parent), "GITHUB_STEP_SUMMARY": str(summary)}
        clean = {name: text for name, text in os.environ.items() if not name.startswith("KAFKAPROOF_")}
        assert "${{" not in step["run"]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.work, env=clean | runner | environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        self.printed += done.stdout + done.stderr
        if summary.exists():
            self.kept["summary"] = summary.read_bytes()
        if done.returncode:
            self.failed.append(step.get("id", step.get("name", "")))


def plant_findings(root: Path) -> None:
    """Findings of a released codec: exceptions, with the functions that raise them."""
    target, store = TARGETS[TARGET](), FindingStore(root)
    for data in benchmark_inputs().values():
        store.add(target.run(as_mutant(data)), as_mutant(data), version="1")


def secrets_of(root: Path) -> set[bytes]:
    """Every name in the findings below *root*, and their inputs as bytes, hexadecimal and base64."""
    found: set[bytes] = set()
    for finding in read_findings(root):
        data = finding_input(root, finding)
        found |= {data, data.hex().encode(), base64.b64encode(data), finding.sha256.encode(), finding.key.encode()}
        words = {finding.outcome.target, *finding.outcome.key.replace(":", " ").split(), *finding.labels}
        found |= {word.encode() for word in words}
    # Words that are English, and inputs too short to be recognized.
    return {each for each in found if len(each) >= 8}


@pytest.fixture(scope="module")
def night(tmp_path_factory: pytest.TempPathFactory) -> Night:
    """A night with a key."""
    return Night(tmp_path_factory.mktemp("night"), secrets={"FUZZ_IDENTITY": str(IDENTITY)}).run()


@pytest.mark.slow
def test_only_counts_leave_in_the_clear(night: Night) -> None:
    """No target, exception, function or input is in the log, the summary, a cache or an artifact; counts are."""
    assert night.failed == ["Campaign", "Campaign with a broker", "Reach", "Report"]
    secrets = secrets_of(night.work / FOLDER)
    log = (night.work / FOLDER / "nightly.log").read_bytes()
    # The search would find them: the campaign's own output, which is sealed, has names, keys and inputs.
    assert len([each for each in secrets if each in log]) > 5
    assert {b"planted:drops-headers", TARGET.encode()} <= {each for each in secrets if each in log}
    assert {*night.kept} == {"actions/cache/save", "actions/upload-artifact", "summary"}
    for public in (night.printed.encode(), *night.kept.values()):
        assert [each for each in secrets if each in public] == []
    summary = night.kept["summary"].decode()
    assert re.fullmatch(r"[1-9]\d* new findings?, \d+ known, \d+ gone\n\d+ files sealed; sha256:\w{64}\n", summary)
    assert night.printed.endswith(summary)
    assert not (re.sub(r"[\d:]|sha256\w+", "", night.printed).split().count("Traceback"))


@pytest.mark.slow
def test_the_sealed_folder_is_the_campaign(night: Night, tmp_path: Path) -> None:
    """The artifact opens with the identity, and has all findings and the campaign's output."""
    (tmp_path / "file").write_bytes(night.kept["actions/upload-artifact"])
    open_sealed(tmp_path / "file", tmp_path / "back", IDENTITY, own=True)
    names = {path.relative_to(tmp_path / "back") for path in (tmp_path / "back").rglob("*")}
    assert names == {path.relative_to(night.work / FOLDER) for path in (night.work / FOLDER).rglob("*")}


def next_night(folder: Path, cache: bytes) -> Night:
    """A night that finds *cache*."""
    made = Night(folder, secrets={"FUZZ_IDENTITY": str(IDENTITY)})
    (made.work / SEALED).write_bytes(cache)
    return made.run(plant=False)


@pytest.mark.slow
def test_the_next_night_continues(night: Night, tmp_path: Path) -> None:
    """Last night's findings are there, and are not new."""
    cache = night.kept["actions/cache/save"]
    second = next_night(tmp_path / "second", cache)
    before = {finding.key for finding in read_findings(night.work / FOLDER)}
    assert before <= {finding.key for finding in read_findings(second.work / FOLDER)}
    assert "files opened" in second.printed
    assert second.kept["actions/cache/save"] != cache


@pytest.mark.slow
def test_an_altered_cache_ends_the_job(night: Night, tmp_path: Path) -> None:
    """Nothing is unpacked or run, and nothing is saved over it; so with a file that a stranger sealed."""
    cache = night.kept["actions/cache/save"]
    strange = bytes(pyrage.encrypt(bytes(10240 + 32), [IDENTITY.to_public()]))
    altered = cache[:5000] + bytes([cache[5000] ^ 1]) + cache[5001:]
    for number, data in enumerate((cache[:-1], altered, b"", strange)):
        job = next_night(tmp_path / str(number), data)
        assert job.failed[0] == "folder"
        assert "refused" in job.printed
        assert not (job.work / FOLDER).exists()
        assert job.kept == {}


@pytest.mark.slow
def test_a_public_key_alone(tmp_path: Path) -> None:
    """With a recipient and no identity the folder is sealed; without both, counts are all that leaves the machine."""
    job = Night(tmp_path / "public", variables={"FUZZ_RECIPIENT": PUBLIC})
    (job.work / FOLDER).mkdir()
    seal = next(step for step in STEPS if step.get("name") == "Tonight's folder")
    plant_findings(job.work / FOLDER)
    job._run(seal)
    assert job.failed == []
    assert open_sealed(job.work / SEALED, tmp_path / "back", IDENTITY) > 1
    (job.work / SEALED).unlink()
    job.variables.clear()
    job.printed = ""
    job._run(seal)
    assert not (job.work / SEALED).exists()
    assert re.fullmatch(r"\d+ findings, not triaged\n", job.printed)


def test_keys_are_where_no_codec_runs() -> None:
    """Only steps that run nothing but `fuzz seal` and `fuzz open` have a key, and jobs have none."""
    assert "env" not in WORKFLOW["jobs"]["fuzz"]
    assert "env" not in WORKFLOW
    keyed = [step for step in STEPS if "secrets." in str(step) or "vars." in str(step)]
    assert [step["name"] for step in keyed] == ["Last night's folder", "Tonight's folder"]
    for step in keyed:
        assert step["env"].keys() <= {IDENTITY_VARIABLE, RECIPIENT_VARIABLE}
        assert {*re.findall(r"tox run -e ([\w-]+)", step["run"])} == {"fuzz-seal"}
    passed = {name: TOX[name].get("pass_env", "") for name in TOX.sections()}
    assert [name for name, text in passed.items() if "KAFKAPROOF_FUZZ" in text] == ["testenv:fuzz-seal"]


def test_the_workflow_runs_what_there_is() -> None:
    """Each step's command is one that tox knows, with options that exist."""
    runs = list(tox_runs())
    environments = [words[3] for words in runs]
    assert environments == [
        "fuzz-seal", "fuzz-testees", "fuzz", "fuzz", "fuzz-reach", "fuzz-report", "fuzz-seal", "fuzz-seal",
    ]  # fmt: skip
    for _, _, flag, environment, *given in runs:
        assert flag == "-e"
        for command in commands_of(environment, given[1:] if environment == "fuzz-seal" else None):
            assert command[0] == "kafkaproof"
            passed = given[1:] if command[1:3] == ["fuzz", "run"] else []
            assert {word for word in (*command, *passed) if word.startswith("--")} <= options_of(command)


def test_the_workflow_names_existing_targets() -> None:
    """The targets of the nightly campaign have functions that run their rounds; all clients, and a broker."""
    (run,) = [command for command in commands_of("fuzz") if command[2] == "run"]
    assert run[run.index("--dir") + 1] == FOLDER
    commands = [[*run, *given] for _, _, _, environment, *given in tox_runs() if environment == "fuzz"]
    # Of an option that is given twice, the last counts.
    targets = [words[len(words) - words[::-1].index("--targets")] for words in commands]
    assert targets == ["all", "broker:4.4.0"]
    assert unknown_targets([name for each in targets for name in split_targets(each)]) == []


def test_only_the_sealed_folder_is_kept() -> None:
    """One file is restored, saved and uploaded; the job may only read."""
    moved = [step["with"] for step in STEPS if re.search("cache/|upload", step.get("uses", ""))]
    assert [each["path"] for each in moved] == [SEALED] * 3
    keys = {each["key"] for each in moved if "key" in each}
    assert len(keys) == 1
    assert "run_attempt" in keys.pop()
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["defaults"]["run"]["shell"] == "bash"
