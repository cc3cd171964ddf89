"""Testees known by name, as `kafkaproof testees` lists them, and the connect string that names any testee.

    direct:MODULE           a Python module (or an object in one), in a child process of ours
    process:COMMAND LINE    any program that speaks the protocol
    container:IMAGE         the same in a container
    fetch:COMMAND LINE      any client that can consume from an address, on a fake broker of ours
    NAME                    a known testee

Known testees in Python are modules of ours, served by this interpreter.  The others
are built by their recipes (`testees/recipe.py`) when they are first used.
`NAME@VERSION` is the same testee with another release of its codec, in a build
of its own.  `…+fetchN` is the same client on a broker that has Fetch up to version N, `…+produceN` on one that has
Produce up to version N.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.metadata import PackageNotFoundError, entry_points, version
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from kafka_brokers.fake_broker import FETCH_VERSION, PRODUCE_VERSION, check_version
from kafka_brokers.wire import tables
from kafka_brokers.wire.schema import Api
from kafka_conformance.testees.connection import (
    CLIENT_HELLO_SECONDS,
    BadConnect,
    CannotRun,
    ConnectionSpec,
    client,
    container,
    direct,
    fetch,
    memory_of,
    process,
    split_command,
)
from kafka_conformance.testees.recipe import (
    PIP,
    BuildError,
    BuildRecipe,
    RecipeError,
    build_testee,
    built_command,
    not_installed,
    numbers,
    recipes,
    what_is_missing,
)

PLANTED: Final = "planted:"
# The former prefix works with a warning for one release.
OLD_PLANTED: Final = "miniature:"
JAVA: Final = "java-kafka-clients"
OURS: Final = "kafkaproof"
# Similarity from 0 to 1 above which a known name is suggested for an unknown one.
NEAR: Final = 0.7
# Entry points: testees of other packages, and the module that holds planted bugs.
TESTEE_GROUP: Final = "kafkaproof.testees"
PLANTED_BUGS_GROUP: Final = "kafkaproof.planted_bugs"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTestee:
    """A testee that has a name.

    Attributes:
        name: as given to `certify`.
        about: what it is, in a few words.
        module: its adapter in Python; empty for one that is built.
        packages: the import names that it needs.
        distribution: what its version is the version of.
        environment: variables that make it this codec and not another.
        recipe: how it is built, or installed for a version of its own.
        extras: of this project's distribution, those that bring *packages*.
        compiles: whether its first import compiles, which may take longer than a testee has to start.
        fetches: whether it is a consumer on a fake broker; those that are built say so in their recipe.
        wheels_since: the first release that has wheels; an older one is built from its source archive.
        older: for releases below a bound, what they are installed with: a dependency that has changed since.
    """

    name: str
    about: str
    module: str = ""
    packages: tuple[str, ...] = ()
    distribution: str = OURS
    language: str = "python"
    environment: tuple[tuple[str, str], ...] = ()
    recipe: BuildRecipe | None = None
    extras: str = "testees"
    compiles: bool = False
    fetches: bool = False
    wheels_since: str = ""
    older: tuple[tuple[str, tuple[str, ...]], ...] = ()

    def missing(self) -> tuple[str, ...]:
        """The packages and programs that are not here."""
        packages = tuple(name for name in self.packages if find_spec(name) is None)
        return packages + (self.recipe.missing() if self.recipe else ())

    def reason(self, missing: tuple[str, ...]) -> str:
        """One line that says which packages or programs are *missing*."""
        return what_is_missing(missing) if self.recipe else not_installed(missing)

    def installation(self) -> str:
        """The command that installs the packages; empty for a testee that is built."""
        return "" if self.recipe else f"pip install '{OURS}[{self.extras}]'"

    def version(self) -> str | None:
        """The version that would be judged; None if it is not installed."""
        if self.recipe:
            return self.recipe.version
        try:
            return version(self.distribution)
        except PackageNotFoundError:
            return None


_TESTEES: Final = "kafka_conformance.testees"
_AIOKAFKA: Final = KnownTestee(
    name="aiokafka",
    about="aiokafka.record, Cython classes",
    module=f"{_TESTEES}.aiokafka_",
    packages=("aiokafka", "cramjam"),
    distribution="aiokafka",
    language="cython",
    wheels_since="0.8",
    # It took its protocol from kafka-python, whose modules moved in 2.2.
    older=(("0.9", ("kafka-python==2.0.2",)),),
)
_AIOKAFKA_CLIENT: Final = replace(
    _AIOKAFKA,
    name="aiokafka-client",
    about="AIOKafkaConsumer and AIOKafkaProducer on a fake broker",
    module=f"{_TESTEES}.aiokafka_client",
    fetches=True,
)
_CONFLUENT: Final = KnownTestee(
    name="confluent-kafka",
    about="librdkafka: its consumer and producer on a fake broker; compares no checksums by default",
    module=f"{_TESTEES}.confluent_kafka_",
    packages=("confluent_kafka",),
    distribution="confluent-kafka",
    language="c",
    fetches=True,
)
KNOWN: Final = (
    KnownTestee(name="reference", about="kafka_records, the executable specification", module=f"{_TESTEES}.reference"),
    KnownTestee(
        name="kafka-python",
        about="kafka.record as its consumer and producer drive it",
        module=f"{_TESTEES}.kafka_python",
        packages=("kafka",),
        distribution="kafka-python",
    ),
    KnownTestee(
        name="kafka-python-client",
        about="KafkaConsumer and KafkaProducer on a fake broker",
        module=f"{_TESTEES}.kafka_python_client",
        packages=("kafka",),
        distribution="kafka-python",
        fetches=True,
    ),
    _AIOKAFKA,
    _AIOKAFKA_CLIENT,
    replace(
        _AIOKAFKA,
        name="aiokafka-pure",
        about="aiokafka.record, pure Python classes",
        language="python",
        environment=(("AIOKAFKA_NO_EXTENSIONS", "1"),),
    ),
    _CONFLUENT,
    replace(
        _CONFLUENT,
        name="confluent-kafka-crc",
        about="the same with check.crcs=true",
        environment=(("KAFKAPROOF_CHECK_CRCS", "1"),),
    ),
)


def known_testees() -> tuple[KnownTestee, ...]:
    """All testees that have a name: `KNOWN`, entry points of the group `kafkaproof.testees`, then recipes.

    Raises:
        CannotRun: a recipe cannot be used.
    """
    try:
        return KNOWN + _from_entry_points() + tuple(map(_from_recipe, recipes()))
    except RecipeError as error:
        raise CannotRun(str(error)) from error


@cache
def _from_entry_points() -> tuple[KnownTestee, ...]:
    """Testees of installed packages above this one; an entry point names a `KnownTestee`."""
    loaded = (entry.load() for entry in entry_points(group=TESTEE_GROUP))
    return tuple(sorted((known for known in loaded if isinstance(known, KnownTestee)), key=lambda known: known.name))


def _from_recipe(recipe: BuildRecipe) -> KnownTestee:
    return KnownTestee(
        name=recipe.name, about=recipe.about, language=recipe.language, recipe=recipe, fetches=recipe.client
    )


def find_testee(name: str) -> KnownTestee | None:
    """The known testee *name*, or NAME@VERSION; None for a planted bug.  Raises `BadConnect` for any other name."""
    if name.startswith((PLANTED, OLD_PLANTED)):
        return None
    plain, at, version = name.partition("@")
    for known in known_testees():
        if known.name == plain:
            return at_version(known, version) if at else known
    raise BadConnect(_unknown(name, plain))


def _unknown(name: str, plain: str) -> str:
    if is_program(name):
        return f"no testee {name!r}; did you mean process:{name}?"
    names = [known.name for known in known_testees()]
    near = get_close_matches(plain.lower().replace("_", "-"), names, cutoff=NEAR)
    hint = f"; did you mean {' or '.join(near)}?" if near else ":"
    return f"no testee {name!r}{hint} known are {', '.join(names)}; or say direct:, process:, container: or fetch:"


def is_program(text: str) -> bool:
    """Whether *text* looks like a program: a path, or the name of a file that is here."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return "/" in word or (bool(word) and Path(word).is_file())


def at_version(known: KnownTestee, version: str) -> KnownTestee:
    """*known* with the release *version* of its codec, in a build of its own.

    Raises:
        BadConnect: *version* is no version, or the testee is of this project.
    """
    if known.module and known.distribution == OURS:
        raise BadConnect(f"{known.name} is of this project, and has no other releases")
    try:
        recipe = (known.recipe or _installed(known, version)).at(version)
    except RecipeError as error:
        raise BadConnect(f"{known.name}@{version}: {error}") from error
    return replace(known, name=f"{known.name}@{version}", recipe=recipe, packages=())


def testee_at(name: str, version: str) -> str:
    """The connect string of the release *version* of the testee *name*: the plain name if that release is here.

    Raises:
        BadConnect: there is no such testee, or *version* is no version.
    """
    known = find_testee(name)
    if known is not None and known.version() == version:
        return name
    exact = f"{name}@{version}"
    find_testee(exact)
    return exact


def _installed(known: KnownTestee, version: str) -> BuildRecipe:
    """How *version* of one in Python is installed: in a folder that goes before the installed packages."""
    wheels = () if numbers(version) < numbers(known.wheels_since) else ("--only-binary", ":all:")
    more = [each for bound, packages in known.older if numbers(version) < numbers(bound) for each in packages]
    return BuildRecipe(
        name=known.name,
        project=known.distribution,
        about=known.about,
        language=known.language,
        version="",
        folder=Path(__file__).parent,
        sources=(),
        programs=(PIP,),
        build=(("{pip-install}", *wheels, "--target", "{build}", *more, f"{known.distribution}=={{version}}"),),
        run=(),
        environment=known.environment,
        pinned=False,
    )


def current_prefix(name: str) -> str:
    """*name* with `planted:` in place of the old prefix, which prints a warning to standard error."""
    if not name.startswith(OLD_PLANTED):
        return name
    current = PLANTED + name.removeprefix(OLD_PLANTED)
    sys.stderr.write(f"warning: {name} is now {current}; the prefix {OLD_PLANTED} goes with the next release\n")
    return current


def planted_bugs_module() -> str:
    """The module that holds planted bugs as testees, by the entry point `planted-bugs` of `kafkaproof.planted_bugs`.

    Raises:
        CannotRun: no installed package has one.
    """
    for entry in entry_points(group=PLANTED_BUGS_GROUP):
        return entry.value
    raise CannotRun(f"no installed package has an entry point in {PLANTED_BUGS_GROUP}", "pip install kafkaproof")


def by_name(name: str) -> ConnectionSpec:
    """The connection to the known testee *name*, built now if it has to be."""
    known = find_testee(name)
    if known is None:
        name = current_prefix(name)
        plain = name.removeprefix(PLANTED).replace("-", "_")
        return replace(direct(f"{planted_bugs_module()}.{plain}"), name=name)
    if missing := known.missing():
        raise CannotRun(f"{known.name} cannot run: {known.reason(missing)}", known.installation())
    if known.recipe is None:
        connection = replace(direct(known.module, known.environment), name=known.name)
        if known.compiles:
            # Whatever is wrong shows when it is started.
            environment = os.environ | dict(connection.environment)
            subprocess.run((sys.executable, "-c", f"import {known.module}"), env=environment, check=False)
        return connection
    try:
        return _of_build(known, known.recipe)
    except BuildError as error:
        raise CannotRun(f"{known.name} cannot run: {error}", f"kafkaproof testees build {known.name}") from error


def _of_build(known: KnownTestee, recipe: BuildRecipe) -> ConnectionSpec:
    folder = build_testee(recipe)
    if known.module:
        connection = direct(known.module, known.environment)
        environment = tuple(
            (key, f"{folder}:{value}" if key == "PYTHONPATH" else value) for key, value in connection.environment
        )
        return replace(connection, name=known.name, environment=environment)
    argv = built_command(recipe, folder)
    environment = tuple((key, value.replace("{build}", str(folder))) for key, value in recipe.environment)
    if recipe.client:
        return replace(client(argv, environment), name=known.name)
    return ConnectionSpec(name=known.name, argv=tuple(argv), environment=environment, memory=memory_of(argv[0]))


SCHEMES: Final[Mapping[str, Callable[[str], ConnectionSpec]]] = {
    "direct": direct, "process": process, "container": container, "fetch": fetch,
}  # fmt: skip


_VERSION: Final = re.compile(r"(.+)\+(fetch|produce)(\d{1,4})", re.DOTALL)
# By the word before a version: the request, and the environment variable that wants it.
REQUESTS: Final[Mapping[str, tuple[Api, str]]] = {
    "fetch": (tables.FETCH, FETCH_VERSION), "produce": (tables.PRODUCE, PRODUCE_VERSION),
}  # fmt: skip


def split_version(text: str) -> tuple[str, str, int | None]:
    """A connect string without its Fetch or Produce version, the request that has it, and the version.

    >>> split_version("sarama-client@1.41.0+fetch4")
    ('sarama-client@1.41.0', 'fetch', 4)
    >>> split_version("sarama-client")
    ('sarama-client', '', None)
    """
    match = _VERSION.fullmatch(text)
    return (match[1], match[2], int(match[3])) if match else (text, "", None)


def plain_name(connect: str) -> str:
    """The name of a known testee, without release and Fetch or Produce version."""
    return split_version(connect)[0].partition("@")[0]


def check_connect(text: str) -> None:
    """Raise `BadConnect` if *text* is no connect string; starts, builds and looks for nothing."""
    text, request, newest = split_version(text)
    scheme, colon, rest = text.partition(":")
    if newest is not None:
        _check_speaks(text, scheme if colon else "", request, newest)
    if not (colon and scheme in SCHEMES):
        find_testee(text)
    elif not rest.strip():
        raise BadConnect(f"{text!r} names nothing after the colon")
    elif scheme in ("process", "fetch"):
        split_command(rest)


def _check_speaks(text: str, scheme: str, request: str, newest: int) -> None:
    try:
        check_version(REQUESTS[request][0], newest)
    except ValueError as error:
        raise BadConnect(str(error)) from error
    known = None if scheme in SCHEMES else find_testee(text)
    if (known and known.fetches) or (scheme, request) == ("fetch", "fetch"):
        return
    clients = ", ".join(each.name for each in known_testees() if each.fetches)
    if request == "fetch":
        raise BadConnect(f"{text} fetches nothing: clients that do are {clients}, and fetch:")
    raise BadConnect(f"{text} produces nothing: clients on a fake broker are {clients}")


def connect(text: str, *, memory: int | None = None) -> ConnectionSpec:
    """The connection that *text* names; *memory* in bytes overrides its default.

    Raises:
        BadConnect: neither a known name nor a connect string.
        CannotRun: what it takes is not on this machine.
    """
    check_connect(text)
    plain, request, newest = split_version(text)
    scheme, _, rest = plain.partition(":")
    found = replace(SCHEMES[scheme](rest), name=text) if scheme in SCHEMES else by_name(plain)
    if newest is not None:
        environment = (*found.environment, (REQUESTS[request][1], str(newest)))
        # It fetches, or produces, before it says hello.
        limit = max(found.hello_seconds, CLIENT_HELLO_SECONDS)
        found = replace(found, name=text, environment=environment, hello_seconds=limit)
    return found if memory is None else replace(found, memory=memory)
