"""Find the checkout that a command runs in.

Benchmarks are not in the wheel.  A command that measures with them takes them from the checkout: the one that an
editable install points to, or the one that contains the working directory.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

import click

# A file that only a checkout of this project has.
MARK: Final = Path("benchmarks", "fuzz_outcomes.py")
NO_CHECKOUT: Final = 3


class NoCheckout(click.ClickException):
    """The working directory is in no checkout; the command ends with one line and exit code 3."""

    exit_code = NO_CHECKOUT


def find_checkout() -> Path | None:
    """The root of the checkout, or None outside of one."""
    installed = Path(__file__).resolve().parents[2]
    working = Path.cwd()
    return next((path for path in (installed, working, *working.parents) if (path / MARK).is_file()), None)


def provide_benchmarks(command: str) -> None:
    """Make `benchmarks` importable in this process and in the processes that it starts.

    Raises:
        NoCheckout: there is no checkout; *command* is named in the message.
    """
    root = find_checkout()
    if root is None:
        raise NoCheckout(
            f"`{command}` needs the benchmarks, which are not in the wheel: run it in a checkout of Kafkaproof"
        )
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    inherited = os.environ.get("PYTHONPATH", "")
    if str(root) not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(part for part in (str(root), inherited) if part)
