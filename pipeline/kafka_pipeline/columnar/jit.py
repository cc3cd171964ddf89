"""Kernels: functions that Numba compiles, once for each machine.

Compiled code is kept in the user's cache folder, below a name made of the
sources of this package: Numba itself looks at a kernel's own file only, and
would go on with an old copy of what the kernel calls from another.

With NUMBA_DISABLE_JIT=1 kernels run as Python: for a debugger, and for mutants
of them.  NUMBA_CPU_NAME=generic has to be set as well, so that none needs an
instruction of the processor.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from ctypes import CFUNCTYPE
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import llvmlite.binding as llvm
import numba
import numpy as np
import numpy.typing as npt
from numba.core import config
from numba.extending import intrinsic

F = TypeVar("F", bound=Callable[..., object])
Numbers = npt.NDArray[np.int64]


def cache_folder() -> Path:
    """Where compiled kernels of these sources are kept; NUMBA_CACHE_DIR goes first."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen)
    sources = [source.read_bytes() for source in sorted(Path(__file__).parent.glob("*.py"))]
    digest = sha256(b"".join(sources)).hexdigest()[:12]
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "kafkaproof" / "kernels" / digest


FOLDER: Final = str(cache_folder())


def kernel(function: F) -> F:
    """*function*, which Python calls, compiled when it is first called, or found in the cache.

    Kernels take addresses as integers, so they check nothing by themselves:
    the caller is responsible for the memory at the address.
    """
    return _kernel(function, inline=False)


def inlined_kernel(function: F) -> F:
    """The same for what kernels call as well, and becomes a piece of them."""
    return _kernel(function, inline=True)


def _kernel(function: F, *, inline: bool) -> F:
    settings: Any = config
    before = settings.CACHE_DIR
    settings.CACHE_DIR = FOLDER
    try:
        jit: Any = numba.njit
        made: F = jit(cache=True, nogil=True, error_model="numpy", forceinline=inline)(function)
        return made
    finally:
        settings.CACHE_DIR = before


def part(function: F) -> F:
    """A function that only kernels call."""
    return _part(function, inline=False)


def inlined(function: F) -> F:
    """The same for what is called for each record: it becomes a piece of its callers."""
    return _part(function, inline=True)


def _part(function: F, *, inline: bool) -> F:
    jit: Any = numba.njit
    made: F = jit(nogil=True, error_model="numpy", forceinline=inline, no_cpython_wrapper=True, no_cfunc_wrapper=True)(
        function
    )
    return made


def primitive(emitted: Any, plain: F) -> F:
    """An operation for kernels: *emitted* makes its LLVM code, *plain* does the same where nothing is compiled."""
    settings: Any = config
    made: F = plain if settings.DISABLE_JIT else cast(Any, intrinsic(emitted))
    return made


def called(result: Any, *arguments: Any) -> Callable[..., int]:
    """A call of the C function at the address that comes first, where kernels are not compiled."""
    kind = CFUNCTYPE(result, *arguments)
    return lambda address, *values: int(kind(int(address))(*map(int, values)))


def cpu_features() -> frozenset[str]:
    """LLVM features of the processor that code is compiled for; empty if Numba is set to another processor."""
    if os.environ.get("NUMBA_CPU_NAME"):
        return frozenset()
    return frozenset(name for name, there in llvm.get_host_cpu_features().items() if there)
