"""Write docs/command-line.md and the pages of docs/command-line/ from the help of the commands.

python tests/command_pages.py [--check]

With `--check` nothing is written; exit code 1 if a page differs.  Each group of commands has a page; commands
without a group share one.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click

from kafkaproof.cli import kafkaproof

DOCS: Final = Path(__file__).resolve().parent.parent / "docs"
INDEX: Final = "command-line.md"
WIDTH: Final = 110
TOGETHER: Final = "codecs"
HEAD: Final = """\
# Command line

This page and those of `docs/command-line` are written by `python tests/command_pages.py` from the help of the commands.

```text
{help}
```

`--json` on any command that prints a result prints one JSON document on standard output and nothing else there.
[Verdicts](verdicts.md#exit-codes) has the exit codes.

"""


def help_of(command: click.Command, name: str) -> str:
    """The text of `NAME --help`, for a terminal of a fixed width."""
    context = click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH)
    context.help_option_names = ["-h", "--help"]
    return "\n".join(line.rstrip() for line in command.get_help(context).splitlines())


def commands_below(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """The command and all commands below it, with their whole names, in the order of the help."""
    yield name, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=name)
        for each in command.list_commands(context):
            below = command.get_command(context, each)
            assert below is not None
            yield from commands_below(below, f"{name} {each}")


def pages() -> dict[str, str]:
    """Each page by its path below `docs`."""
    context = click.Context(kafkaproof, info_name="kafkaproof")
    groups: dict[str, list[tuple[str, click.Command]]] = {}
    for name in kafkaproof.list_commands(context):
        command = kafkaproof.get_command(context, name)
        assert command is not None
        several = isinstance(command, click.Group) and len(command.list_commands(context)) > 1
        groups.setdefault(name if several else TOGETHER, []).extend(commands_below(command, f"kafkaproof {name}"))
    index = HEAD.format(help=help_of(kafkaproof, "kafkaproof"))
    rows = ["| command | does |", "|---|---|"]
    made = {}
    for page, commands in groups.items():
        title = f"`kafkaproof {page}`" if page != TOGETHER else "Commands without a group"
        texts = [f"# {title}\n"]
        for name, command in commands:
            anchor = name.replace(" ", "-")
            rows.append(f"| [`{name}`](command-line/{page}.md#{anchor}) | {command.get_short_help_str(WIDTH)} |")
            texts.append(f"## {name}\n\n```text\n{help_of(command, name)}\n```\n")
        made[f"command-line/{page}.md"] = "\n".join(texts)
    return {INDEX: index + "\n".join(rows) + "\n", **made}


def differences() -> list[str]:
    """Pages that differ from what the commands say, and pages of commands that are gone."""
    wanted = pages()
    there = {path.relative_to(DOCS).as_posix() for path in (DOCS / "command-line").glob("*.md")} | {INDEX}
    changed = [
        name for name, text in wanted.items() if not (DOCS / name).exists() or (DOCS / name).read_text("utf-8") != text
    ]
    return sorted({*changed, *(there - set(wanted))})


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    stale = differences()
    for name in stale:
        sys.stdout.write(f"docs/{name}\n")
    if "--check" in arguments:
        return 1 if stale else 0
    wanted = pages()
    (DOCS / "command-line").mkdir(exist_ok=True)
    for name in stale:
        if name in wanted:
            (DOCS / name).write_text(wanted[name], encoding="utf-8")
        else:
            (DOCS / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
