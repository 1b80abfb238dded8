# SPDX-License-Identifier: Apache-2.0
"""Base class of the packet tests: a fresh switch per test, and checks that name bytes.

That nothing else was sent is checked without waiting for silence: a last packet (`sentinel`) takes
the same way, and must be the next one out.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

import ptf
import tna_differences
from control_plane import ControlPlane, TnaControlPlane
from ebb_controller.drop_reason import REASONS
from ebb_controller.mechanism import Counter, Register
from ebb_controller.mechanisms.counters import DROPPED, PORT_OUT
from ebb_controller.mechanisms.route import IPV4_ROUTE, SET_MULTICAST_GROUP, next_hop
from ebb_controller.mechanisms.traffic_class import TRAFFIC_CLASS
from ebb_controller.mechanisms.trimming import TRIMMING
from ebb_controller.tna import COMPOSITIONS
from ebb_scapy import Dscp, Ecn
from finsy import P4IndirectAction, P4TableAction
from frames import FULL_FRAME_BYTES, host_ip, host_mac, routed, switch_mac, tcp, udp
from ptf.base_tests import BaseTest
from ptf.testutils import test_params_get
from scapy.layers.l2 import Ether
from targets import TARGETS, Feature, Target, TrafficManager
from testbed import PORTS, switch_interface

ADDRESS = "127.0.0.1:9559"
"""Where the switch serves P4Runtime, in the namespace of the tests."""
START_SECONDS = 20.0
"""How long the switch may take to start."""
ARRIVAL_SECONDS = 5.0
"""How long a frame may take, over a slow port too."""

CONTROL_QUEUE = 7
"""Queue of control packets and of trimmed ones, served first."""
DATA_QUEUE = 0
"""Queue of data unless a test says otherwise, served last."""


TNA_PROGRAMS = {
    "adaptive_routing": "fabric_adaptive",
    "drop_notification": "fabric_notification",
    "policing": "fabric_tenants",
    "return_to_sender": "fabric_trimming",
    "trimming": "fabric_trimming",
    "void_frames": "fabric_tenants",
    "volume_counters": "fabric_tenants",
}
"""The program of p4src/tna for the tests of a module; all others that use v1model's first program
take the first one."""
FCS_BYTES = 4
"""Bytes of the frame check sequence, which Tofino counts."""


class FabricTest(BaseTest):  # type: ignore[misc]
    """Starts the switch with `manager` and `program`, with a route to host n on every port n."""

    needs: ClassVar[frozenset[Feature]] = frozenset()
    """Abilities that the target must have; otherwise the test is skipped with the reason."""
    program: ClassVar[str] = "fabric"
    """The program of p4src, without `.p4`."""
    manager: ClassVar[TrafficManager] = TrafficManager()
    """Queues and rates of the ports."""

    target: Target
    """The switch, as a process."""
    control: ControlPlane
    """The switch, over P4Runtime."""
    tna: bool
    """Whether the program is one of p4src/tna."""

    def setUp(self) -> None:
        super().setUp()
        parameters = test_params_get()
        self.target = TARGETS[parameters["target"]](
            Path(parameters["switch"]), Path(parameters["work_dir"])
        )
        for feature in sorted(self.needs, key=lambda f: f.name):
            reason = self.target.lacks_now(feature)
            if reason is not None:
                self.skipTest(f"SKIP: {self.target.name}: {reason}")
        self.dataplane = ptf.dataplane_instance
        ports = {port: switch_interface(port) for port in PORTS}
        self.addCleanup(self.target.stop)
        self.target.start(ports, self.manager, ADDRESS)
        work_dir = Path(parameters["work_dir"])
        self.tna = parameters["architecture"] == "tna"
        program = self._tna_program() if self.tna else self.program
        self._connect(work_dir / f"{program}.p4info.txtpb", work_dir / f"{program}.json")
        self.target.configure(self.manager)
        self.dataplane.flush()
        for port in PORTS:
            self.route(f"{host_ip(port)}/32", port)

    def _tna_program(self) -> str:
        """The program of p4src/tna that has the mechanism of the test."""
        module = type(self).__module__
        if self.program != FabricTest.program and module not in TNA_PROGRAMS:
            self.skipTest(f"SKIP: p4src/tna has no {self.program}")
        differs = tna_differences.reason(module, type(self).__name__)
        if differs is not None:
            self.skipTest(f"SKIP: p4src/tna: {differs}")
        return TNA_PROGRAMS.get(module, COMPOSITIONS[0].name)

    def _connect(self, p4info: Path, program: Path) -> None:
        deadline = time.monotonic() + START_SECONDS
        if self.tna:
            chip = next(c.chip for c in COMPOSITIONS if c.name == program.stem)
            self.control = TnaControlPlane(ADDRESS, p4info, program, chip, self.manager.rate_bps)
        else:
            self.control = ControlPlane(ADDRESS, p4info, program)
        self.addCleanup(self.control.close)
        while not self.control.connect():
            self.target.check_alive()
            if time.monotonic() > deadline:
                self.fail(f"no P4Runtime on {ADDRESS} after {START_SECONDS} s: {self.target.log}")

    # Tables

    def route(self, prefix: str, *ports: int) -> None:
        """Installs a route over one port, or over all of them as an ECMP group."""
        members = [(1, next_hop(port, switch_mac(port), host_mac(port))) for port in ports]
        self.control.insert(IPV4_ROUTE.entry_for({"dst": prefix}, P4IndirectAction(members)))

    def route_to_group(self, address: str, group: int, ports: list[int]) -> None:
        """Installs a multicast group of these ports, and the route of its address."""
        self.control.multicast_group(group, ports)
        to_group = P4TableAction(SET_MULTICAST_GROUP, group=group)
        self.control.insert(IPV4_ROUTE.entry_for({"dst": f"{address}/32"}, to_group))

    def trim(self, size: int, dscp: int = Dscp.TRIMMED) -> None:
        """Has all ports keep `size` bytes of what they trim."""
        self.control.modify(TRIMMING.default(size=size, dscp_value=dscp, queue_index=CONTROL_QUEUE))

    def classes(self, *, data_queue: int = DATA_QUEUE, spray: bool = False, mlfq: int = 0) -> None:
        """Installs the traffic classes of docs/wire-format.md."""

        def add(dscp: int, queue: int, *, trimmable: bool = False, mode: int = 0) -> None:
            self.control.insert(
                TRAFFIC_CLASS.entry(
                    {"dscp": dscp},
                    queue=queue,
                    spray=int(spray and dscp != 0),
                    trimmable=int(trimmable),
                    mlfq=mode,
                )
            )

        add(Dscp.DEFAULT, DATA_QUEUE)
        add(Dscp.TRIMMABLE, data_queue, trimmable=True, mode=mlfq)
        for dscp in (Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP, Dscp.CONTROL):
            add(dscp, CONTROL_QUEUE)

    # Packets

    def send(self, port: int, *frames: bytes) -> None:
        """Sends frames into a port of the switch."""
        for frame in frames:
            self.dataplane.send(0, port, frame)

    def occupy(self, port: int, frame: bytes) -> None:
        """Sends the first frame to a slow port, and waits until it is on the link."""
        self.send(1, frame)
        self.expect_count(PORT_OUT, port, 1)

    def queue_up(self, *frames: bytes) -> None:
        """Keeps the slow port 2 busy and queues the frames; the busy frame is consumed."""
        busy = tcp(host_ip(2), length=FULL_FRAME_BYTES)
        self.occupy(2, busy)
        self.send(1, *frames)
        self.expect(2, routed(busy, 2))

    def burst(self, *ecns: Ecn) -> list[bytes]:
        """Sends a frame that keeps the slow port 2 busy, then one per ECN value, which differ in
        their TCP ports; returns all as they leave if nothing happens to them."""
        frames = [
            tcp(host_ip(2), sport=1000 + i, ecn=ecn, length=FULL_FRAME_BYTES)
            for i, ecn in enumerate([Ecn.NOT_ECT, *ecns])
        ]
        self.occupy(2, frames[0])
        self.send(1, *frames[1:])
        return [routed(frame, 2) for frame in frames]

    def receive(self, port: int, seconds: float = ARRIVAL_SECONDS) -> bytes:
        """The next frame out of a port."""
        result = self.dataplane.poll(device_number=0, port_number=port, timeout=seconds)
        if not isinstance(result, self.dataplane.PollSuccess):
            self.target.check_alive()
            self.fail(f"port {port}: nothing came within {seconds} s")
        return bytes(result.packet)

    def receive_anywhere(self) -> tuple[int, bytes]:
        """The next frame out of any port."""
        result = self.dataplane.poll(device_number=0, timeout=ARRIVAL_SECONDS)
        if not isinstance(result, self.dataplane.PollSuccess):
            self.target.check_alive()
            self.fail(f"nothing came out of any port within {ARRIVAL_SECONDS} s")
        return result.port, bytes(result.packet)

    def expect(self, port: int, *frames: bytes) -> None:
        """Checks that these frames come out of a port, in this order, byte for byte, with nothing
        between."""
        for i, frame in enumerate(frames):
            received = self.receive(port)
            if received != frame:
                self.fail(
                    f"port {port}, frame {i + 1} of {len(frames)}\n{_difference(frame, received)}"
                )

    def expect_nothing_more(self, ports: Iterable[int] = PORTS) -> None:
        """Checks that no frame waits or is on its way out of these ports, apart from a last one
        that it sends."""
        for port in ports:
            source = next(p for p in PORTS if p != port)
            sentinel = udp(host_ip(port), sport=9, length=60 + port)
            self.send(source, sentinel)
            self.expect(port, routed(sentinel, port))

    # Counters

    def expect_count(self, counter: Counter, index: int, packets: int) -> None:
        """Checks that a counter has this many packets, at once or within some seconds."""
        count = self.control.wait_for_count(counter, index, packets)
        self.assertEqual(count.packets, packets, f"{counter.name}[{index}]")

    def register(self, register: Register, index: int) -> int:
        """A cell of a register (REGISTERS)."""
        told = self.target.register(self.control.full_name(register), index)
        return self.control.register(register, index)[0] if told is None else told

    def counted(self, *frames: bytes) -> int:
        """Bytes that a counter has of these frames: those of the wire, on Tofino with FCS."""
        return sum(len(frame) + (FCS_BYTES if self.tna else 0) for frame in frames)

    def expect_drops(self, reason: str, packets: int) -> None:
        """Checks that the program dropped this many packets for this reason."""
        self.expect_count(DROPPED, REASONS[reason], packets)


def _difference(expected: bytes, received: bytes) -> str:
    at = next(
        (i for i, (a, b) in enumerate(zip(expected, received, strict=False)) if a != b),
        min(len(expected), len(received)),
    )
    return (
        f"first difference at byte {at}\n"
        f"EXPECTED {len(expected)} bytes\n{Ether(expected).show(dump=True)}{expected[:96].hex()}\n"
        f"RECEIVED {len(received)} bytes\n{Ether(received).show(dump=True)}{received[:96].hex()}"
    )
