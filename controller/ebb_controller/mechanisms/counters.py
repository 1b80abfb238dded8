"""`counters.p4`: what ports take in and give out, and what the program drops, by reason."""

from __future__ import annotations

from ebb_controller.mechanism import Counter, Mechanism

PORT_IN = Counter("port_in", "packets\nin", always=True)
PORT_OUT = Counter("port_out", "packets\nout", always=True)
DROPPED = Counter("dropped", "P4\ndrops", index="drop reason", sum="lost")

PORTS = Mechanism("counters", counters=(PORT_IN, PORT_OUT))
"""Comes first in results."""
DROPS = Mechanism("counters", counters=(DROPPED,))
"""Comes last in results."""
