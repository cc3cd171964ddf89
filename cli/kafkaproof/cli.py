"""The command `kafkaproof`.

Commands live in modules of their own and are imported when they run, so that
`kafkaproof --help` answers at once.  Exit codes: 0 all agree, 1 disagreements,
2 usage, 3 could not be run, 130 interrupted.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import IO, Any, ClassVar, Final

import click

from kafka_conformance import installed_version

OK: Final = 0
DISAGREEMENTS: Final = 1
USAGE: Final = 2
CANNOT_RUN: Final = 3
INTERRUPTED: Final = 130

# Name, where it is defined, and what `--help` says without importing it.
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "certify": (
        "kafkaproof.commands.certify:certify_testees",
        "Run the corpus against codecs and judge their answers.",
    ),
    "report": (
        "kafkaproof.commands.report:report_results",
        "Write results as pages and files, and check certificates.",
    ),
    "programme": (
        "kafkaproof.commands.programme:programme_group",
        "Check, run again and list certificates that projects submit.",
    ),
    "site": ("kafkaproof.commands.site:site", "Build the static site from stored results."),
    "dossier": ("kafkaproof.commands.site:dossier", "Draft an issue for each cause of findings."),
    "museum": (
        "kafkaproof.commands.museum:museum_group",
        "Historical defects, and the cases that show them.",
    ),
    "audit": (
        "kafkaproof.commands.audit:audit_command",
        "Judge log directories: every rule that data at rest can break.",
    ),
    "cross": ("kafkaproof.commands.cross:cross", "What each testee writes, every other one reads."),
    "smoke": ("kafkaproof.commands.testees:smoke_command", "Ask whether an adapter is sound."),
    "testees": ("kafkaproof.commands.testees:testees", "List known testees, and whether they can run here."),
    "testee": ("kafkaproof.commands.testees:testee", "Serve a testee over standard input and output."),
    "explain": ("kafkaproof.commands.explain:explain_command", "Show every byte with its field and meaning."),
    "broker": ("kafkaproof.commands.broker:broker", "List, start and prepare real Kafka brokers."),
    "corpus": ("kafkaproof.commands.corpus:corpus", "Compile, check, list, show and export the cases."),
    "refresh": (
        "kafkaproof.commands.refresh:refresh",
        "Bring recorded answers and results up to date; only new cases are run.",
    ),
    "fuzz": (
        "kafkaproof.commands.fuzz:fuzz",
        "Fuzz codecs: campaigns, and triage of their findings.",
    ),
    "power": (
        "kafkaproof.commands.power:power_group",
        "Mutants of real implementations: which of them the corpus sees.",
    ),
    "edges": (
        "kafkaproof.commands.edges:edges_group",
        "Records at the edges: damaged batches, faults, proxies and brokers.",
    ),
    "pipeline": ("kafkaproof.commands.pipeline:pipeline", "Wide work on Spark: millions of cases, on any cluster."),
}


def say_json(document: Any) -> None:
    """Print *document*, indented: with `--json` this one document is all of standard output."""
    from kafka_conformance.sanitize import indented_json

    click.echo(indented_json(document), nl=False)


class CannotRunHere(click.ClickException):
    """Something that a command needs cannot run on this machine; the text says what and why."""

    exit_code = CANNOT_RUN

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the text on standard error."""
        click.echo(self.message, file=file, err=True)


def need_own_sources(command: str, instead: str) -> None:
    """Refuse *command*, which writes into the packages, where they are installed and no checkout's.

    Raises:
        CannotRunHere: the packages are installed from a wheel; *instead* says what the command takes in their place.
    """
    from kafka_corpus.vectors import package_root

    if not (package_root().parents[1] / "pyproject.toml").is_file():
        raise CannotRunHere(f"`{command}` writes into a checkout, and this is an installed package; {instead}")


class SpeaksNoProtocol(CannotRunHere):
    """The command line names a program that is no testee."""

    exit_code = USAGE


def why_not_here(error: Exception) -> str:
    """The text and hint of a testee or broker that cannot run here; empty for other errors."""
    from kafka_brokers.interface import NoBroker
    from kafka_conformance.sanitize import printable
    from kafka_conformance.testees.connection import CannotRun

    if isinstance(error, CannotRun):
        return printable(str(error), 2000) + (f"\n  hint: {error.hint}" if error.hint else "")
    return str(error) if isinstance(error, NoBroker) else ""


class LazyGroup(click.Group):
    """A group whose commands are imported when they are used."""

    table: ClassVar[dict[str, tuple[str, str]]] = COMMANDS

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The names, in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command called *cmd_name*, imported now; None if there is none."""
        del ctx
        if cmd_name not in self.table:
            return None
        module, _, attribute = self.table[cmd_name][0].partition(":")
        found: Any = getattr(import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; if a testee or broker that it needs cannot run here, exit code 3 and the reason."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit):
            raise  # what follows imports much, which no exit code needs
        except Exception as error:
            if reason := why_not_here(error):
                refused = getattr(error, "exit_code", CANNOT_RUN) == USAGE
                raise (SpeaksNoProtocol if refused else CannotRunHere)(reason) from error
            raise

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, none of them imported."""
        rows = [(name, about) for name, (_, about) in self.table.items()]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


def print_version(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    """Print the version and exit (`--version`)."""
    if wanted and not ctx.resilient_parsing:
        click.echo(f"kafkaproof {installed_version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=print_version, help="Show it.")
def kafkaproof() -> None:
    """Judge codecs of Kafka's record formats.

    Exit codes: 0 all agree, 1 disagreements, 2 usage, 3 could not be run, 130 interrupted.
    """


def main() -> None:
    """The entry point; interrupts and closed pipes end it as a shell expects."""
    try:
        code = kafkaproof.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except (click.Abort, KeyboardInterrupt):
        code = INTERRUPTED
    except BrokenPipeError:
        # The reader closed the pipe; without this the interpreter prints an error at exit.
        sys.stderr.close()
        code = DISAGREEMENTS
    except OSError as error:
        click.echo(f"Error: {system_error(error)}", err=True)
        code = CANNOT_RUN
    sys.exit(code)


def system_error(error: OSError) -> str:
    """The reason of *error* on one line, with the path if there is one.

    >>> system_error(OSError(28, "No space left on device", "report/index.html"))
    'report/index.html: No space left on device'
    """
    from kafka_conformance.sanitize import printable

    where = f"{error.filename!s}: " if error.filename is not None else ""
    return printable(f"{where}{error.strerror or error}")
