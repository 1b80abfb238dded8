"""`void_frames.p4`: the ports of hosts, at which frames to their own sender are dropped as void."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.parameters import Parameters
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

PROGRAM = "fabric_tenants"
"""The program of p4src that has CoDel, Source Quench, and what tenants need."""
VOID_FRAMES = Table("void_frames", ("drop_void",))
VOID_IN = Counter("void_in", "void\nframes")


class WithVoidFrames(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    void_frames: bool = False
    """Whether hosts may fill their links with void frames, which the first switch drops."""


def entries(site: Site[WithVoidFrames]) -> Iterator[P4TableEntry]:
    """The ports of hosts."""
    if site.parameters.void_frames:
        for port in site.ports:
            if port.to_host:
                yield VOID_FRAMES.entry({"ingress_port": port.number})


MECHANISM = Mechanism("void_frames", entries, (VOID_FRAMES,), (VOID_IN,), PROGRAM)
