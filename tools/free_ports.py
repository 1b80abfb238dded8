"""TCP ports of this machine for servers that a test starts."""

from __future__ import annotations

import random
import socket

PORTS = range(10_000, 32_000)
"""Where they are looked for: below the ports that Linux gives to clients (`ip_local_port_range`,
from 32768), which may take one between our look and the start of the server."""


def first_free_port(count: int) -> int:
    """The first of `count` consecutive ports of which none is in use. Raises `OSError` if none are
    found."""
    for _attempt in range(100):
        first = random.randrange(PORTS.start, PORTS.stop - count)
        if all(map(_is_free, range(first, first + count))):
            return first
    raise OSError(f"no {count} consecutive TCP ports are free from {PORTS.start} to {PORTS.stop}")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
