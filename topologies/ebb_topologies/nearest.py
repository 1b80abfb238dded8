"""Names that may be meant by one that there is not.

Needs no other module: the Makefile asks it before anything is installed.

python3 nearest.py WHAT NAME KNOWN...
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is spelled most like `name`, in whatever case; none: no one is alike."""
    by_spelling = {each.casefold(): each for each in known}
    near = get_close_matches(name.casefold(), by_spelling, n=1)
    return by_spelling[near[0]] if near else None


def hint(name: str, known: Iterable[str]) -> str:
    """Suggestion instead of `name`: the nearest known name, or where none is near all."""
    names = list(known)
    near = nearest(name, names)
    if near is not None:
        return f"did you mean '{near}'?"
    return f"known: {', '.join(names)}" if names else "there is none"


if __name__ == "__main__":
    print(f"there is no {sys.argv[1]} '{sys.argv[2]}'; {hint(sys.argv[2], sys.argv[3:])}")
