"""Traffic volume while a phase runs: what left each port in each time slot, under either clock.

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

LOOKS_PER_SLOT = 2
"""How often a switch says what time it is, under the wall clock: a slot that is over is seen before
the next one is."""


@dataclass
class Volumes:
    """Volume that was read of the switches of a fabric."""

    registers: Registers
    topology: Topology
    parameters: FabricParameters
    """Those in force, slowed; volume is counted."""
    counters: SlotCounters
    """How the program counts."""
    counts: dict[str, dict[int, dict[Queue, Count]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """By switch and slot, of queues that something left."""
    missed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Slots of a switch that were not read in time, or not at all because it was away."""
    _next: dict[str, int] = field(default_factory=dict[str, int])
    """The slot of a switch that is to be read next."""

    @property
    def slot_ns(self) -> int:
        """Length of a slot in the clock of the switches."""
        return self.counters.slot_ns

    def due_ns(self, now_ns: int) -> int:
        """When the slot ends that lasts now, or begins."""
        return (now_ns // self.slot_ns + 1) * self.slot_ns

    def begin(self, switch: str, now_ns: int) -> None:
        """Reads a switch from the slot on that lasts now."""
        self._next[switch] = now_ns // self.slot_ns

    async def all_until(self, now_ns: int) -> None:
        """Reads of all switches the slots that are over by their clock."""
        await together(self.until(switch.name, now_ns) for switch in self.topology.switches)

    async def until(self, switch: str, now_ns: int) -> None:
        """Reads the slots of a switch that are over by its clock. Of two or more the last one can
        still be read."""
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
        """Rows of the table `volume`, in nominal time: of each queue that anything has left, every
        slot that was read. `start_ns`: when the traffic began by the clock of each switch; slots
        before are left out. None: at 0."""
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
        """Its entries in run.json."""
        missed = {switch: count for switch, count in self.missed.items() if count}
        return {
            "slot_ns": dilation.nominal_time(self.slot_ns),
            "slots_read": sum(map(len, self.counts.values())),
            "slots_missed": missed,
        }


@dataclass
class VolumeWatch:
    """One switch, under the wall clock: it says itself what time it is."""

    managers: TrafficManagers
    volumes: Volumes
    switch: str
    behind_ns: float = float("inf")
    """The clock of this process less that of the switch: the smallest that was seen, as what a
    switch tells takes a while."""

    async def look(self) -> None:
        """Reads slots until it is cancelled, or the switch is restarted. While a slot is read, what
        the switch tells is taken in, so that the next time is the latest."""
        interval_ns = max(1, self.volumes.slot_ns // LOOKS_PER_SLOT)
        reading: asyncio.Task[None] | None = None
        try:
            async for stats in self.managers.stream(self.switch, interval_ns):
                self.behind_ns = min(self.behind_ns, time.monotonic_ns() - stats.time_ns)
                if reading is None or reading.done():
                    if reading is not None:
                        reading.result()  # raises what nobody has expected
                    reading = asyncio.create_task(self.volumes.until(self.switch, stats.time_ns))
        except ControllerError:
            self.volumes.missed[self.switch] += 1
        finally:
            if reading is not None:
                reading.cancel()
