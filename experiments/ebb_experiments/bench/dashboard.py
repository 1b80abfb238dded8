"""What it costs a fabric that somebody looks at it in the browser."""

from __future__ import annotations

import http.client
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from ebb_topologies.fabric_file import FABRIC_SOCKET
from ebb_topologies.files import InputError

from ebb_experiments.bench.fabric import LINE_BPS, PACKET_BYTES, PARAMETERS
from ebb_experiments.bench.fabric_net import BenchFabric, Load
from ebb_experiments.bench.fabric_transports import permutation
from ebb_experiments.bench.section import Cell, Context, Section
from ebb_experiments.run.usage import Usage

TARGET = 0.05
"""Share of the processor time of switches and hosts that looking at them may cost."""
LOOKS_HZ = 5.0
"""How often the page must be told at least."""
PAIRS = 4
"""Loads alone and watched, in turn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A load under which the fabric was looked at."""

    load: Load
    looks_hz: float
    viewer_seconds: float
    """Processor time of `ebb-dashboard`."""


class Viewer:
    """`ebb-dashboard` with one page, which is a reader of its stream."""

    looks = 0

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait()

    @property
    def cpu_seconds(self) -> float:
        """Processor time so far."""
        return Usage.of(self._process.pid).cpu_seconds

    def _read(self, reply: http.client.HTTPResponse) -> None:
        for line in reply:
            self.looks += line == b"event: look\n"


def run(context: Context) -> Section:
    """Loads the fabric at line rate, alone and watched in turn."""
    seconds, pairs = (2.0, 2) if context.quick else (5.0, PAIRS)
    alone: list[Load] = []
    watched: list[Watched] = []
    with BenchFabric(context, "ebb", True, permutation(LINE_BPS, 1.0)) as fabric:
        fabric.configure(PARAMETERS)
        for _ in range(pairs):
            alone.append(fabric.load(LINE_BPS, seconds, PACKET_BYTES))
            with Viewer(fabric.directory / FABRIC_SOCKET) as viewer:
                watched.append(_watched(fabric, viewer, seconds))
    loads = [each.load for each in watched]
    cost = median(map(_cost, alone, watched))
    slowest = min(each.looks_hz for each in watched)
    delivered = median(load.received for load in loads) / median(load.received for load in alone)
    return Section(
        title="k=4 fat-tree in real time, alone and watched by ebb-dashboard (medians)",
        parameters={"line_bps": LINE_BPS, "seconds": seconds, "pairs": pairs},
        columns=("", "delivered %", "packets/s", "CPUs: switches", "agents", "viewer", "looks/s"),
        rows=[
            _row("alone", alone, None, None),
            _row(
                "watched",
                loads,
                median(each.viewer_seconds / each.load.cpu.clock for each in watched),
                median(each.looks_hz for each in watched),
            ),
        ],
        verdicts=[
            f"costs {100 * cost:.1f} % of the processor time of switches and agents; at most "
            f"{100 * TARGET:.0f} %: " + ("reached" if cost <= TARGET else "missed"),
            f"packets delivered: {delivered:.3f} times those without",
            f"{slowest:.1f} looks per second; at least {LOOKS_HZ:g}: "
            + ("reached" if slowest >= LOOKS_HZ else "missed"),
        ],
        details={
            "alone": [load.as_json() for load in alone],
            "watched": [asdict(each) for each in watched],
        },
    )


def _watched(fabric: BenchFabric, viewer: Viewer, seconds: float) -> Watched:
    began, looks, cpu = time.monotonic(), viewer.looks, viewer.cpu_seconds
    load = fabric.load(LINE_BPS, seconds, PACKET_BYTES)
    lasted = time.monotonic() - began
    return Watched(
        load=load,
        looks_hz=(viewer.looks - looks) / lasted,
        # It looks as often before and after the hosts send.
        viewer_seconds=(viewer.cpu_seconds - cpu) * load.cpu.clock / lasted,
    )


def _cost(alone: Load, watched: Watched) -> float:
    """Processor time of the viewer, and what switches take more for the same packets, as a share of
    the time of switches and agents."""
    packets = watched.load.packet_hops / alone.packet_hops if alone.packet_hops else 1.0
    more = watched.load.cpu.switches - alone.cpu.switches * packets
    return (watched.viewer_seconds + more) / (alone.cpu.switches + alone.cpu.agents)


def _row(
    name: str, loads: list[Load], viewer: float | None, looks: float | None
) -> tuple[Cell, ...]:
    return (
        name,
        100 * median(load.delivered for load in loads),
        round(median(load.packets_per_second for load in loads)),
        median(load.cpu.switches / load.cpu.clock for load in loads),
        median(load.cpu.agents / load.cpu.clock for load in loads),
        viewer,
        looks,
    )
