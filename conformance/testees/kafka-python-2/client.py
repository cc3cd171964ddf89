"""KafkaConsumer of kafka-python, in releases from 1.4 to 2.x, with its default options."""

import sys
from pathlib import Path

# The release that the build has installed, whatever this interpreter has.
sys.path.insert(0, str(Path(__file__).parent / "packages"))

import kafka
import requests_of_clients as requests
from kafka import KafkaConsumer, TopicPartition, errors

# Errors of the codec that the package has a class for; what else Python throws is caught by nothing in it.
KINDS = {
    "CorruptRecordException": "corrupt",
    "InvalidMessageError": "corrupt",
    "UnsupportedCodecError": "unsupported_compression",
}


def consume(request, found):
    """Each request has a consumer of its own."""
    partition = TopicPartition(request["topic"], request["partition"])
    consumer = KafkaConsumer(bootstrap_servers=request["bootstrap"], group_id=None)
    try:
        consumer.assign([partition])
        consumer.seek(partition, request["offset"])
        for record in consumer:
            fields = {"offset": record.offset, "timestamp": record.timestamp, "headers": headers(record)}
            if found.add(record.key, record.value, **fields):
                return
    finally:
        consumer.close()


def headers(record):
    """The headers, whose keys are text."""
    return [[requests.text(key.encode()), requests.text(value)] for key, value in record.headers]


def kind(error):
    """The kind of an exception."""
    for each in type(error).__mro__:
        if each.__name__ in KINDS:
            return KINDS[each.__name__]
    return "malformed" if isinstance(error, errors.KafkaError) else "other"


# snappy, lz4 and zstd are packages that users add.
requests.serve("kafka-python-2", kafka.__version__, [0, 1, 2], ["none", "gzip"], consume, kind)
