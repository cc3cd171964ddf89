"""Bring everything that is derived from the cases up to date, and ask only what is new.

A step plans tasks: whatever is missing, by content hash and release.  Answers go to disk as they come, so a refresh
that was stopped or killed continues where it was.
"""
