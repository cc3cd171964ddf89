"""The recorded log without the modules that kernels need."""

from pathlib import Path

from tests.unpacking import unpack

ARCHIVE = Path(__file__).parent / "recorded_log.tar.gz"


def fresh_log(folder: Path) -> Path:
    """A copy of the log that a broker wrote."""
    unpack(ARCHIVE, folder)
    return folder / "orders-0"


def broken_log(folder: Path) -> Path:
    """A copy with a byte changed in its first batch, and its last segment cut short."""
    log = fresh_log(folder)
    segments = sorted(log.glob("*.log"))
    data = bytearray(segments[0].read_bytes())
    data[100] ^= 1
    segments[0].write_bytes(data)
    segments[-1].write_bytes(segments[-1].read_bytes()[:-5])
    return log
