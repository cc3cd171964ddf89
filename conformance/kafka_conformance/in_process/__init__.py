"""Codecs in the process that tests them: functions instead of a testee, limits where the system has them."""
