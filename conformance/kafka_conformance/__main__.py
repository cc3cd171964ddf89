"""`python -m kafka_conformance` is the command `kafkaproof`."""

from kafka_conformance.cli import main

if __name__ == "__main__":
    main()
