"""The packed environment of executors."""

from importlib.metadata import distributions
from pathlib import Path, PurePosixPath

import pytest

pytest.importorskip("pyarrow")

from kafka_conformance import installed_version
from kafka_conformance.testees.known import PLANTED_BUGS_GROUP, TESTEE_GROUP
from kafka_conformance.testees.recipe import FILE, recipes
from kafka_pipeline.spark.pack import OURS, archive_contents


def test_archive_holds_each_package_and_its_entry_points(tmp_path: Path) -> None:
    """Executors have every package below the commands, the version, and the entry points of testees."""
    contents = {PurePosixPath(name): path for name, path in archive_contents().items()}
    packages = {name.parts[3] for name in contents}
    assert packages >= set(OURS)
    assert "pyspark" not in packages

    for name, path in contents.items():
        if name.parts[3].startswith("kafkaproof-"):
            copied = tmp_path.joinpath(*name.parts[3:])
            copied.parent.mkdir(exist_ok=True)
            copied.write_bytes(path.read_bytes())
    (ours,) = distributions(path=[str(tmp_path)])
    assert ours.version == installed_version()
    points = {entry.group: entry.module for entry in ours.entry_points}
    for group in (TESTEE_GROUP, PLANTED_BUGS_GROUP):
        assert points[group].partition(".")[0] in OURS


@pytest.mark.slow
def test_archive_holds_the_recipes_of_testees(tmp_path: Path) -> None:
    """Executors can build what a campaign starts, from a wheel as from a checkout."""
    prefix = "kafka_conformance/adapters/"
    packed = {name.partition(prefix)[2]: path for name, path in archive_contents().items() if prefix in name}
    for recipe in recipes():
        assert f"{recipe.folder.name}/{FILE}" in packed
        for source in recipe.sources:
            assert not PurePosixPath(source).is_absolute()
    for name, path in packed.items():
        copied = tmp_path / name
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_bytes(path.read_bytes())
    for recipe in recipes():
        for source in recipe.sources:
            assert (tmp_path / recipe.folder.name / source).exists(), source
