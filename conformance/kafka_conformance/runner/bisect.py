"""Find the first and the last release of a codec that gets one case wrong.

A release is bad where the case is a finding, good where it agrees, and unknown where it cannot be built, does not
start, does not do what the case needs, or does not even read a plain batch; an unknown release never counts as good.
Outcomes of a case need not be monotonic: up to `FEW` releases are all run.  Of more, a sample is run first, then every
change between two neighbours of the sample is narrowed down by halves, and the releases beside each change are run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from kafka_conformance.judge.verdict import SEVERITIES
from kafka_conformance.runner.results import Results, append_line
from kafka_conformance.sanitize import printable

# So many releases are all run.
FEW: Final = 25
# Of more, so many evenly spaced ones at first.
SAMPLE: Final = 9

# A plain batch.  A release that fails over it is broken, or does not fit its adapter: what it makes of
# another case says nothing about that case.
PLAIN_CASE: Final = "framing.entry_takes_its_size_and_twelve[v2]"

State = Literal["good", "bad", "unknown"]

# A dash, or a letter as in 1.0rc1, begins a pre-release; `.post1` comes after its release.
_VERSION: Final = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)(?P<post>\.?post\d*)?(?P<pre>[-.]?[A-Za-z\d].*)?(?:\+.*)?", re.IGNORECASE
)
_STAGES: Final = {"dev": 0, "a": 1, "alpha": 1, "b": 2, "beta": 2, "c": 3, "rc": 3}
# Places of a release that are compared; 1.0 and 1.0.0 are the same.
_PLACES: Final = 6

ReleaseKey = tuple[tuple[int, ...], int, tuple[tuple[int, int, str], ...], int]


def release_key(version: str) -> ReleaseKey:
    """The key that orders releases of one codec: PEP 440, semantic versions, and pseudo versions of Go.

    Raises:
        ValueError: *version* does not begin with a number.
    """
    match = _VERSION.fullmatch(version.strip())
    if match is None:
        raise ValueError(f"{version!r} is no version")
    numbers = [int(part) for part in match["release"].split(".")]
    padded = tuple(numbers + [0] * (_PLACES - len(numbers)))
    post = int(re.sub(r"\D", "", match["post"]) or 0) + 1 if match["post"] else 0
    pre = re.split(r"[-.+]", match["pre"].split("+")[0].strip("-.")) if match["pre"] else []
    parts = tuple(part for word in pre for part in _parts(word))
    # A pre-release comes before its release.
    return padded, 0 if parts else 1, parts, post


def _parts(word: str) -> Iterator[tuple[int, int, str]]:
    """The numbers and words of one identifier of a pre-release; numbers come before words, as in semantic versions."""
    for text in re.findall(r"\d+|[A-Za-z]+", word):
        if text.isdigit():
            yield 0, int(text), ""
        else:
            yield 1, _STAGES.get(text.lower(), len(_STAGES)), text.lower()


class ReleaseOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of the case in one release.

    Attributes:
        release: as the registry names it.
        outcome: of the case; empty if it was not run.
        why: the first difference, or why the release was not run.
        version: what the testee said that it is.
        corpus: the hash of the corpus of that run.
    """

    release: str
    outcome: str = ""
    why: str = ""
    version: str = ""
    corpus: str = ""

    @property
    def state(self) -> State:
        """Good, bad or unknown."""
        if self.outcome in SEVERITIES:
            return "bad"
        return "good" if self.outcome == "agree" else "unknown"


def release_outcome(release: str, case: str, done: Results) -> ReleaseOutcome:
    """The outcome of *case* in the run *done* of *release*; of a case to decode, `PLAIN_CASE` was sent, too."""
    version = str(done.header.testee["version"])
    lines = {line.case: line for line in done.lines}
    line, plain = lines.get(case), lines.get(PLAIN_CASE)
    outcome, why = ("", "it does not have what the case needs") if line is None else (line.outcome, line.why)
    if not _is_release(version, release):
        outcome, why = "", f"the testee says that it is {version}"
    elif outcome in SEVERITIES and plain and plain.outcome in SEVERITIES and plain.outcome != "lossy":
        outcome, why = (
            ("", f"it does not read a plain batch either: {plain.outcome}") if case != PLAIN_CASE else (outcome, why)
        )
    return ReleaseOutcome(
        release=release, outcome=outcome, why=printable(why, 300), version=version, corpus=done.header.corpus
    )


def _is_release(said: str, release: str) -> bool:
    """Whether the first version in *said*, the words of a testee, is *release*; the library below it may be next."""
    for word in re.split(r"[^\w.+-]+", said):
        try:
            return release_key(word) == release_key(release)
        except ValueError:
            continue  # a name
    return False


@dataclass(frozen=True, slots=True)
class Bisection:
    """Outcomes of a case in the releases of a codec, oldest first."""

    name: str
    case: str
    releases: tuple[str, ...]
    outcomes: tuple[ReleaseOutcome, ...]

    def _bad(self) -> list[int]:
        return [at for at, each in enumerate(self.outcomes) if each.state == "bad"]

    @property
    def first_bad(self) -> str | None:
        """The oldest release of those run that is bad."""
        bad = self._bad()
        return self.outcomes[bad[0]].release if bad else None

    @property
    def last_bad(self) -> str | None:
        """The newest release of those run that is bad."""
        bad = self._bad()
        return self.outcomes[bad[-1]].release if bad else None

    @property
    def fixed_in(self) -> str | None:
        """The first good release after all bad ones; None while there is none."""
        bad = self._bad()
        after = self.outcomes[bad[-1] + 1 :] if bad else ()
        return next((each.release for each in after if each.state == "good"), None)

    @property
    def uncertain(self) -> tuple[str, ...]:
        """Unknown releases beside a change: the change may be in one of them."""
        known = [at for at, each in enumerate(self.outcomes) if each.state != "unknown"]
        ends = pairwise(known)
        between = [
            self.outcomes[low + 1 : high] for low, high in ends if self.outcomes[low].state != self.outcomes[high].state
        ]
        # Before the first known release and after the last one, too, if that is bad.
        if known and self.outcomes[known[0]].state == "bad":
            between.insert(0, self.outcomes[: known[0]])
        if known and self.outcomes[known[-1]].state == "bad":
            between.append(self.outcomes[known[-1] + 1 :])
        return tuple(each.release for each in (one for several in between for one in several))

    @property
    def fixed_between(self) -> bool:
        """Whether a good release stands between bad ones."""
        bad = self._bad()
        return any(each.state == "good" for each in self.outcomes[bad[0] : bad[-1]]) if bad else False


def bisect(releases: Sequence[str], run: Callable[[str], ReleaseOutcome]) -> Iterator[ReleaseOutcome]:
    """Run those of *releases* (oldest first) that matter; yield each outcome as it is known."""
    known: dict[int, State] = {}

    def probe(at: int) -> Iterator[ReleaseOutcome]:
        if at not in known:
            outcome = run(releases[at])
            known[at] = outcome.state
            yield outcome

    count = len(releases)
    first = range(count) if count <= FEW else sorted({at * (count - 1) // (SAMPLE - 1) for at in range(SAMPLE)})
    for at in first:
        yield from probe(at)
    while (wanted := next(_wanted(known, count), None)) is not None:
        yield from probe(wanted)


def _wanted(known: dict[int, State], count: int) -> Iterator[int]:
    """Places to run next: the middle between two known states that differ, then the neighbours of each change."""
    judged = [at for at in sorted(known) if known[at] != "unknown"]
    changes = [(low, high) for low, high in pairwise(judged) if known[low] != known[high]]
    # The oldest and the newest bad release are narrowed down towards the ends, too.
    ends = [(-1, judged[0])] if judged and known[judged[0]] == "bad" else []
    ends += [(judged[-1], count)] if judged and known[judged[-1]] == "bad" else []
    for low, high in (*changes, *ends):
        left = [at for at in range(low + 1, high) if at not in known]
        if left:
            yield left[len(left) // 2]
    for low, high in changes:
        yield from (at for at in (low - 1, high + 1) if 0 <= at < count and at not in known)


def read_outcomes(path: Path, corpus: str) -> dict[str, ReleaseOutcome]:
    """The outcomes in the file *path* that came from *corpus*; those that are unknown are run again."""
    found: dict[str, ReleaseOutcome] = {}
    for line in path.read_bytes().splitlines() if path.is_file() else ():
        try:
            each = msgspec.json.decode(line, type=ReleaseOutcome)
        except msgspec.DecodeError:
            continue  # the last line of a run that was killed
        if each.corpus == corpus and each.outcome:
            found[each.release] = each
    return found


def append_outcome(path: Path, outcome: ReleaseOutcome) -> None:
    """Add a line to the file *path*, which is made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    append_line(path, msgspec.json.encode(outcome))


def between(releases: Sequence[str], first: str | None, last: str | None) -> list[str]:
    """Those of *releases* from *first* to *last*, which belong to them even if no list has them, oldest first.

    Of two spellings of one release, as 1.41 and 1.41.0, that of *releases* counts.

    Raises:
        ValueError: *first* or *last* is no version, or *first* comes after *last*.
    """
    low, high = (None if each is None else release_key(each) for each in (first, last))
    if low is not None and high is not None and low > high:
        raise ValueError(f"{first} comes after {last}: no release is between them")
    ends = [each for each in (first, last) if each is not None]
    named = {release_key(each): each for each in (*ends, *releases)}
    return [named[key] for key in sorted(named) if (low is None or low <= key) and (high is None or key <= high)]


def bisection(name: str, case: str, releases: Sequence[str], outcomes: Sequence[ReleaseOutcome]) -> Bisection:
    """*outcomes* in the order of *releases*."""
    order = {release: at for at, release in enumerate(releases)}
    ordered = sorted((each for each in outcomes if each.release in order), key=lambda each: order[each.release])
    return Bisection(name, case, tuple(releases), tuple(ordered))


def bisection_document(made: Bisection) -> dict[str, Any]:
    """The bisection as JSON says it."""
    return {
        "name": made.name,
        "case": made.case,
        "releases": len(made.releases),
        "run": [msgspec.to_builtins(each) | {"state": each.state} for each in made.outcomes],
        "first_bad": made.first_bad,
        "last_bad": made.last_bad,
        "fixed_in": made.fixed_in,
        "fixed_between": made.fixed_between,
        "unknown": [each.release for each in made.outcomes if each.state == "unknown"],
        "uncertain": list(made.uncertain),
    }


def bisection_lines(made: Bisection) -> Iterator[str]:
    """The bisection in lines: the table, and the three answers."""
    yield f"{made.name}, {made.case}: {len(made.outcomes)} of {len(made.releases)} releases were run"
    yield f"  {'release':14} {'outcome':16} state"
    for each in made.outcomes:
        why = f"  {each.why}" if each.why and each.state != "good" else ""
        yield f"  {each.release:14} {each.outcome or 'not run':16} {each.state}{why}"
    yield f"first bad  {made.first_bad or 'none of them'}"
    yield f"last bad   {made.last_bad or 'none of them'}"
    if made.first_bad:
        yield f"fixed in   {made.fixed_in or 'no release of them'}"
    if made.fixed_between:
        yield "it was right between bad releases: the table has every change that was found"
    if made.uncertain:
        yield f"not known  {', '.join(made.uncertain)}: a change may be in one of them"
