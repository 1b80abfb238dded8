"""The queues of one port, sampled while a phase runs under the wall clock."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Protocol

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import Topology

from ebb_experiments.results.tables import Row
from ebb_experiments.run.loop import LoopThread

INTERVAL_NS = 10_000_000
"""Time of the wall clock between two samples: short enough for a figure, and 1 % of a
processor."""


@dataclass
class QueueWatch:
    """The queues of the port of a switch that leads to a host."""

    managers: TrafficManagers
    topology: Topology
    host: str
    samples: list[tuple[int, list[tuple[int, int, int]]]] = field(default_factory=list)
    """Time of a sample by the clock of the switch, and id, packets and bytes of each queue."""
    behind_ns: float = float("inf")
    """The clock of this process less that of the switch: the smallest difference, since reports
    take time to arrive."""

    async def sample(self) -> None:
        """Samples until it is cancelled, or the switch is restarted."""
        end = self.topology.attachment(self.topology.host(self.host))
        with suppress(ControllerError):
            async for stats in self.managers.stream(end.node, INTERVAL_NS):
                self.take(stats, end.port, time.monotonic_ns())

    def take(self, stats: tm.Stats, port: int, now_ns: int) -> None:
        """Keeps the samples of the port."""
        self.behind_ns = min(self.behind_ns, now_ns - stats.time_ns)
        queues = [
            (queue.queue, queue.depth_packets, queue.depth_bytes)
            for each in stats.ports
            if each.port == port
            for queue in each.queues
        ]
        self.samples.append((stats.time_ns, queues))

    def rows(self, start_ns: int, dilation: Dilation, head: Row) -> Iterator[Row]:
        """Rows of the table `samples`, from the start of the traffic on, in nominal time; of queues
        with a packet in any sample."""
        used = {queue for _, queues in self.samples for queue, packets, _ in queues if packets}
        end = self.topology.attachment(self.topology.host(self.host))
        place = {"switch": end.node, "port": end.port, "peer": self.host}
        for at_ns, queues in self.samples:
            since = at_ns + self.behind_ns - start_ns
            for queue, packets, size in queues:
                if since < 0 or queue not in used:
                    continue
                yield (
                    head
                    | place
                    | {"at_ns": dilation.nominal_time(since), "queue": queue}
                    | {"depth_packets": packets, "depth_bytes": size}
                )


class Watch(Protocol):
    """Something that is sampled repeatedly."""

    async def sample(self) -> None:
        """Samples until it is cancelled."""
        ...


@contextmanager
def watching(loop: LoopThread, watches: Sequence[Watch]) -> Iterator[None]:
    """Samples while the block runs."""
    futures = [loop.start(watch.sample()) for watch in watches]
    try:
        yield
    finally:
        for future in futures:
            if future.done():
                future.result()  # raises unexpected errors
            future.cancel()
