"""Reads what left the ports of a switch in a time slot (`volume_counters.p4`).

A slot is to be over by the clock of the switch when it is read. Its cells stand still until the
slot after the next one begins. The cells name the slot that they are about, and are asked for it
before and after they are read, so the answer is of that slot, or that it is too late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ebb_controller.mechanisms.volume_counters import (
    VOLUME_BYTES,
    VOLUME_PACKETS,
    VOLUME_SLOT,
    cell,
)

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
    ) -> dict[str, dict[int, int]]:
        """Values of cells, by name of the register and index."""
        ...


async def read_slot(
    registers: Registers, switch: str, slot: int, queues: Sequence[Queue]
) -> dict[Queue, Count]:
    """Volume that left these queues in a slot; idle ones are left out. Raises
    `Overwritten`, and `ControllerError` if the switch is away."""
    cells = {cell(slot, *queue): queue for queue in queues}
    used = await _about(registers, switch, slot, list(cells))
    if not used:
        return {}
    counts = {VOLUME_BYTES.name: used, VOLUME_PACKETS.name: used}
    told = await registers.switch_registers(switch, counts)
    await _about(registers, switch, slot, used)
    sizes, packets = told[VOLUME_BYTES.name], told[VOLUME_PACKETS.name]
    return {cells[index]: (sizes[index], packets[index]) for index in used if packets[index]}


async def _about(registers: Registers, switch: str, slot: int, cells: Sequence[int]) -> list[int]:
    """The cells that are about a slot."""
    told = await registers.switch_registers(switch, {VOLUME_SLOT.name: cells})
    named = told[VOLUME_SLOT.name]
    if any(other > slot for other in named.values()):
        raise Overwritten
    return [index for index in cells if named[index] == slot]
