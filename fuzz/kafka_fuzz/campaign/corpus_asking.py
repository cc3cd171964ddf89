"""Testees asked the corpus' decode cases by the judge of campaigns, so that its keys are those of finds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafka_conformance.connect import connect
from kafka_corpus.vectors import corpus_hash, load_vectors
from kafka_fuzz.campaign.corpus_known import Shown
from kafka_fuzz.campaign.loop import as_it_is
from kafka_fuzz.differential import Differential
from kafka_fuzz.mutate.seeds import DECODE, LONGEST


def cases() -> dict[bytes, str]:
    """The inputs of decode cases, each with the id of the first case that has it."""
    found: dict[bytes, str] = {}
    for case in load_vectors(ops=DECODE):
        if isinstance(case.input, bytes) and 0 < len(case.input) <= LONGEST:
            found.setdefault(case.input, case.id)
    return found


def ask(names: Sequence[str], tell: Callable[[str], None]) -> dict[str, Shown]:
    """What the corpus shows of the testees called *names*, side by side; who does not run is told of.

    Raises:
        BadConnect, CannotRun: one of the names is none, or no testee starts.
    """
    inputs, digest = cases(), corpus_hash()
    with Differential([connect(name) for name in names], patient=True) as session:
        found: dict[str, dict[str, str]] = {testee.judge.name: {} for testee in session.testees}
        for judgement in session.run(map(as_it_is, inputs), lambda: True):
            for outcome in judgement.outcomes:
                # The first case, whoever answered first.
                case = inputs[judgement.mutant.data]
                keys = found[outcome.target]
                keys[outcome.key] = min(case, keys.get(outcome.key, case))
        versions = {testee.judge.name: testee.hello.version for testee in session.testees}
    for name, why in session.cannot_run.items():
        tell(f"{name} did not run: {why}")
    # Who died on the way has not said everything.
    return {
        name: Shown(versions[name], digest, dict(sorted(keys.items())))
        for name, keys in sorted(found.items())
        if name not in session.cannot_run
    }
