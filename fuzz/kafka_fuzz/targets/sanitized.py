"""Targets in process whose compiled code is built with AddressSanitizer: `aiokafka-asan`.

The sanitizer ends the process at the first read or write outside of an object, also where
the memory beside it can be read, and reports the function.  Its runtime has to be the
first library of a process, so `start_again` starts the process of a target once more, with the
runtime preloaded.  Python allocates each object with malloc there, so that each one has its borders.

The build is made from the source archive of the installed release, into the cache of testees.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from kafka_conformance.testees.recipe import PIP, BuildError, BuildRecipe, ToolchainMissing, build_testee, not_installed

# Targets, each with the distribution whose extension is built.
SANITIZED: Final = {"aiokafka-asan": "aiokafka"}
COMPILER: Final = "gcc"
_FLAGS: Final = "-O1 -g -fno-omit-frame-pointer -fsanitize=address"
# The folder of the packages, inside of the build.
_SITE: Final = "site"
# A module of each distribution that has to be compiled; aiokafka installs without it where the compiler fails.
_COMPILED: Final = {"aiokafka": "aiokafka/record/_crecords/default_records"}
_NOT_COMPILED: Final = "error: the extension was not compiled; that takes gcc with libasan, and the headers of Python"
# Says of a process that the runtime is in it.
_VARIABLE: Final = "KAFKAPROOF_SANITIZED"
# Bytes of one allocation.  The limit of address space cannot be used: the sanitizer reserves terabytes.
_MOST_MEMORY: Final = 2 << 30
_OPTIONS: Final = {
    "abort_on_error": 1,
    "allocator_may_return_null": 1,
    "detect_leaks": 0,
    "max_allocation_size_mb": _MOST_MEMORY >> 20,
    "print_legend": 0,
    "quarantine_size_mb": 16,
}


def sanitizer_recipe(name: str) -> BuildRecipe:
    """How the target *name* is built: the release that is installed, from its source archive.

    Raises:
        ToolchainMissing: no release is installed.
    """
    distribution = SANITIZED[name]
    try:
        release = version(distribution)
    except PackageNotFoundError as error:
        raise ToolchainMissing(not_installed((distribution,))) from error
    compiled = f"{{build}}/{_SITE}/{_COMPILED[distribution]}"
    # Without the cache: pip and uv would take a build that was made with other flags.
    install = ("{pip-install}", "--no-cache-dir", "--no-deps", "--no-binary", distribution, "--target")
    return BuildRecipe(
        name=name,
        project=name,
        about=f"{distribution}, its extension under AddressSanitizer",
        language="cython",
        version=release,
        folder=Path(__file__).parent,
        sources=(),
        programs=(COMPILER, "env", PIP),
        build=(
            ("env", f"CC={COMPILER}", f"CFLAGS={_FLAGS}", "LDFLAGS=-fsanitize=address",
             *install, f"{{build}}/{_SITE}", f"{distribution}=={{version}}"),
            ("sh", "-c", f'ls "{compiled}".*.so > /dev/null 2>&1 || {{ echo "{_NOT_COMPILED}"; exit 1; }}'),
        ),
        run=(),
        pinned=False,
    )  # fmt: skip


def build_sanitized(name: str) -> Path:
    """The folder with the packages of the target *name*, which is built unless that was done.

    Raises:
        BuildError: it cannot be built here; `ToolchainMissing` without a release, a compiler or pip.
    """
    return build_testee(sanitizer_recipe(name)) / _SITE


def sanitizer_environment(packages: Path) -> dict[str, str]:
    """The variables of a process with the runtime of the sanitizer, which imports from *packages* first.

    Raises:
        BuildError: the compiler does not run, or has no such runtime.
    """
    command = (COMPILER, "-print-file-name=libasan.so")
    try:
        runtime = Path(subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip())
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildError(f"{COMPILER} does not run: {error}") from error
    if not runtime.is_absolute():
        raise BuildError(f"{COMPILER} has no libasan")
    paths = (str(packages), os.environ.get("PYTHONPATH", ""))
    return os.environ | {
        "ASAN_OPTIONS": ":".join(f"{name}={value}" for name, value in _OPTIONS.items()),
        "LD_PRELOAD": str(runtime.resolve()),
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        _VARIABLE: str(packages),
    }


def is_sanitized() -> bool:
    """Whether this process has the runtime of the sanitizer."""
    return bool(os.environ.get(_VARIABLE))


def start_again(name: str) -> None:
    """Replace this process by the same one with the runtime of the sanitizer, if the target *name* takes it.

    Raises:
        BuildError: the target cannot be built here.
    """
    if name in SANITIZED and not is_sanitized():
        environment = sanitizer_environment(build_sanitized(name))
        sys.stdout.flush()
        os.execve(sys.executable, sys.orig_argv, environment)


def limit_memory(most: int) -> None:
    """Limit the address space of this process to *most* bytes; under the sanitizer, each allocation has a limit."""
    if not is_sanitized():
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
