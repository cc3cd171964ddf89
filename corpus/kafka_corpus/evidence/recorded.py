"""The recorded answers of a case as its vector shows them, read when they are first used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET

from kafka_corpus import evidence, line_files
from kafka_corpus.answer_diff import difference
from kafka_corpus.evidence import Answers, CaseEvidence
from kafka_corpus.scenario import StepAnswer
from kafka_corpus.vector_format import BriefStep, BrokerAnswer, Expect


class RecordedEvidence(Mapping[str, Any]):
    """Plain JSON values: `{"reference": …, "java": {"4.4.0": …}, "brokers": {"4.4.0": …}}`.

    The files below *root* are read on first use: most runs never look at these answers.
    """

    __slots__ = ("_content", "_expect", "_found", "_id", "_reference", "_root")

    def __init__(self, root: Path, id_: str, content: str, reference: msgspec.Raw, expect: Expect) -> None:
        self._root = root
        self._id = id_
        self._content = content
        self._reference = bytes(reference)
        self._expect = expect
        self._found: dict[str, Any] | None = None

    def __getitem__(self, name: str) -> Any:
        return self._answers()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers())

    def __len__(self) -> int:
        return len(self._answers())

    def __repr__(self) -> str:
        return repr(self._answers())

    def _answers(self) -> dict[str, Any]:
        if self._found is None:
            line = _area(self._root, self._id.partition(".")[0]).get(self._id)
            self._found = {"reference": msgspec.json.decode(self._reference)}
            if line is not None and line.sha256 == self._content:
                self._found |= shown(line, self._expect)
        return self._found


def shown(line: CaseEvidence, expect: Expect) -> dict[str, Any]:
    """The answers in *line* by implementation and release, as plain JSON values."""
    found: dict[str, Any] = {}
    for (name, version), answer in line.by_client().items():
        found.setdefault(name, {})[version] = answer
    if brokers := line.by_release():
        found["brokers"] = {release: broker_answer(expect, steps) for release, steps in brokers.items()}
    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(found))
    return plain


def broker_answer(expect: Expect, steps: Answers) -> BrokerAnswer:
    """*steps* with hashes for bytes, or one word where they are what the case expects."""
    if expect.answers and not difference(expect.answers, steps, expect.compare):
        return BrokerAnswer(as_expected=True)
    return BrokerAnswer(steps=list(map(_brief_step, steps)))


def _brief_step(step: StepAnswer) -> BriefStep:
    return BriefStep(
        error_code=step.error_code,
        base_offset=step.base_offset,
        log_append_time=step.log_append_time,
        data_sha256=sha256(step.data).hexdigest() if step.data else UNSET,
        record_errors=step.record_errors,
        closed=step.closed,
        ended=step.ended,
    )


def _area(root: Path, area: str) -> evidence.Evidence:
    file = root / evidence.EVIDENCE.path(area)
    return _loaded(root, area, *line_files.file_state(file)) if file.exists() else {}


@cache
def _loaded(root: Path, area: str, _changed: int, _size: int) -> evidence.Evidence:
    return evidence.load_evidence(root, [area])
