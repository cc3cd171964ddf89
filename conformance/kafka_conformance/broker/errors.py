"""Why a broker could not be had: one line that says what to do about it, and the end of its log if it has one."""

from __future__ import annotations


class NoBroker(RuntimeError):
    """A broker cannot be started or reached here.

    Attributes:
        hint: what to do about it; empty if nothing is known.
        log: the end of what the broker wrote before it gave up.
    """

    def __init__(self, message: str, *, hint: str = "", log: str = "") -> None:
        parts = [message + (f" ({hint})" if hint else ""), *([f"its log ends:\n{log}"] if log else [])]
        super().__init__("; ".join(parts))
        self.hint = hint
        self.log = log


class JarsDiffer(NoBroker):
    """The jars in the cache, or those that Maven fetched, are not those that were locked."""
