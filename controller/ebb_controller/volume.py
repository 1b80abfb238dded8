"""Reads what left the ports of a switch in a time slot (`volume_counters.p4`).

A slot is to be over by the clock of the switch when it is read. Its cells stand still until the
slot after the next one begins. The cells name the slot that they are about, so the answer is of
that slot, or that it is too late. v1model's program names the slot in a register of its own, which
is read before and after the counts; Tofino's in each cell, beside the count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ebb_controller.mechanisms.volume_counters import (
    VOLUME_BYTES,
    VOLUME_PACKETS,
    VOLUME_SLOT,
    Volume,
    cell,
)
from ebb_controller.tna import TICK_BITS, slot_bits

Queue = tuple[int, int]
"""Port, and queue of it."""
Count = tuple[int, int]
"""Bytes of frames without FCS, and packets."""


class Overwritten(Exception):
    """Nothing is known of the slot any more: cells of it count a later one."""


class Registers(Protocol):
    """Who reads registers of switches: the controller."""

    async def switch_registers(
        self, switch: str, wanted: Mapping[str, Sequence[int]]
    ) -> dict[str, dict[int, tuple[int, ...]]]:
        """Cells by name of the register and index: a number, or one for each field of a struct."""
        ...


class SlotCounters(Protocol):
    """How a program counts in time slots."""

    @property
    def slot_ns(self) -> int:
        """Length of a slot in the clock of the switch."""
        ...

    async def read(
        self, registers: Registers, switch: str, slot: int, queues: Sequence[Queue]
    ) -> dict[Queue, Count]:
        """Volume that left these queues in a slot; idle ones are left out. Raises
        `Overwritten`, and `ControllerError` if the switch is away."""
        ...


@dataclass(frozen=True)
class V1modelCounters:
    """Registers of numbers: name of the slot, bytes and packets."""

    slot_ns: int

    async def read(
        self, registers: Registers, switch: str, slot: int, queues: Sequence[Queue]
    ) -> dict[Queue, Count]:
        """As `SlotCounters.read`."""
        cells = {cell(slot, *queue): queue for queue in queues}
        used = await _cells_of(registers, switch, slot, list(cells))
        if not used:
            return {}
        counts = {VOLUME_BYTES.name: used, VOLUME_PACKETS.name: used}
        values = await registers.switch_registers(switch, counts)
        await _cells_of(registers, switch, slot, used)  # the same, unless they were overwritten
        sizes, packets = values[VOLUME_BYTES.name], values[VOLUME_PACKETS.name]
        return {cells[i]: (sizes[i][0], packets[i][0]) for i in used if packets[i][0]}


async def _cells_of(
    registers: Registers, switch: str, slot: int, cells: Sequence[int]
) -> list[int]:
    """Those of the cells that count a slot. Raises `Overwritten` if one counts a later slot."""
    values = await registers.switch_registers(switch, {VOLUME_SLOT.name: cells})
    named = values[VOLUME_SLOT.name]
    if any(other > slot for (other,) in named.values()):
        raise Overwritten
    return [index for index in cells if named[index] == (slot,)]


@dataclass(frozen=True)
class TofinoCounters:
    """Two registers, of bytes and of packets, whose cells have the name of the slot beside the
    count: the time at which it begins, in ticks of 2^16 ns."""

    slot_bits: int
    """Slots last 2^slot_bits ns."""

    @property
    def slot_ns(self) -> int:
        """Length of a slot in the clock of the switch."""
        return 1 << self.slot_bits

    async def read(
        self, registers: Registers, switch: str, slot: int, queues: Sequence[Queue]
    ) -> dict[Queue, Count]:
        """As `SlotCounters.read`."""
        cells = {cell(slot, *queue): queue for queue in queues}
        both = {VOLUME_BYTES.name: list(cells), VOLUME_PACKETS.name: list(cells)}
        values = await registers.switch_registers(switch, both)
        begin = slot << (self.slot_bits - TICK_BITS)
        counts: dict[Queue, Count] = {}
        for index, queue in cells.items():
            (named, size), (again, packets) = (values[name][index] for name in both)
            if max(named, again) > begin:
                raise Overwritten
            if named == again == begin and packets:
                counts[queue] = (size, packets)
        return counts


def counters_of(volume: Volume, architecture: str) -> SlotCounters:
    """The counters of the program of an architecture, as P4Info names it. Raises `InputError` for
    slots that it cannot count."""
    if architecture in ("tna", "t2na"):
        return TofinoCounters(slot_bits(volume.slot_ns))
    return V1modelCounters(volume.slot_us * 1_000)
