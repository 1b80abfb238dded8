"""The end of a command that is interrupted, or fails, before it can see to that itself."""

from __future__ import annotations

import sys
from collections.abc import Callable

from ebb_topologies.text import printable

INTERRUPTED = 130
"""As of a command that SIGINT ends."""


def interruptible(name: str, run: Callable[[], int]) -> int:
    """Runs a command, which takes a while to import what it needs: Ctrl-C meanwhile ends it with a
    line, and not with a traceback of these imports. So does an output that takes no more."""
    try:
        return run()
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except OSError as error:
        print(f"{name}: {printable(error)}", file=sys.stderr)
        return 1
