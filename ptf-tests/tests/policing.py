# SPDX-License-Identifier: Apache-2.0
"""Policing: which packets of a burst conform, and what becomes of the others. Meters that fill with
time are a test of the engine (docs/policing.md); here they fill with 1 byte/s, which is nothing."""

from __future__ import annotations

from ebb_controller.mechanisms.policing import (
    EXCESS,
    POLICED_RED,
    POLICED_YELLOW,
    POLICING,
    Excess,
)
from ebb_scapy import Dscp
from fabric_test import FabricTest
from finsy import P4MeterConfig, P4TableAction, P4TableEntry, P4TableMatch
from frames import SENDER_IP, host_ip, routed, udp, with_ipv4

BEST_EFFORT_DSCP = 8
BEST_EFFORT_QUEUE = 1
BYTES = 1_000
"""Length of each frame without FCS, which is what a meter counts."""


class PolicingTest(FabricTest):
    """The sender at port 1 sends to host 2."""

    program = "fabric_tenants"

    def contract(
        self, excess: Excess, *, burst: int, peak_burst: int, port: int = 1, src: str = SENDER_IP
    ) -> None:
        """Bytes that a host at a port may send at once: CBS and PBS."""
        self.control.insert(
            P4TableEntry(
                POLICING.name,
                match=P4TableMatch({"ingress_port": port, "src": src}),
                action=P4TableAction(
                    "police",
                    excess=EXCESS[excess],
                    dscp_value=BEST_EFFORT_DSCP,
                    queue_index=BEST_EFFORT_QUEUE,
                ),
                meter_config=P4MeterConfig(cir=1, cburst=burst, pir=1, pburst=peak_burst),
            )
        )

    def frames(self, count: int) -> list[bytes]:
        """Frames that differ in their ports."""
        return [udp(host_ip(2), sport=1000 + i, length=BYTES) for i in range(count)]

    def expect_colours(self, yellow: int, red: int) -> None:
        """Checks how many packets did not conform."""
        self.expect_count(POLICED_YELLOW, 1, yellow)
        self.expect_count(POLICED_RED, 1, red)


class DropsToTheByte(PolicingTest):
    """Three frames are the burst; a byte less, and they are not."""

    def runTest(self) -> None:
        self.contract("drop", burst=3 * BYTES, peak_burst=100 * BYTES)
        frames = self.frames(5)
        self.send(1, *frames)
        self.expect(2, *(routed(frame, 2) for frame in frames[:3]))
        self.send(3, frames[4])  # from a port without a contract
        self.expect(2, routed(frames[4], 2))
        self.expect_drops("not-conforming", 2)
        self.expect_colours(yellow=2, red=0)


class AByteLess(PolicingTest):
    """A frame that does not fit takes no token, so that a shorter one still conforms."""

    def runTest(self) -> None:
        self.contract("drop", burst=3 * BYTES - 1, peak_burst=100 * BYTES)
        frames = self.frames(3)
        short = udp(host_ip(2), sport=1, length=BYTES - 1)
        self.send(1, *frames, short)
        self.expect(2, *(routed(frame, 2) for frame in (*frames[:2], short)))
        self.expect_colours(yellow=1, red=0)


class TooFast(PolicingTest):
    """The peak rate is looked at first: red packets take nothing of the burst (RFC 2698)."""

    def runTest(self) -> None:
        self.contract("drop", burst=100 * BYTES, peak_burst=2 * BYTES)
        frames = self.frames(5)
        self.send(1, *frames)
        self.expect(2, *(routed(frame, 2) for frame in frames[:2]))
        self.expect_colours(yellow=0, red=3)
        self.expect_drops("not-conforming", 3)


class OnlyCounted(PolicingTest):
    """All frames leave as they would."""

    def runTest(self) -> None:
        self.contract("count", burst=2 * BYTES, peak_burst=3 * BYTES)
        frames = self.frames(5)
        self.send(1, *frames)
        self.expect(2, *(routed(frame, 2) for frame in frames))
        self.expect_colours(yellow=1, red=2)
        self.expect_drops("not-conforming", 0)


class BestEffort(PolicingTest):
    """Packets beyond the contract get the DSCP of best effort, with a right checksum."""

    def runTest(self) -> None:
        self.classes()
        self.contract("best-effort", burst=2 * BYTES, peak_burst=100 * BYTES)
        frames = [
            udp(host_ip(2), sport=1000 + i, dscp=Dscp.CONTROL, length=BYTES) for i in range(4)
        ]
        for frame in frames[:2]:
            self.send(1, frame)
            self.expect(2, routed(frame, 2))
        for frame in frames[2:]:
            self.send(1, frame)
            self.expect(2, routed(with_ipv4(frame, b1=BEST_EFFORT_DSCP << 2), 2))
        self.expect_colours(yellow=2, red=0)


class OthersAreNotPoliced(PolicingTest):
    """A contract is of an address at a port."""

    def runTest(self) -> None:
        self.contract("drop", burst=BYTES, peak_burst=BYTES, port=3)
        self.contract("drop", burst=BYTES, peak_burst=BYTES, src=host_ip(3))
        frames = self.frames(4)
        self.send(1, *frames)
        self.expect(2, *(routed(frame, 2) for frame in frames))
        self.expect_colours(yellow=0, red=0)
