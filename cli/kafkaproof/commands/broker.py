"""`kafkaproof broker`: real brokers, their jars, and how to start one."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import click

from kafka_brokers import jars, java
from kafka_brokers.interface import NoBroker
from kafka_brokers.jvm import JvmBroker
from kafka_brokers.releases import RELEASES, Release, find_release
from kafkaproof.cli import OK, need_own_sources, say_json
from kafkaproof.commands.broker_answers import compare_command, record_command
from kafkaproof.commands.broker_certify import certify_broker

# Seconds between two looks at a broker that runs in the foreground.
LOOK: Final = 0.5


@click.group()
def broker() -> None:
    """List, start and prepare real Kafka brokers."""


@broker.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a table.")
def list_(as_json: bool) -> None:
    """List the releases, whether their jars are here, and which Java would run them."""
    listed = [_described(release) for release in RELEASES]
    if as_json:
        say_json({"releases": listed})
    else:
        _show(listed)


def _described(release: Release) -> dict[str, Any]:
    try:
        version, missing = java.find_java(release).version, ""
    except NoBroker as error:
        version, missing = None, str(error)
    return {
        "release": release.name,
        "mode": release.mode,
        "magics": list(release.magics),
        "jars_cached": jars.is_cached(release),
        "jars_locked": release.name in jars.locked(),
        "java": version,
        "missing": missing,
    }


def _show(listed: list[dict[str, Any]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from kafka_conformance.reports import terminal

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("release", "metadata", "stores", "jars", "java"):
        table.add_column(heading, no_wrap=True)
    for each in listed:
        found = Text(str(each["java"]), style="green") if each["java"] else Text(each["missing"], style="yellow")
        stores = ", ".join(f"v{magic}" for magic in each["magics"])
        kept = "cached" if each["jars_cached"] else "to be fetched" if each["jars_locked"] else "not locked"
        table.add_row(each["release"], each["mode"], stores, kept, found)
    terminal.console().print(table)


def _settings(_ctx: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`NAME=VALUE` options as a dictionary."""
    pairs = [text.partition("=") for text in given]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise click.BadParameter("has the form NAME=VALUE")
    return {name: value for name, _, value in pairs}


@broker.command("start")
@click.argument("release")
@click.option("--config", multiple=True, callback=_settings, metavar="NAME=VALUE", help="A setting of the broker's.")
@click.option("--container", "contained", is_flag=True, help="In a container, from the image that `build` made.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of a line.")
def start_command(release: str, config: dict[str, str], contained: bool, as_json: bool) -> None:
    """Start RELEASE in the foreground, until ctrl-C ends it and removes what it left."""
    from kafka_brokers import container, jvm

    # `kill` and the end of a CI job must clean up as ctrl-C does.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start_it: Callable[..., JvmBroker] = container.start_container if contained else jvm.start_jvm
    try:
        with start_it(release, config=config) as running:
            _announce(running, as_json)
            while not running.has_ended():
                time.sleep(LOOK)
            raise NoBroker(f"Kafka {release} ended by itself", log=running.tail())
    except KeyboardInterrupt:
        # The way in which this command is meant to end.
        sys.exit(OK)


def _announce(running: JvmBroker, as_json: bool) -> None:
    where = str(running.data_directory)
    if as_json:
        say_json({"release": running.release, "bootstrap": running.bootstrap, "data_directory": where})
    else:
        click.echo(f"Kafka {running.release} at {running.bootstrap}, logs in {where}; ctrl-C ends it")
    sys.stdout.flush()


@broker.command("lock")
@click.argument("release", nargs=-1)
def lock_command(release: tuple[str, ...]) -> None:
    """Fetch the jars of each RELEASE, or of all, and write their SHA-256 into the lock file of this package."""
    need_own_sources("kafkaproof broker lock", "the lock file of this release stays as it is")
    for each in [find_release(name) for name in release] or RELEASES:
        entries = jars.lock_jars([each])[each.name]
        click.echo(f"{each.name}: {len(entries)} jars")


@broker.command("build")
@click.argument("release")
@click.option(
    "--base",
    envvar="KAFKAPROOF_BASE_IMAGE",
    show_envvar=True,
    help="The image to build on; it must have `java` on its path.  [default: a public JRE image]",
)
def build_command(release: str, base: str | None) -> None:
    """Build the image from which RELEASE runs in a container."""
    from kafka_brokers import container

    click.echo(container.build_image(release, base or container.DEFAULT_BASE))


broker.add_command(record_command)
broker.add_command(compare_command)
broker.add_command(certify_broker)
