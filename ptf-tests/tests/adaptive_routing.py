# SPDX-License-Identifier: Apache-2.0
"""Adaptive load balancing: the ports that drain bytes leave to choose from, and marking by them.

A busy link holds what is sent to it, so that drain bytes are exact. The program counts them itself,
which every target can do; the classes at the end have the target write them.
"""

from __future__ import annotations

import time
from collections import Counter as Tally
from dataclasses import replace

from ebb_controller.mechanisms.adaptive_routing import (
    ADAPTIVE_NEXT_HOP,
    ADAPTIVE_THRESHOLDS,
    DRAIN_MARKED,
    DRAIN_MARKING,
    QUEUE_ACCOUNTING,
    QUEUE_DRAIN,
    TOOK_ANY,
    TOOK_FAVOURED,
    TOOK_MOST_FAVOURED,
    acceptable,
)
from ebb_controller.mechanisms.traffic_class import SPRAY, TRAFFIC_CLASS
from ebb_scapy import Ecn
from fabric_test import FabricTest
from frames import FULL_FRAME_BYTES, ce_marked, host_ip, host_mac, pfc, routed, switch_mac, tcp
from targets import Feature, Queue, TrafficManager
from testbed import PORTS

HIGH_DSCP, HIGH_QUEUE = 34, 6
"""Class and queue of data retrievals; class and queue 0 are those of background traffic."""
PATHS = (2, 3)
"""Ports on a path to the destination below."""
FAR_IP = "10.9.0.1"
"""A destination behind both of them."""
BLOCKED_BPS = 400
"""Rate of a port that is as good as blocked: a full frame takes 30 s."""
LEAST_FRAME_BYTES = 60
"""The shortest frame that is sent."""
BLOCKED = TrafficManager(rate_bps=BLOCKED_BPS, slow_ports=PATHS)
"""Both paths are as good as blocked."""
EXPORTING = replace(BLOCKED, exports=(QUEUE_DRAIN,))
"""And the target tells the program the drain bytes."""
AT_ONCE = 10
"""Packets that are on their way at the same time; a target may lose some of larger bursts."""
DECISION_SECONDS = 2.0
"""How long a packet may take to be counted."""


class AdaptiveTest(FabricTest):
    """Two adaptive classes, and a destination behind two ports."""

    def setUp(self) -> None:
        super().setUp()
        for dscp, queue in ((0, 0), (HIGH_DSCP, HIGH_QUEUE)):
            self.control.insert(
                TRAFFIC_CLASS.entry(
                    {"dscp": dscp}, queue=queue, spray=SPRAY["adaptive"], trimmable=0, mlfq=0
                )
            )
        for port in PORTS:
            if not self.manager.exports:
                self.control.insert(QUEUE_ACCOUNTING.entry({"egress_port": port}))
            self.control.insert(
                ADAPTIVE_NEXT_HOP.entry(
                    {"egress_port": port}, src_mac=switch_mac(port), dst_mac=host_mac(port)
                )
            )
        self.route(f"{FAR_IP}/32", PATHS[0])
        self.acceptable(*PATHS)

    def acceptable(self, *ports: int, slots: int | None = None) -> None:
        """Which ports lead to the destination."""
        self.control.insert(acceptable(f"{FAR_IP}/32", *ports, slots=slots))

    def fill(self, port: int, size: int, dscp: int = 0) -> None:
        """Puts a number of bytes into a queue of a port whose link is busy."""
        full, rest = divmod(size, FULL_FRAME_BYTES)
        lengths = [FULL_FRAME_BYTES] * full
        if 0 < rest < LEAST_FRAME_BYTES:
            lengths[-1] -= LEAST_FRAME_BYTES
            rest += LEAST_FRAME_BYTES
        frames = (tcp(host_ip(port), dscp=dscp, length=n) for n in [*lengths, rest] if n)
        self.send(1, *frames)

    def expect_counts(self, **packets: int) -> None:
        """Checks how many packets took a port of each kind, on both paths together."""
        counters = {"most": TOOK_MOST_FAVOURED, "favoured": TOOK_FAVOURED, "any": TOOK_ANY}
        for kind, counter in counters.items():
            found = sum(self.control.counter(counter, port).packets for port in PORTS)
            self.assertEqual(found, packets.get(kind, 0), kind)


class UnloadedTest(AdaptiveTest):
    """Links without a limit, on which nothing waits."""

    def ports_taken(self, packets: int, destination: str = FAR_IP) -> Tally[int]:
        """Sends packets of one flow, and says how many left by each port."""
        frame = tcp(destination)
        tally: Tally[int] = Tally()
        for _ in range(packets // AT_ONCE):
            self.send(1, *([frame] * AT_ONCE))
            for _ in range(AT_ONCE):
                port, received = self.receive_anywhere()
                self.assertEqual(received, routed(frame, port))
                tally[port] += 1
        return tally


class Uniform(UnloadedTest):
    """Equal ports are taken equally often by the packets of one flow: chi-square over three ports.
    That all stay most favoured shows that the bytes of what has left are taken away."""

    def runTest(self) -> None:
        self.route("10.9.0.2/32", 2)
        self.control.insert(acceptable("10.9.0.2/32", 2, 3, 4))
        packets = 600
        tally = self.ports_taken(packets, "10.9.0.2")
        self.assertEqual(set(tally), {2, 3, 4})
        expected = packets / 3
        chi_square = sum((n - expected) ** 2 / expected for n in tally.values())
        self.assertLess(chi_square, 20.7, tally)  # two degrees of freedom: exceeded once in 31,000
        self.expect_counts(most=packets)


class FailedLink(UnloadedTest):
    """A port whose bit is not set is not taken, nor is the one that `route` chose."""

    def runTest(self) -> None:
        self.route("10.9.0.2/32", 2)
        self.control.insert(acceptable("10.9.0.2/32", 2, 3, 4, slots=0b110))
        tally = self.ports_taken(100, "10.9.0.2")
        self.assertEqual(set(tally), {3, 4})
        self.control.modify(acceptable("10.9.0.2/32", 2, 3, 4, slots=0b100))
        self.assertEqual(set(self.ports_taken(50, "10.9.0.2")), {4})
        self.control.modify(acceptable("10.9.0.2/32", 2, 3, 4, slots=0))
        self.assertEqual(set(self.ports_taken(50, "10.9.0.2")), {2})


class EightPorts(UnloadedTest):
    """All slots of an entry can be used, the last one too, and a port may be in two."""

    def runTest(self) -> None:
        self.route("10.9.0.2/32", 2)
        self.control.insert(acceptable("10.9.0.2/32", 1, 1, 1, 2, 3, 4, 5, 6))
        tally = self.ports_taken(400, "10.9.0.2")
        self.assertEqual(set(tally), set(PORTS))
        self.assertGreater(tally[1], max(tally[port] for port in PORTS if port != 1))


class OtherClasses(UnloadedTest):
    """Classes that are not adaptive keep the port of their flow."""

    def runTest(self) -> None:
        self.control.modify(
            TRAFFIC_CLASS.entry({"dscp": 0}, queue=0, spray=SPRAY[False], trimmable=0, mlfq=0)
        )
        self.assertEqual(self.ports_taken(50), {PATHS[0]: 50})
        self.expect_counts()


class Thresholds(UnloadedTest):
    """Both come from the table; "below" is strict, so that 0 favours no port."""

    def thresholds(self, most_favoured: int, favoured: int) -> None:
        self.control.modify(
            ADAPTIVE_THRESHOLDS.default(most_favoured_bytes=most_favoured, favoured_bytes=favoured)
        )

    def runTest(self) -> None:
        self.thresholds(0, 1_000_000)
        self.ports_taken(50)
        self.expect_counts(favoured=50)
        self.thresholds(0, 0)
        self.assertEqual(set(self.ports_taken(100)), set(PATHS))
        self.expect_counts(favoured=50, any=100)


class LoadedTest(AdaptiveTest):
    """Both paths are busy with a frame that takes half a minute; what follows it, waits."""

    needs = frozenset({Feature.SLOW_PORT, Feature.PORT_SCHEDULER})
    manager = BLOCKED

    def setUp(self) -> None:
        super().setUp()
        for port in PATHS:
            self.occupy(port, tcp(host_ip(port), length=FULL_FRAME_BYTES))

    def choose(self, dscp: int = 0) -> int:
        """Sends a packet of `LEAST_FRAME_BYTES` to the destination; the path that it took."""
        before = self._taken()
        self.send(1, tcp(FAR_IP, dscp=dscp, length=LEAST_FRAME_BYTES))
        deadline = time.monotonic() + DECISION_SECONDS
        while time.monotonic() < deadline:
            now = self._taken()
            changed = [port for port in PATHS if now[port] != before[port]]
            if changed:
                return changed[0]
        raise AssertionError(f"no path was taken within {DECISION_SECONDS} s")

    def _taken(self) -> dict[int, int]:
        kinds = (TOOK_MOST_FAVOURED, TOOK_FAVOURED, TOOK_ANY)
        return {p: sum(self.control.counter(k, p).packets for k in kinds) for p in PATHS}


class Vectors(LoadedTest):
    """The sets that the drain bytes of two ports leave, at both thresholds to the byte."""

    def runTest(self) -> None:
        self.fill(2, 16_384)
        self.fill(3, 16_383)
        self.assertEqual(self.choose(), 3)
        self.expect_counts(most=1)
        self.choose()  # both have 16 KB or more now
        self.expect_counts(most=1, favoured=1)
        below = 65_535 - 16_384 - 2 * LEAST_FRAME_BYTES
        self.fill(2, below)  # 65,535 at most, if it has taken the packet before
        self.fill(3, 70_000 - 16_384)
        self.assertEqual(self.choose(), 2)
        self.expect_counts(most=1, favoured=2)
        self.fill(2, 200)
        self.assertEqual({self.choose() for _ in range(30)}, set(PATHS))
        self.expect_counts(most=1, favoured=2, any=30)


class AtTheSecondThreshold(LoadedTest):
    """65,535 bytes are favoured, 65,536 are not."""

    def runTest(self) -> None:
        self.fill(2, 65_535)
        self.fill(3, 65_536)
        self.assertEqual(self.choose(), 2)
        self.expect_counts(favoured=1)


class BytesOfLowerClasses(LoadedTest):
    """They are behind a packet of a higher class, and count only for their own and lower ones."""

    def runTest(self) -> None:
        self.fill(2, 70_000)
        self.fill(3, 20_000, dscp=HIGH_DSCP)
        self.assertEqual({self.choose(dscp=HIGH_DSCP) for _ in range(20)}, {2})
        self.expect_counts(most=20)
        self.assertEqual({self.choose() for _ in range(20)}, {3})
        self.expect_counts(most=20, favoured=20)


class Marking(LoadedTest):
    """CE above the threshold, not at it; only classes that have an entry, with the bytes of all
    classes above them."""

    def runTest(self) -> None:
        self.control.insert(DRAIN_MARKING.entry({"queue": 0}, threshold_bytes=65_536))
        self.fill(2, 40_000, dscp=HIGH_DSCP)
        self.fill(2, 25_536)
        self.send(1, tcp(host_ip(2), ecn=Ecn.ECT0, length=LEAST_FRAME_BYTES))
        self.send(1, tcp(host_ip(2), ecn=Ecn.ECT1, length=LEAST_FRAME_BYTES))  # finds more
        self.send(1, tcp(host_ip(2), ecn=Ecn.NOT_ECT, length=LEAST_FRAME_BYTES))
        self.send(1, tcp(host_ip(2), ecn=Ecn.ECT0, dscp=HIGH_DSCP, length=LEAST_FRAME_BYTES))
        self.send(1, tcp(FAR_IP, ecn=Ecn.ECT0, length=LEAST_FRAME_BYTES))  # takes the other path
        self.expect_count(TOOK_MOST_FAVOURED, 3, 1)
        self.expect_count(DRAIN_MARKED, 2, 1)
        self.expect_count(DRAIN_MARKED, 3, 0)


class MarkedFrames(AdaptiveTest):
    """The bytes of marked packets."""

    needs = frozenset({Feature.SLOW_PORT, Feature.PORT_SCHEDULER})
    manager = TrafficManager(rate_bps=100_000, slow_ports=(2,))

    def runTest(self) -> None:
        self.control.insert(DRAIN_MARKING.entry({"queue": 0}, threshold_bytes=1_000))
        busy, first, second, third = (
            tcp(host_ip(2), sport=1000 + i, ecn=Ecn.ECT0, length=1_000) for i in range(4)
        )
        self.occupy(2, busy)
        self.send(1, first, second, third)  # they find 0, 1,000 and 2,000 bytes
        self.expect(2, *(routed(f, 2) for f in (busy, first, second)), ce_marked(routed(third, 2)))


class ExportedVectors(Vectors):
    """The same by the bytes that the target shows in the register."""

    needs = Vectors.needs | {Feature.QUEUE_EXPORT}
    manager = EXPORTING


class ExportedBytesOfLowerClasses(BytesOfLowerClasses):
    """The same by the bytes that the target shows in the register."""

    needs = BytesOfLowerClasses.needs | {Feature.QUEUE_EXPORT}
    manager = EXPORTING


class ExportedMarking(Marking):
    """The same by the bytes that the target shows in the register."""

    needs = Marking.needs | {Feature.QUEUE_EXPORT}
    manager = EXPORTING


class PausedPath(AdaptiveTest):
    """A path whose neighbour has paused the class fills until it is not favoured any more; the
    other one carries the rest."""

    needs = frozenset({Feature.QUEUE_EXPORT, Feature.PFC})
    manager = TrafficManager(
        queues=(Queue(0, lossless=True), Queue(HIGH_QUEUE, lossless=True)),
        pfc={"pause_bytes": 100_000, "resume_bytes": 50_000},
        exports=(QUEUE_DRAIN,),
    )

    def runTest(self) -> None:
        self.control.modify(
            ADAPTIVE_THRESHOLDS.default(most_favoured_bytes=3_000, favoured_bytes=3_000)
        )
        self.send(3, pfc({0: 0xFFFF}, host_mac(3)))
        while not self.target.pauses(3, 0):
            self.target.check_alive()
        frame = tcp(FAR_IP, length=1_000)
        for _ in range(60):
            self.send(1, frame)
            time.sleep(0.002)  # the port that is not paused is empty again
        # The paused port is below 3,000 bytes for three packets; all others take the other one.
        self.expect(2, *[routed(frame, 2)] * 57)
        self.expect_count(TOOK_MOST_FAVOURED, 3, 3)
        self.expect_count(TOOK_MOST_FAVOURED, 2, 57)
        self.send(3, pfc({0: 0}, host_mac(3)))
        self.expect(3, *[routed(frame, 3)] * 3)
