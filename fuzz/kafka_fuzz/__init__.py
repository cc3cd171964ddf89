"""Mutators, targets and campaigns: the search for inputs that no case covers.

May import `kafka_conformance`, `kafka_corpus` and `kafka_records`; nothing
imports it.  What it finds flows back as files, which become cases.
"""
