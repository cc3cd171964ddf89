"""What a broker did with a payload, made a case: the payload, what has to come before it, and the broker's answers.

Of a payload by itself the find keeps the answer.  Where earlier payloads, a
transaction or the broker's clock are part of it, a broker of that release is
asked all of it once more, and says what is right of each step.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec

from kafka_conformance.broker.errors import NoBroker
from kafka_conformance.broker.play.recorder import Asked as Question
from kafka_conformance.broker.wire.errors import error_name
from kafka_conformance.dossiers.measuring import played
from kafka_corpus.build import signed
from kafka_corpus.cases.found import Asked, Found
from kafka_corpus.scenario import AddPartitions, InitProducerId, Produce, Step, StepAnswer
from kafka_fuzz.broker.confirming import CONTEXT, Context, kind_of
from kafka_fuzz.broker.lanes import LARGEST
from kafka_fuzz.broker.payloads import is_batch
from kafka_fuzz.broker.settings import ROOM
from kafka_fuzz.finds import folder_of
from kafka_fuzz.triage.draft import NoCase, found_by
from kafka_fuzz.triage.folding import Folded
from kafka_records import LogState, RecordFormatError, TopicConfig, append
from kafka_records.layout import BATCH_V2
from kafka_records.rules import all_rules

# Settings with which a time is stored, and those with which the time of day decides.
TIMED: Final = "message.timestamp."
DECIDING: Final = ".max.ms"
SOME_YEARS: Final = 10 * 365 * 86_400_000
# Whom a transactional producer is called in the case.
ALIAS: Final = "producer"
# Where the answers of brokers are kept, so that nobody asks twice.
STATE: Final = "state/promote"


def as_produced(find: Folded, root: Path) -> Found:
    """A case about producing it; *root* is the campaign, which knows how the broker was asked.

    Raises:
        NoCase: nobody kept how the broker was asked, that cannot be done again, or there is no broker to ask.
    """
    context = context_of(find, root)
    asked = _asked(find, context)
    answers = _answered_again(find, asked, root) if _is_more(context) else (_answer(context),)
    is_kept = all(map(is_as_sent, _payloads(asked, find.data), answers))
    asked = msgspec.structs.replace(asked, answers=answers, compare="exact" if is_kept else "masked")
    did = f"refused with {error_name(code)}" if (code := answers[-1].error_code) else "stored"
    title = f"A payload of {len(find.data)} bytes, found by fuzzing {find.outcome.target}, is {did}"
    rule = context.rule if context.rule in {rule.id for rule in all_rules()} else "PRD-01"
    return Found(
        title=title, rules=(rule,), hex=find.data.hex(), refused=(), batches=(), found=found_by(find), op="append",
        asked=asked,
    )  # fmt: skip


def _asked(find: Folded, context: Context) -> Asked:
    """What is done to a broker, without its answers."""
    return Asked(
        context.release,
        {ROOM: LARGEST, **context.settings},
        Produce(api_version=context.api_version, **_of_sender(find, context, find.data)),
        answers=(),
        before=tuple(_before(find, context)),
    )


def context_of(find: Folded, root: Path) -> Context:
    """How the broker was asked; NoCase where nobody kept that, or the broker did not live to answer."""
    try:
        return msgspec.json.decode((folder_of(root, find.key) / CONTEXT).read_bytes(), type=Context)
    except (OSError, msgspec.MsgspecError):
        raise NoCase(
            f"{find.name}: there is no {CONTEXT} that says how the broker was asked, and what it answered: fuzz it"
            " again, or report a broker that ends to its maintainers (SECURITY.md)"
        ) from None


def _is_more(context: Context) -> bool:
    """Whether one payload and its answer, as the find has them, are not the whole of it."""
    is_timed = any(name.startswith(TIMED) for name in context.settings)
    return bool(context.before or context.transactional or is_timed) or context.record_errors is None


def _answer(context: Context) -> StepAnswer:
    code, base_offset, stored = context.answered
    return StepAnswer(error_code=code, base_offset=base_offset, data=stored, record_errors=context.record_errors or ())


def _before(find: Folded, context: Context) -> Iterator[Step]:
    """What has to be done before the payload is produced."""
    if context.transactional:
        yield InitProducerId(ALIAS)
    if context.transactional == "open":
        yield AddPartitions(ALIAS)
    for payload, version in context.before:
        yield Produce(data=payload, api_version=version, **_of_sender(find, context, payload))


def _of_sender(find: Folded, context: Context, payload: bytes) -> dict[str, Any]:
    """Who produces *payload*, as a step says it; NoCase for what a scenario cannot say."""
    if not context.transactional:
        return {}
    id_, epoch = context.producer
    theirs = BATCH_V2.values(payload)["producer_epoch"] if is_batch(payload) else epoch
    try:
        is_own = signed(payload, id_, theirs) == payload
    except RecordFormatError:
        is_own = False
    if not is_own:
        raise NoCase(f"{find.name}: a transactional producer sends what is not its own, or damaged: write a scenario")
    return {"producer": ALIAS, "epochs_back": epoch - theirs, "transactional": True}


def _answered_again(find: Folded, asked: Asked, root: Path) -> tuple[StepAnswer, ...]:
    """What a broker answers to all of it."""
    if _clock_decides(find, asked):
        raise NoCase(f"{find.name}: in some years a broker answers something else: write it with times of its own")
    scenario = asked.scenario(find.data)
    question = Question(find.name, sha256(repr(scenario).encode()).hexdigest(), scenario)
    try:
        line = played(asked.release, [question], root / STATE)[find.name]
    except NoBroker as error:
        raise NoCase(f"{find.name}: a broker has to be asked once more, and there is none: {error}") from None
    if not line.steps:
        raise NoCase(f"{find.name}: a broker cannot be asked once more: {line.skipped}")
    return line.steps


def _clock_decides(find: Folded, asked: Asked) -> bool:
    """Whether the payload is answered otherwise in some years."""
    if not any(name.endswith(DECIDING) for name in asked.settings):
        return False
    now, config = time.time_ns() // 1_000_000, TopicConfig.of(asked.settings)
    codes = {
        append(
            LogState(), find.data, config, release=asked.release, api_version=asked.produce.api_version, now_ms=when
        ).error_code
        for when in (now, now + SOME_YEARS)
    }
    return len(codes) > 1


def _payloads(asked: Asked, payload: bytes) -> list[bytes]:
    """What each step produces; nothing where it does not."""
    return [getattr(step, "data", b"") for step in asked.before] + [payload]


def is_as_sent(payload: bytes, answer: StepAnswer) -> bool:
    """Whether a broker stored *payload* without compressing it anew."""
    stored = answer.data
    return not stored or stored[BATCH_V2.size :] == payload[BATCH_V2.size :] or kind_of(stored).endswith(" none")
