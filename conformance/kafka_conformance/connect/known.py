"""Testees known by name: what `kafkaproof testees` lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Final

from kafka_conformance.connect import BadConnect, CannotRun, Connection
from kafka_conformance.connect.direct import direct

MINIATURE: Final = "miniature:"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A testee that has a name.

    Attributes:
        name: as given to `certify`.
        about: what it is, in a few words.
        module: its adapter.
        requires: the import names that it needs, and the distribution whose
            version is its version.
        environment: variables that make it this codec and not another.
    """

    name: str
    about: str
    module: str
    requires: tuple[str, ...] = ()
    distribution: str = "kafkaproof"
    language: str = "python"
    environment: tuple[tuple[str, str], ...] = ()

    def missing(self) -> tuple[str, ...]:
        """The import names that are not installed."""
        return tuple(name for name in self.requires if find_spec(name) is None)

    def version(self) -> str | None:
        """The installed version; None if it is not installed."""
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None


_TESTEES: Final = "kafka_conformance.testees"
KNOWN: Final = (
    Known(name="reference", about="kafka_records, the executable specification", module=f"{_TESTEES}.reference"),
    Known(
        name="kafka-python",
        about="kafka.record as its consumer and producer drive it",
        module=f"{_TESTEES}.kafka_python",
        requires=("kafka",),
        distribution="kafka-python",
    ),
    Known(
        name="aiokafka",
        about="aiokafka.record, Cython classes",
        module=f"{_TESTEES}.aiokafka_",
        requires=("aiokafka", "cramjam"),
        distribution="aiokafka",
        language="cython",
    ),
    Known(
        name="aiokafka-pure",
        about="aiokafka.record, pure Python classes",
        module=f"{_TESTEES}.aiokafka_",
        requires=("aiokafka", "cramjam"),
        distribution="aiokafka",
        environment=(("AIOKAFKA_NO_EXTENSIONS", "1"),),
    ),
)


def by_name(name: str) -> Connection:
    """The connection to the known testee *name*."""
    if name.startswith(MINIATURE):
        plain = name.removeprefix(MINIATURE).replace("-", "_")
        return replace(direct(f"kafka_conformance.miniatures.{plain}"), name=name)
    for known in KNOWN:
        if known.name == name:
            return _connection(known)
    names = ", ".join(known.name for known in KNOWN)
    raise BadConnect(f"no testee {name!r}: known are {names}; or say direct:, process: or container:")


def _connection(known: Known) -> Connection:
    missing = known.missing()
    if missing:
        hint = "pip install 'kafkaproof[testees]'"
        raise CannotRun(f"{known.name} cannot run: {', '.join(missing)} is not installed", hint)
    return replace(direct(known.module, known.environment), name=known.name)
