# SPDX-License-Identifier: Apache-2.0
"""Packets and bytes per port, read over P4Runtime."""

from __future__ import annotations

from ebb_controller.mechanisms.counters import PORT_IN, PORT_OUT
from fabric_test import FabricTest
from frames import host_ip, routed, tcp


class PacketsAndBytes(FabricTest):
    """Counters of what came in and what went out, by port."""

    def runTest(self) -> None:
        frames = [tcp(host_ip(3), length=length) for length in (60, 600, 1514)]
        self.send(2, *frames)
        self.expect(3, *(routed(frame, 3) for frame in frames))
        for counter, port in ((PORT_IN, 2), (PORT_OUT, 3)):
            count = self.control.wait_for_count(counter, port, len(frames))
            self.assertEqual((count.packets, count.bytes), (3, 60 + 600 + 1514), counter.name)
        for counter, port in ((PORT_IN, 3), (PORT_OUT, 2)):
            self.assertEqual(self.control.counter(counter, port).packets, 0, counter.name)
