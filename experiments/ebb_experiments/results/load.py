"""Whether this machine kept up: how late its processes were, and how busy its processors.

What is emulated must not show the machine. A frame that leaves late by the time that a full-size
packet takes on a link stands in a queue as one packet more: up to that, lateness distorts queues by
a packet. A switch that does not tell how late it is (BMv2) is judged by the processors: waiting
times grow without bound as they come to be busy all the time.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROC_STAT = Path("/proc/stat")
BUSIEST = 0.8
"""Share of the processors' time up to which a machine keeps up. At 0.8 work waits as long as it
takes (M/M/2: 1.8 times), and from there on several times as long."""
SATURATED = 0.95
"""Share from which on it says nothing about how much more there was to do."""
MOST_OF_OTHERS = 0.05
"""Share of the processors' time that others may take before a benchmark is not valid."""
KINDS = ("wakeups", "departures")


@dataclass(frozen=True, slots=True)
class Late:
    """How many events were due at an instant, and how late they were, by the wall clock."""

    count: int = 0
    p99_ns: float = 0.0
    max_ns: float = 0.0

    @classmethod
    def from_report(cls, lateness: Mapping[str, Mapping[str, Any]]) -> Late:
        """Reads the object `lateness` of an agent or a switch."""
        found = [lateness[kind] for kind in KINDS if kind in lateness]
        each = (cls(int(f["count"]), float(f["p99_ns"]), float(f["max_ns"])) for f in found)
        return cls.together(each)

    @classmethod
    def together(cls, several: Iterable[Late]) -> Late:
        """Several as one. The percentile is their mean by the number of events: one hiccup
        of a process with few of them is not everybody's."""
        parts = list(several)
        count = sum(late.count for late in parts)
        weighted = sum(late.count * late.p99_ns for late in parts)
        highest = max((late.max_ns for late in parts), default=0.0)
        return cls(count, weighted / count if count else 0.0, highest)


@dataclass(frozen=True, slots=True)
class Load:
    """Measurements of the machine during a phase."""

    agents: Late
    switches: Late | None
    """Lateness of the switches; none, or of no events: they do not report it."""
    processors: float
    """Busy share of all processors of the machine, by all of its processes."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Load:
        """Reads what `dataclasses.asdict` made of one."""
        switches = None if table["switches"] is None else Late(**table["switches"])
        return cls(Late(**table["agents"]), switches, table["processors"])

    @property
    def p99_ns(self) -> float:
        """The lateness of agents or of switches, whichever is greater."""
        return max(late.p99_ns for late in (self.agents, self.switches) if late is not None)

    @property
    def longest_ns(self) -> float:
        """How late a packet can have been that an agent sent and switches forwarded."""
        switches = 0.0 if self.switches is None else self.switches.max_ns
        return self.agents.max_ns + switches

    def needed(self, dilation: float, packet_ns: float, busiest: float = BUSIEST) -> float:
        """The dilation that would have been enough; up to the one in force: that was.

        `packet_ns`: nominal time of a full-size packet on a link. Lateness is the machine's and
        does not depend on the dilation: it is enough that a packet takes longer. Work per second
        goes down in proportion.
        """
        needed = self.p99_ns / packet_ns
        if self._by_processors:
            share = self.processors / busiest
            needed = max(needed, dilation * (max(2.0, share) if self.saturated else share))
        return needed

    @property
    def saturated(self) -> bool:
        """Whether what would have been enough is only a guess."""
        return self._by_processors and self.processors >= SATURATED

    @property
    def _by_processors(self) -> bool:
        return self.switches is None or self.switches.count == 0

    def __str__(self) -> str:
        parts = {"agents": self.agents, "switches": self.switches}
        late = [
            f"{who} {part.p99_ns / 1e6:.2g} ms late (99th percentile)"
            for who, part in parts.items()
            if part is not None and part.count
        ]
        return ", ".join([*late, f"processors {self.processors:.0%} busy"])


def enough(dilation: float) -> int:
    """A dilation rounded up to two digits: nobody types 137.2."""
    step = 10 if dilation > 100 else 5
    return int(-(-dilation // step) * step)


class Processors:
    """How busy all processors of the machine are from an instant on."""

    def __init__(self) -> None:
        self._before = read_stat()
        self._timer: threading.Timer | None = None

    def begin(self, at_ns: int | None = None) -> None:
        """Measures from then on (CLOCK_MONOTONIC); none: from now on."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._mark()
        if at_ns is not None:
            self._timer = threading.Timer(max(0.0, (at_ns - time.monotonic_ns()) / 1e9), self._mark)
            self._timer.daemon = True
            self._timer.start()

    def _mark(self) -> None:
        self._before = read_stat()

    def share(self) -> float:
        """Busy share of the processors since then, 0 to 1."""
        (busy, total), (busy_before, total_before) = read_stat(), self._before
        return (busy - busy_before) / max(1, total - total_before)


class OtherProcesses:
    """Processor time of others than this process and the children that it has waited for:
    of a benchmark, which takes all that it gets, the busy share says nothing."""

    def __init__(self) -> None:
        self._before = _others()

    def share(self) -> float:
        """Share of all processors' time that others took since then, 0 to 1."""
        (others, total), (others_before, total_before) = _others(), self._before
        return max(0.0, others - others_before) / max(1, total - total_before)


def _others() -> tuple[float, int]:
    """Clock ticks since boot: of others, and all. Interrupts count for those whose frames they
    bring."""
    user, nice, system, _idle, _iowait, _irq, _softirq, steal = _ticks(PROC_STAT)
    own = sum(os.times()[:4]) * os.sysconf("SC_CLK_TCK")
    return user + nice + system + steal - own, sum(_ticks(PROC_STAT))


def read_stat(path: Path = PROC_STAT) -> tuple[int, int]:
    """Clock ticks since boot, of all processors: busy, and all (proc(5): idle and iowait are the
    fourth and fifth number; guests are in user time already)."""
    numbers = _ticks(path)
    return sum(numbers) - numbers[3] - numbers[4], sum(numbers)


def _ticks(path: Path) -> list[int]:
    return [int(word) for word in path.read_text().splitlines()[0].split()[1:9]]
