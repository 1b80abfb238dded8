"""No comment begins with a clause in place of a noun: "What it sends", "Of the sender".

    python tools/comments.py            # fails if a folder has more than tools/comments.toml allows
    python tools/comments.py --write    # makes the numbers lower

A comment names the thing first (CONTRIBUTING.md): "Packets to send", "Address of the sender".
Generated files are left out; a folder that is not in the file may have none.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections import Counter
from pathlib import Path

from widths import GENERATED, ROOT, tracked

FILE = ROOT / "tools" / "comments.toml"
HEAD = """\
# The most comments that begin with "What" or "Of" which a folder may have: `make lint`
# (tools/comments.py) refuses more. `python tools/comments.py --write` makes them lower; a folder
# that is not here has none.

"""
LANGUAGES = {".rs", ".py", ".p4", ".c", ".ts", ".toml", ".stf"}
CLAUSE = re.compile(r'^\s*(///|//!|//|#|r?""")\s?(Of|What) ')


def clauses(text: str) -> list[int]:
    """The numbers of the lines where a comment or docstring begins with a clause."""
    lines = text.splitlines()
    starts = (n for n in range(len(lines)) if n == 0 or not is_comment(lines[n - 1]))
    return [n + 1 for n in starts if CLAUSE.match(lines[n])]


def is_comment(line: str) -> bool:
    """Whether a line is a comment with words, which the next line may continue."""
    return bool(re.match(r"^\s*(//[/!]?|#) \S", line))


def found() -> Counter[str]:
    """Numbers of such comments by folder: two parts of the path."""
    numbers: Counter[str] = Counter()
    for path in tracked():
        if Path(path).suffix in LANGUAGES and not path.startswith(GENERATED):
            lines = clauses((ROOT / path).read_text())
            numbers["/".join(path.split("/")[:2])] += len(lines)
    return +numbers


def main(arguments: list[str]) -> int:
    allowed = tomllib.loads(FILE.read_text()) if FILE.exists() else {}
    numbers = found()
    wrong = 0
    for folder, number in numbers.items():
        if FILE.exists() and number > allowed.get(folder, 0):
            most = allowed.get(folder, 0)
            print(
                f"{folder}: {number} comments begin with What or Of, at most {most} may: begin "
                f'with the noun; git grep -nE \'(//|#|""") ?(What|Of) \' {folder} shows them',
                file=sys.stderr,
            )
            wrong += 1
    if "--write" in arguments and not wrong:
        FILE.write_text(HEAD + "".join(f'"{name}" = {numbers[name]}\n' for name in sorted(numbers)))
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
