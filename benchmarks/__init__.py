"""Benchmarks: run from a checkout, `python -m benchmarks.NAME`; not in the wheel.

python -m benchmarks.decode [SHAPE…] [--peers NAME,…] [--encode] [--rounds N] [--fresh N] [--json]

Each works in a warm process of its own on the same bytes, which are in its
memory, and says what it read and how much processor time that took.  Rounds go
through all of them in turn, so a neighbour's load meets all alike; what counts
is the median of the ratios of each round.  A virtual machine compiles
differently each time, so Java has several processes, and the best one counts.
"""
