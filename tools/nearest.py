"""Prints a line about a name that there is not, with the one that may be meant.

python3 tools/nearest.py NAME KNOWN...
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from difflib import get_close_matches


def about(name: str, known: Sequence[str]) -> str:
    """What is wrong, and what to do."""
    near = get_close_matches(name.upper(), known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    return f"no variable of this Makefile is called {name}: {hint} (`make help` has all)"


if __name__ == "__main__":
    print(about(sys.argv[1], sys.argv[2:]))
