"""Testees known by name: what `kafkaproof testees` lists."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from shutil import which
from typing import Final

from kafka_conformance.connect import VIRTUAL_MACHINE_MEMORY, BadConnect, CannotRun, Connection
from kafka_conformance.connect.direct import direct

MINIATURE: Final = "miniature:"
JAVA: Final = "java-kafka-clients"
INSTALL: Final = "pip install 'kafkaproof[testees]'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """A testee that has a name.

    Attributes:
        name: as given to `certify`.
        about: what it is, in a few words.
        module: its adapter, or what builds and starts it.
        packages: the import names that it needs.
        programs: the programs that it needs.
        distribution: what its version is the version of.
        environment: variables that make it this codec and not another.
    """

    name: str
    about: str
    module: str
    packages: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    distribution: str = "kafkaproof"
    language: str = "python"
    environment: tuple[tuple[str, str], ...] = ()

    def missing(self) -> tuple[str, ...]:
        """The packages and programs that are not here."""
        packages = tuple(name for name in self.packages if find_spec(name) is None)
        return packages + tuple(name for name in self.programs if which(name) is None)

    def version(self) -> str | None:
        """The version that would be judged; None if it is not installed."""
        if self.name == JAVA:
            from kafka_conformance.testees import java

            return java.DEFAULT_RELEASE
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
        packages=("kafka",),
        distribution="kafka-python",
    ),
    Known(
        name="aiokafka",
        about="aiokafka.record, Cython classes",
        module=f"{_TESTEES}.aiokafka_",
        packages=("aiokafka", "cramjam"),
        distribution="aiokafka",
        language="cython",
    ),
    Known(
        name="aiokafka-pure",
        about="aiokafka.record, pure Python classes",
        module=f"{_TESTEES}.aiokafka_",
        packages=("aiokafka", "cramjam"),
        distribution="aiokafka",
        environment=(("AIOKAFKA_NO_EXTENSIONS", "1"),),
    ),
    Known(
        name=JAVA,
        about="Kafka's own client; Maven builds the adapter when it is first asked for",
        module=f"{_TESTEES}.java",
        programs=("java", "javac", "mvn"),
        language="java",
    ),
)


def find(name: str) -> Known | None:
    """The known testee *name*, None for a miniature.  Raises `BadConnect` for any other name."""
    if name.startswith(MINIATURE):
        return None
    for known in KNOWN:
        if known.name == name:
            return known
    names = ", ".join(known.name for known in KNOWN)
    raise BadConnect(f"no testee {name!r}: known are {names}; or say direct:, process: or container:")


def by_name(name: str) -> Connection:
    """The connection to the known testee *name*."""
    known = find(name)
    if known is None:
        plain = name.removeprefix(MINIATURE).replace("-", "_")
        return replace(direct(f"kafka_conformance.miniatures.{plain}"), name=name)
    missing = known.missing()
    if missing:
        hint = INSTALL if known.packages else f"install {', '.join(missing)}"
        raise CannotRun(f"{known.name} cannot run: {', '.join(missing)} is not installed", hint)
    return _java() if known.name == JAVA else replace(direct(known.module, known.environment), name=known.name)


def _java() -> Connection:
    from kafka_conformance.testees import java

    try:
        argv = java.command(java.build(java.default_directory()))
    except java.JavaTesteeError as error:
        raise CannotRun(f"{JAVA} cannot run: {error}", "it takes Maven, a JDK and a checkout of Kafkaproof") from error
    return Connection(name=JAVA, argv=tuple(argv), memory=VIRTUAL_MACHINE_MEMORY)
