"""Mutants of Python codecs: cosmic-ray's operators, one changed module in a forked process, the corpus as the test.

A preloaded process per target records once, for each unit (a case, or a case on a release), how long it takes and which
lines it runs.  Each mutant gets a fork: the codec's modules are imported again, one of them changed, and the units that
run the changed statement are answered, the shortest first, until a verdict differs.

Codecs answer through their adapter and are judged as in a certificate.  The reference answers what the corpus stores of
it: its answer in the vector with rule and path, the records that a read_committed consumer gets, its predictions of
recorded brokers, its explanations, and where memory ends.
"""

from __future__ import annotations

import ast
import gc
import importlib
import importlib.util
import os
import resource
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from types import CodeType, FrameType, ModuleType
from typing import IO, Any, Final, Protocol, cast

import msgspec

from kafka_conformance.in_process import IN_C, TimeUp, cpu_limit, raise_time_up
from kafka_conformance.judge.observation import observe
from kafka_conformance.judge.verdict import judge
from kafka_conformance.power.results import CodeMutant, MutantResult, MutantStatus, mutant_result
from kafka_conformance.runner.requests import request_for, single_line, unsupported
from kafka_conformance.testees import serve
from kafka_conformance.testees.connection import CannotRun
from kafka_conformance.testees.interface import load_testee
from kafka_conformance.testees.known import KnownTestee, find_testee
from kafka_conformance.testees.protocol import CodecReply, HelloReply, parse_reply, reply_line
from kafka_corpus import answers, evidence
from kafka_corpus.answer_diff import difference, scenario_of
from kafka_corpus.case import Case
from kafka_corpus.evidence import Answers, CaseEvidence
from kafka_corpus.evidence.brokers import PREDICTED
from kafka_corpus.scenario import Scenario, StepAnswer
from kafka_corpus.vector_format import CODEC_OPS, Answer, line_of
from kafka_corpus.vectors import load_vectors, package_root

# Of the operators that replace one operator by another, so many are drawn at each place: there are eleven for a `+`.
REPLACEMENTS: Final = 2
# CPU seconds: of a unit that is traced, of the least limit, and how often its own time a unit may take.
MOST_SECONDS: Final = 0.2
LEAST_LIMIT: Final = 1.0
TIMES: Final = 20
ASLEEP: Final = 600.0  # seconds without a word until a child is ended
MEMORY: Final = 1 << 30  # bytes on top of what the preloaded process takes
# Kernels of ours run as Python, for any processor: to compile a mutant takes a minute.
_INTERPRETED: Final = {"NUMBA_DISABLE_JIT": "1", "NUMBA_CPU_NAME": "generic"}
CHILD_ENVIRONMENT: Final = {"PYTHONHASHSEED": "0", "PYTHONWARNINGS": "ignore"} | _INTERPRETED
# In place of a unit: the import of the codec.
IMPORT: Final = -1
# Areas whose inputs are made to take all time and memory: no mutant of a codec gets them.
EXHAUSTING: Final = frozenset({"resources"})
_SHORT: Final = 16


# --- mutants -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Placed:
    """A mutant, and how cosmic-ray makes it: the operator, and which of its occurrences in the file."""

    mutant: CodeMutant
    operator: str
    occurrence: int
    lines: tuple[int, int]


class MutatedSource:
    """One module: its path, its text, and what its syntax tree says of lines."""

    def __init__(self, module: str, path: Path) -> None:
        self.module, self.path = module, path
        self.text = path.read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)
        self.rows = self.text.split("\n")
        self._unused = list(_annotations(self.tree))
        kinds = (ast.stmt, ast.ExceptHandler, ast.match_case)
        self._heads = [_head(node) for node in ast.walk(self.tree) if isinstance(node, kinds)]

    def parsed(self) -> Any:
        """The tree that cosmic-ray changes."""
        from cosmic_ray.ast import get_ast

        return get_ast(self.text)

    def is_unused(self, place: tuple[int, int]) -> bool:
        """Whether *place* is in an annotation, which no code runs."""
        return any(start <= place < end for start, end in self._unused)

    def function(self, line: int) -> str:
        """The qualified name of the function or class around *line*; `<module>` for none."""
        name, body = "", self.tree.body
        while True:
            around = [each for each in body if isinstance(each, _SCOPES) and _first(each) <= line <= _end(each)]
            if not around:
                return name or "<module>"
            name = f"{name}.{around[0].name}".lstrip(".")
            body = around[0].body

    def statement(self, line: int) -> tuple[int, int]:
        """First and last line of the innermost statement at *line*; of a compound one, of its head."""
        around = [head for head in self._heads if head[0] <= line <= head[1]]
        return around[-1] if around else (line, line)


_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _first(node: Any) -> int:
    return min(int(each.lineno) for each in (node, *getattr(node, "decorator_list", ())))


def _end(node: Any) -> int:
    return int(node.end_lineno)


def _head(node: Any) -> tuple[int, int]:
    first = node.pattern.lineno if isinstance(node, ast.match_case) else _first(node)
    body = getattr(node, "body", None) or getattr(node, "cases", None)
    if not body:
        return first, _end(node)
    inner = body[0].pattern.lineno if isinstance(body[0], ast.match_case) else _first(body[0])
    return first, max(first, inner - 1)


def _annotations(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    """Start and end of each annotation, as line and column."""
    for node in ast.walk(tree):
        for each in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if isinstance(each, ast.expr):
                yield (each.lineno, each.col_offset), (each.end_lineno or 0, each.end_col_offset or 0)


@cache
def _operators() -> dict[str, Any]:
    """cosmic-ray's operators that need no arguments."""
    from cosmic_ray.operators.provider import OperatorProvider

    provider = OperatorProvider()
    return {name: provider[name]() for name in provider if not provider[name].arguments()}


def placed_mutants(source: MutatedSource) -> list[Placed]:
    """Every mutant of *source*, in an order that depends on its text only."""
    from cosmic_ray.ast import ast_nodes

    nodes = [node for node in ast_nodes(source.parsed()) if node.type not in _UNCHANGED]
    of_family = {family: [node for node in nodes if node.type in types] for family, types in _CHANGED.items()}
    found: dict[tuple[tuple[int, int], str], list[tuple[str, int]]] = {}
    for name, operator in _operators().items():
        occurrence = 0
        for node in of_family.get(_family(name), nodes):
            for start, _ in operator.mutation_positions(node):
                if not source.is_unused(start):
                    found.setdefault((start, _family(name)), []).append((name, occurrence))
                occurrence += 1
    counted: dict[tuple[str, int, str], int] = {}
    placed = []
    for (start, family), ways in sorted(found.items()):
        for name, occurrence in _drawn(source, start, family, ways):
            function = source.function(start[0])
            key = function, start[0], name
            index = counted[key] = counted.get(key, -1) + 1
            mutant = CodeMutant(
                class_name=source.module, method=function, line=start[0], mutator=name, index=index,
                description=f"column {start[1]} of `{source.rows[start[0] - 1].strip()}`",
            )  # fmt: skip
            placed.append(Placed(mutant, name, occurrence, source.statement(start[0])))
    return placed


# Types of nodes that no operator changes.
_UNCHANGED: Final = frozenset({"name", "newline", "endmarker", "string"})
# Types of nodes that the operators of a family change.
_CHANGED: Final = {
    "ReplaceBinaryOperator": ("operator",),
    "ReplaceComparisonOperator": ("comparison",),
    "ReplaceUnaryOperator": ("factor", "not_test"),
}


def _family(operator: str) -> str:
    return next((each for each in _CHANGED if operator.startswith(each)), operator)


def _drawn(
    source: MutatedSource, at: tuple[int, int], family: str, ways: list[tuple[str, int]]
) -> list[tuple[str, int]]:
    if family not in _CHANGED:
        return ways
    return sorted(ways, key=lambda way: sha256(f"{source.module} {at} {way[0]}".encode()).digest())[:REPLACEMENTS]


def mutated_text(tree: Any, operator: str, occurrence: int) -> str:
    """The text of a module with one change; *tree*, as cosmic-ray parses it, is changed in place."""
    from cosmic_ray.mutating import MutationVisitor

    return str(MutationVisitor(occurrence, _operators()[operator]).walk(tree).get_code())


class ChangedModule(MetaPathFinder):
    """An import hook that loads one module from other code."""

    def __init__(self, module: str, path: Path, code: CodeType) -> None:
        self.module, self.path, self.code = module, path, code

    def find_spec(self, fullname: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """The spec of the changed module; None for all others."""
        if fullname != self.module:
            return None
        loader = _CodeLoader(fullname, str(self.path))
        loader.code = self.code
        return importlib.util.spec_from_file_location(fullname, self.path, loader=loader)


class _CodeLoader(SourceFileLoader):
    code: CodeType

    def get_code(self, _fullname: str) -> CodeType:
        return self.code


class Exchange(Protocol):
    """The units of a target.  `load` imports the codec again and gives the function that answers a unit by number."""

    units: Sequence[str]
    most_seconds: float  # of CPU time, of a unit that is used

    def load(self) -> Callable[[int], bytes]:
        """Import the codec again."""

    def grade(self, unit: int, reply: bytes) -> str:
        """The verdict on *reply* as text, by code that is not mutated."""


def _within(name: str, packages: Iterable[str]) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in packages)


def forget(packages: Sequence[str]) -> None:
    """Remove *packages* from the imported modules, so that they are imported again."""
    for name in [name for name in sys.modules if _within(name, packages)]:
        del sys.modules[name]


class CodecExchange:
    """The codec cases, through the adapter, judged as in a certificate."""

    most_seconds = MOST_SECONDS

    def __init__(self, adapter: str, package: str) -> None:
        testee = load_testee(adapter)
        hello = serve.hello(testee)
        self._adapter = adapter
        self._again = [adapter, package, *_users(package)]
        usual = (case for case in load_vectors(ops=CODEC_OPS) if case.area not in EXHAUSTING)
        self._cases = [case for case in usual if unsupported(case, hello) is None]
        self._lines = [_request(case, hello) for case in self._cases]
        self.units: Sequence[str] = [case.id for case in self._cases]

    def load(self) -> Callable[[int], bytes]:
        """Import the codec and the modules that use it again."""
        forget(self._again)
        testee = load_testee(self._adapter)
        return lambda unit: reply_line(serve.reply_to(testee, self._lines[unit]))

    def grade(self, unit: int, reply: bytes) -> str:
        """Outcome and fields of the judge's verdict."""
        return _verdict(self._cases[unit], reply)


def _request(case: Case, hello: HelloReply) -> bytes:
    return single_line("1", request_for(case, committed=hello.committed)).rstrip(b"\n")


def _verdict(case: Case, reply: bytes) -> str:
    parsed = parse_reply(reply.rstrip(b"\n"))
    if isinstance(parsed, CodecReply):
        found = judge(case, observe(parsed))
        return f"{found.outcome} {found.field} {found.also} {found.left_out}"
    return "no reply"


def _users(package: str) -> Iterator[str]:
    """Imported modules of the same distribution that have an object of *package* in their namespace."""
    top = package.partition(".")[0]
    for name, module in list(sys.modules.items()):
        if name != top and _within(name, [top]) and not _within(name, [package]) and isinstance(module, ModuleType):
            values = list(vars(module).values())
            if any(_within(getattr(each, "__module__", None) or "", [package]) for each in values):
                yield name


# Packages that are imported again for a mutant of the reference; the judge keeps the unchanged ones.
_REFERENCE: Final = ("kafka_records", "kafka_corpus", "kafka_conformance.testees")
_PARTS: Final = (
    "kafka_conformance.testees.serve", "kafka_conformance.testees.protocol", "kafka_corpus.answers",
    "kafka_corpus.vector_format", "kafka_corpus.prediction", "kafka_corpus.answer_diff",
)  # fmt: skip


class ReferenceExchange:
    """All that the corpus stores: answers in vectors, records under read_committed, predictions, explanations."""

    most_seconds = 2.0

    def __init__(self, adapter: str) -> None:
        self._adapter = adapter
        self._cases = list(load_vectors())
        self._lines = [line_of(case) for case in self._cases]
        self._kept = list(answers.kept_alone({case.id: case.input for case in self._cases}))
        hello = serve.hello(load_testee(adapter))
        self._questions: list[tuple[int, str, bytes, Sequence[StepAnswer]]] = []
        recorded = evidence.load_evidence(package_root())
        compared: set[tuple[str, tuple[tuple[str, ...], ...]]] = set()
        for number, case in enumerate(self._cases):
            kinds = ("answer", "explained") if answers.is_described(case) else ("answer",)
            self._questions += [(number, each, b"", ()) for each in kinds]
            if case.aborted is not None:
                self._questions.append((number, "committed", _request(case, hello), ()))
            found = _predicted(case, recorded.get(case.id), compared)
            self._questions += [(number, release, b"", given) for release, given in found]
            self._questions += [(number, "reasons", each.encode(), ()) for each in answers.described_releases(case)]
        self._questions += [(number, "kept", b"", ()) for number in range(len(self._kept))]
        self.units: Sequence[str] = [
            f"kept.{at}" if what == "kept" else f"{self._cases[at].id} {what}".removesuffix(" answer")
            for at, what, *_ in self._questions
        ]

    def load(self) -> Callable[[int], bytes]:
        """Import the reference and the corpus' code again."""
        forget(_REFERENCE)
        fresh_serve, protocol, requests, vectors, predicting, diff = map(importlib.import_module, _PARTS)
        testee = fresh_serve.load_testee(self._adapter)
        case = cache(lambda number: vectors.parse_line(self._lines[number]))

        def answer(unit: int) -> bytes:
            number, what, line, _ = self._questions[unit]
            if what == "committed":
                return bytes(protocol.reply_line(fresh_serve.reply_to(testee, line)))
            if what == "answer":
                return msgspec.json.encode(requests.ask_reference(case(number)))
            if what == "explained":
                return bytes(requests.described(case(number).input))
            if what == "kept":
                return bytes(requests.described_kept(*self._kept[number]))
            if what == "reasons":
                return bytes(requests.described_prediction(case(number), line.decode()))
            return msgspec.json.encode(predicting.predict(diff.scenario_of(case(number)), what))

        return answer

    def grade(self, unit: int, reply: bytes) -> str:
        """How the answer differs from what is stored or recorded."""
        number, what, _, given = self._questions[unit]
        if what in ("explained", "kept", "reasons"):
            return sha256(reply).hexdigest()
        if what == "answer":
            short = answers.brief(self._cases[number], msgspec.json.decode(reply, type=Answer))
            return sha256(msgspec.json.encode(short)).hexdigest()
        if what == "committed":
            return _verdict(self._cases[number], reply)
        said = msgspec.json.decode(reply, type=tuple[StepAnswer, ...] | None)
        return "no prediction" if said is None else difference(said, given, "masked")


def _predicted(
    case: Case, line: CaseEvidence | None, compared: set[tuple[str, tuple[tuple[str, ...], ...]]]
) -> Iterator[tuple[str, Answers]]:
    """Recorded answers: of the releases whose predictions are checked, and of a scenario each that is different.

    Of the first case of a function and changes, which *compared* holds, also those before and after each change.
    """
    if (scenario := scenario_of(case)) is None or line is None:
        return
    found = [each for each in line.brokers if not each.cannot]
    changes = case.id.partition("[")[0], tuple(tuple(each.releases) for each in found)
    is_first = len(found) > 1 and changes not in compared
    compared.add(changes)
    for recorded in found:
        concerned = [each for each in recorded.releases if scenario.concerns(each)]
        wanted = [each for each in concerned if each in PREDICTED]
        if is_first:
            wanted += [each for each in dict.fromkeys(concerned[:1] + concerned[-1:]) if each not in wanted]
        if isinstance(case.input, Scenario):
            wanted = wanted or concerned[-1:]
        for release in wanted:
            yield release, recorded.steps


def _limited(answer: Callable[[int], bytes], unit: int, seconds: float) -> bytes:
    """The reply to *unit*, of which an exception is one too; raises `TimeUp`."""
    with cpu_limit(seconds):
        try:
            return answer(unit)
        except Exception as error:
            return f"raised {type(error).__module__}.{type(error).__qualname__}".encode()


def _graded(exchange: Exchange, unit: int, reply: bytes) -> str:
    try:
        return exchange.grade(unit, reply)
    except Exception as error:  # a reply that is none
        return f"{type(error).__qualname__} {reply[:80]!r}"


def _restrict() -> None:
    """Limit this child: memory, what an alarm does, and what native libraries print when they end it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    signal.signal(signal.SIGPROF, raise_time_up)
    taken = int(Path("/proc/self/statm").read_bytes().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + MEMORY, taken + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def in_fork(work: Callable[[Callable[[bytes], None]], None], asleep: float = ASLEEP) -> tuple[list[bytes], bool]:
    """Run *work* in a fork: the lines it sent, and whether it ended by itself; asleep for so long, it is killed."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            work(lambda line: _write(writing, line + b"\n"))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    try:
        data = _read(reading, asleep)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)  # one that has closed the pipe is at its end, and keeps its exit code
        status = os.waitpid(child, 0)[1]
    return data.split(b"\n")[:-1], status == 0


def _write(pipe: int, data: bytes) -> None:
    while data:
        data = data[os.write(pipe, data) :]


def _read(pipe: int, asleep: float) -> bytes:
    """All that is written to *pipe*, until it is closed or nothing comes for so many seconds."""
    parts: list[bytes] = []
    while select.select([pipe], [], [], asleep)[0] and (part := os.read(pipe, 1 << 16)):
        parts.append(part)
    return b"".join(parts)


# --- the record of the unchanged codec -----------------------------------------------------------------------------


@dataclass(slots=True)
class CodecBehaviour:
    """Answers of the unchanged codec.

    Attributes:
        units: numbers of the units that are used: quick, and alike in both runs; the order in which they are sent.
        costs: CPU seconds of each unit.
        replies: hash of each reply.
        verdicts: of each unit.
        lines: for each file, for each line, a bit for each unit that runs it.
        imported: for each file, the lines that run when it is imported.
    """

    units: list[int]
    costs: dict[int, float]
    replies: dict[int, bytes]
    verdicts: dict[int, str]
    lines: dict[str, dict[int, bytes]]
    imported: dict[str, list[int]]


class _Observed(msgspec.Struct, array_like=True):
    """One unit: CPU seconds, hash of the reply, verdict, and lines by number of the file."""

    unit: int
    cost: float
    reply: bytes
    verdict: str
    lines: dict[int, list[int]] = {}


def record_behaviour(exchange: Exchange, files: Sequence[str]) -> CodecBehaviour:
    """The behaviour of the unchanged codec, from two runs; the second traces lines of *files*, in slow units none."""
    first = {each.unit: each for each in _observed(exchange, range(len(exchange.units)))}
    used = [unit for unit, each in first.items() if unit != IMPORT and 0 <= each.cost <= exchange.most_seconds]
    quick, slow = ([unit for unit in used if (first[unit].cost > MOST_SECONDS) is most] for most in (False, True))
    size = len(exchange.units) // 8 + 1
    masks: dict[str, dict[int, bytearray]] = {name: {} for name in files}
    imported: dict[str, list[int]] = {}
    same = []
    for each in chain(_observed(exchange, slow), _observed(exchange, quick, files)):
        if each.unit == IMPORT:
            imported = {files[at]: lines for at, lines in each.lines.items()}
        elif each.reply == first[each.unit].reply:
            same.append(each.unit)
            for name, line in ((files[at], line) for at, lines in each.lines.items() for line in lines):
                masks[name].setdefault(line, bytearray(size))[each.unit >> 3] |= 1 << (each.unit & 7)
    costs = {unit: first[unit].cost for unit in same}
    return CodecBehaviour(
        units=_in_order(exchange.units, same, costs),
        costs=costs,
        replies={unit: first[unit].reply for unit in same},
        verdicts={unit: first[unit].verdict for unit in same},
        lines={name: {line: bytes(mask) for line, mask in lines.items()} for name, lines in masks.items()},
        imported=imported,
    )


def _in_order(names: Sequence[str], units: Sequence[int], costs: dict[int, float]) -> list[int]:
    """The quickest unit of each area first, then all others, quickest first."""
    quickest: dict[str, int] = {}
    by_cost = sorted(units, key=lambda unit: (round(costs[unit], 3), unit))
    for unit in by_cost:
        quickest.setdefault(names[unit].partition(".")[0], unit)
    first = set(quickest.values())
    return [*quickest.values(), *(unit for unit in by_cost if unit not in first)]


def _observed(exchange: Exchange, units: Sequence[int], files: Sequence[str] = ()) -> Iterator[_Observed]:
    """The result of each unit; a process that a unit ends is replaced after it."""
    at = 0
    while at < len(units):
        sent, _ = in_fork(partial(_observe_all, exchange, units[at:], files))
        if not sent:
            raise CannotRun("the unchanged codec does not load; the error is above")
        found = list(map(msgspec.json.Decoder(_Observed).decode, sent))
        yield from found
        at += len([each for each in found if each.unit != IMPORT]) + 1


def _observe_all(exchange: Exchange, units: Sequence[int], files: Sequence[str], send: Callable[[bytes], None]) -> None:
    tracer = _LineTracer(files)
    with tracer:
        answer = exchange.load()
    caches = list(_caches(set(files)))
    send(msgspec.json.encode(_Observed(IMPORT, 0.0, b"", "", tracer.taken())))
    _restrict()
    for unit in units:
        for each in caches:
            each.cache_clear()
        send(msgspec.json.encode(_observe_unit(exchange, tracer, answer, unit)))


def _observe_unit(exchange: Exchange, tracer: _LineTracer, answer: Callable[[int], bytes], unit: int) -> _Observed:
    began = time.process_time()
    try:
        with tracer:
            reply = _limited(answer, unit, (TIMES if tracer.files else 1) * exchange.most_seconds)
    except TimeUp:
        return _Observed(unit, -1.0, b"", "")
    cost = time.process_time() - began
    return _Observed(unit, cost, sha256(reply).digest()[:_SHORT], _graded(exchange, unit, reply), tracer.taken())


def _caches(files: set[str]) -> Iterator[Any]:
    """The cached functions of modules in *files*: what a unit gets from a cache, it would run without."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) in files:
            yield from (each for each in vars(module).values() if callable(getattr(each, "cache_clear", None)))


class _LineTracer:
    """Collects the lines of some files that run; of none, it does nothing."""

    def __init__(self, files: Sequence[str]) -> None:
        self.files = {name: at for at, name in enumerate(files)}
        # By identity: equal code in two files is not the same code.
        self._of_code: dict[int, tuple[CodeType, set[int], Any]] = {}

    def __enter__(self) -> None:
        if self.files:
            sys.settrace(self._enter)

    def __exit__(self, *_: object) -> None:
        if self.files:
            sys.settrace(None)

    def taken(self) -> dict[int, list[int]]:
        """The lines since the last call, by number of the file."""
        found: dict[int, list[int]] = {}
        for code, lines, _ in self._of_code.values():
            if lines:
                found.setdefault(self.files[code.co_filename], []).extend(lines)
                lines.clear()
        return found

    def _enter(self, frame: FrameType, _event: str, _: object) -> Any:
        code = frame.f_code
        if (known := self._of_code.get(id(code))) is None:
            known = self._of_code[id(code)] = (code, *_tracer_of(code.co_filename in self.files))
        _, lines, local = known
        if local is not None:
            lines.add(frame.f_lineno)
        return local


def _tracer_of(is_wanted: bool) -> tuple[set[int], Any]:
    lines: set[int] = set()

    def local(frame: FrameType, _event: str, _: object) -> Any:
        lines.add(frame.f_lineno)
        return local

    return lines, local if is_wanted else None


class PythonTarget:
    """An installed codec in Python: a known testee, and the package that is mutated (by default its adapter's)."""

    def __init__(self, name: str, package: str = "") -> None:
        self.name = name
        testee = find_testee(name)
        if testee is None:
            raise CannotRun(f"no testee {name}")
        if missing := testee.missing() or ("cosmic-ray",) * (importlib.util.find_spec("cosmic_ray") is None):
            raise CannotRun(f"{', '.join(missing)} is not installed: pip install 'kafkaproof[power,{testee.extras}]'")
        self._testee: KnownTestee = testee
        self.package = package or testee.module.rpartition(".")[0]

    def version(self) -> str:
        """The release that is installed."""
        return str(self._testee.version())

    def sources(self) -> list[MutatedSource]:
        """The modules of the package."""
        folder, found = _folder(self.package), []
        for path in sorted(folder.rglob("*.py")):
            parts = [self.package, *path.relative_to(folder).with_suffix("").parts]
            found.append(MutatedSource(".".join(parts).removesuffix(".__init__"), path))
        return found

    def mutants(self) -> Sequence[CodeMutant]:
        """Every mutant of every module, in the order of their places."""
        return [each.mutant for source in self.sources() for each in placed_mutants(source)]

    def run(self, mutants: Sequence[CodeMutant]) -> Generator[MutantResult, None, None]:
        """The results, from a process that has the codec loaded."""
        environment = dict(os.environ) | dict(self._testee.environment) | CHILD_ENVIRONMENT
        command = [sys.executable, "-m", __name__, self.name, self.package]
        with TemporaryFile() as requests:
            requests.writelines(msgspec.json.encode(mutant) + b"\n" for mutant in mutants)
            requests.seek(0)
            yield from _results_of(command, requests, environment)

    def exchange(self) -> Exchange:
        """The units of this target, in the process that runs mutants."""
        if _within("kafka_records", [self.package]):
            return ReferenceExchange(self._testee.module)
        return CodecExchange(self._testee.module, self.package)


def _results_of(command: Sequence[str], requests: IO[bytes], environment: dict[str, str]) -> Iterator[MutantResult]:
    with subprocess.Popen(command, stdin=requests, stdout=subprocess.PIPE, env=environment, process_group=0) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                yield msgspec.json.decode(line, type=MutantResult)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)  # it and its fork
            raise
        if process.wait():
            raise CannotRun(f"the process that runs the mutants ended with exit code {process.returncode}")


def _folder(package: str) -> Path:
    """The folder of *package*, found without importing it."""
    top, *rest = package.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise CannotRun(f"{package} is not installed")
    return Path(spec.submodule_search_locations[0], *rest)


kafka_python: Final = partial(PythonTarget, "kafka-python", "kafka.record")
aiokafka_pure: Final = partial(PythonTarget, "aiokafka-pure", "aiokafka.record")
reference: Final = partial(PythonTarget, "reference", "kafka_records")
columnar: Final = partial(PythonTarget, "columnar")


class MutantRunner:
    """Runs mutants in forks of this process."""

    def __init__(self, sources: Sequence[MutatedSource], exchange: Exchange, behaviour: CodecBehaviour) -> None:
        self._exchange, self._behaviour = exchange, behaviour
        self._sources = {source.module: source for source in sources}
        self._placed: dict[str, dict[tuple[str, str, int, str, int], Placed]] = {}
        self._parsed = cache(MutatedSource.parsed)

    def run(self, mutant: CodeMutant) -> MutantResult:
        """The result of the corpus on *mutant*."""
        source = self._sources[mutant.class_name]
        if mutant.class_name not in self._placed:
            self._placed[mutant.class_name] = {each.mutant.key: each for each in placed_mutants(source)}
        placed = self._placed[mutant.class_name][mutant.key]
        units = self._reaching(source, placed)
        if not units:
            return mutant_result(mutant, "not-reached")
        self._parsed(source)
        return mutant_result(mutant, *_outcome(*in_fork(partial(self._try, source, placed, units))))

    def _reaching(self, source: MutatedSource, placed: Placed) -> list[int]:
        """The units that run the changed statement, and then the slow ones; all of them if it runs on import."""
        name = str(source.path)
        lines = range(placed.lines[0], placed.lines[1] + 1)
        if not set(lines).isdisjoint(self._behaviour.imported.get(name, ())):
            return self._behaviour.units
        of_file = self._behaviour.lines.get(name, {})
        masks = [of_file[line] for line in lines if line in of_file]
        units, costs = self._behaviour.units, self._behaviour.costs
        found = {unit for unit in units if any(mask[unit >> 3] & 1 << (unit & 7) for mask in masks)}
        return [unit for unit in units if unit in found or costs[unit] > MOST_SECONDS] if found else []

    def _try(self, source: MutatedSource, placed: Placed, units: Sequence[int], send: Callable[[bytes], None]) -> None:
        """Send that the import begins, and each unit that does; then the outcome."""
        text = mutated_text(self._parsed(source), placed.operator, placed.occurrence)
        try:
            code = compile(text, source.path, "exec", dont_inherit=True)
        except SyntaxError:
            return send(b"no-program")
        sys.meta_path.insert(0, ChangedModule(source.module, source.path, code))
        _restrict()
        send(b"at")
        names, others = self._exchange.units, []
        try:
            with cpu_limit(IN_C):
                answer = self._exchange.load()
        except BaseException:
            return send(b"seen")
        for unit in units:
            send(b"at\t" + names[unit].encode())
            try:
                reply = _limited(answer, unit, max(LEAST_LIMIT, TIMES * self._behaviour.costs[unit]))
            except TimeUp:
                return send(b"hang\t" + names[unit].encode())
            if sha256(reply).digest()[:_SHORT] == self._behaviour.replies[unit]:
                continue
            if _graded(self._exchange, unit, reply) != self._behaviour.verdicts[unit]:
                return send(b"seen\t" + names[unit].encode())
            others.append(names[unit])
        return send(b"\t".join([b"survived" if others else b"same-replies", *(each.encode() for each in others[:3])]))


def _outcome(sent: Sequence[bytes], ended: bool) -> tuple[MutantStatus, list[str]]:
    if not sent:  # the fork ended before it imported the mutant
        raise CannotRun("the mutant could not be made; the error is above")
    word, *units = sent[-1].decode().split("\t")
    return (cast(MutantStatus, word) if ended else "hang"), [each for each in units if each]


def main(arguments: list[str]) -> None:
    """Run the mutants on standard input, one a line, and write each result."""
    target = PythonTarget(*arguments)
    sources = target.sources()
    exchange = target.exchange()
    behaviour = record_behaviour(exchange, [str(source.path) for source in sources])
    runner = MutantRunner(sources, exchange, behaviour)
    # Before the first fork: what a fork does to standard input moves its position here, too.
    mutants = msgspec.json.Decoder(CodeMutant).decode_lines(sys.stdin.buffer.read())
    gc.freeze()
    for mutant in mutants:
        result = runner.run(mutant)
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
