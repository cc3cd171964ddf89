"""Testees that do nothing, or the same with everything: none of them may score."""

from __future__ import annotations

import time
from typing import NoReturn

from kafka_conformance.miniatures.base import Miniature
from kafka_conformance.testee import CodecError, NotDone
from kafka_corpus.wire import WireBatch


def _wait(_question: object) -> NoReturn:
    while True:
        time.sleep(3600)


def _refuse(_question: object) -> NoReturn:
    raise CodecError("corrupt", "refused")


def _skip(_question: object) -> NoReturn:
    raise NotDone("skipped")


def _accept(_data: bytes) -> list[WireBatch]:
    return []


def _write_nothing(_batch: WireBatch) -> bytes:
    return b""


MUTE = Miniature(NAME="mute", wrong="answers nothing", caught_as="hang", decode=_wait, encode=_wait)
ACCEPT_ALL = Miniature(
    NAME="accept_all",
    wrong="accepts everything as nothing",
    caught_as="accepts_invalid",
    decode=_accept,
    encode=_write_nothing,
)
REFUSE_ALL = Miniature(
    NAME="refuse_all", wrong="refuses everything", caught_as="rejects_valid", decode=_refuse, encode=_refuse
)
SKIP_ALL = Miniature(NAME="skip_all", wrong="skips everything", caught_as=None, decode=_skip, encode=_skip)
