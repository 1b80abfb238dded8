"""Cost of the live view to a fabric."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self
from urllib.parse import urlsplit

from ebb_topologies.files import InputError

from ebb_experiments.bench.fabric import LINE_BPS, PACKET_BYTES, PARAMETERS
from ebb_experiments.bench.fabric_net import BenchFabric, Kind, Load
from ebb_experiments.bench.fabric_transports import permutation
from ebb_experiments.bench.section import Cell, Context, Section
from ebb_experiments.run.usage import Usage

LOADS_BPS = (LINE_BPS // 2, LINE_BPS)
"""Rate of each host."""
CARRIED = 0.97
"""Share of what is sent that arrives where the machine carries a load. One that it does not carry
takes all of its processors, with a page or without."""
THROUGHPUT = 0.95
"""Least share of packets that arrive while a page is open, of those that arrive without."""
SAMPLES_HZ = 5.0
"""Least rate of updates of the page, under a load that is carried."""
PAIRS = 4
"""Loads alone and watched, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A load under which the fabric was looked at."""

    load: Load
    samples_hz: float
    viewer_seconds: float
    """Processor time of `ebb-dashboard`."""


class Viewer:
    """`ebb-dashboard` with one page, which is a reader of its stream."""

    samples = 0

    def __init__(self, socket: Path) -> None:
        command = [sys.executable, "-m", "ebb_dashboard", "fabric", "--port", "0"]
        self._process = subprocess.Popen(
            [*command, "--socket", str(socket)], stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        assert self._process.stdout is not None
        _, _, address = self._process.stdout.readline().partition("live view: ")
        if not address:
            self.__exit__(None, None, None)
            raise InputError("ebb-dashboard does not start: is Tornado installed?")
        self._page = http.client.HTTPConnection(urlsplit(address.split()[0]).netloc)
        self._page.request("GET", "/stream")
        threading.Thread(target=self._read, args=(self._page.getresponse(),), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return Usage.of(self._process.pid).cpu_seconds

    def _read(self, reply: http.client.HTTPResponse) -> None:
        for line in reply:
            self.samples += line == b"event: sample\n"


@dataclass(frozen=True, slots=True)
class Pairs:
    """One load, alone and watched in turn."""

    bps: int
    """Rate of each host."""
    alone: list[Load]
    watched: list[Watched]

    @property
    def is_carried(self) -> bool:
        """Whether the machine keeps up with it without a page."""
        return median(load.delivered for load in self.alone) >= CARRIED

    @property
    def throughput(self) -> float:
        """Packets that arrive while a page is open, over those that arrive without."""
        watched = median(each.load.received for each in self.watched)
        return watched / median(load.received for load in self.alone)

    @property
    def slowest_hz(self) -> float:
        """Samples per second where they were fewest."""
        return min(each.samples_hz for each in self.watched)

    def rows(self) -> list[tuple[Cell, ...]]:
        """For the table."""
        name = f"{self.bps / 1e6:g} Mbit/s"
        viewer = median(each.viewer_seconds / each.load.cpu.clock for each in self.watched)
        samples = median(each.samples_hz for each in self.watched)
        return [
            _row(f"{name}, alone", self.alone, None, None),
            _row(f"{name}, watched", [each.load for each in self.watched], viewer, samples),
        ]

    def verdicts(self) -> list[str]:
        """Cost of the live view, and whether the target is reached."""
        name = f"{self.bps / 1e6:g} Mbit/s of each host"
        cost = median(map(_cost, self.alone, self.watched))
        throughput = self.throughput
        found = [
            f"{name}: {throughput:.3f} times the packets; at least {THROUGHPUT:g}: "
            + _reached(throughput >= THROUGHPUT),
            f"{name}: {100 * cost:.1f} % more processor time for the same packets",
        ]
        samples = f"{name}: {self.slowest_hz:.1f} samples per second at the slowest"
        if not self.is_carried:
            return [*found, f"{samples}; more than this machine carries, so no target"]
        return [
            *found,
            f"{samples}; at least {SAMPLES_HZ:g}: {_reached(self.slowest_hz >= SAMPLES_HZ)}",
        ]

    def as_json(self) -> dict[str, Any]:
        """Every load."""
        return {
            "bps": self.bps,
            "alone": [load.as_json() for load in self.alone],
            "watched": [asdict(each) for each in self.watched],
        }


def run(context: Context) -> Section:
    """Loads the fabric, alone and watched in turn."""
    seconds, pairs = (2.0, 2) if context.quick else (5.0, PAIRS)
    with BenchFabric(context, Kind("ebb", "ebb"), permutation(LINE_BPS, 1.0)) as fabric:
        fabric.configure(PARAMETERS)
        loads = [_pairs(fabric, bps, seconds, pairs) for bps in LOADS_BPS]
    return Section(
        title="k=4 fat-tree in real time, alone and watched by ebb-dashboard (medians)",
        parameters={"line_bps": LINE_BPS, "seconds": seconds, "pairs": pairs},
        columns=("", "delivered %", "packets/s", "CPUs: switches", "agents", "viewer", "samples/s"),
        rows=[row for load in loads for row in load.rows()],
        verdicts=[verdict for load in loads for verdict in load.verdicts()],
        details={"loads": [load.as_json() for load in loads]},
    )


def _pairs(fabric: BenchFabric, bps: int, seconds: float, pairs: int) -> Pairs:
    found = Pairs(bps, [], [])
    for _ in range(pairs):
        found.alone.append(fabric.load(bps, seconds, PACKET_BYTES))
        with Viewer(fabric.net.fabric_socket) as viewer:
            found.watched.append(_watched(fabric, viewer, bps, seconds))
    return found


def _reached(reached: bool) -> str:
    return "reached" if reached else "missed"


def _watched(fabric: BenchFabric, viewer: Viewer, bps: int, seconds: float) -> Watched:
    began, samples, cpu = time.monotonic(), viewer.samples, viewer.cpu_seconds
    load = fabric.load(bps, seconds, PACKET_BYTES)
    lasted = time.monotonic() - began
    return Watched(
        load=load,
        samples_hz=(viewer.samples - samples) / lasted,
        # The viewer works as often before and after the hosts send.
        viewer_seconds=(viewer.cpu_seconds - cpu) * load.cpu.clock / lasted,
    )


def _cost(alone: Load, watched: Watched) -> float:
    """Processor time of the viewer, and what switches take more for the same packets, as a share of
    the time of switches and agents."""
    packets = watched.load.packet_hops / alone.packet_hops if alone.packet_hops else 1.0
    more = watched.load.cpu.switches - alone.cpu.switches * packets
    return (watched.viewer_seconds + more) / (alone.cpu.switches + alone.cpu.agents)


def _row(
    name: str, loads: list[Load], viewer: float | None, samples: float | None
) -> tuple[Cell, ...]:
    return (
        name,
        100 * median(load.delivered for load in loads),
        round(median(load.packets_per_second for load in loads)),
        median(load.cpu.switches / load.cpu.clock for load in loads),
        median(load.cpu.agents / load.cpu.clock for load in loads),
        viewer,
        samples,
    )
