"""Write an excerpt of the output of the main job into README.md.

kafkaproof certify kafka-python | python tests/readme_output.py

The excerpt has the areas with wrong data, crashes or hangs, the totals, and the first findings.  Omitted lines are
marked, and long lines are cut.
"""

import re
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parent.parent / "README.md"
START, END = "<!-- output:certify -->\n```text\n", "```\n"
# GitHub shows about so many columns without scrolling.
WIDEST = 120
AREAS = 4
FINDINGS = 4
OMITTED = "…"


def excerpt(output: str) -> list[str]:
    """The lines of *output* that the README shows."""
    lines = output.rstrip().splitlines()
    total = next(number for number, line in enumerate(lines) if line.startswith("all "))
    first, last = (
        next(number for number, line in enumerate(lines) if re.match(pattern, line))
        for pattern in (r"[\d,]+ findings", r"  and [\d,]+ more")
    )
    worst = sorted(range(2, total), key=lambda number: lines[number].split()[1] == "·")[:AREAS]
    return [
        *lines[:2],
        *(lines[number] for number in sorted(worst)),
        OMITTED,
        *lines[total : total + 2],
        "",
        *lines[first : first + 1 + FINDINGS],
        OMITTED,
        *lines[last:],
    ]


def shown(output: str) -> str:
    """The block of the README."""
    return "".join(f"{line[:WIDEST]}…\n" if len(line) > WIDEST else f"{line}\n" for line in excerpt(output))


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
