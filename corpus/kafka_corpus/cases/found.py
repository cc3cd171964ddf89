"""Inputs that fuzzing found, each kept as a regression case.

There is a file for each in `kafka_corpus/found`, written by `kafkaproof fuzz
promote`: the bytes, the right answer, the rules, and the targets that failed.
This module makes a case function of each file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from kafka_corpus.case import Compare
from kafka_corpus.registry import Draft, case, invalid, must_refuse, must_write, scene, valid
from kafka_corpus.scenario import Produce, Scenario, Step, StepAnswer
from kafka_corpus.wire import WireBatch, from_wire
from kafka_records import Kind

FOLDER: Final = Path(__file__).parent.parent / "found"


class BrokerRun(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A run of a payload on a broker, with its answers.

    Attributes:
        release: of the broker, the only one that the case is about.
        settings: of the topic.
        produce: the step that produces the payload, which is not in it.
        answers: the broker's, the one to the payload last.
        before: the steps that come first.
        compare: `masked` where it compressed what it stored.
    """

    release: str
    settings: dict[str, str]
    produce: Produce
    answers: tuple[StepAnswer, ...]
    before: tuple[Step, ...] = ()
    compare: Compare = "exact"

    def scenario(self, payload: bytes) -> Scenario:
        """The steps of the run, with *payload* in the last."""
        steps = (*self.before, msgspec.structs.replace(self.produce, data=payload))
        return Scenario(steps=steps, config=self.settings, since=self.release, until=self.release)

    def draft(self, payload: bytes) -> Draft:
        """The case."""
        script = zip(self.scenario(payload).steps, self.answers, strict=True)
        return scene(*script, config=self.settings, since=self.release, until=self.release, compare=self.compare)


class Found(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True, rename={"run": "asked"}):
    """One input.

    Attributes:
        title: what is right about it, one sentence.
        rules: ids in the rule catalogue.
        hex: the bytes to decode, or the payload to produce; for a batch to encode, the right bytes.
        refused: the kinds of error that fit, best first; empty where it has to be read, or written.
        batches: decode: the batches, or those before the error.  Encode: the one batch.
        found: the targets that failed, with their versions, and the keys of the findings.
        refs: issues.
        since: the corpus version that brought it.
        op: whether the bytes are to be read, the batch is to be written, or the payload to be produced.
        run: how a payload was produced and answered; `asked` in the file.
    """

    title: str
    rules: Annotated[tuple[str, ...], Meta(min_length=1)]
    hex: str
    refused: tuple[Kind, ...]
    batches: tuple[WireBatch, ...]
    found: tuple[str, ...]
    refs: tuple[str, ...] = ()
    since: str = "1.0"
    op: Literal["decode", "encode", "append"] = "decode"
    run: BrokerRun | None = None

    def draft(self) -> Draft:
        """The case."""
        batches = tuple(map(from_wire, self.batches))
        data = bytes.fromhex(self.hex)
        if self.run is not None:
            return self.run.draft(data)
        if self.op == "encode":
            (batch,) = batches
            compare: Compare = "exact" if batch.compression == "none" else "masked"
            return must_refuse(batch, *self.refused) if self.refused else must_write(batch, data, compare=compare)
        return invalid(data, *self.refused, before=batches) if self.refused else valid(data, *batches)


def stored(folder: Path = FOLDER) -> dict[str, Found]:
    """The inputs below *folder* by name; ValueError for a file that holds none."""
    return {path.stem: msgspec.json.decode(path.read_bytes(), type=Found) for path in sorted(folder.glob("*.json"))}


def text_of(found: Found) -> bytes:
    """The file that holds it."""
    return msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n"


def enter(name: str, found: Found) -> None:
    """Register the case of one file."""

    def function() -> Draft:
        return found.draft()

    function.__name__, function.__doc__ = name, found.title
    case(*found.rules, refs=(*found.refs, *found.found), since=found.since)(function)


for _name, _found in stored().items():
    enter(_name, _found)
