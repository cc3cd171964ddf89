#!/usr/bin/env python3
"""Fuzzes the reference's model of a broker's append, with Kafkaproof's mutators and judge.

libFuzzer runs this file again, for forks and merges: it has to be executable, and started by a path.
"""

import sys

from kafka_fuzz.campaign.libfuzzer import main

main("append", sys.argv)
