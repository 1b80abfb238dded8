"""`volume_counters.p4`: the length of the slots in which what leaves a port is counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from ebb_controller.mechanism import Mechanism, Register, Table
from ebb_controller.parameters import Parameters
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

PROGRAM = "fabric_full"
"""The program of p4src that has all mechanisms, this one too."""
VOLUME = Table("volume", ("count_in_slot",))
VOLUME_SLOT = Register("volume_slot")
VOLUME_BYTES = Register("volume_bytes")
VOLUME_PACKETS = Register("volume_packets")

CLOCK_BITS = 48
"""Bits of the clock of v1model, which ticks in us."""
QUEUES = 8
"""Queues of a port."""
PORTS = 512
"""Ports of a bank."""


class Volume(Parameters):
    """Bytes and packets that leave each port, per queue and time slot."""

    slot_ns: Annotated[int, Field(ge=1, lt=2**48 * 1_000)] = 1_000_000
    """Length of a slot, ns; at run time whole microseconds, as the clock of v1model ticks in
    them."""

    @property
    def slot_us(self) -> int:
        """Length of a slot in the clock of v1model."""
        return max(1, round(self.slot_ns / 1_000))


class WithVolume(Parameters):
    """The part of `FabricParameters` that this mechanism reads."""

    volume: Volume | None = None
    """Counts of each time slot; none: off."""


def reciprocal(divisor: int, bits: int = CLOCK_BITS) -> tuple[int, int]:
    """`inverse` and `shift` such that `n * inverse >> shift` is `n // divisor` for every n of so
    many bits (Granlund and Montgomery, PLDI 1994, theorem 4.2)."""
    shift = bits + (divisor - 1).bit_length()
    return -(-(1 << shift) // divisor), shift


def cell(slot: int, port: int, queue: int) -> int:
    """Where a slot of a queue is counted in the registers: its bank, port and queue."""
    return ((slot & 1) * PORTS + port) * QUEUES + queue


def entries(site: Site[WithVolume]) -> Iterator[P4TableEntry]:
    """The length of a slot as a factor and a shift, since P4 cannot divide by it."""
    if site.parameters.volume is not None:
        inverse, shift = reciprocal(site.parameters.volume.slot_us)
        yield VOLUME.default(inverse=inverse, shift=shift)


MECHANISM = Mechanism(
    "volume_counters",
    entries,
    (VOLUME,),
    program=PROGRAM,
    registers=(VOLUME_SLOT, VOLUME_BYTES, VOLUME_PACKETS),
)
