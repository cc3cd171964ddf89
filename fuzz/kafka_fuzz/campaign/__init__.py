"""Campaigns: a supervisor over child processes, one target and a short round in each.

`rounds.py` is the one interface between the supervisor and every kind of target.
"""
