# SPDX-License-Identifier: Apache-2.0
"""Payload trimming by both triggers, byte for byte (docs/wire-format.md, "Trimming")."""

from __future__ import annotations

from typing import Any

from ebb_controller.mechanisms.counters import PORT_OUT
from ebb_controller.mechanisms.occupancy import OCCUPANCY_LIMIT
from ebb_controller.mechanisms.traffic_class import TRAFFIC_CLASS
from ebb_controller.mechanisms.trimming import TRIM_SENT, TRIMMED, TRIMMING
from ebb_scapy import MIN_TRIM_SIZE, Dscp, Ebb, Ecn, Type, trimmed
from fabric_test import CONTROL_QUEUE, DATA_QUEUE, FabricTest
from frames import FULL_FRAME_BYTES, ebb, host_ip, pull, routed, tcp
from scapy.layers.inet import IPOption_Router_Alert
from scapy.layers.l2 import Ether
from targets import Feature, Queue, TrafficManager

SLOW_BPS = 100_000
"""Rate of a slow port: a full frame takes 120 ms, in which more can be queued behind it."""
CAPACITY = 2
"""Packets that each data queue holds."""
TRIM_CAPACITY = 3
"""Packets that the control queue holds."""
SIZE = 128
"""Bytes that are kept of a frame."""


class TrimTest(FabricTest):
    """Ports with a queue, and what is trimmed because it does not fit."""

    def setUp(self) -> None:
        super().setUp()
        self.classes()

    def limit(self, limit_bytes: int) -> None:
        """Has the program's own counter refuse what comes to port 2 with more queued."""
        self.control.insert(OCCUPANCY_LIMIT.entry({"egress_port": 2}, limit_bytes=limit_bytes))

    def fill(self) -> list[bytes]:
        """Occupies the link and then the data queue of port 2."""
        frames = [full(symbol=1000 + i) for i in range(1 + CAPACITY)]
        self.occupy(2, frames[0])
        self.send(1, *frames[1:])
        return [routed(frame, 2) for frame in frames]


def full(**fields: Any) -> bytes:
    """A full data packet to host 2."""
    return ebb(host_ip(2), length=FULL_FRAME_BYTES, **fields)


class DeflectionTest(TrimTest):
    """Data queues of port 2 that deflect what does not fit."""

    needs = frozenset({Feature.DEFLECTION})
    manager = TrafficManager(
        queues=(
            Queue(DATA_QUEUE, capacity_packets=CAPACITY, on_full="deflect"),
            Queue(6, capacity_packets=CAPACITY, on_full="deflect"),
            Queue(CONTROL_QUEUE, capacity_packets=TRIM_CAPACITY),
        ),
        rate_bps=SLOW_BPS,
        slow_ports=(2,),
    )


class Deflected(DeflectionTest):
    """A packet that the queue refuses is cut and overtakes what is in the queue."""

    def runTest(self) -> None:
        self.trim(SIZE)
        busy, *queued = self.fill()
        late = full(symbol=5)
        self.send(1, late)
        self.expect(2, busy, trimmed(routed(late, 2), SIZE), *queued)
        self.expect_nothing_more()
        self.expect_count(TRIMMED, 2, 1)
        self.expect_count(TRIM_SENT, 2, 1)


class AnyPacketOfTheClass(DeflectionTest):
    """TCP, and packets with IPv4 options, are trimmed too; ECN bits stay, and a broken header
    checksum is not repaired."""

    def runTest(self) -> None:
        self.trim(SIZE)
        frames = [
            tcp(host_ip(2), dscp=Dscp.TRIMMABLE, ecn=Ecn.CE, length=FULL_FRAME_BYTES),
            ebb(host_ip(2), options=IPOption_Router_Alert(), length=FULL_FRAME_BYTES),
            full(type=Type.SYMBOL, flags=0x0B, entropy=0xFFFF),
        ]
        busy, *queued = self.fill()
        self.send(1, *frames)
        self.expect(2, busy, *(trimmed(routed(frame, 2), SIZE) for frame in frames), *queued)


class DamagedHeaderStaysDamaged(DeflectionTest):
    """The receiver must be able to see that the header was damaged before the trim."""

    def runTest(self) -> None:
        self.trim(SIZE)
        good = full(symbol=5)
        damaged = good[:50] + bytes([good[50] ^ 0x10]) + good[51:]  # a bit of the symbol number
        busy, *queued = self.fill()
        self.send(1, damaged)
        sound = trimmed(routed(good, 2), SIZE)
        expected = sound[:50] + bytes([sound[50] ^ 0x10]) + sound[51:]
        self.expect(2, busy, expected, *queued)


class ShortPacketsStayWhole(DeflectionTest):
    """A packet not longer than `size` leaves whole and unchanged, but through the trim queue."""

    def runTest(self) -> None:
        self.trim(SIZE)
        frames = [ebb(host_ip(2), length=n) for n in (SIZE - 1, SIZE, SIZE + 1)]
        busy, *queued = self.fill()
        self.send(1, *frames)
        short, exact, longer = (routed(frame, 2) for frame in frames)
        self.expect(2, busy, short, exact, trimmed(longer, SIZE), *queued)


class LastHop(DeflectionTest):
    """An entry for a port takes the place of the default; the smallest useful size."""

    def runTest(self) -> None:
        self.trim(SIZE)
        smallest = TRIMMING.entry(
            {"egress_port": 2},
            size=MIN_TRIM_SIZE,
            dscp_value=Dscp.TRIMMED_LASTHOP,
            queue_index=CONTROL_QUEUE,
        )
        self.control.insert(smallest)
        late = full(symbol=5)
        busy, *queued = self.fill()
        self.send(1, late)
        expected = trimmed(routed(late, 2), MIN_TRIM_SIZE, Dscp.TRIMMED_LASTHOP)
        self.expect(2, busy, expected, *queued)


class OthersAreDropped(DeflectionTest):
    """A class that is not trimmable is dropped when its queue deflects."""

    def runTest(self) -> None:
        self.trim(SIZE)
        busy, *queued = self.fill()
        self.send(1, tcp(host_ip(2), length=FULL_FRAME_BYTES))
        self.expect_drops("not-trimmable", 1)
        self.expect(2, busy, *queued)
        self.expect_nothing_more()
        self.expect_count(TRIMMED, 2, 0)


class ControlIsNeverTrimmed(DeflectionTest):
    """Control packets pass a full data queue; if their own queue refuses them they are dropped."""

    def runTest(self) -> None:
        self.trim(SIZE)
        control = [pull(host_ip(2), pull=i, length=200) for i in range(CAPACITY)]
        busy, *queued = self.fill()
        self.send(1, *control)
        self.expect(2, busy, *(routed(frame, 2) for frame in control), *queued)

        # Now control packets are in a queue that deflects.
        in_queue_6 = {"queue": 6, "spray": 0, "trimmable": 0, "mlfq": 0}
        self.control.modify(TRAFFIC_CLASS.entry({"dscp": Dscp.CONTROL}, **in_queue_6))
        first = full()
        self.send(1, first)
        self.expect_count(PORT_OUT, 2, 1 + CAPACITY + len(control) + 1)
        self.send(1, *control, pull(host_ip(2), pull=99, length=200))
        self.expect(2, routed(first, 2), *(routed(frame, 2) for frame in control))
        self.expect_nothing_more()
        self.expect_drops("not-trimmable", 1)


class EveryTrimIsAccountedFor(DeflectionTest):
    """TRIM = TX_TRIM + DROPPED_TRIM, with a trim queue that overflows."""

    needs = frozenset({Feature.DEFLECTION, Feature.QUEUE_STATISTICS})

    def runTest(self) -> None:
        self.trim(SIZE)
        late = [full(symbol=i) for i in range(TRIM_CAPACITY + 2)]
        busy, *queued = self.fill()
        self.send(1, *late)
        fitting = [trimmed(routed(frame, 2), SIZE) for frame in late[:TRIM_CAPACITY]]
        self.expect(2, busy, *fitting, *queued)
        self.expect_nothing_more()
        trims = self.control.counter(TRIMMED, 2).packets
        sent = self.control.counter(TRIM_SENT, 2).packets
        dropped = self.target.dropped(2, "deflect-failed")
        self.assertEqual((trims, sent, dropped), (len(late), TRIM_CAPACITY, 2))


class OccupancyLimit(TrimTest):
    """The trigger of stock BMv2: one packet alone is over the limit, or is not."""

    def runTest(self) -> None:
        self.trim(SIZE)
        self.limit(600)
        fits = ebb(host_ip(2), length=600)
        over = ebb(host_ip(2), length=601)
        self.send(1, fits)
        self.expect(2, routed(fits, 2))
        self.send(1, over)
        self.expect(2, trimmed(routed(over, 2), SIZE))
        for packet in (
            tcp(host_ip(2), length=FULL_FRAME_BYTES),  # not trimmable
            pull(host_ip(2), length=FULL_FRAME_BYTES),  # control
            ebb(host_ip(2), dscp=Dscp.TRIMMED, length=FULL_FRAME_BYTES),  # trimmed before
        ):
            self.send(1, packet)
            self.expect(2, routed(packet, 2))
        elsewhere = ebb(host_ip(3), length=FULL_FRAME_BYTES)  # no entry, no limit
        self.send(1, elsewhere)
        self.expect(3, routed(elsewhere, 3))
        self.expect_count(TRIMMED, 2, 1)
        self.expect_count(TRIM_SENT, 2, 1)


class OccupancyKeepsShortPackets(TrimTest):
    """The bound between whole and cut, when the program's counter is the trigger."""

    def runTest(self) -> None:
        self.trim(SIZE)
        self.limit(50)
        for length in (SIZE - 1, SIZE, SIZE + 1):
            packet = ebb(host_ip(2), length=length)
            self.send(1, packet)
            self.expect(2, trimmed(routed(packet, 2), SIZE))
        self.expect_count(TRIMMED, 2, 3)


class HeaderChecksumCarry(TrimTest):
    """The incremental update of the Ebb checksum, where its one's complement sum wraps round."""

    def runTest(self) -> None:
        self.trim(SIZE)
        self.limit(600)
        plain = Ether(full(entropy=0))[Ebb].checksum
        for checksum in (0, 1, 2, 3, 4, 5, 0xFFFB, 0xFFFE):
            # The entropy that turns the checksum of the rest into this one.
            packet = full(entropy=(plain - checksum) % 0xFFFF)
            self.assertEqual(Ether(packet)[Ebb].checksum, checksum)
            self.send(1, packet)
            self.expect(2, trimmed(routed(packet, 2), SIZE))


class OccupancyCounts(TrimTest):
    """Bytes count from ingress to egress: two fit, a third is trimmed, later one fits again."""

    needs = frozenset({Feature.SLOW_PORT})
    manager = TrafficManager(rate_bps=SLOW_BPS, slow_ports=(2,))

    def runTest(self) -> None:
        self.trim(SIZE)
        self.limit(2 * FULL_FRAME_BYTES)
        control = pull(host_ip(2))
        late = full(symbol=5)
        busy, *queued = self.fill()
        self.send(1, late, control)
        arrived = [self.receive(2) for _ in range(3 + CAPACITY)]
        expected = [busy, *queued, trimmed(routed(late, 2), SIZE), routed(control, 2)]
        self.assertEqual(sorted(arrived), sorted(expected))
        again = full(symbol=6)
        self.send(1, again)
        self.expect(2, routed(again, 2))
