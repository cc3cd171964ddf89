"""How fast codecs are, side by side: the columnar one, and those of Java, Python, Go and Rust.

    python -m kafka_conformance.decode_bench [SHAPE…] [--peers NAME,…] [--encode] [--rounds N] [--fresh N] [--json]

Each works in a warm process of its own on the same bytes, which are in its
memory, and says what it read and how much processor time that took.  Rounds go
through all of them in turn, so a neighbour's load meets all alike; what counts
is the median of the ratios of each round.  A virtual machine compiles
differently each time, so Java has several processes, and the best one counts.
"""
