"""Counters of every switch as a table for people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from rich import box
from rich.table import Table

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller import mechanisms
from ebb_controller.controller import Controller, Counters
from ebb_controller.errors import ControllerError

COUNTERS = tuple(counter for counter in mechanisms.COUNTERS.values() if counter.heading)
"""Counters that have a column."""
ALWAYS = {counter.heading for counter in COUNTERS if counter.always}
"""Headings of columns that are shown also if all is zero."""

QUEUES: dict[str, Callable[[list[tm.QueueStats]], int]] = {
    "queue\ndrops": lambda queues: sum(d.count.packets for q in queues for d in q.drops),
    "deflected": lambda queues: sum(q.deflected.packets for q in queues),
    "CE\nsent": lambda queues: sum(q.ecn_ce.packets for q in queues),
    "longest\nqueue, B": lambda queues: max((q.max_depth_bytes for q in queues), default=0),
}
"""Numbers of all queues of a switch together, by heading."""


@dataclass(frozen=True, slots=True)
class SwitchSnapshot:
    """Counters of one switch."""

    switch: str
    """Name of the switch."""
    counters: Counters | None
    """Counters of the program; none: the switch is not connected."""
    queues: list[tm.QueueStats] | None
    """Queues of all ports; none: the target has no traffic manager that reports, or the switch
    is not connected."""


async def snapshot(controller: Controller) -> list[SwitchSnapshot]:
    """Counters of every switch; one that is away does not keep the others from being shown."""
    names = [switch.name for switch in controller.topology.switches]
    return await asyncio.gather(*(_of(controller, name) for name in names))


async def _of(controller: Controller, switch: str) -> SwitchSnapshot:
    queues = None
    try:
        names = [c.name for c in COUNTERS if c.name in controller.counter_names]
        counters = await controller.switch_counters(switch, *names)
        if controller.traffic_managers is not None:
            stats = await controller.traffic_managers.of_switch(switch)
            queues = [queue for port in stats.ports for queue in port.queues]
    except ControllerError:
        return SwitchSnapshot(switch, None, None)
    return SwitchSnapshot(switch, counters, queues)


def show(snapshots: list[SwitchSnapshot]) -> Table:
    """A row per switch, sums over its ports. What is zero everywhere is left out, but for packets
    in and out, so that what happens fits a terminal."""
    numbers = {row.switch: _numbers(row) for row in snapshots}
    headings = [
        heading
        for heading in (*(c.heading for c in COUNTERS), *QUEUES)
        if heading in ALWAYS or any(cells.get(heading) for cells in numbers.values())
    ]
    table = Table("switch", box=box.SIMPLE_HEAD, header_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for switch, cells in numbers.items():
        shown = [f"{cells[heading]:,}" if heading in cells else "-" for heading in headings]
        table.add_row(switch, *shown, style=None if cells else "yellow")
    away = [switch for switch, cells in numbers.items() if not cells]
    if away:
        table.caption = f"not connected: {', '.join(away)}"
    return table


def _numbers(row: SwitchSnapshot) -> dict[str, int]:
    """Numbers of a switch by heading; empty if the switch is away."""
    if row.counters is None:
        return {}
    cells = {
        counter.heading: sum(packets for packets, _bytes in row.counters[counter.name])
        for counter in COUNTERS
        if counter.name in row.counters
    }
    if row.queues is not None:
        cells |= {heading: number(row.queues) for heading, number in QUEUES.items()}
    return cells
