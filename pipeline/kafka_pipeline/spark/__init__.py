"""The Spark home: sessions, shards that survive whatever happens, Parquet with a manifest.

Nothing else imports PySpark.  Jobs live where what they need lives; each hands
a pure function over Arrow record batches to `running.run` and never sees Spark.

Here: requirements beyond the rest of Kafkaproof, and errors; this imports none of the requirements.
"""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from os import environ
from pathlib import Path
from typing import Final

EXTRA: Final = "pip install 'kafkaproof[spark]'"
MODULES: Final = {"pyspark": "PySpark", "pyarrow": "PyArrow", "pandas": "pandas"}


class PipelineError(Exception):
    """The pipeline could not be run at all; one line that says why, for exit code 3."""


class BadShard(Exception):
    """The content of a shard is wrong, and doing it again would not help."""


def require() -> None:
    """Raise `PipelineError` unless PySpark, what it needs, and a Java are here; imports none of them."""
    missing = [name for module, name in MODULES.items() if find_spec(module) is None]
    if missing:
        raise PipelineError(f"the pipeline needs {' and '.join(missing)}: {EXTRA}")
    if java() is None:
        raise PipelineError("the pipeline needs Java 17 or newer: set JAVA_HOME, or put java on the path")


def java() -> Path | None:
    """The Java that PySpark would start; None if there is none."""
    home = environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(found) if found and Path(found).exists() else None
