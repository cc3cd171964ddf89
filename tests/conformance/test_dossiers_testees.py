"""The dossiers of the project are true for the versions that they are about: their cases asked again, a program run."""

import shutil
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kafka_conformance.commands.certify import certify
from kafka_conformance.connect.known import find
from kafka_conformance.dossiers import folder, running
from kafka_conformance.dossiers.causes import SENSITIVE
from kafka_conformance.dossiers.grouping import Group
from kafka_conformance.dossiers.reproduce import reproducer
from kafka_conformance.results import FILE

pytestmark = pytest.mark.testees

ROOT = Path(__file__).resolve().parents[2]
FOUND = {path.parent.name: path for path in sorted((ROOT / "dossiers").glob(f"*/{folder.FINDINGS}"))}
# What a program takes: one testee of each language.
PROGRAMS = {
    "Go": "kafka-go",
    "Rust": "rskafka",
    "JavaScript": "kafkajs",
    "Java": "java-kafka-clients",
    "Python": "aiokafka",
}
TOOLS = {"Go": ("go",), "Rust": ("cargo",), "JavaScript": ("node", "npm"), "Java": ("mvn", "java"), "Python": ()}


def kept(path: Path) -> folder.Findings:
    """What a `findings.json` says."""
    return msgspec.json.decode(path.read_bytes(), type=folder.Findings)


def asked(one: folder.Findings, where: Path, ids: list[str]) -> Path:
    """The result of asking the testee these cases only, in the release that the dossiers are about."""
    known = find(one.testee)
    assert known is not None
    if missing := known.missing():
        pytest.skip(f"{one.testee} takes {', '.join(missing)}")
    version = one.version.split()[0]  # behind it a testee may say what it is made of
    name = one.testee if known.version() == version else f"{one.testee}@{version}"
    only = [word for id_ in ids for word in ("--only", id_)]
    done = CliRunner().invoke(certify, [name, *only, "--report", str(where)])
    assert done.exit_code == 1, done.output
    (result,) = where.glob(f"**/{FILE}")
    return result


def alike(outcome: str, *, heavy: bool) -> str:
    """Which limit is met first depends on the machine; of heavy inputs, whether one is met at all."""
    if heavy:
        return "agree" if outcome == "agree" else "a disagreement"
    return "hang or memory" if outcome in ("hang", "memory") else outcome


@pytest.mark.parametrize("name", FOUND)
def test_findings_are_as_written(name: str, tmp_path: Path) -> None:
    """Each case of each dossier has the outcome that is written, in that version of its testee.

    One in a hundred may not: where a limit of time or memory is close, the machine has a say.
    """
    one = kept(FOUND[name])
    written = {case: outcome for each in one.dossiers for case, outcome in each.cases.items()}
    ((done, _),) = folder.read([asked(one, tmp_path, sorted(written))])
    now = {line.case: line for line in done.lines}
    changed = {
        case: (outcome, now[case].outcome)
        for case, outcome in written.items()
        if alike(outcome, heavy=now[case].heavy) != alike(now[case].outcome, heavy=now[case].heavy)
    }

    assert len(changed) <= len(written) / 100, changed


def shown(language: str, where: Path) -> Group:
    """A dossier of that language's testee whose program does no harm."""
    one = kept(next(path for path in FOUND.values() if kept(path).testee == PROGRAMS[language]))
    harmless = [each for each in one.dossiers if each.outcome not in SENSITIVE]
    plain = next((each for each in harmless if each.outcome in ("accepts_invalid", "rejects_valid")), harmless[0])
    ((_, groups),) = folder.read([asked(one, where, [plain.case])])
    (group,) = groups
    return group


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_program_shows_what_its_dossier_says(language: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In each language a reproducer builds from its own text, in an empty folder, and shows the finding."""
    if missing := [tool for tool in TOOLS[language] if shutil.which(tool) is None]:
        pytest.skip(f"it takes {', '.join(missing)}")
    group = shown(language, tmp_path / "result")
    made = reproducer(group)
    assert made is not None
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    monkeypatch.setenv("npm_config_audit", "false")
    running.prepare(made, tmp_path / "program")
    ran = running.run(made, tmp_path / "program", limit=600)

    assert running.shows(group.lines[0], ran), (group.id, ran)


def test_every_language_has_a_dossier() -> None:
    """There are dossiers to run a program of, in each of the languages."""
    assert set(PROGRAMS.values()) <= {kept(path).testee for path in FOUND.values()}
