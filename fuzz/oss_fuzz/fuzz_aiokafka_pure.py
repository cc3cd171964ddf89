#!/usr/bin/env python3
"""Fuzzes aiokafka's record classes, those in Python, with Kafkaproof's mutators and judge.

libFuzzer runs this file again, for forks and merges: it has to be executable, and started by a path.
"""

import sys

from kafka_fuzz.campaign.libfuzzer import main

main("aiokafka-pure", sys.argv)
