"""Compilation of the columnar codec's kernels: for a generic processor, and again when a source changes."""

import os
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

pytest.importorskip("numba")

pytestmark = pytest.mark.columnar

# Logs of all formats; of those that are not compressed a byte in the middle is damaged in the end.
PROGRAM = """
from kafka_pipeline.columnar import checksum, read_chunks, write_rows
from kafka_records import Batch, Record, decode, encode

assert not checksum.NARROW and not checksum.WIDE
for magic, codec in ((0, "none"), (1, "none"), (1, "lz4"), (2, "none"), (2, "snappy")):
    key = [None if n % 5 == 0 else b"k" * (n % 20) for n in range(130)]
    records = tuple(
        Record(n, 1_700_000_000_000 + n if magic else -1, key[n], bytes([n]) * (n % 90), ()) for n in range(130)
    )
    kind, newest = "create" if magic else "none", records[-1].timestamp
    log = encode(Batch(magic=magic, base_offset=0, last_offset=129, compression=codec, timestamp_type=kind,
                       max_timestamp=newest, records=records)) * 20
    wanted = [(each.offset, each.timestamp, each.key, each.value) for batch in decode(log) for each in batch.records]
    chunks = list(read_chunks(log))
    columns = ("offset", "timestamp", "key", "value")
    rows = [row for chunk in chunks for row in zip(*(chunk.records[name].to_pylist() for name in columns), strict=True)]
    assert rows == wanted, (magic, codec)
    if codec == "none":
        again = b"".join(bytes(memoryview(write_rows(chunk.records, chunk.batches))) for chunk in chunks)
        assert again == log, (magic, codec)
        damaged = bytearray(log)
        damaged[len(log) // 2 + 23] ^= 1
        assert sum(len(chunk.broken) for chunk in read_chunks(bytes(damaged))) == 1, (magic, codec)
    print(magic, codec, len(rows))
"""


@pytest.mark.parametrize("as_python", ["0", "1"])
def test_any_processor_will_do(tmp_path: Path, as_python: str) -> None:
    """Numba compiles for a processor without special instructions, from an empty cache; or kernels run as Python."""
    environment = {
        **os.environ,
        "NUMBA_DISABLE_JIT": as_python,
        "NUMBA_CPU_NAME": "generic",
        "NUMBA_CPU_FEATURES": "",
        "NUMBA_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr[-2000:]
    read = ("0 none", "1 none", "1 lz4", "2 none", "2 snappy")
    assert done.stdout.splitlines() == [f"{each} 2600" for each in read]


def test_kernels_are_compiled_again_when_any_source_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any changed source gives a new cache folder: Numba does not see changes of callees in other files."""
    from kafka_pipeline.columnar import jit

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    copied = Path(shutil.copytree(Path(jit.__file__).parent, tmp_path / "columnar"))
    spec = spec_from_file_location("copied_jit", copied / "jit.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    folders = [module.cache_folder()]
    sources = sorted(copied.glob("*.py"))
    for source in sources:
        source.write_text(source.read_text() + "# changed\n")
        folders.append(module.cache_folder())

    assert len(sources) > 10
    assert len(set(folders)) == len(sources) + 1
