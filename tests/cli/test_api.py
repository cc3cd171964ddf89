"""The public Python API: `import kafkaproof`."""

import doctest
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from tests.unpacking import unpack

import kafka_records
import kafkaproof

ROOT = Path(__file__).resolve().parent.parent.parent
NEEDS_COLUMNAR = {"AuditReport", "audit"}
# A partition's directory that Kafka 2.8.2 wrote, with five segments and one open transaction.
RECORDED = next((ROOT / "tests").rglob("recorded_log.tar.gz"))
NOW_MS = 1795276100000


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """A copy of the recorded log directory."""
    unpack(RECORDED, tmp_path)
    return tmp_path / "orders-0"


def test_examples_run() -> None:
    """The examples in the docstring give what they show."""
    failed, tried = doctest.testmod(kafkaproof)
    assert (failed, tried >= 5) == (0, True)


@pytest.mark.parametrize("name", sorted(set(kafkaproof.__all__) - NEEDS_COLUMNAR))
def test_names_are_there(name: str) -> None:
    """Each name of the API can be imported and has a docstring."""
    assert getattr(kafkaproof, name).__doc__
    assert name in dir(kafkaproof)


@pytest.mark.parametrize("name", sorted(set(kafkaproof.__all__) & set(kafka_records.__all__)))
def test_formats_are_the_reference(name: str) -> None:
    """Names that the reference has are those of the reference."""
    assert getattr(kafkaproof, name) is getattr(kafka_records, name)


def test_unknown_names_are_refused() -> None:
    """A name that the API does not have is an `AttributeError`, as with any module."""
    with pytest.raises(AttributeError, match="has no attribute 'decoder'"):
        kafkaproof.decoder  # noqa: B018


def test_import_is_quick() -> None:
    """Importing the package imports neither the judge nor the reference nor NumPy."""
    heavy = "'kafka_records', 'kafka_conformance', 'kafka_pipeline', 'numpy', 'msgspec', 'click'"
    program = f"import kafkaproof, sys; print([name for name in ({heavy}) if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_documented_names_are_the_api() -> None:
    """The docstring lists every name."""
    documented = kafkaproof.__doc__ or ""
    assert [name for name in kafkaproof.__all__ if name not in documented] == []


def test_codec_is_checked() -> None:
    """`check_codec` accepts the reference, and names the case that a wrong decoder gets wrong."""
    assert kafkaproof.check_codec(kafkaproof.decode, only="v2_shapes").agrees

    def decode_without_values(data: bytes) -> list[kafkaproof.Batch]:
        batches = kafkaproof.decode(data)
        return [
            kafkaproof.Batch(
                magic=batch.magic,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                records=tuple(record._replace(value=b"") for record in batch.records),
            )
            for batch in batches
        ]

    with pytest.raises(AssertionError, match=r"wrong_data +v2_shapes"):
        kafkaproof.check_codec(decode_without_values, only="v2_shapes")


def test_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extra `columnar`, `audit` says what to install."""
    for name in [name for name in sys.modules if name.startswith("kafka_pipeline")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    vars(kafkaproof).pop("audit", None)
    with pytest.raises(ImportError, match=r"kafkaproof\.audit needs numpy.*: pip install 'kafkaproof\[columnar\]'"):
        kafkaproof.audit  # noqa: B018


@pytest.mark.columnar
@pytest.mark.parametrize("processes", [1, 2])
def test_log_directory_is_audited(processes: int, log_directory: Path) -> None:
    """A log that a broker wrote has one note; a byte that is changed in it is an error, with file, byte and rule."""
    pytest.importorskip("numba")
    clean = kafkaproof.audit(log_directory, now_ms=NOW_MS, processes=processes, split_bytes=100_000)
    assert clean.severities == {"error": 0, "warning": 0, "note": 1}
    assert [(log.path, log.first_offset, log.last_offset) for log in clean.logs] == [
        (log_directory.as_posix(), 0, 1992)
    ]
    assert clean.logs[0].counts.numbers["records"] == 1993

    segment = max(log_directory.glob("*.log"))
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    damaged = kafkaproof.audit(str(log_directory), now_ms=NOW_MS, processes=processes, split_bytes=100_000)
    assert damaged.severities["error"] == 1
    (error,) = [finding for finding in damaged.logs[0].listed if finding.severity == "error"]
    assert (Path(error.file).name, error.rule) == (segment.name, "CRC-07")
    assert 0 <= error.position < len(data)


@pytest.mark.columnar
def test_processes_do_not_change_the_report(log_directory: Path) -> None:
    """The report is the same document, however many processes judge it and however segments are cut."""
    pytest.importorskip("numba")
    whole = kafkaproof.audit(log_directory, now_ms=NOW_MS)
    cut = kafkaproof.audit(log_directory, now_ms=NOW_MS, processes=2, split_bytes=3000)
    assert msgspec.to_builtins(whole) == msgspec.to_builtins(cut)


@pytest.mark.columnar
def test_audit_of_nothing_is_an_error(tmp_path: Path) -> None:
    """A directory without segments, a missing one and another machine's cannot be audited; each error says why."""
    pytest.importorskip("numba")
    with pytest.raises(kafkaproof.CannotRead, match="no segment files"):
        kafkaproof.audit(tmp_path)
    with pytest.raises(kafkaproof.CannotRead, match="no such file"):
        kafkaproof.audit(tmp_path / "missing")
    with pytest.raises(kafkaproof.CannotRead, match="only paths of this machine"):
        kafkaproof.audit("s3://bucket/logs")
    with pytest.raises(ValueError, match=r"processes \(0\)"):
        kafkaproof.audit(tmp_path, processes=0)
