"""The reference's decoder with one piece of its source replaced.

The modules of the decoder are executed a second time in a namespace of their own,
so the imported reference is not changed.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from functools import cache
from importlib import import_module
from inspect import getsource
from types import CodeType, ModuleType
from typing import Any, Final

from kafka_records import Batch

BatchDecoder = Callable[[bytes], tuple[Batch, ...]]

PACKAGE: Final = "kafka_records"
# The modules of the decoder in the order of their imports.  Model, errors and constants
# are shared with the imported reference, so that results can be compared.
MODULES: Final = (
    "layout",
    "checksum",
    "varint",
    "primitives",
    "attributes",
    "compression.common",
    "compression.gzip",
    "compression.snappy",
    "compression.lz4",
    "compression.zstd",
    "compression",
    "message",
    "record",
    "batch",
    "message_set",
    "log",
)


def changed_reference(module: str, old: str, new: str) -> BatchDecoder:
    """The reference's `decode` with *old* replaced by *new* in *module*.

    Raises:
        ValueError: *old* does not occur there exactly once.
    """
    text = source(module)
    if text.count(old) != 1:
        raise ValueError(f"{PACKAGE}.{module} has {text.count(old)} of {old!r}; a patch needs exactly one")
    code = {name: compiled(name) for name in MODULES}
    code[module] = compile(text.replace(old, new), f"<{PACKAGE}.{module}, changed>", "exec")
    decode: BatchDecoder = run(code)["log"].decode
    return decode


@cache
def source(module: str) -> str:
    """The source text of a module of the reference."""
    return getsource(import_module(f"{PACKAGE}.{module}"))


@cache
def compiled(module: str) -> CodeType:
    """The unchanged code of a module."""
    return compile(source(module), f"<{PACKAGE}.{module}, again>", "exec")


def run(code: dict[str, CodeType]) -> dict[str, ModuleType]:
    """Execute the modules; each one imports the other executed modules instead of the imported reference."""
    made: dict[str, ModuleType] = {}

    def find(name: str, *args: Any, **kwargs: Any) -> Any:
        inner = name.removeprefix(f"{PACKAGE}.")
        if name == PACKAGE:
            return within("", made)
        return made[inner] if inner in made else builtins.__import__(name, *args, **kwargs)

    for name, body in code.items():
        module = within(name, made)
        made[name] = module
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": find}
        exec(body, module.__dict__)
    return made


def within(name: str, made: dict[str, ModuleType]) -> ModuleType:
    """An empty module *name* with the submodules in *made* as attributes."""
    full = f"{PACKAGE}.{name}" if name else PACKAGE
    module = ModuleType(full)
    if not name:
        vars(module).update(vars(import_module(PACKAGE)))
    prefix = f"{name}." if name else ""
    for other, there in made.items():
        rest = other.removeprefix(prefix)
        if other.startswith(prefix) and "." not in rest:
            setattr(module, rest, there)
    return module
