"""`python -m kafkaproof` runs the command `kafkaproof`."""

from kafkaproof.cli import main

if __name__ == "__main__":
    main()
