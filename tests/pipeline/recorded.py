"""A log that a real broker wrote, to be damaged: copies of it, and what an audit says of them.

`recorded_log.tar.gz` is a partition that Kafka 2.8.2 wrote for aiokafka: five segments of 50 batches, all codecs,
eight producers, three of them transactional, one transaction left open.  Its last two indexes end in fewer zeros.
`tests/brokers/test_audit.py` has another broker write such a log.
"""

from collections.abc import Callable
from pathlib import Path

from crc32c import crc32c
from tests.unpacking import unpack

from kafka_pipeline.audit.joining import LogReport, join_summaries
from kafka_pipeline.audit.local import tasks_of
from kafka_pipeline.audit.stretch import judge_stretch
from kafka_pipeline.columnar.scan import runs_in
from kafka_pipeline.segments.listing import find_segments
from kafka_records import decode
from kafka_records.layout import BATCH_V2

ARCHIVE = Path(__file__).parent / "recorded_log.tar.gz"
NOW = 1795276100000
HOUR = 3_600_000
Place = tuple[str, str, int]
"""Kind, file, and the byte at which the entry starts."""


class Log:
    """A copy of the recorded log, whose batches can be changed by their numbers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def files(self) -> list[Path]:
        """The segments."""
        return sorted(self.folder.glob("*.log"))

    def places(self) -> list[tuple[Path, int, int]]:
        """Each batch: its file, where it starts and where it ends."""
        return [(path, *place) for path in self.files for place in runs_in(path.read_bytes(), most=1).places]

    def batch(self, number: int) -> bytes:
        """The bytes of a batch."""
        path, start, end = self.places()[number]
        return path.read_bytes()[start:end]

    def at(self, kind: str, number: int) -> Place:
        """The place of a batch, where *kind* is expected."""
        path, start, _ = self.places()[number]
        return kind, path.name, start

    def put(self, number: int, new: bytes) -> None:
        """Other bytes for a batch."""
        path, start, end = self.places()[number]
        data = path.read_bytes()
        path.write_bytes(data[:start] + new + data[end:])

    def set(self, number: int, field: str, value: int, *, sealed: bool = True) -> None:
        """Another number in a header, and the CRC that belongs to it."""
        where, data = BATCH_V2.field(field), bytearray(self.batch(number))
        data[where.offset : where.offset + where.width] = value.to_bytes(where.width, "big", signed=True)
        self.put(number, seal(bytes(data)) if sealed else bytes(data))

    def get(self, number: int, field: str) -> int:
        """A number of a header."""
        where = BATCH_V2.field(field)
        return int.from_bytes(self.batch(number)[where.offset : where.offset + where.width], "big", signed=True)

    def without_indexes(self) -> None:
        """Indexes and snapshots that would be wrong, too, go."""
        for suffix in ("index", "timeindex"):
            for path in self.folder.glob(f"*.{suffix}"):
                path.unlink()
        self.without_snapshots()

    def without_snapshots(self) -> None:
        """Remove the broker's snapshots of producers."""
        for path in self.folder.glob("*.snapshot"):
            path.unlink()

    def other(self, number: int, suffix: str) -> Path:
        """A file beside a segment."""
        return self.files[number].with_suffix(suffix)


def seal(data: bytes) -> bytes:
    """The batch with a right CRC."""
    return data[:17] + crc32c(data[21:]).to_bytes(4, "big") + data[21:]


def last_offset(data: bytes) -> int:
    """The last offset of a batch."""
    (batch,) = decode(data)
    return batch.last_offset


def fresh(folder: Path) -> Log:
    """A copy below *folder*."""
    unpack(ARCHIVE, folder)
    return Log(folder / "orders-0")


def audited(log: Log, *, split: int = 1 << 28, contiguous: bool = False) -> LogReport:
    """The report of an audit."""
    tasks = [task for shard in tasks_of(find_segments([str(log.folder)]), split) for task in shard]
    summaries = [
        judge_stretch(task.stretch, task.size, last=task.last, now_ms=NOW, contiguous=contiguous) for task in tasks
    ]
    return join_summaries(str(log.folder), summaries, NOW, contiguous=contiguous)


def found(report: LogReport) -> list[Place]:
    """Everything that was found, but for the transaction that was left open on purpose."""
    return sorted((each.kind, Path(each.file).name, each.position) for each in report.listed if each.kind != "open")


Damage = Callable[[Log], list[Place]]
DAMAGE: dict[str, Damage] = {}


def damage(function: Damage) -> Damage:
    """Damage that the test does to a log; it gives what has to be found, its places as they are afterwards."""
    DAMAGE[function.__name__] = function
    return function
