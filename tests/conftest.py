"""Settings for every test."""

import os

from hypothesis import settings

# A loaded machine is slow, and that is no defect: times are measured in the bench
# environment.  In CI a run must be repeatable: fixed seeds and nothing remembered.
settings.register_profile("local", deadline=None)
settings.register_profile("repeatable", deadline=None, derandomize=True, database=None)
settings.load_profile("repeatable" if "CI" in os.environ else "local")
