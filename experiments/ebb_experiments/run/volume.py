"""Traffic volume of each port by time slot while a phase runs, under either clock.

The switches count in slots of their own clock (docs/volume-counters.md). A slot is read as soon as
it is over, before the one after the next takes its place; one that is read too late is left out.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.together import together
from ebb_controller.traffic_manager import TrafficManagers
from ebb_controller.volume import Count, Overwritten, Queue, Registers, SlotCounters
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

from ebb_experiments.results.tables import Row

SAMPLES_PER_SLOT = 2
"""Reports of its time by a switch in each slot, under the wall clock: the end of a slot is noticed
before that of the next one."""


@dataclass
class Volumes:
    """Traffic volume read from the switches of a fabric."""

    registers: Registers
    topology: Topology
    parameters: FabricParameters
    """Parameters in force, slowed, which have volume counters."""
    counters: SlotCounters
    """Counters of the program."""
    counts: dict[str, dict[int, dict[Queue, Count]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By switch and slot: counts of the queues that packets left."""
    missed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Slots that were not read in time, or not at all because the switch was away, by switch."""
    _next: dict[str, int] = field(default_factory=dict[str, int])
    """The slot to be read next, by switch."""

    @property
    def slot_ns(self) -> int:
        """Length of a slot in the clock of the switches."""
        return self.counters.slot_ns

    def due_ns(self, now_ns: int) -> int:
        """End of the slot that contains `now_ns`."""
        return (now_ns // self.slot_ns + 1) * self.slot_ns

    def begin(self, switch: str, now_ns: int) -> None:
        """Reads slots of a switch from the present one on."""
        self._next[switch] = now_ns // self.slot_ns

    async def all_until(self, now_ns: int) -> None:
        """Reads the slots of all switches that are over by their clock."""
        await together(self.until(switch.name, now_ns) for switch in self.topology.switches)

    async def until(self, switch: str, now_ns: int) -> None:
        """Reads the slots of a switch that are over by its clock; of several only the last one, as
        the others are overwritten."""
        if switch not in self._next:
            self.begin(switch, now_ns)
        current = now_ns // self.slot_ns
        over, self._next[switch] = range(self._next[switch], current), current
        if not over:
            return
        self.missed[switch] += len(over) - 1
        try:
            self.counts[switch][over[-1]] = await self.counters.read(
                self.registers, switch, over[-1], self._queues(switch)
            )
        except (ControllerError, Overwritten):
            self.missed[switch] += 1

    def _queues(self, switch: str) -> list[Queue]:
        queues = [queue.id for queue in self.parameters.ports.queue]
        return [(port, queue) for port in self.topology.neighbours[switch] for queue in queues]

    def rows(
        self, dilation: Dilation, head: Row, start_ns: Mapping[str, float] | None = None
    ) -> Iterator[Row]:
        """Rows of the table `volume`, in nominal time: every slot that was read, for each queue
        that any packet has left. `start_ns`: when the traffic began by the clock of each switch;
        slots before are left out. None: at 0."""
        slot_ns = round(dilation.nominal_time(self.slot_ns))
        for switch, slots in self.counts.items():
            used = sorted({queue for counts in slots.values() for queue in counts})
            for slot, counts in sorted(slots.items()):
                since = slot * self.slot_ns - (start_ns or {}).get(switch, 0)
                if since < 0:
                    continue
                times = {
                    "slot_start_ns": round(dilation.nominal_time(since)),
                    "slot_ns": slot_ns,
                }
                for port, queue in used:
                    size, packets = counts.get((port, queue), (0, 0))
                    place = {"point": f"{switch}:{port}", "class": queue}
                    yield head | times | place | {"bytes": size, "packets": packets}

    def about(self, dilation: Dilation) -> dict[str, Any]:
        """Entries of run.json about the volume."""
        missed = {switch: count for switch, count in self.missed.items() if count}
        return {
            "slot_ns": dilation.nominal_time(self.slot_ns),
            "slots_read": sum(map(len, self.counts.values())),
            "slots_missed": missed,
        }


@dataclass
class VolumeWatch:
    """Reader of one switch under the wall clock, in time with the clock of the switch."""

    managers: TrafficManagers
    volumes: Volumes
    switch: str
    behind_ns: float = float("inf")
    """The clock of this process less that of the switch: the smallest difference, since reports
    take time to arrive."""

    async def sample(self) -> None:
        """Reads slots until it is cancelled, or the switch is restarted. Reports are also received
        while a slot is read, so that each has the present time."""
        interval_ns = max(1, self.volumes.slot_ns // SAMPLES_PER_SLOT)
        reading: asyncio.Task[None] | None = None
        try:
            async for stats in self.managers.stream(self.switch, interval_ns):
                self.behind_ns = min(self.behind_ns, time.monotonic_ns() - stats.time_ns)
                if reading is None or reading.done():
                    if reading is not None:
                        reading.result()  # raises unexpected errors
                    reading = asyncio.create_task(self.volumes.until(self.switch, stats.time_ns))
        except ControllerError:
            self.volumes.missed[self.switch] += 1
        finally:
            if reading is not None:
                reading.cancel()
