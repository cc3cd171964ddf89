"""The GitHub Action: a valid one, and its steps do here what they do there."""

import http.server
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from jsonschema import Draft202012Validator

ROOT = Path(__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"]}

# GitHub's rules for a composite action (its JSON Schema is in SchemaStore, as github-action.json).
TEXT = {"type": "string", "minLength": 1}
NAMED = {"type": "object", "propertyNames": {"pattern": "^[_a-zA-Z][a-zA-Z0-9_-]*$"}}
STEP = {
    "type": "object",
    "properties": {
        "name": TEXT, "id": TEXT, "if": TEXT, "run": TEXT, "shell": {"const": "bash"},
        "uses": {"type": "string", "pattern": r"^[\w.-]+/[\w./-]+@[0-9a-f]{40}$"},
        "with": {"type": "object"}, "env": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "additionalProperties": False,
    "oneOf": [{"required": ["run", "shell"]}, {"required": ["uses"]}],
}  # fmt: skip
SCHEMA = {
    "type": "object",
    "required": ["name", "description", "runs"],
    "properties": {
        "name": TEXT,
        "description": TEXT,
        "branding": {
            "type": "object",
            "properties": {"icon": TEXT, "color": {"enum": ["white", "green", "blue"]}},
            "additionalProperties": False,
        },
        "inputs": NAMED
        | {
            "additionalProperties": {
                "type": "object",
                "required": ["description"],
                "properties": {"description": TEXT, "required": {"type": "boolean"}, "default": {"type": "string"}},
                "additionalProperties": False,
            }
        },
        "outputs": NAMED
        | {
            "additionalProperties": {
                "type": "object",
                "required": ["description", "value"],
                "properties": {"description": TEXT, "value": TEXT},
                "additionalProperties": False,
            }
        },
        "runs": {
            "type": "object",
            "required": ["using", "steps"],
            "properties": {"using": {"const": "composite"}, "steps": {"type": "array", "minItems": 1, "items": STEP}},
            "additionalProperties": False,
        },
    },
    "additionalProperties": False,
}


class Job:
    """Runs steps as GitHub's runner does: expressions filled in, bash with its flags, files for outputs and summary."""

    def __init__(self, folder: Path, **inputs: str) -> None:
        self.work, self.temp = folder / "work", folder / "temp"
        self.work.mkdir(parents=True)
        self.temp.mkdir()
        self.files = {name: folder / name for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        self.inputs: dict[str, str] = {
            name: given.get("default", "") for name, given in ACTION["inputs"].items()
        } | inputs
        self.outputs: dict[str, str] = {}
        self.github = {"github.event_name": "push", "github.repository": "owner/codec", "github.token": "secret-token"}
        self.more: dict[str, str] = {}

    def filled(self, text: str) -> str:
        """*text* with its expressions evaluated; one that is not known here is an error."""
        return re.sub(r"\$\{\{ ([\w.-]+) \}\}", lambda found: self.value(found[1]), text)

    def value(self, expression: str) -> str:
        """The value of an expression."""
        plain = {"github.action_path": str(ROOT), "runner.temp": str(self.temp), **self.github}
        if expression.startswith("inputs."):
            return self.inputs[expression.removeprefix("inputs.")]
        if match := re.fullmatch(r"steps\.\w+\.outputs\.([\w-]+)", expression):
            return self.outputs.get(match[1], "")
        if expression.startswith("github.event."):
            return plain.get(expression, "")
        return plain[expression]

    def pull_request(self, number: int, *, head: str = "owner/codec", event: str = "pull_request") -> None:
        """Make it the job of a pull request from the repository *head*."""
        self.github["github.event_name"] = event
        self.github["github.event.pull_request.number"] = str(number)
        self.github["github.event.pull_request.head.repo.full_name"] = head

    def runs(self, name: str) -> bool:
        """Whether the condition of the step *name* holds."""
        text = STEPS[name]["if"].replace("&&", "and").replace("||", "or")
        quoted = re.sub(r"\b(?:inputs|steps|github)\.[\w.-]+", lambda found: repr(self.value(found[0])), text)
        return bool(eval(quoted, {"__builtins__": {}}))

    def run(self, name: str) -> subprocess.CompletedProcess[str]:
        """Run the script of the step *name*."""
        step = STEPS[name]
        for file in self.files.values():
            file.touch()
        files = {variable: str(file) for variable, file in self.files.items()}
        given = {variable: self.filled(text) for variable, text in step["env"].items()}
        path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
        # GitHub fills expressions into scripts too: there must be none.
        assert "${{" not in step["run"]
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
            cwd=self.work, env=os.environ | {"PATH": path} | files | given | self.more,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        lines = self.files["GITHUB_OUTPUT"].read_text(encoding="utf-8").splitlines()
        self.outputs = {name: value for name, _, value in (line.partition("=") for line in lines)}
        return done

    @property
    def summary(self) -> str:
        """The job's page."""
        return self.files["GITHUB_STEP_SUMMARY"].read_text(encoding="utf-8")


def with_kafkaproof(job: Job) -> Job:
    """Put this environment's command where the step before would have installed it."""
    command = job.temp / "kafkaproof-venv" / "bin" / "kafkaproof"
    command.parent.mkdir(parents=True)
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kafkaproof "$@"\n')
    command.chmod(0o755)
    return job


def test_action_is_valid() -> None:
    """The file is what GitHub takes for a composite action."""
    Draft202012Validator.check_schema(SCHEMA)
    assert [error.message for error in Draft202012Validator(SCHEMA).iter_errors(ACTION)] == []


def test_expressions_name_what_there_is() -> None:
    """Every expression is about an input, an output of a step, or a place of the runner."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    ids = {step["id"] for step in STEPS.values() if "id" in step}
    names = re.findall(r"inputs\.([\w-]+)", text)
    assert names
    assert set(names) == set(ACTION["inputs"])
    assert set(re.findall(r"steps\.([\w-]+)\.", text)) <= ids
    written = set(re.findall(r'echo "([\w-]+)=|print\(f"([\w-]+)=', text))
    used = set(re.findall(r"steps\.\w+\.outputs\.([\w-]+)", text))
    assert used == {one or other for one, other in written} | {"cache-hit"}


@pytest.mark.slow
def test_certify_step(tmp_path: Path) -> None:
    """The step judges a codec, sets the outputs, and writes summary, badge and SARIF; the verdict is the exit code."""
    job = with_kafkaproof(
        Job(tmp_path, testee="kafka-python", only="v2_headers\ntimestamp", profiles="consumer\nproducer")
    )
    done = job.run("Certify")
    assert done.returncode == 0, done.stdout + done.stderr
    assert job.outputs["exit-code"] == "1"
    assert job.outputs["certified"] == "false"
    assert job.outputs["certified-for"] == ""
    assert job.summary.startswith("## Kafkaproof\n")
    written = {path.name for path in Path(job.outputs["results"]).rglob("*.*")}
    assert written >= {"result.ndjson", "badge.svg", "badge.json", "report.sarif", "index.html", "summary.md"}
    assert job.run("Verdict").returncode == 1


@pytest.mark.slow
def test_baseline(tmp_path: Path) -> None:
    """With a baseline, only what is worse than that fails the job."""
    job = with_kafkaproof(Job(tmp_path, testee="kafka-python", only="v2_batch"))
    job.run("Certify")
    shutil.copytree(job.outputs["results"], job.work / "before")
    job.inputs["baseline"] = "before"
    job.run("Certify")
    assert job.outputs["exit-code"] == "0"
    assert "since the baseline" in job.summary
    assert job.run("Verdict").returncode == 0


@pytest.mark.slow
def test_known_deviations(tmp_path: Path) -> None:
    """Known deviations go to both commands, and where nothing else is wrong the job passes."""
    job = with_kafkaproof(Job(tmp_path, testee="kafka-python", only="v2_crc", deviations="known.toml"))
    entry = '[[deviation]]\ncase = "v2_crc.*"\nseverity = "lossy"\nreason = "its writer has no leader epoch"\n'
    (job.work / "known.toml").write_text(entry)
    done = job.run("Certify")
    assert job.outputs["exit-code"] == "0", done.stdout + done.stderr


@pytest.mark.slow
def test_a_testee_that_cannot_run(tmp_path: Path) -> None:
    """A wrong name ends the job with its code and its one error, and nothing in it is taken for shell."""
    job = with_kafkaproof(Job(tmp_path, testee="no-such; touch $(echo injected)"))
    done = job.run("Certify")
    assert done.returncode == 0
    assert "no testee 'no-such; touch $(echo injected)'" in done.stderr
    assert job.outputs["exit-code"] == "2"
    assert not (job.work / "injected").exists()
    assert job.run("Verdict").returncode == 2


@pytest.mark.testees
def test_install_step(tmp_path: Path) -> None:
    """The steps install the command from the action's directory into a fresh environment, certify, and set outputs."""
    if sysconfig.get_platform().startswith("win"):
        pytest.skip("paths are those of Linux")
    job = Job(tmp_path, testee="kafka-python", only="v2_headers.key_is_not_utf_8*")
    done = job.run("Install")
    assert done.returncode == 0, done.stdout + done.stderr
    assert job.run("Certify").returncode == 0
    assert job.outputs["exit-code"] == "1"
    assert job.outputs["certified"] == "false"
    assert job.run("Verdict").returncode == 1


class Service(http.server.BaseHTTPRequestHandler):
    """The comments of one pull request, as GitHub's REST interface serves them."""

    comments: ClassVar[list[dict[str, Any]]]
    tokens: ClassVar[set[str]]
    forbidden: ClassVar[bool]

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""

    def reply(self, status: int, document: object) -> None:
        """Send JSON."""
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def document(self) -> Any:
        """The body of the request."""
        self.tokens.add(self.headers["Authorization"])
        return json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")

    def do_GET(self) -> None:
        """A page of comments, oldest first."""
        self.document()
        match = re.fullmatch(r"/repos/owner/codec/issues/7/comments\?per_page=100&page=(\d+)", self.path)
        assert match, self.path
        start = 100 * (int(match[1]) - 1)
        self.reply(200, self.comments[start : start + 100])

    def do_POST(self) -> None:
        """A new comment, unless the token may not write."""
        body = self.document()["body"]
        assert self.path == "/repos/owner/codec/issues/7/comments"
        if self.forbidden:
            self.reply(403, {"message": "Resource not accessible by integration"})
            return
        self.comments.append(comment(len(self.comments), "github-actions[bot]", body))
        self.reply(201, self.comments[-1])

    def do_PATCH(self) -> None:
        """Another text for a comment."""
        body = self.document()["body"]
        match = re.fullmatch(r"/repos/owner/codec/issues/comments/(\d+)", self.path)
        assert match, self.path
        self.comments[int(match[1])]["body"] = body
        self.reply(200, self.comments[int(match[1])])


def comment(number: int, login: str, body: str) -> dict[str, Any]:
    """A comment, as the service describes it."""
    return {"id": number, "user": {"login": login}, "body": body}


@pytest.fixture
def service() -> Iterator[tuple[str, type[Service]]]:
    """The address of a service with 120 comments of others, and the service."""

    class Own(Service):
        comments: ClassVar = [comment(number, "someone", f"comment {number}") for number in range(120)]
        tokens: ClassVar[set[str]] = set()
        forbidden: ClassVar = False

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", Own
        server.shutdown()


def changed_job(folder: Path, address: str, text: str) -> Job:
    """A job on pull request 7 that has compared its results."""
    job = Job(folder, testee="process:./testee; $(touch injected)", comment="true", baseline="before")
    job.pull_request(7)
    job.outputs = {"results": str(folder / "results"), "certified": "false"}
    job.files["GITHUB_OUTPUT"].write_text(f"results={folder / 'results'}\ncertified=false\n", encoding="utf-8")
    (folder / "results" / "report").mkdir(parents=True)
    (folder / "results" / "report" / "changes.md").write_text(text, encoding="utf-8")
    job.more = {"GITHUB_API_URL": address, "GITHUB_REPOSITORY": "owner/codec"}
    return job


@pytest.mark.slow
def test_one_comment_is_kept_up_to_date(service: tuple[str, type[Service]], tmp_path: Path) -> None:
    """The first run writes a comment, later ones replace its text; comments of others stay."""
    address, served = service
    job = changed_job(tmp_path, address, "first")
    # What its first line will be can be computed: somebody wrote it before.
    assert job.runs("Comment what changed")
    assert job.run("Comment what changed").returncode == 0
    mark = served.comments[120]["body"].splitlines()[0]
    served.comments[3]["body"] = f"{mark}\nnot by the job"
    (tmp_path / "results" / "report" / "changes.md").write_text("second", encoding="utf-8")
    done = job.run("Comment what changed")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [each["body"] for each in served.comments[120:]] == [f"{mark}\nsecond"]
    assert served.comments[3]["body"] == f"{mark}\nnot by the job"
    assert served.tokens == {"Bearer secret-token"}
    assert re.fullmatch(r"<!-- kafkaproof [0-9a-f]{16} -->", mark)
    assert list(job.work.iterdir()) == []


@pytest.mark.slow
def test_a_token_that_cannot_write_is_a_warning(service: tuple[str, type[Service]], tmp_path: Path) -> None:
    """Without pull-requests write, or without the service, the step warns on one line, and the job goes on."""
    address, served = service
    job = changed_job(tmp_path, address, "text")
    served.forbidden = True
    for where in (address, "http://127.0.0.1:1"):
        job.more["GITHUB_API_URL"] = where
        done = job.run("Comment what changed")
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 1)
        assert done.stdout.startswith("::warning::no comment (")
        assert "secret-token" not in done.stdout + done.stderr
    assert len(served.comments) == 120


@pytest.mark.slow
def test_modules_of_the_pull_request_do_not_run_with_the_token(
    service: tuple[str, type[Service]], tmp_path: Path
) -> None:
    """A `json.py` in the working directory is not imported by the step that has the token."""
    address, served = service
    job = changed_job(tmp_path, address, "text")
    for name in ("json", "hashlib", "urllib", "sitecustomize"):
        (job.work / f"{name}.py").write_text(
            "import os, pathlib; pathlib.Path('stolen').write_text(os.environ['TOKEN'])"
        )
    job.more["PYTHONPATH"] = str(job.work)

    assert job.run("Comment what changed").returncode == 0
    assert not (job.work / "stolen").exists()
    assert len(served.comments) == 121


def test_only_pull_requests_of_the_repository_get_comments(tmp_path: Path) -> None:
    """Forks, pushes and runs without a baseline get no comment, and pull_request_target is refused."""
    job = changed_job(tmp_path, "", "text")
    assert job.runs("Comment what changed")
    assert not job.runs("Refuse pull_request_target")
    for inputs, head, event in (
        ({}, "fork/codec", "pull_request"),
        ({}, "owner/codec", "push"),
        ({}, "owner/codec", "pull_request_target"),
        ({"baseline": ""}, "owner/codec", "pull_request"),
        ({"comment": "false"}, "owner/codec", "pull_request"),
    ):
        job.inputs |= {"baseline": "before", "comment": "true"} | inputs
        job.pull_request(7, head=head, event=event)
        assert not job.runs("Comment what changed"), (inputs, head, event)
    job.pull_request(7, event="pull_request_target")
    assert job.runs("Refuse pull_request_target")
    assert next(iter(STEPS)) == "Refuse pull_request_target"
    refused = subprocess.run(
        ["bash", "-ec", STEPS["Refuse pull_request_target"]["run"]], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2


def test_only_one_step_has_the_token() -> None:
    """The token is in the environment of the step that writes the comment, and of no step that runs a testee."""
    assert [name for name, step in STEPS.items() if "github.token" in json.dumps(step)] == ["Comment what changed"]
    assert "secrets." not in (ROOT / "action.yml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_key_of_the_cache_has_the_digest_of_the_build(tmp_path: Path) -> None:
    """A known name has a folder and a key that end with the digest; a command line has none; nothing is built."""
    job = with_kafkaproof(Job(tmp_path, testee="franz-go@1.20.0"))
    job.more = {
        "RUNNER_OS": "Linux",
        "RUNNER_ARCH": "X64",
        "ImageOS": "ubuntu24",
        "XDG_CACHE_HOME": str(tmp_path / "c"),
    }
    assert job.run("Find the build").returncode == 0
    folder, key = job.outputs["folder"], job.outputs["key"]
    assert re.fullmatch(rf"{tmp_path}/c/kafkaproof/testees/franz-go-1\.20\.0-[0-9a-f]{{12}}", folder)
    assert key == f"kafkaproof-Linux-ubuntu24-X64-{Path(folder).name}"
    assert not (tmp_path / "c").exists()
    assert job.runs("Restore the build")
    assert job.runs("Build")
    assert not job.runs("Keep the build")
    job.outputs["cache-hit"] = "true"
    assert not job.runs("Build")
    for testee in ("process:go run .", "kafka-python", "no-such", "$(touch injected)"):
        other = with_kafkaproof(Job(tmp_path / str(len(testee)), testee=testee))
        assert other.run("Find the build").returncode == 0, testee
        assert other.outputs == {}, testee
        assert list(other.work.iterdir()) == []


def test_the_cache_is_written_before_the_testee_runs() -> None:
    """The cache gets the build before the first step that runs a testee."""
    names = list(STEPS)
    assert names.index("Keep the build") < names.index("Certify")


@pytest.mark.testees
def test_build_step(tmp_path: Path) -> None:
    """A build goes into the folder that is kept, and one that cannot be made is not kept."""
    if shutil.which("go") is None:
        pytest.skip("needs go")
    job = with_kafkaproof(Job(tmp_path, testee="franz-go"))
    go_cache = subprocess.run(["go", "env", "GOCACHE"], capture_output=True, text=True, check=True).stdout.strip()
    job.more = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "GOCACHE": go_cache}
    job.run("Find the build")
    done = job.run("Build")
    assert job.outputs.get("keep") == "true", done.stdout + done.stderr
    assert any(Path(job.outputs["folder"]).iterdir())
    assert job.runs("Keep the build")
    # Nothing can be made in a file.
    (tmp_path / "bare").write_text("")
    bare = with_kafkaproof(Job(tmp_path / "other", testee="franz-go"))
    bare.more = {"XDG_CACHE_HOME": str(tmp_path / "bare")}
    bare.run("Find the build")
    assert bare.run("Build").returncode == 0
    assert not bare.runs("Keep the build")


@pytest.mark.slow
def test_changes_are_on_the_page_of_the_job(tmp_path: Path) -> None:
    """With a baseline, the tables of what changed come first on the job's page."""
    job = with_kafkaproof(Job(tmp_path, testee="planted:keys_as_text", only="v2_headers"))
    job.run("Certify")
    shutil.copytree(job.outputs["results"], job.work / "before")
    job.inputs |= {"baseline": "before", "testee": "planted:swaps_key_and_value"}
    job.files["GITHUB_STEP_SUMMARY"].unlink()
    done = job.run("Certify")
    assert job.outputs["exit-code"] == "1", done.stdout + done.stderr
    assert job.summary.startswith("## Kafkaproof: what changed\n")
    assert "🔴 new" in job.summary


@pytest.mark.slow
def test_a_copy_without_a_package_needs_requirements(tmp_path: Path) -> None:
    """A copy of the file alone installs from requirements with hashes only, and says so if it has none."""
    job = Job(tmp_path, testee="reference")
    job.github["github.action_path"] = str(tmp_path)
    done = job.run("Install")
    assert done.returncode == 2
    assert "give the input requirements" in done.stdout
    unhashed = tmp_path / "kafkaproof-0.1.0-py3-none-any.whl"
    unhashed.write_bytes(b"")
    (job.work / "requirements.txt").write_text(f"{unhashed}\n")
    job.inputs["requirements"] = "requirements.txt"
    done = job.run("Install")
    assert done.returncode == 1
    assert "Hashes are required in --require-hashes mode" in done.stdout + done.stderr
