"""Results of mutants: the file of a run, the reviewed reasons of survivors, sums by class, and the page.

A run appends one line for each mutant to its file and resumes from it.  What is kept in the repository is compact: the
lines of the mutants that no case sees, and for each class how many were seen.
"""

from __future__ import annotations

import fcntl
import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from random import Random
from types import TracebackType
from typing import Any, Final, Literal, Self, get_args

import msgspec

from kafka_conformance.runner.results import Unusable, read_limited

FORMAT: Final = "kafkaproof-mutants/1"
COVERAGE_FORMAT: Final = "kafkaproof-coverage/1"
SUFFIX: Final = ".ndjson"
COVERAGE_SUFFIX: Final = ".coverage.ndjson"
# Ids of cases that a result keeps.
MOST_CASES: Final = 3
MOST_BYTES: Final = 64 * 1024 * 1024
# Reviewed reasons, one file for each target.
REASONS: Final = Path(__file__).parent / "survivors"

# seen: a verdict differs.  hang: it does not end, or ends the process.  survived: replies differ, and no verdict does.
# same-replies: no reply differs.  not-reached: no case runs the line.  no-program: the changed text does not compile.
MutantStatus = Literal["seen", "hang", "survived", "same-replies", "not-reached", "no-program"]
STATUSES: Final[tuple[MutantStatus, ...]] = get_args(MutantStatus)
SEEN: Final = frozenset({"seen", "hang"})
SURVIVING: Final = frozenset({"survived", "same-replies"})
ReasonKind = Literal["equivalent", "hole"]


# The identity of a mutant in one release: class, method, line, mutator, index.
MutantKey = tuple[str, str, int, str, int]


class CodeMutant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One change of one implementation.

    Attributes:
        class_name: the class or module that is changed, with its package.
        method: the method or function, with its signature where names are overloaded.
        line: the line in the source of the release.
        mutator: the kind of change.
        index: which of several changes of that kind on the line.
        description: the change in words.
    """

    class_name: str
    method: str
    line: int
    mutator: str
    index: int
    description: str

    @property
    def key(self) -> MutantKey:
        """See `MutantKey`."""
        return self.class_name, self.method, self.line, self.mutator, self.index


# A mutant and the file of its code.
MutantCode = tuple[CodeMutant, Path]


class MutantResult(CodeMutant, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The result of the corpus on a mutant.

    Attributes:
        status: see `MutantStatus`.
        cases: ids of some cases that see it; of a mutant that survived, of cases whose replies differ.
    """

    status: MutantStatus
    cases: tuple[str, ...] = ()


def mutant_result(mutant: CodeMutant, status: MutantStatus, cases: Sequence[str] = ()) -> MutantResult:
    """The result of *mutant*, with the first `MOST_CASES` of *cases*."""
    return MutantResult(**msgspec.structs.asdict(mutant), status=status, cases=tuple(cases[:MOST_CASES]))


class MutantRunHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The scope of a run.

    Attributes:
        format: `FORMAT`.
        target: the name of the target.
        version: its release.
        corpus: the digest of the corpus.
        population: how many mutants the target has, after `only`.
        sample: how many of them were drawn; 0 for all.
        seed: of the draw.
        only: the pattern that class names had to match.
        sources: for each class, the digest of all of its mutants, which a change of its source changes; not kept.
    """

    format: str
    target: str
    version: str
    corpus: str
    population: int
    sample: int = 0
    seed: int = 0
    only: str = ""
    sources: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class ClassCount(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """In a kept result: how many mutants of a class had each status."""

    class_name: str
    counts: dict[str, int]


class MethodCoverage(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Branch coverage of a method that the corpus enters.

    Attributes:
        class_name: with its package.
        method: name and signature.
        line: its first line.
        branches: how many it has.
        covered: how many of them the corpus takes.
        missed: lines with branches that were not taken, and how many.
    """

    class_name: str
    method: str
    line: int
    branches: int
    covered: int
    missed: dict[int, int] = {}


_encoder = msgspec.json.Encoder()
_results = msgspec.json.Decoder(MutantResult)
_headers = msgspec.json.Decoder(MutantRunHeader)


def sample_mutants(mutants: Sequence[CodeMutant], count: int, seed: int) -> list[CodeMutant]:
    """*count* of *mutants*, or all, in an order that *seed* gives; a larger sample begins with the smaller one."""
    drawn = Random(seed).sample(mutants, len(mutants))
    return drawn[:count] if count else drawn


def source_digests(mutants: Iterable[CodeMutant]) -> dict[str, str]:
    """For each class of *mutants* the digest of all that it has: their places, and what they change."""
    found: dict[str, Any] = {}
    for each in mutants:
        found.setdefault(each.class_name, sha256()).update(_encoder.encode(each))
    return {name: digest.hexdigest()[:16] for name, digest in sorted(found.items())}


def matching_classes(mutants: Iterable[CodeMutant], pattern: str) -> list[CodeMutant]:
    """The mutants of the classes that *pattern* names, with or without their package; all if it is empty."""
    return [each for each in mutants if not pattern or _class_fits(pattern, each.class_name)]


def _class_fits(pattern: str, name: str) -> bool:
    return fnmatchcase(name, pattern) or fnmatchcase(name.rpartition(".")[2], pattern)


class MutantFile:
    """The file of a run, a context manager: results are appended, and those of an earlier run are in `known`.

    A larger sample of the same seed continues the file of a smaller one.  With *again* so does a run on another corpus:
    what an older corpus saw is seen, since cases are only added, and all other mutants run again.  Then results go too
    that are not of a mutant in *chosen*, as in a smaller sample, or of a class whose source changed.

    Raises:
        Unusable: the file is of another run, of another source or in use, or a line is broken.
    """

    def __init__(
        self, path: Path, header: MutantRunHeader, *, again: bool = False, chosen: Iterable[CodeMutant] | None = None
    ) -> None:
        self.path, self.header, self._again = path, header, again
        self._chosen = None if chosen is None else {(each.key, each.description) for each in chosen}
        self.known: list[MutantResult] = []
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab", buffering=0)
        try:
            self._lock()
            if path.stat().st_ino != os.fstat(self._file.fileno()).st_ino:
                raise self._in_use()
            if path.stat().st_size:
                self._resume()
            else:
                self._file.write(_encoder.encode(header) + b"\n")
        except BaseException:
            self._file.close()
            raise

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._in_use() from None

    def _in_use(self) -> Unusable:
        return Unusable(f"{self.path}: another run writes there; name another with --out")

    def _resume(self) -> None:
        data = _content(self.path)
        whole = data[: data.rfind(b"\n") + 1]
        header, found = _parsed(self.path, whole)
        self.known = [each for each in found if self._is_of_source(header, each)]
        if self._again:
            if header.corpus != self.header.corpus:
                self.known = [each for each in self.known if each.status in SEEN]
            header = msgspec.structs.replace(header, corpus=self.header.corpus)
            whole = b""  # so that the file is written again
        elif len(self.known) < len(found):
            raise Unusable(f"{self.path}: has results of mutants of another source; --again keeps the others")
        header = msgspec.structs.replace(header, sources=self.header.sources)
        same = msgspec.structs.replace(header, sample=self.header.sample)
        is_smaller = self.header.sample and not 0 < header.sample <= self.header.sample
        if same != self.header or (is_smaller and not self._again):
            changed = [name for name in header.__struct_fields__ if getattr(header, name) != getattr(self.header, name)]
            raise Unusable(f"{self.path}: is of another run ({', '.join(changed)}); name another with --out")
        if header != self.header or len(whole) < len(data):  # a larger sample, or a line that a killed run had begun
            with self._file:  # its lock is held until the new file is in its place
                partial = _partial(self.path, (self.header, *self.known))
                self._file = partial.open("ab", buffering=0)
                self._lock()
                partial.replace(self.path)

    def _is_of_source(self, header: MutantRunHeader, result: MutantResult) -> bool:
        """Whether *result*, of a file with *header*, is of a mutant of this run and its class is the same as then."""
        if self._chosen is not None and (result.key, result.description) not in self._chosen:
            return False
        then, now = header.sources or {}, self.header.sources or {}
        return then.get(result.class_name) in (None, now.get(result.class_name))

    def append(self, result: MutantResult) -> None:
        """Write one result; it is in the file when this returns."""
        self._file.write(_encoder.encode(result) + b"\n")
        self.known.append(result)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _content(path: Path) -> bytes:
    try:
        return read_limited(path, MOST_BYTES)
    except ValueError as error:
        raise Unusable(str(error)) from error


def _parsed(path: Path, data: bytes) -> tuple[MutantRunHeader, list[MutantResult]]:
    header, lines = _header_and_lines(path, data)
    found: dict[MutantKey, MutantResult] = {}
    for number, line in lines:
        try:
            result = _results.decode(line)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise Unusable(f"{path}:{number}: no result of a mutant: {error}") from error
        if result.key in found:
            raise Unusable(f"{path}:{number}: a second result of one mutant")
        found[result.key] = result
    return header, list(found.values())


def _header_and_lines(path: Path, data: bytes) -> tuple[MutantRunHeader, list[tuple[int, bytes]]]:
    first, *rest = data.split(b"\n")
    try:
        header = _headers.decode(first)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Unusable(f"{path}:1: not a result of mutants: {error}") from error
    if header.format != FORMAT:
        raise Unusable(f"{path}:1: the format is {header.format[:60]!r}, not {FORMAT}")
    return header, [(number, line) for number, line in enumerate(rest, 2) if line]


def read_mutant_run(path: Path) -> tuple[MutantRunHeader, list[MutantResult]]:
    """Header and results of a run's file, complete or not.

    Raises:
        Unusable: it is none, or a line is broken.
    """
    data = _content(path)
    return _parsed(path, data[: data.rfind(b"\n") + 1])


# --- what is kept --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptMutants:
    """A result as it is kept.

    Attributes:
        header: of the run.
        counts: for each class, how many mutants had each status.
        survivors: the mutants that no case sees.
    """

    header: MutantRunHeader
    counts: Mapping[str, Mapping[str, int]]
    survivors: tuple[MutantResult, ...]


def kept_mutants(header: MutantRunHeader, found: Iterable[MutantResult]) -> KeptMutants:
    """A run as it is kept."""
    counts: dict[str, Counter[str]] = {}
    survivors = []
    for result in sorted(found, key=lambda each: each.key):
        counts.setdefault(result.class_name, Counter())[result.status] += 1
        if result.status in SURVIVING:
            survivors.append(result)
    return KeptMutants(msgspec.structs.replace(header, sources=msgspec.UNSET), counts, tuple(survivors))


def write_kept_mutants(kept: KeptMutants, path: Path) -> None:
    """Replace *path*, as a whole or not at all."""
    classes = [
        ClassCount(class_name=name, counts=dict(sorted(each.items()))) for name, each in sorted(kept.counts.items())
    ]
    _write_lines(path, [kept.header, *classes, *kept.survivors])


def _write_lines(path: Path, lines: Iterable[msgspec.Struct]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    _partial(path, lines).replace(path)


def _partial(path: Path, lines: Iterable[msgspec.Struct]) -> Path:
    """The file that replaces *path* when *lines* are in it."""
    partial = path.with_name(f"{path.name}.partial")
    partial.write_bytes(b"".join(_encoder.encode(line) + b"\n" for line in lines))
    return partial


def read_kept_mutants(path: Path) -> KeptMutants:
    """The kept result in *path*.

    Raises:
        Unusable: it is none, or a line is broken.
    """
    header, lines = _header_and_lines(path, _content(path))
    counts: dict[str, Mapping[str, int]] = {}
    survivors = []
    for number, line in lines:
        try:
            if b'"counts":' in line:
                count = msgspec.json.decode(line, type=ClassCount)
                counts[count.class_name] = count.counts
            else:
                survivors.append(_results.decode(line))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise Unusable(f"{path}:{number}: no line of a kept result: {error}") from error
    return KeptMutants(header, counts, tuple(survivors))


class CoverageHeader(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The scope of a measurement: target, release and corpus."""

    format: str
    target: str
    version: str
    corpus: str


def write_coverage(header: CoverageHeader, methods: Iterable[MethodCoverage], path: Path) -> None:
    """Replace *path* by the coverage of *methods* that have branches, as a whole or not at all."""
    ordered = sorted(methods, key=lambda each: (each.class_name, each.line, each.method))
    _write_lines(path, [header, *(each for each in ordered if each.branches)])


def read_coverage(path: Path) -> tuple[CoverageHeader, list[MethodCoverage]]:
    """Header and methods of a kept coverage.

    Raises:
        Unusable: it is none.
    """
    first, _, rest = _content(path).partition(b"\n")
    try:
        header = msgspec.json.decode(first, type=CoverageHeader)
        methods = msgspec.json.Decoder(MethodCoverage).decode_lines(rest)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise Unusable(f"{path}: no coverage: {error}") from error
    if header.format != COVERAGE_FORMAT:
        raise Unusable(f"{path}:1: the format is {header.format[:60]!r}, not {COVERAGE_FORMAT}")
    return header, methods


# --- reviewed reasons ----------------------------------------------------------------------------------------------


class ReviewedReason(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One reviewed reason why mutants survive, or why branches are not taken; empty fields fit anything.

    Attributes:
        kind: `equivalent` (no input shows it) or `hole` (a case is missing).
        reason: one sentence.
        classes: patterns of class names, with or without the package.
        method: a pattern of the method.
        lines: lines in the release.
        mutator: a pattern.
        index: of the mutant.
        description: a pattern.
        status: one of `SURVIVING`.
    """

    kind: ReasonKind
    reason: str
    classes: tuple[str, ...] = ()
    method: str = "*"
    lines: tuple[int, ...] = ()
    mutator: str = "*"
    index: int | None = None
    description: str = "*"
    status: str = ""

    def fits(self, result: MutantResult) -> bool:
        """Whether it is about *result*."""
        return (
            (not self.classes or any(_class_fits(each, result.class_name) for each in self.classes))
            and fnmatchcase(result.method, self.method)
            and (not self.lines or result.line in self.lines)
            and fnmatchcase(result.mutator, self.mutator)
            and self.index in (None, result.index)
            and fnmatchcase(result.description, self.description)
            and self.status in ("", result.status)
        )


class BranchReason(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why the corpus does not take branches of a method; without `lines`, any of them.

    Attributes:
        reachable: whether a request or a file takes them, so that a case is missing.
    """

    reason: str
    classes: tuple[str, ...]
    method: str = "*"
    lines: tuple[int, ...] = ()
    reachable: bool = False

    def covers(self, method: MethodCoverage, line: int) -> bool:
        """Whether it is about the branches on *line* of *method*."""
        return (
            any(_class_fits(each, method.class_name) for each in self.classes)
            and fnmatchcase(method.method, self.method)
            and (not self.lines or line in self.lines)
        )


class ReviewFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The reviewed reasons of a target: `[[mutant]]` and `[[branch]]`, of which the first that fits counts."""

    mutant: tuple[ReviewedReason, ...] = ()
    branch: tuple[BranchReason, ...] = ()

    def of(self, result: MutantResult) -> ReviewedReason | None:
        """The reason of a survivor; None if it was not reviewed."""
        return next((each for each in self.mutant if each.fits(result)), None)

    def of_branch(self, method: MethodCoverage, line: int) -> BranchReason | None:
        """The reason why branches on *line* are not taken."""
        return next((each for each in self.branch if each.covers(method, line)), None)


def load_reviews(target: str, folder: Path = REASONS) -> ReviewFile:
    """The reviewed reasons of *target*; none if there is no file.

    Raises:
        Unusable: the file has another form.
    """
    path = folder / f"{target}.toml"
    if not path.is_file():
        return ReviewFile()
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), ReviewFile)
    except (ValueError, msgspec.ValidationError) as error:
        raise Unusable(f"{path}: {error}") from error


# --- sums ----------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class MutantSum:
    """Mutants of one class, or of all."""

    mutants: int = 0
    reached: int = 0
    seen: int = 0
    equivalent: int = 0
    holes: int = 0
    unreviewed: int = 0

    @property
    def share(self) -> float:
        """The share of those that are seen, of those that are not equivalent; unreviewed survivors count as unseen."""
        counted = self.seen + self.holes + self.unreviewed
        return self.seen / counted if counted else 1.0

    def add(self, other: MutantSum) -> None:
        """Add the numbers of *other*."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True, slots=True)
class TargetSum:
    """The sums of a target: by class, in all, its survivors with their reasons, and reasons of none of them."""

    kept: KeptMutants
    classes: Mapping[str, MutantSum]
    survivors: tuple[tuple[MutantResult, ReviewedReason | None], ...]
    unused: tuple[ReviewedReason, ...]
    total: MutantSum = field(default_factory=MutantSum)


def summarise_mutants(kept: KeptMutants, reviews: ReviewFile) -> TargetSum:
    """Sums of *kept* by class; a survivor is equivalent or a hole only by a reviewed reason."""
    classes = {name: _of_counts(counts) for name, counts in kept.counts.items()}
    survivors = tuple((each, reviews.of(each)) for each in kept.survivors)
    for result, review in survivors:
        one = classes.setdefault(result.class_name, MutantSum())
        if review is None:
            one.unreviewed += 1
        elif review.kind == "equivalent":
            one.equivalent += 1
        else:
            one.holes += 1
    unused = tuple(each for each in reviews.mutant if not any(each is review for _, review in survivors))
    found = TargetSum(kept, classes, survivors, unused)
    for one in classes.values():
        found.total.add(one)
    return found


def _of_counts(counts: Mapping[str, int]) -> MutantSum:
    total = sum(counts.values()) - counts.get("no-program", 0)
    return MutantSum(total, total - counts.get("not-reached", 0), sum(counts.get(each, 0) for each in SEEN))


# --- the page ------------------------------------------------------------------------------------------------------

HEAD: Final = """\
# Power

This page is written by `kafkaproof power page` from the kept results in `results/power` and the reviewed reasons in
`kafka_conformance/power/survivors`.

How much of what can be wrong does the corpus see? A *mutant* is a real implementation with one small change: a
condition turned around, a constant replaced, a call left out. A mutant is **seen** if the judge's verdict on some
case differs from that on the unchanged implementation; one that hangs, or ends its process, is seen too. A survivor
is **equivalent** if no input shows it, and a **hole** if a case is missing; a reviewer wrote the reason of each. The
share is that of the mutants seen among those that are not equivalent, and a survivor without a review counts as not
seen. Mutants on lines that no case runs are counted apart. In the table of a target, the reached mutants that are
neither seen nor equivalent are its holes and those not reviewed; classes of which at most one survives are in one row.

`kafkaproof power mutants TARGET` runs the mutants of a target and `kafkaproof power survivors TARGET` lists each
survivor with its change and reason. `kafkaproof power coverage TARGET` measures branches.
"""
# Classes of which no more reached mutants survive are one row.
_FEW: Final = 1
# Longest text of a hole's change.
_CHANGE: Final = 70
# Reasons of holes of a target, and places of one reason, that the page names.
_MOST_ROWS: Final = 4
_MOST_PLACES: Final = 2
# Rows of reasons for branches, those of most branches.
_MOST_REASONS: Final = 5


def power_page(
    kept: Sequence[TargetSum],
    coverage: Mapping[str, Sequence[MethodCoverage]],
    reviews: Callable[[str], ReviewFile],
    about: Callable[[str], str],
) -> str:
    """The page as Markdown."""
    parts = [HEAD, _overview(kept)]
    samples = {name: list(found) for name, found in groupby(kept, key=lambda each: each.kept.header.target)}
    for name, (first, *others) in samples.items():
        parts.append("\n".join(_section(first, about(name))))
        parts += ["\n".join(_other_sample(each)) for each in others]
        if name in coverage:
            parts.append("\n".join(_coverage_section(name, coverage[name], reviews(name))))
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _overview(kept: Sequence[TargetSum]) -> str:
    rows = [
        "| target | mutants | reached | seen | equivalent | holes | not reviewed | share |",
        "|---|---|---|---|---|---|---|---|",
    ]
    named: set[str] = set()
    for each in kept:
        header = each.kept.header
        seed = f", seed {header.seed}" if header.target in named else ""
        named.add(header.target)
        rows.append(f"| [{header.target} {header.version}](#{header.target}){seed} | {_cells(each.total)}")
    return "\n".join(rows)


def _cells(one: MutantSum) -> str:
    numbers = (one.mutants, one.reached, one.seen, one.equivalent, one.holes, one.unreviewed)
    return " | ".join(f"{number:,}" for number in numbers) + f" | {_percent(one.share)} |"


def _class_cells(one: MutantSum) -> str:
    return " | ".join(f"{number:,}" for number in (one.mutants, one.reached, one.seen, one.equivalent)) + " |"


def _percent(share: float) -> str:
    return f"{int(share * 1000) / 10:.1f} %"  # never rounded up


def _drawn(header: MutantRunHeader) -> str:
    classes = f" of the classes that match `{header.only}`" if header.only else ""
    if not header.sample:
        return f"all mutants{classes}"
    return f"a sample of {header.sample:,} of {header.population:,} mutants{classes}, seed {header.seed}"


def _other_sample(each: TargetSum) -> Iterator[str]:
    """A sample that is kept beside the first: how it was drawn, and its holes; the first table has its sum."""
    header = each.kept.header
    yield f"### Seed {header.seed}\n"
    yield f"This is {_drawn(header)}, corpus `{header.corpus[:12]}`."
    yield from _holes(each, is_beside=True)


def _section(each: TargetSum, about: str) -> Iterator[str]:
    header = each.kept.header
    yield f"## {header.target}\n"
    useless = sum(counts.get("no-program", 0) for counts in each.kept.counts.values())
    left_out = f" Left out: {useless} whose text does not compile." if useless else ""
    yield f"{about} This is {header.version}, {_drawn(header)}, corpus `{header.corpus[:12]}`.{left_out}\n"
    yield "| class | mutants | reached | seen | equivalent |"
    yield "|---|---|---|---|---|"
    rows: dict[str, MutantSum] = {}
    for name, one in sorted(each.classes.items()):
        rows.setdefault(_short(name), MutantSum()).add(one)
    rest, names = MutantSum(), []
    for name, one in rows.items():
        if one.reached > one.seen + _FEW:
            yield f"| `{name}` | {_class_cells(one)}"
        elif one.reached:
            rest.add(one)
            names.append(f"`{name}`")
    if names:
        yield f"| {', '.join(names)} | {_class_cells(rest)}"
    yield from _holes(each)
    if each.unused:
        yield f"\nReviewed reasons that no survivor of this result has: {len(each.unused)}."


def _holes(each: TargetSum, *, is_beside: bool = False) -> Iterator[str]:
    """The reasons of holes, each with the first mutant that has it; *is_beside* another result of the target."""
    holes: dict[str, list[MutantResult]] = {}
    for result, review in each.survivors:
        if review is not None and review.kind == "hole":
            holes.setdefault(review.reason, []).append(result)
    if holes:
        yield "\n| hole | change | missing |\n|---|---|---|"
        for reason, found in list(holes.items())[:_MOST_ROWS]:
            first = found[0]
            place = f"`{_short(first.class_name)}.{first.method.partition('(')[0]}:{first.line}`"
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            yield f"| {place}{more} | {_cell(_cut(first.description))} | {_cell(reason)} |"
    if left := sum(map(len, list(holes.values())[_MOST_ROWS:])):
        seed = f" --seed {each.kept.header.seed}" if is_beside else ""
        yield f"\n{left} more: `kafkaproof power survivors {each.kept.header.target}{seed}`"


def _short(name: str) -> str:
    """The name of a class without its package; inner classes count for the outer one."""
    return name.rpartition(".")[2].partition("$")[0]


def _cut(text: str) -> str:
    return text if len(text) <= _CHANGE else f"{text[: _CHANGE - 1]}…"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").replace("<", "&lt;")


def _coverage_section(target: str, methods: Sequence[MethodCoverage], reviews: ReviewFile) -> Iterator[str]:
    branches, covered = sum(each.branches for each in methods), sum(each.covered for each in methods)
    reasoned = sum(
        count for each in methods for line, count in each.missed.items() if reviews.of_branch(each, line) is not None
    )
    yield "### Branches\n"
    share = _percent(covered / branches if branches else 1.0)
    yield f"In the methods that the corpus enters it takes {covered:,} of {branches:,} branches ({share})."
    yield f"{branches - covered:,} are not taken; {reasoned:,} of them have a reviewed reason.\n"
    yield from _reachable(methods, reviews)
    grouped: dict[str, list[str]] = {}
    missed: Counter[str] = Counter()
    for each in methods:
        for line, count in each.missed.items():
            review = reviews.of_branch(each, line)
            reason = review.reason if review else "not reviewed"
            missed[reason] += count
            place = f"`{_short(each.class_name)}.{each.method.partition('(')[0]}:{line}`"
            grouped.setdefault(reason, []).append(place)
    if grouped:
        yield "| branches not taken | why |\n|---|---|"
        largest = [reason for reason, _ in missed.most_common()]
        for reason in largest[:_MOST_REASONS]:
            places = grouped[reason]
            more = f" and {len(places) - _MOST_PLACES} more" if len(places) > _MOST_PLACES else ""
            yield f"| {', '.join(places[:_MOST_PLACES])}{more} | {_cell(reason)} |"
        if len(largest) > _MOST_REASONS:
            left = sum(missed[reason] for reason in largest[_MOST_REASONS:])
            yield f"\n{left} more branches are not taken: `kafkaproof power coverage {target}`"


def _reachable(methods: Sequence[MethodCoverage], reviews: ReviewFile) -> Iterator[str]:
    """Which share is taken of the branches that a request or a file can take: in all, and by class."""
    taken: Counter[str] = Counter()
    known: Counter[str] = Counter()
    for each in methods:
        name = _short(each.class_name)
        taken[name] += each.covered
        known[name] += each.covered
        for line, count in each.missed.items():
            review = reviews.of_branch(each, line)
            known[name] += count if review is None or review.reachable else 0
    share = _percent(taken.total() / known.total() if known.total() else 1.0)
    yield (
        "Without the branches of which the reason says that no request and no file takes them it takes"
        f" {taken.total():,} of {known.total():,} ({share})."
    )
    less = [f"`{name}` {_percent(taken[name] / known[name])}" for name in sorted(known) if taken[name] < known[name]]
    if less:
        yield f"Of these classes it takes less than all: {', '.join(less)}."
    yield ""


def page_of(folder: Path, about: Callable[[str], str], reasons: Path = REASONS) -> str:
    """The page about all results kept in *folder*; *about* raises `ValueError` for a target that it does not know.

    Raises:
        Unusable: a kept result or a file of reasons has another form, or is of another target than its name says.
    """
    # A target's own file before those of other seeds.
    files = sorted(folder.glob(f"*{SUFFIX}"), key=lambda path: path.name.removesuffix(SUFFIX))
    coverage = {header.target: methods for header, methods in map(read_coverage, files_of_coverage(files))}
    kept = []
    for path in (each for each in files if not each.name.endswith(COVERAGE_SUFFIX)):
        kept.append(read_kept_mutants(path))
        target, seed = kept[-1].header.target, kept[-1].header.seed
        if path.name not in (f"{target}{SUFFIX}", other_seed_name(target, seed)):
            raise Unusable(f"{path}: is a result of {target[:60]!r}, seed {seed}")
        try:
            about(target)
        except ValueError as error:
            raise Unusable(f"{path}: {error}") from error
    sums = [summarise_mutants(each, load_reviews(each.header.target, reasons)) for each in kept]
    return power_page(sums, coverage, lambda name: load_reviews(name, reasons), about)


def other_seed_name(target: str, seed: int) -> str:
    """The name of a result that is kept beside that of another seed."""
    return f"{target}.seed-{seed}{SUFFIX}"


def files_of_coverage(files: Iterable[Path]) -> list[Path]:
    """Those of *files* that hold coverage."""
    return [each for each in files if each.name.endswith(COVERAGE_SUFFIX)]


def survivor_document(result: MutantResult, review: ReviewedReason | None) -> dict[str, Any]:
    """A survivor as `--json` prints it."""
    reviewed = {"kind": review.kind, "reason": review.reason} if review else {"kind": "unreviewed", "reason": ""}
    return {**msgspec.to_builtins(result), **reviewed}
