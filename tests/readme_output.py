"""Write what the main job prints into README.md, its long lines cut.

kafkaproof certify kafka-python | python tests/readme_output.py
"""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "README.md"
START, END = "<!-- output:certify -->\n```text\n", "```\n"
# More than a page of GitHub shows without scrolling.
WIDEST = 150


def shown(output: str) -> str:
    """The block: as printed, but for what is too wide to be read."""
    return "".join(f"{line[:WIDEST]}…\n" if len(line) > WIDEST else f"{line}\n" for line in output.rstrip().split("\n"))


def main() -> None:
    """Replace the block."""
    page = PAGE.read_text(encoding="utf-8")
    block = re.compile(re.escape(START) + ".*?" + re.escape(END), re.DOTALL)
    made, count = block.subn(lambda _: START + shown(sys.stdin.read()) + END, page)
    if count != 1:
        sys.exit(f"{PAGE}: {count} blocks of output where there should be one")
    PAGE.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
