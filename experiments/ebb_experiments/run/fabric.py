"""Switches and hosts in namespaces of this machine, connected by Mininet, and their controller."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ebb_controller.controller import Controller
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.multicast import MulticastGroup
from ebb_controller.program import Program
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Switch, Topology
from ebb_topologies.targets import Target

from ebb_experiments.run.loop import LoopThread


class Fabric:
    """Up for as long as the block lasts. Needs root."""

    net: FabricNet
    controller: Controller
    managers: TrafficManagers | None
    """None: the switches are BMv2's, which have no link rates and no queue statistics."""

    def __init__(
        self,
        topology: Topology,
        target: Target,
        program: Program,
        directory: Path,
        loop: LoopThread,
        *,
        pcap: bool = False,
        rings: bool = False,
        config_file: Callable[[Switch], Path | None] = lambda _switch: None,
    ) -> None:
        self.topology = topology
        """As slow as it runs."""
        self.target = target
        self.program = program
        self.directory = directory
        """Its run directory: `FabricNet` keeps logs and process ids there."""
        self.loop = loop
        """Fabrics of one process share it, because grpcio's is bound to the first."""
        self.pcap = pcap
        self.rings = rings
        """Whether agents share rings with the switches, where these are one process of ours."""
        self.config_file = config_file
        """Makes the traffic-manager file that a switch starts with; none: the usual one."""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._start(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, stack: ExitStack) -> None:
        loop = self.loop
        _ = self.program.schema  # a program that cannot be used shows before anything has started
        net = FabricNet(
            self.topology,
            self.target,
            self.directory,
            self.config_file,
            pcap=self.pcap,
            program=self.program.files(),
            rings=self.rings,
        )
        self.net = stack.enter_context(net)
        self.managers = None
        if self.target.has_traffic_manager:
            self.managers = managers = TrafficManagers(self.topology)
            stack.callback(lambda: loop.run(managers.close()))
        self.controller = stack.enter_context(
            loop.inside(
                Controller(
                    self.topology,
                    self.program,
                    "packets" if self.managers is None else "bytes",
                    traffic_managers=self.managers,
                )
            )
        )

    def configure(
        self, parameters: FabricParameters, groups: Sequence[MulticastGroup] = ()
    ) -> None:
        """Queues and tables of every switch."""
        if self.managers is None:
            parameters = parameters.without_traffic_manager()
        self.loop.run(self.controller.configure(parameters, groups))
