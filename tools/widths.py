"""No line of a source or page is wider than 120 columns.

    python tools/widths.py

Left out, because a break would change what they say: rows of tables (`|`, in pages and comments),
code fences of pages, constants under `#[rustfmt::skip]` (tables in Rust), lines that are one word
(addresses, hashes), P4 programs in a folder `tests` (their lines are what is tested), and what a
program writes (docs/results, generated Rust). Templates, data and lock files are not sources.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDEST = 120
SOURCES = {".rs", ".py", ".p4", ".proto", ".toml", ".md"}
GENERATED = ("docs/results/", "switch/p4-proto/src/generated/", "switch/p4runtime/src/services/")
COMMENT = re.compile(r"^\s*(//[/!]?|#)?\s*")


def is_checked(path: str, text: str) -> bool:
    """Whether the lines of a file count. `path` is relative to the repository."""
    name = Path(path)
    if path.startswith(GENERATED) or (name.suffix == ".p4" and "tests" in name.parts):
        return False
    return name.suffix in SOURCES or name.name == "Makefile" or text.startswith("#!")


def too_wide(path: str, text: str) -> Iterator[int]:
    """The numbers of the lines that are too wide and could be broken."""
    page, fence, table = path.endswith(".md"), False, False
    for number, line in enumerate(text.splitlines(), 1):
        words = COMMENT.sub("", line, count=1)
        if page and words.startswith("```"):
            fence = not fence
        table = (table or words == "[rustfmt::skip]") and not line.startswith("];")
        if len(line) > WIDEST and not (fence or table or words.startswith("|")) and " " in words:
            yield number


def tracked() -> list[str]:
    """The files of the repository, those that are not committed yet too."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return sorted({name for name in said.stdout.split("\0") if name and (ROOT / name).is_file()})


def main() -> int:
    wrong = 0
    for path in tracked():
        try:
            text = (ROOT / path).read_text()
        except UnicodeDecodeError:
            continue
        if is_checked(path, text):
            for number in too_wide(path, text):
                print(f"{path}:{number}: wider than {WIDEST} columns", file=sys.stderr)
                wrong += 1
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
