# SPDX-License-Identifier: Apache-2.0
"""The interface of a target, and the traffic manager a test asks it for."""

from __future__ import annotations

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import ClassVar

STOP_SECONDS = 5.0
"""Time from SIGTERM to SIGKILL for a switch that does not end."""


class TargetError(Exception):
    """The switch could not be started or set up."""


class Feature(Enum):
    """Features that not every target has. A test names those that it needs."""

    SLOW_PORT = "a port with a rate limit, so that a queue builds up"
    PORT_SCHEDULER = "one link of that rate for all queues of a port, strict priority between them"
    WEIGHTED_GROUPS = "weighted round robin between groups of queues"
    DEFLECTION = "packets that do not fit come back to ingress"
    BYTE_DEPTHS = "enq_qdepth in bytes"
    QUEUE_STATISTICS = "counts of drops and deflections per queue"
    PFC = "priority flow control: frames that pause a class of the neighbour, and obeying them"
    QUEUE_EXPORT = "state of the queues in a register of the program"
    PUSH_OUT = "packets pushed out of a lower queue where a buffer is full"
    SHARES = "queues that go first up to a share of the link"
    RANKS = "queues that serve by a field of the packets"
    REGISTERS = "registers that can be read"


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue that every port has."""

    id: int
    """v1model's `priority`, 0 lowest."""
    capacity_packets: int = 1000
    """Packets that it holds."""
    on_full: str = "tail-drop"
    """Treatment of a packet that does not fit: `tail-drop`, `deflect`, `push-out` or
    `push-out-deflect`, `deflect-either`."""
    lossless: bool = False
    """Whether neighbours are paused before it drops; it has no capacity then (PFC)."""
    pool: bool = False
    """Whether it counts against the pool of the port."""
    pool_exempt: bool = False
    """Whether it may exceed the pool's limit, up to its own capacity, once all that gives way to it
    is pushed out (pool_exempt in docs/traffic-manager.md)."""
    rank: bool = False
    """Whether it is served by rank (RANKS)."""


@dataclass(frozen=True, slots=True)
class TrafficManager:
    """Queues of all ports. Those in `slow_ports` have the rate limit, the others have none."""

    queues: tuple[Queue, ...] = tuple(Queue(i) for i in range(8))
    """The queues; strict priority, the highest id first, unless there are groups."""
    groups: tuple[tuple[tuple[int, ...], int], ...] = ()
    """Weighted groups as (queue ids, packets per turn); empty: strict priority."""
    by_arrival: bool = False
    """Whether queues of a group are served in order of arrival, instead of strict priority."""
    depth_unit: str = "packets"
    """Unit of `enq_qdepth`: `packets` or `bytes`."""
    rate_bps: int = 0
    """Rate of the slow ports in bit/s; 0: no limit."""
    slow_ports: tuple[int, ...] = field(default=())
    """Ports with `rate_bps`."""
    other_bps: int = 0
    """Rate of the other ports in bit/s; 0: no limit."""
    pool_packets: int | None = None
    """Packets that the queues with `pool` hold together; none: there is no pool."""
    shares: tuple[tuple[tuple[int, ...], float, int], ...] = ()
    """Groups that go first up to a share, as (queue ids, share of the link, burst in bytes)
    (SHARES)."""
    rank: tuple[str, str] | None = None
    """Fields that queues with ranks go by: rank and flow (RANKS); none: no queue has ranks."""
    pfc: Mapping[str, int | str] = field(default_factory=dict)
    """Keys of `[pfc]` in the configuration of ebb-switch; empty: no flow control."""
    exports: tuple[str, ...] = ()
    """Registers of the program that get the drain bytes of all queues (QUEUE_EXPORT)."""


class Target(ABC):
    """A switch process. Used for one test: start, write tables, check, stop."""

    name: ClassVar[str]
    """Name in `--switch` and messages."""
    lacks: ClassVar[Mapping[Feature, str]]
    """Why this target cannot have a feature, by feature."""

    def __init__(self, binary: Path, work_dir: Path) -> None:
        self._binary = binary
        self._work_dir = work_dir
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def command(self, ports: Mapping[int, str], manager: TrafficManager, address: str) -> list[str]:
        """The command line that starts the switch without a program."""

    def configure(self, manager: TrafficManager) -> None:  # noqa: B027 - nothing by default
        """Applies settings that need an installed program."""

    def dropped(self, port: int, reason: str) -> int:
        """Packets that the queues of a port dropped for this reason (QUEUE_STATISTICS)."""
        raise NotImplementedError

    def refused(self, port: int, reason: str) -> int:
        """Frames that arrived at a port and were not enqueued for this reason (PFC)."""
        raise NotImplementedError

    def pauses(self, port: int, queue: int) -> int:
        """Number of pauses of a queue by the neighbour at a port (PFC)."""
        raise NotImplementedError

    def register(self, name: str, index: int) -> int | None:
        """A cell of a register, by its full name, where P4Runtime does not serve it; none: it
        does."""
        return None

    def lacks_now(self, feature: Feature) -> str | None:
        """Why a test that needs `feature` cannot run; None if it can."""
        return self.lacks.get(feature)

    @property
    def log(self) -> Path:
        """Output of the switch."""
        return self._work_dir / f"{self.name}.log"

    def start(self, ports: Mapping[int, str], manager: TrafficManager, address: str) -> None:
        """Starts the process; it may not be ready when this returns."""
        command = self.command(ports, manager, address)
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=self._work_dir)

    def check_alive(self) -> None:
        """Raises if the switch ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            tail = self.log.read_text(errors="replace")[-2000:]
            raise TargetError(f"{self.name} ended with {self._process.returncode}:\n{tail}")

    def stop(self) -> None:
        """Ends the process: SIGTERM first, SIGKILL if it does not end."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None
