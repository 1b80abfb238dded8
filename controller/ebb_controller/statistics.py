"""Counters of every switch as a table for people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table

from ebb_controller.controller import Controller, Counters
from ebb_controller.reconcile import ControllerError
from ebb_controller.traffic_manager import PortStatistics, QueueStatistics

# counter of fabric.p4 -> heading; the order is that of a packet's way through the switch
COUNTERS = {
    "port_in": "packets\nin",
    "dropped": "P4\ndrops",
    "trimmed": "trimmed",
    "mlfq_demoted": "demoted",
    "trim_sent": "trims\nsent",
    "phantom_marked": "phantom\nmarks",
    "step_marked": "step\nmarks",
    "port_out": "packets\nout",
}

# heading -> a number of all queues of a switch
QUEUES: dict[str, Callable[[list[QueueStatistics]], int]] = {
    "queue\ndrops": lambda queues: sum(sum(q.dropped_packets.values()) for q in queues),
    "deflected": lambda queues: sum(q.deflected_packets for q in queues),
    "CE\nsent": lambda queues: sum(q.ce_packets for q in queues),
    "longest\nqueue, B": lambda queues: max((q.max_depth_bytes for q in queues), default=0),
}


@dataclass(frozen=True, slots=True)
class SwitchSnapshot:
    switch: str
    counters: Counters | None
    """None: the switch is not connected."""
    ports: dict[int, PortStatistics] | None
    """None: the target has no traffic manager that tells, or it is not connected."""


async def snapshot(controller: Controller) -> list[SwitchSnapshot]:
    """What every switch counts now; one that is away does not keep the others from being shown."""
    names = [switch.name for switch in controller.topology.switches]
    return await asyncio.gather(*(_of(controller, name) for name in names))


async def _of(controller: Controller, switch: str) -> SwitchSnapshot:
    ports = None
    try:
        counters = await controller.switch_counters(switch, *COUNTERS)
        if controller.traffic_managers is not None:
            ports = await controller.traffic_managers.of_switch(switch)
    except ControllerError:
        return SwitchSnapshot(switch, None, None)
    return SwitchSnapshot(switch, counters, ports)


def show(snapshots: list[SwitchSnapshot]) -> Table:
    """A row per switch, sums over its ports."""
    with_queues = any(row.ports is not None for row in snapshots)
    headings = [*COUNTERS.values(), *(QUEUES if with_queues else ())]
    table = Table("switch", header_style="bold", row_styles=("", "dim"))
    for heading in headings:
        table.add_column(heading, justify="right")
    for row in snapshots:
        if row.counters is None:
            table.add_row(row.switch, "not connected", style="yellow")
            continue
        cells = [sum(packets for packets, _ in row.counters[name]) for name in COUNTERS]
        if row.ports is not None:
            queues = [queue for port in row.ports.values() for queue in port.queues]
            cells += [number(queues) for number in QUEUES.values()]
        table.add_row(row.switch, *(f"{cell:,}" for cell in cells))
    return table
