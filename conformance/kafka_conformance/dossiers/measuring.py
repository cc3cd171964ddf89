"""Ask a real broker what it does with inputs that have no recorded answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kafka_conformance.broker import local
from kafka_conformance.broker.jvm import JvmBroker
from kafka_conformance.broker.play import asking
from kafka_conformance.broker.play.recorder import Asked, Line, Recorder
from kafka_conformance.dossiers import reach
from kafka_conformance.progress import progress
from kafka_corpus.case import Case
from kafka_corpus.vectors import content_hash, input_of

# As the answers of the corpus were recorded.
CONFIG: Final = {"log.cleaner.backoff.ms": "100", "producer.id.expiration.check.interval.ms": "86400000"}


def measure(
    release: str, cases: Sequence[Case], folder: Path, start: Callable[..., JvmBroker] = local.start
) -> dict[str, tuple[Case, reach.Told]]:
    """What a broker of *release* does with the inputs of *cases*, by id; answers go to *folder* one by one.

    Raises:
        NoBroker: it cannot be started.
    """
    by_id = {case.id: case for case in cases}
    asked = [Asked(case.id, content_hash(case), reach.asked(case)) for case in cases]
    lines = played(release, asked, folder, start)
    return {id_: (by_id[id_], _told(by_id[id_], line)) for id_, line in lines.items() if line.steps}


def played(
    release: str, asked: Sequence[Asked], folder: Path, start: Callable[..., JvmBroker] = local.start
) -> dict[str, Line]:
    """What a broker of *release* answers to scenarios, by id; answers go to *folder* one by one.

    Raises:
        NoBroker: it cannot be started.
    """
    with progress(release, "restarts") as told, ExitStack() as started:

        def new() -> JvmBroker:
            return started.enter_context(start(release, config=CONFIG))

        recorder = Recorder(new(), anew=new)
        try:
            return asking.ask(recorder, asked, asking.recording_of(folder, release), told)
        finally:
            recorder.close()


def _told(case: Case, line: Line) -> reach.Told:
    given = input_of(case)
    assert isinstance(given, bytes)
    return reach.told(case, given, line.steps[0])
