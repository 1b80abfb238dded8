"""How evenly paced packets leave at 100 Mbit/s, and what the bump in the wire adds to others.

Packets are full (1500 bytes), so one every 120 us is ideal. Times are the kernel's, at the
receiving end of the veth.
The sender becomes associated by an ACK of the receiver that is sent once more with ECN-Echo.

```
 agent:  a (ebb-agent send --transport hull) ──veth── b (ebb-agent recv)
 bump:   a (kernel TCP) ──veth── p (ebb-agent pace) ──veth── b (kernel TCP)
```
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ebb_topologies.files import InputError

from ebb_experiments.bench.section import Cell, Context, Section
from ebb_experiments.bench.testbed import ADDRESSES, INTERFACE, Middle, Testbed, wait_ready
from ebb_experiments.bench.wiretap import Frame, Wiretap, inside
from ebb_experiments.results.numbers import percentile
from ebb_experiments.run.usage import Usage

TARGET_US = 60.0
RATE_BPS = 100_000_000
PACKET_BYTES = 1500
RUN_SECONDS = 4.0
WARM_UP_SECONDS = 1.0
PATIENCE_SECONDS = 10.0
"""How long the association of a flow is waited for, if processors are short."""
CLUMP_BYTES = 14_480
"""Bytes of a clump: ten full packets of kernel TCP, which leave together."""
CLUMP_SECONDS = 10 * PACKET_BYTES * 8 / RATE_BPS
EXTRA_CLUMPS = 3
"""How many clumps are sent at once when the flow is associated, so that there is always something
to pace, although clumps come late now and then."""
ECHOES = 5
"""How often congestion is echoed. Once is enough, but a sender does not look at an echo that comes
too late."""
REAL_TIME = (os.SCHED_FIFO, os.sched_param(60))
"""Scheduling of what is not measured and shall not wait for a processor."""
PORT = 7000

PACER: dict[str, Any] = {
    "update_period_ns": 640_000,
    "eta": 0.0125,
    "beta_hz": 0.1,
    "bucket_bytes": PACKET_BYTES,
    "association_probability": 1.0,
    "association_timeout_ns": 60_000_000_000,
}
"""A steady rate, so that the ideal is known: a memory of 51 ms where HULL's testbed, dilated by
ten, has 5 ms (eta = 0.125, beta_hz = 1.6). A bucket of one packet, because two let two go together.
One ECN-Echo associates."""

AGENT: dict[str, Any] = {
    "pacer": {**PACER, "beta_hz": 1.0},
    "nic": {"rate_bps": 1_000_000_000, "mtu_bytes": PACKET_BYTES},
    "tcp": {"max_window_packets": 21, "dctcp_initial_alpha": 0.0},
    "faults": {"reorder_delay_ns": 2_400_000, "arriving": {"reorder": 1.0}},
}
"""A round trip of 2.4 ms, by delaying every ACK on arrival, and a window that fills it, of
which few echoes take little. TCP sends what is
acknowledged, so the rate measures itself; after a disturbance only beta brings it back, so it is
larger."""

WAKING: dict[str, dict[str, int]] = {
    "sleeping": {},
    "spin_microseconds = 50": {"spin_microseconds": 50},
    "realtime_priority = 50": {"realtime_priority": 50},
    "realtime_priority = 50, spin_microseconds = 50": {
        "realtime_priority": 50,
        "spin_microseconds": 50,
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spacing:
    """Gaps between the packets of one run."""

    gaps_us: list[float]
    cpu_share: float
    """Share of one processor that the pacing process used, 0 to 1."""

    @property
    def is_usable(self) -> bool:
        """Whether there are enough gaps: there are few if the processes got so little of the
        machine that the flow stood still."""
        return len(self.gaps_us) >= 100

    @property
    def mean_us(self) -> float:
        """Mean gap, in us."""
        return sum(self.gaps_us) / len(self.gaps_us)

    def errors_us(self) -> list[float]:
        """Distances of the gaps, in us, from the ideal one, which is the mean gap of the run."""
        mean_us = self.mean_us
        return [abs(gap - mean_us) for gap in self.gaps_us]

    def row(self, who: str, waking: str) -> tuple[Cell, ...]:
        """The row of the table; without figures if there are too few gaps."""
        if not self.is_usable:
            return (f"{who}, {waking}", len(self.gaps_us), None, None, None, None, None)
        errors = self.errors_us()
        return (
            f"{who}, {waking}",
            len(errors),
            PACKET_BYTES * 8 / self.mean_us,
            percentile(errors, 50),
            percentile(errors, 99),
            percentile(errors, 99.9),
            100 * self.cpu_share,
        )


def run(context: Context) -> Section:
    """Own flows and those of the kernel, by how the process waits for the next departure."""
    seconds = 1.0 if context.quick else RUN_SECONDS
    rows: list[tuple[Cell, ...]] = []
    verdicts: list[str] = []
    details: dict[str, Any] = {}
    for who, measure in (("agent", own_flow), ("bump", bump)):
        for waking, engine in WAKING.items():
            spacing = measure(context, engine, seconds)
            rows.append(spacing.row(who, waking))
            details[f"{who}, {waking}"] = spacing.gaps_us
            if spacing.is_usable and (not engine or waking == list(WAKING)[-1]):
                worst = percentile(spacing.errors_us(), 99)
                verdict = "reached" if worst <= TARGET_US else "missed"
                verdicts.append(
                    f"{who}, {waking}: p99 {worst:.0f} us from even; "
                    f"the target is {TARGET_US:.0f}: {verdict}"
                )
    for name, added in latencies(context).items():
        verdicts.append(
            f"unpaced, {name}: {percentile(added, 50):.0f} us median, "
            f"{percentile(added, 99):.0f} us p99"
        )
    return Section(
        title="Spacing of paced packets at 100 Mbit/s: distance from even",
        parameters={"pacer": PACER, "agent": AGENT, "clump_bytes": CLUMP_BYTES},
        columns=(
            "who paces, waiting by",
            "packets",
            "Mbit/s",
            "median us",
            "p99 us",
            "p99.9 us",
            "CPU %",
        ),
        rows=rows,
        verdicts=verdicts,
        details=details,
    )


def own_flow(context: Context, engine: dict[str, int], seconds: float) -> Spacing:
    """An object that takes as long as asked for; `hull`, that is DCTCP with the pacer."""
    object_bytes = int((seconds + PATIENCE_SECONDS) * RATE_BPS / 8)
    with PacedTestbed(context) as testbed:
        tap = Wiretap(testbed.namespace("b"), INTERFACE)
        params = testbed.parameters({"engine": engine, **AGENT})
        # The other end shall be there in time, but not look all the time.
        plain = testbed.parameters({"engine": {**engine, "spin_microseconds": 0}})
        flow = ("--interface", INTERFACE, "--json", "--transport", "hull", "--params")
        receive = ("recv", "--port", str(PORT), "--count", "1", *flow, plain)
        send = ("send", "--generate", str(object_bytes), f"{ADDRESSES['b']}:{PORT}")
        with testbed.agent(context, "b", receive) as receiver:
            wait_ready(receiver)
            with testbed.agent(context, "a", (*send, *flow, params)) as sender:
                associate(tap)
                spacing = collect(tap, sender, seconds)
                sender.terminate()
                _check(sender, "ce_marks")
    return spacing


def bump(context: Context, engine: dict[str, int], seconds: float) -> Spacing:
    """Kernel TCP that sends clumps, through `ebb-agent pace`."""
    with PacedTestbed(context, Middle.NAMESPACE) as testbed:
        tap = Wiretap(testbed.namespace("b"), INTERFACE)
        with testbed.pace({"pacer": PACER, "engine": engine}) as pace:
            clumps = Clumps(testbed)
            associate(tap)
            clumps.extra = EXTRA_CLUMPS
            spacing = collect(tap, pace, seconds)
            clumps.stop()
            pace.terminate()
            _check(pace, "paced_segments")
    return spacing


def latencies(context: Context) -> dict[str, list[float]]:
    """How long UDP packets take from host to host in us, with and without the bump."""
    added = {}
    for name, middle in (("without the bump", Middle.NONE), ("with the bump", Middle.NAMESPACE)):
        with PacedTestbed(context, middle) as testbed, contextlib.ExitStack() as stack:
            if middle is Middle.NAMESPACE:
                stack.enter_context(testbed.pace({}))
            taps = [Wiretap(testbed.namespace(side), INTERFACE) for side in ("a", "b")]
            time.sleep(0.2)
            host = inside(testbed.namespace("a"), lambda: socket.socket(type=socket.SOCK_DGRAM))
            for number in range(500):
                host.sendto(number.to_bytes(4, "big").ljust(200), (ADDRESSES["b"], 9))
                time.sleep(0.002)
            sent, arrived = (
                {f.bytes[42:46]: f.at_ns for f in tap.frames() if f.bytes[23] == 17} for tap in taps
            )
        added[name] = [(at - sent[key]) / 1e3 for key, at in arrived.items() if key in sent]
    return added


def associate(tap: Wiretap) -> None:
    """Echoes congestion a few times when the flow is under way."""
    time.sleep(WARM_UP_SECONDS)
    usual = os.sched_getscheduler(0), os.sched_getparam(0)
    os.sched_setscheduler(0, *REAL_TIME)
    for _ in range(ECHOES):
        tap.echo_congestion(1.0)
        time.sleep(0.01)
    os.sched_setscheduler(0, *usual)
    time.sleep(WARM_UP_SECONDS)
    tap.frames()


def gaps_us(frames: Sequence[Frame]) -> list[float]:
    """Gaps between full packets that arrive, in us."""
    arrived = [f for f in frames if not f.outgoing and f.is_tcp]
    times = [f.at_ns for f in arrived if f.packet_bytes == PACKET_BYTES]
    return [(b - a) / 1e3 for a, b in pairwise(times)]


def collect(tap: Wiretap, pacer: subprocess.Popen[str], seconds: float) -> Spacing:
    """Spacing of the frames of some seconds, during which they stay in the kernel."""
    start, cpu_before = time.monotonic(), Usage.of(pacer.pid).cpu_seconds
    time.sleep(seconds)
    end, cpu = time.monotonic(), Usage.of(pacer.pid).cpu_seconds
    gaps = gaps_us(tap.frames())
    return Spacing(gaps_us=gaps, cpu_share=(cpu - cpu_before) / (end - start))


class Clumps(threading.Thread):
    """Kernel TCP from a to b: one clump after the other, each at its time."""

    def __init__(self, testbed: Testbed) -> None:
        super().__init__()
        self._stopped = threading.Event()
        self.extra = 0
        self._server = inside(
            testbed.namespace("b"), lambda: socket.create_server((ADDRESSES["b"], PORT))
        )
        self._client = inside(testbed.namespace("a"), socket.socket)
        self._client.connect((ADDRESSES["b"], PORT))
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peer, _ = self._server.accept()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.start()

    def run(self) -> None:
        """Sends a clump of bytes at each interval, in real time."""
        os.sched_setscheduler(0, *REAL_TIME)
        clump = bytes(CLUMP_BYTES)
        due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due += CLUMP_SECONDS
            extra, self.extra = self.extra, 0
            self._client.sendall(clump * (1 + extra))
        self._client.close()
        self._reader.join()
        self._peer.close()
        self._server.close()

    def stop(self) -> None:
        """Ends the thread and waits for it."""
        self._stopped.set()
        self.join()

    def _read(self) -> None:
        while self._peer.recv(1 << 20):
            pass


class PacedTestbed(Testbed):
    """The two hosts with the agents of this subject."""

    def __init__(self, context: Context, middle: Middle = Middle.NONE) -> None:
        super().__init__(middle)
        self.context = context
        self._files = 0

    def parameters(self, parameters: dict[str, Any]) -> str:
        """Path of a file with these parameters."""
        self._files += 1
        file = self.context.directory / f"spacing-{self._files}.json"
        file.write_text(json.dumps(parameters))
        return str(file)

    @contextlib.contextmanager
    def pace(self, parameters: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
        """Runs `ebb-agent pace` in the middle namespace."""
        inside, outside = self.ports
        ends = ("--inside", inside, "--outside", outside)
        params = ("--params", self.parameters(parameters))
        with self.agent(self.context, "p", ("pace", "--json", *ends, *params)) as process:
            wait_ready(process)
            yield process


def _check(process: subprocess.Popen[str], counter: str) -> None:
    """Checks that the last line of a process says that the flow was associated."""
    output, errors = process.communicate(timeout=30)
    lines = output.splitlines() or ["{}"]
    if not json.loads(lines[-1]).get(counter):
        raise InputError(f"the flow was not paced: {lines[-1]} {errors.strip()}")
