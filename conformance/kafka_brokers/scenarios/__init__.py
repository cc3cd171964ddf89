"""Scenarios played to real brokers, and what they answered kept: the recorder."""
