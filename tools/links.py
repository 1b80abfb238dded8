"""Every link of a page leads somewhere, and every page of docs is on its start page.

    python tools/links.py

A link to a file or folder of the repository must name one that is there; `#part` must be a heading
of the page, spelled as GitHub spells it. Pages that sources name (docs/NAME.md) must be there too.
Addresses of others (https) are not looked up.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from widths import ROOT, tracked

START = "docs/README.md"
SPAN = re.compile(r"(`+).+?\1")
LINK = re.compile(r"\]\(<?([^)>\s]+)>?(?: \"[^\"]*\")?\)")
NAMED = re.compile(r"\bdocs/[a-z0-9-]+\.md\b")
SOURCES = (".rs", ".py", ".p4", ".toml", ".proto")


def outside_fences(text: str) -> Iterator[str]:
    fence = False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fence = not fence
        elif not fence:
            yield line


def links(text: str) -> Iterator[str]:
    """Where a page's links lead, those in code left out."""
    yield from LINK.findall(SPAN.sub("``", "\n".join(outside_fences(text))))


def anchors(text: str) -> set[str]:
    """Targets of `#part`: the headings of a page; a second one of the same words ends in -1."""
    count: Counter[str] = Counter()
    found: set[str] = set()
    for line in outside_fences(text):
        if heading := re.match(r"#{1,6} (.*)", line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1])
            words = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
            found.add(f"{words}-{count[words]}" if words in count else words)
            count[words] += 1
    return found


def broken(page: Path, root: Path = ROOT) -> Iterator[str]:
    """Errors in the links of a page."""
    text = page.read_text()
    name = page.relative_to(root)
    for link in links(text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, part = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists():
            yield f"{name}: {link} leads to nothing"
        elif part and (target.suffix != ".md" or part not in anchors(target.read_text())):
            yield f"{name}: {link} leads to no heading of {target.name}"


def unlisted(root: Path = ROOT) -> Iterator[str]:
    """Pages of docs that the start page does not name."""
    start = root / START
    listed = {
        (start.parent / link.partition("#")[0]).resolve() for link in links(start.read_text())
    }
    for page in sorted(start.parent.glob("*.md")):
        if page not in listed and page != start:
            yield f"{START} does not name {page.name}"


def main() -> int:
    wrong: list[str] = [*unlisted()]
    for path in tracked():
        if path.endswith(".md"):
            wrong += broken(ROOT / path)
        elif path.endswith(SOURCES):
            named = set(NAMED.findall((ROOT / path).read_text()))
            wrong += (
                f"{path}: {page} is not there" for page in named if not (ROOT / page).exists()
            )
    for finding in wrong:
        print(f"links: {finding}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
