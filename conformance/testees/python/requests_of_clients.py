"""The requests of kafka_conformance/process/client_testee.py, for consumers in Python of packages of their own."""

import json
import platform
import sys
from base64 import b64encode

# Of a flood of records so many bytes are shown; the consumer reads on to its end.
SHOWN = 12 << 20


class Delivered:
    """The records that a consumer delivers, up to the end record."""

    def __init__(self, end):
        self.end = end.encode()
        self.records = []
        self.size = 0

    def add(self, key, value, **fields):
        """Whether this is the end record."""
        if key == self.end:
            return True
        self.size += 100 + len(key or b"") + len(value or b"")
        if self.size < SHOWN:
            self.records.append({"key": text(key), "value": text(value), **fields})
        return False


def text(data):
    """Bytes as base64."""
    return None if data is None else b64encode(data).decode()


def serve(name, version, magics, compressions, consume, kind):
    """Answers until there are no more requests: *consume* reads, and *kind* names the library's own errors."""
    out, sys.stdout = sys.stdout, sys.stderr  # a library that prints must not spoil a reply
    able = {"magics": magics, "compressions": compressions}
    runtime = f"{platform.python_implementation()} {platform.python_version()}"
    hello = {
        "protocol": 1, "name": name, "version": version, "language": "python", "runtime": runtime, "decode": able,
        "encode": {"magics": [], "compressions": []},
    }  # fmt: skip
    for line in sys.stdin:
        out.write(json.dumps(answer(json.loads(line), hello, consume, kind)) + "\n")
        out.flush()


def answer(request, hello, consume, kind):
    """The answer to one request."""
    if request["op"] == "hello":
        return hello
    if request["op"] != "consume":
        return {"skipped": f"no operation {request['op']}"}
    found = Delivered(request["end"])
    try:
        consume(request, found)
    except Exception as error:  # any exception of the library is a refusal
        message = f"{type(error).__name__}: {error}"[:400]
        return {"records": found.records, "error": {"kind": kind(error), "message": message}}
    return {"records": found.records}
