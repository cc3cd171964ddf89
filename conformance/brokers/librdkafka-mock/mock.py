"""librdkafka's mock cluster with one broker, until standard input ends; needs confluent-kafka."""

import sys

from confluent_kafka import Producer


def main() -> None:
    """Print `host:port`, and serve."""
    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    sys.stdout.write(f"{broker.host}:{broker.port}\n")
    sys.stdout.flush()
    # Standard input is a pipe of the parent process: the mock ends with its parent.
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
