"""`kafkaproof fuzz seal` and `open`: a campaign's folder as one encrypted file, and back.

Both print counts and digests only: their output may be public where the findings are not.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

import click

from kafka_fuzz.campaign.sealed import SealError, open_sealed, read_identity, read_recipients, seal_folder
from kafka_fuzz.findings import read_findings
from kafka_fuzz.triage.deduplicate import is_stale, read_triage
from kafkaproof.cli import CannotRunHere
from kafkaproof.commands.fuzz.run import campaign_option

# The key of who opens: `AGE-SECRET-KEY-1…`, and the public ones of who may open: `age1…`, with spaces between them.
IDENTITY_VARIABLE: Final = "KAFKAPROOF_FUZZ_IDENTITY"
RECIPIENT_VARIABLE: Final = "KAFKAPROOF_FUZZ_RECIPIENT"

T = TypeVar("T")

identity_option = click.option(
    "--identity", "identity_file", type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help=f"A file with the secret key, as age-keygen writes it.  [default: the key in {IDENTITY_VARIABLE}]",
)  # fmt: skip


def finding_counts(directory: Path) -> str:
    """How many findings of which state are in the campaign *directory*: numbers, and no name of anything.

    Findings that triage has not seen, or has not seen since the last round, are counted as they are on disk.
    """
    if is_stale(directory):
        count = sum(1 for _ in read_findings(directory))
        return f"{count} finding{'' if count == 1 else 's'}, not triaged"
    counts = Counter(finding.state for finding in read_triage(directory))
    new = counts["new"]
    return f"{new} new finding{'' if new == 1 else 's'}, {counts['known']} known, {counts['gone']} gone"


def _privately(function: Callable[[], T], what: str) -> T:
    """The result of *function*; an exception is reported without its text, which may hold a part of a finding."""
    try:
        return function()
    except SealError as error:
        raise CannotRunHere(str(error)) from None
    except Exception as error:
        raise CannotRunHere(f"{what}: {type(error).__name__}") from None


def _identity_text(file: Path | None) -> str:
    return file.read_text(encoding="utf-8") if file else os.environ.get(IDENTITY_VARIABLE, "")


@click.command("seal")
@campaign_option("The campaign.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="The encrypted file.")
@click.option(
    "--recipient", "recipients", multiple=True, metavar="age1…",
    help=f"Who may open it.  [default: those in {RECIPIENT_VARIABLE}, and the identity]",
)  # fmt: skip
@identity_option
@click.option("--counts", "only_counts", is_flag=True, help="Print the counts, and write nothing.")
def seal_campaign(
    directory: Path, out: Path | None, recipients: tuple[str, ...], identity_file: Path | None, only_counts: bool
) -> None:
    """Encrypt the campaign in DIR, in the format of age, and print counts and the digest of the encrypted file.

    The output names no target, exception, function or input: it may be published.  With an identity, `fuzz open
    --own` accepts the file; a recipient alone is enough to seal.

    Exit codes: 0 done, 2 usage, 3 it could not be read or written.
    """
    if (out is None) is not only_counts:
        raise click.UsageError("give either --out or --counts")
    if not directory.is_dir():
        raise click.UsageError("there is no such campaign")
    click.echo(_privately(lambda: finding_counts(directory), "the findings cannot be counted"))
    if out is None:
        return
    text = _identity_text(identity_file)
    identity = _privately(lambda: read_identity(text) if text else None, "the identity cannot be read")
    named = recipients or tuple(os.environ.get(RECIPIENT_VARIABLE, "").split())
    keys = _privately(lambda: read_recipients(named), "the recipients cannot be read")
    keys += [identity.to_public()] if identity is not None else []
    if not keys:
        raise click.UsageError(f"name a recipient: --recipient, {RECIPIENT_VARIABLE} or an identity")
    made = _privately(lambda: seal_folder(directory, out, keys, identity), "the campaign cannot be sealed")
    left_out = f", {made.left_out} left out, which are no files" if made.left_out else ""
    click.echo(f"{made.files} files sealed{left_out}; sha256:{made.sha256}")


@click.command("open")
@click.argument("sealed", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@campaign_option("A new or empty folder that gets the campaign.")
@identity_option
@click.option("--own", is_flag=True, help="Refuse what was sealed by someone without this identity.")
def open_campaign(sealed: Path, directory: Path, identity_file: Path | None, own: bool) -> None:
    """Decrypt a file that `fuzz seal` wrote, and unpack it as DIR.

    A file that was altered, cut off or meant for others is refused before anything is unpacked; so is an archive that
    holds links, or names outside of its folder.

    Exit codes: 0 done, 2 usage, 3 refused, or it could not be read or written.
    """
    text = _identity_text(identity_file)
    if not text:
        raise click.UsageError(f"give the identity: --identity or {IDENTITY_VARIABLE}")
    identity = _privately(lambda: read_identity(text), "the identity cannot be read")
    count = _privately(lambda: open_sealed(sealed, directory, identity, own=own), "the campaign cannot be opened")
    click.echo(f"{count} files opened")
