"""Write the output of the main job into README.md.

kafkaproof certify kafka-python | python tests/readme_output.py

Long lines are cut.
"""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "README.md"
START, END = "<!-- output:certify -->\n```text\n", "```\n"
# GitHub shows about so many columns without scrolling.
WIDEST = 120


def shown(output: str) -> str:
    """The block of the README."""
    lines = output.rstrip().splitlines()
    return "".join(f"{line[:WIDEST]}…\n" if len(line) > WIDEST else f"{line}\n" for line in lines)


def main() -> None:
    """Replace the block."""
    output = sys.stdin.read()
    if not output.strip():
        sys.exit("standard input is empty: there is no output to show")
    page = PAGE.read_text(encoding="utf-8")
    block = re.compile(re.escape(START) + ".*?" + re.escape(END), re.DOTALL)
    made, count = block.subn(lambda _: START + shown(output) + END, page)
    if count != 1:
        sys.exit(f"{PAGE}: {count} blocks of output where there should be one")
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
