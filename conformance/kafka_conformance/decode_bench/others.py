"""The peers in other languages: small programs over the libraries of the testees, built once, as these are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Final

from kafka_conformance.connect.known import JAVA, find
from kafka_conformance.testees import built
from kafka_conformance.testees.recipe import Recipe

ASSETS: Final = Path(__file__).parent / "assets"
WARM_SECONDS: Final = 4
RUST: Final = ("kafka-protocol", "rskafka")
# What the peers are called in a command line, and whose libraries they use.
NAMES: Final = {"java": JAVA, "franz-go": "franz-go", "kafka-protocol": "kafka-protocol", "rskafka": "rskafka"}
# Formats that a library does not read.
ONLY_V2: Final = RUST


def command(name: str, path: Path, *, encode: bool) -> list[str]:
    """The command line of a peer that reads the log at *path*, or writes it again.

    Raises:
        built.ToolchainMissing: there is nothing here to build it with.
        built.BuildError: it does not build.
    """
    known = find(NAMES[name])
    assert known
    assert known.recipe
    if name == "java":
        libraries = f"{built.build(known.recipe)}/lib/*"
        java = ["java", "-Xmx2g", "-XX:+UseSerialGC", "-cp", libraries]
        return [*java, str(ASSETS / "JavaPeer.java"), str(path), str(WARM_SECONDS), "encode" if encode else "decode"]
    return [str(built.build(peer_of(known.recipe)) / "testee"), str(path)]


def peer_of(recipe: Recipe) -> Recipe:
    """How a peer is built: with the libraries of a testee, and another main program."""
    project = f"{recipe.name}-peer"
    if recipe.language == "go":
        build = tuple(tuple("./peer" if word == "." else word for word in each) for each in recipe.build)
        return replace(recipe, project=project, sources=("peer/main.go", "go.mod", "go.sum"), build=build)
    other_main = ("sed", "-i", "s/main.rs/peer.rs/", "Cargo.toml")
    sources = ("peer.rs", "Cargo.toml", "Cargo.lock")
    return replace(recipe, project=project, sources=sources, build=(other_main, *recipe.build))
