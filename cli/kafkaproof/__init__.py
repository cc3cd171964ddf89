"""Kafkaproof: conformance of Kafka's record formats.

The public Python API.  Each name is imported when it is used, so `import kafkaproof` and the command start quickly.

Read and write record formats (the reference, `kafka_records`):
    decode, encode, explain, decode_control, encode_control
    Batch, Record, Header, ControlRecord, Explanation, Limits
    RecordFormatError: the one exception of these functions

Test a codec of your own in this process (`kafka_conformance`):
    check_codec, CodecReport, Deviation
    CodecError, NotDone: exceptions by which a codec says why it refuses

Audit log directories (`kafka_pipeline.audit`; with `pip install 'kafkaproof[columnar]'` some fifty times as fast):
    audit, AuditReport, CannotRead

Bytes are `bytes`, offsets and timestamps `int`; timestamps count milliseconds since 1970, and -1 is "no timestamp".

>>> import kafkaproof
>>> record = kafkaproof.Record(offset=0, timestamp=1524709879130, key=None, value=b"hello")
>>> batch = kafkaproof.Batch(magic=2, base_offset=0, last_offset=0, max_timestamp=1524709879130, records=(record,))
>>> data = kafkaproof.encode(batch)
>>> kafkaproof.decode(data) == (batch,)
True
>>> kafkaproof.decode(data[:-1] + b"?")
Traceback (most recent call last):
    ...
kafka_records.errors.RecordFormatError: stored crc 545821495, computed crc 1316546210 (at batch.crc, byte 17; CRC-07)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from kafka_conformance.in_process import check_codec
    from kafka_conformance.reports.summary import Report as CodecReport
    from kafka_conformance.runner.deviations import Deviation
    from kafka_conformance.testees.interface import CodecError, NotDone
    from kafka_pipeline.audit.joining import AuditReport
    from kafka_pipeline.audit.local import audit_directory as audit
    from kafka_pipeline.segments.listing import CannotRead
    from kafka_records import (
        Batch,
        ControlRecord,
        Explanation,
        Header,
        Limits,
        Record,
        RecordFormatError,
        decode,
        decode_control,
        encode,
        encode_control,
        explain,
    )

__all__ = [
    "AuditReport",
    "Batch",
    "CannotRead",
    "CodecError",
    "CodecReport",
    "ControlRecord",
    "Deviation",
    "Explanation",
    "Header",
    "Limits",
    "NotDone",
    "Record",
    "RecordFormatError",
    "audit",
    "check_codec",
    "decode",
    "decode_control",
    "encode",
    "encode_control",
    "explain",
]

# Names whose module is not `kafka_records`, or whose name there differs.
_DEFINED_IN: Final = {
    "AuditReport": "kafka_pipeline.audit.joining:AuditReport",
    "CannotRead": "kafka_pipeline.segments.listing:CannotRead",
    "CodecError": "kafka_conformance.testees.interface:CodecError",
    "CodecReport": "kafka_conformance.reports.summary:Report",
    "Deviation": "kafka_conformance.runner.deviations:Deviation",
    "NotDone": "kafka_conformance.testees.interface:NotDone",
    "audit": "kafka_pipeline.audit.local:audit_directory",
    "check_codec": "kafka_conformance.in_process:check_codec",
}
# Packages of the extra `columnar`.
_COLUMNAR: Final = frozenset({"isal", "numba", "numpy", "pyarrow", "zlib_ng"})


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _DEFINED_IN.get(name, f"kafka_records:{name}").partition(":")
    try:
        found: object = getattr(import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] not in _COLUMNAR:
            raise
        message = f"kafkaproof.{name} needs {error.name}: pip install 'kafkaproof[columnar]'"
        raise ImportError(message, name=error.name) from error
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
