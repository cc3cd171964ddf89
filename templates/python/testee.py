"""A testee for Kafkaproof.  Call your codec in `decode`, and describe it in HELLO: name, version, formats."""

import json
import sys
from base64 import b64decode, b64encode

from kafka.record import MemoryRecords  # kafka-python, in the place of your codec

HELLO = {
    "protocol": 1,
    "name": "my-codec",
    "version": "0.1",
    "language": "python",
    "runtime": "cpython",
    "decode": {"magics": [0, 1, 2], "compressions": ["none", "gzip", "snappy", "lz4", "zstd"]},
    "encode": {"magics": [], "compressions": []},
    "many": True,
}


# ======== Your codec goes here: give the batches in some bytes, one by one; raise for what is refused. ========
def decode(data):
    entries = MemoryRecords(data)
    while entries.has_next():
        batch = entries.next_batch()
        if not batch.validate_crc():
            raise ValueError("CRC does not match")
        # What the codec does not expose is left out; never work it out from the bytes.
        fields = {} if batch.magic < 2 else {
            "base_offset": batch.base_offset, "last_offset": batch.last_offset, "max_timestamp": batch.max_timestamp,
            "producer_id": batch.producer_id, "producer_epoch": batch.producer_epoch,
            "base_sequence": batch.base_sequence, "partition_leader_epoch": batch.leader_epoch,
            "transactional": batch.is_transactional, "control": batch.is_control_batch,
        }  # fmt: skip
        yield {"magic": batch.magic, "records": [read_record(record) for record in batch]} | fields


def read_record(record):
    headers = [[text(key.encode()), text(value)] for key, value in record.headers]
    timestamp = -1 if record.timestamp is None else record.timestamp  # -1 is Kafka's "none"
    key, value = text(record.key), text(record.value)
    return {"offset": record.offset, "timestamp": timestamp, "key": key, "value": value, "headers": headers}


def kind_of(error):
    """The kind of the error: corrupt is a wrong checksum; also truncated, decompression, unsupported_magic, ..."""
    return "corrupt" if "CRC" in str(error) else "malformed"


# ======== From here on nothing has to be changed. ========
def text(data):
    return None if data is None else b64encode(data).decode()


def answer(data):
    batches = []
    try:
        batches.extend(decode(b64decode(data)))
    except Exception as error:  # whatever a codec raises is its refusal
        return {"batches": batches, "error": {"kind": kind_of(error), "message": f"{type(error).__name__}: {error}"}}
    return {"batches": batches}


for line in sys.stdin:
    request = json.loads(line) if line.startswith("{") else {}
    match request.get("op"):
        case "hello":
            reply = HELLO
        case "decode" if "many" in request:
            reply = {"id": request["id"], "many": [answer(data) for data in request["many"]]}
        case "decode":
            reply = {"id": request["id"]} | answer(request["data"])
        case other:
            reply = {"id": request.get("id", ""), "skipped": f"no {other} here"}
    print(json.dumps(reply), flush=True)
