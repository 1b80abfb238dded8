"""A topology as a Mininet network: namespaces, veths and switch processes.

Mininet realises nodes and links; names, addresses and ports come from `model`. There is no shaping
by the kernel: rate, delay and queues are the switch's, where P4 can see them. A target that can has
all switches in one process; then only links to hosts are veths.
"""

from __future__ import annotations

import json
import logging
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from mininet.link import Intf as MininetIntf
from mininet.link import Link as MininetLink
from mininet.log import setLogLevel
from mininet.net import Mininet
from mininet.node import Host as MininetHost
from mininet.node import Switch as MininetSwitch

from ebb_topologies import model
from ebb_topologies.fabric_file import fabric_file
from ebb_topologies.files import InputError, link_to
from ebb_topologies.mininet_cli import FabricCLI, PromptContext
from ebb_topologies.mininet_links import ControlError, FabricControl, InnerLink, ServedLink
from ebb_topologies.processes import Process, ProcessTable, claim, end_recorded, uninterrupted
from ebb_topologies.run_state import (
    FABRIC_SOCKET,
    RINGS,
    Claim,
    made_state_folder,
    state_folder,
)
from ebb_topologies.targets import FabricTarget, Target
from ebb_topologies.traffic_manager import PortParameters, traffic_manager_config

INTERFACES_FILE = "interfaces"
"""Names and indices of the interfaces of the run, in its state, for whoever cleans up after it."""
FABRIC_FILE = "fabric.json"
"""The fabric as `ebb-switch --fabric` reads it, in the directory of the run."""
FABRIC_PROCESS = "fabric"
"""Name of the process that has all switches."""
START_SECONDS = 15.0
"""How long the switches may take, from their start, to listen on their gRPC ports."""
OFFLOADS = "rx off tx off sg off tso off gso off gro off"
"""Checksums and segmentation are never left to the (virtual) wire: a raw socket would see packets
without checksums and larger than the MTU, and TCP through the fabric would break."""


class FabricHost(MininetHost):  # type: ignore[misc]
    """A host with a /32 address behind its gateway, and no ARP and no IPv6. It forwards nothing:
    packets for its virtual machines are no business of its kernel."""

    def attach(self, host: model.Host, interface: str) -> None:
        """Configures the host; again after its interface was down, which loses all that."""
        script = [
            "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1",
            "sysctl -qw net.ipv4.conf.all.forwarding=0",
            "ip link set lo up",
            f"ip link set {interface} address {host.mac} up",
            f"ip address flush dev {interface}",
            f"ip address add {host.ip}/32 dev {interface}",
            f"ip neighbour replace {host.gateway_ip} lladdr {host.gateway_mac} "
            f"dev {interface} nud permanent",
            f"ip route replace {host.gateway_ip}/32 dev {interface}",
            f"ip route replace default via {host.gateway_ip} dev {interface} onlink",
            f"ethtool -K {interface} {OFFLOADS} >/dev/null 2>&1",
        ]
        output = self.cmd("; ".join(script)).strip()
        if output:
            raise RuntimeError(f"host {host.name}: {output}")


class HostIntf(MininetIntf):  # type: ignore[misc]
    """The interface of a host. What the kernel forgets when it goes down comes back with it."""

    on_up: Callable[[], None] | None = None
    """Called after it has been taken up; none: nothing is to be restored."""

    def ifconfig(self, *arguments: str) -> Any:
        """As the command of this name."""
        result = super().ifconfig(*arguments)
        if arguments == ("up",) and self.on_up is not None:
            self.on_up()
        return result


class FabricSwitch(MininetSwitch):  # type: ignore[misc]
    """A switch process of any target; started and stopped by `FabricNet`."""

    def start(self, controllers: Sequence[Any]) -> None:
        """Nothing to do: the process needs all links first, and all start in parallel."""


class FabricNet:
    """The running network: a context manager that leaves nothing behind."""

    def __init__(
        self,
        topology: model.Topology,
        target: Target,
        run_dir: Path,
        config_for: Callable[[model.Switch], Path | None] = lambda _switch: None,
        pcap: bool = False,
        program: Mapping[str, Any] | None = None,
        rings: bool = False,
    ) -> None:
        """`config_for` gives the traffic-manager file of a switch; none: the switch has its
        default. `program`: what the switches of one process start with, as in `fabric_file`.
        `rings`: agents share rings with the process of a fabric, beside the interfaces."""
        self.topology = topology
        self.target = target
        self.run_dir = run_dir
        self.config_for = config_for
        self.pcap = pcap
        self.program = program
        self.rings = rings
        self._claim: Claim | None = None
        self.processes = ProcessTable(run_dir)
        self.switch_processes: dict[str, Process] = {}
        """Processes by the name of their switch; the same one for all in a fabric of one
        process."""
        self.net: Any = None
        self.control: FabricControl | None = None
        """Service of a fabric of one process; none until somebody has set it, and with a process
        per switch."""
        self.prompt_context: PromptContext = PromptContext()
        """Settings of the prompt beside Mininet's own."""

    def __enter__(self) -> FabricNet:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Brings the network up. Raises `InputError` or `ProcessDied` with the reason; call `stop`
        then, too."""
        self._claim = claim(self.run_dir)
        end_recorded(self.run_dir)
        remove_interfaces(self.topology, self.run_dir)
        setLogLevel("critical")
        self.net = Mininet(controller=None, link=MininetLink, build=False)
        for host in self.topology.hosts:
            self.net.addHost(host.name, cls=FabricHost, ip=None, mac=host.mac)
        for switch in self.topology.switches:
            dpid = f"{switch.device_id:016x}"
            self.net.addSwitch(switch.name, cls=FabricSwitch, dpid=dpid, inNamespace=False)
        for link in self.topology.links:
            self._add_link(link)
            _record_interfaces(link, self.run_dir)
        self._bring_up_switch_ports()
        for host in self.topology.hosts:
            self._attach(host)
        self._start_switches()

    @property
    def fused(self) -> bool:
        """Whether one process has all switches."""
        return isinstance(self.target, FabricTarget)

    def _add_link(self, link: model.Link) -> None:
        a, b = link.ends
        nodes = (self.net[a.node], self.net[b.node], a.port, b.port)
        names = {"intfName1": a.interface, "intfName2": b.interface}
        if self.fused:
            kind = InnerLink if link in self.topology.inner_links else ServedLink
            self.net.addLink(
                *nodes,
                **names,
                cls=kind,
                ends=tuple(map(self.topology.place, link.ends)),
                control=lambda: self.control,
            )
        else:
            classes = {
                f"cls{number}": HostIntf if self.topology.is_host(end.node) else MininetIntf
                for number, end in enumerate((a, b), start=1)
            }
            self.net.addLink(*nodes, **names, **classes)

    def _attach(self, host: model.Host) -> None:
        (port,) = self.topology.neighbours[host.name]
        node, name = self.net[host.name], model.Endpoint(host.name, port).interface
        node.attach(host, name)
        interface = node.nameToIntf[name]
        # Addresses that Mininet's `pingall` and `dump` show.
        interface.ip, interface.prefixLen, interface.mac = host.ip, 32, host.mac
        if isinstance(interface, HostIntf):
            interface.on_up = lambda: node.attach(host, name)

    def _bring_up_switch_ports(self) -> None:
        script = []
        for switch in self.topology.switches:
            for end in self._interfaces_of(switch):
                name = end.interface
                script += [
                    f"echo 1 > /proc/sys/net/ipv6/conf/{name}/disable_ipv6 2>/dev/null",
                    f"ethtool -K {name} {OFFLOADS} >/dev/null 2>&1",
                    f"ip link set {name} up",
                ]
        subprocess.run(["sh", "-c", "\n".join(script)], check=True)

    def _start_switches(self) -> None:
        if isinstance(self.target, FabricTarget):
            self._start_fabric(self.target)
        else:
            for switch in self.topology.switches:
                self.start_switch(switch)
        deadline = time.monotonic() + START_SECONDS
        for switch in self.topology.switches:
            self._wait_until_listening(switch, deadline)
        self.check()  # one may have died of a port that another program listens on

    def check(self) -> None:
        """Raises `ProcessDied` if a switch has ended that was not stopped."""
        for process in list(self.switch_processes.values()):
            if not process.running:
                raise process.died()

    def start_switch(self, switch: model.Switch) -> None:
        """Starts one switch process without waiting for it; not for a fabric of one process."""
        interfaces = {end.port: end.interface for end in self._interfaces_of(switch)}
        self._check_interfaces(switch)
        command = self.target.command(
            switch, interfaces, self.config_for(switch), self._pcaps(switch.name)
        )
        self.switch_processes[switch.name] = self.processes.spawn(switch.name, command)

    def _start_fabric(self, target: FabricTarget) -> None:
        file, served = self.run_dir / FABRIC_FILE, self.fabric_socket
        if self.rings:
            self._ring_folder.mkdir(0o700, exist_ok=True)
        rings = self._ring_folder if self.rings else None
        content = fabric_file(self.topology, self._fabric_config, served, self.program, rings)
        file.write_text(json.dumps(content, indent=1))
        link_to(self.run_dir / FABRIC_SOCKET, str(served))
        for switch in self.topology.switches:
            self._check_interfaces(switch)
        command = target.fabric_command(file, self._pcaps(FABRIC_PROCESS))
        process = self.processes.spawn(FABRIC_PROCESS, command)
        self.switch_processes = dict.fromkeys((s.name for s in self.topology.switches), process)

    @property
    def fabric_socket(self) -> Path:
        """Where a fabric of one process serves its links and captures."""
        return state_folder(self.run_dir) / FABRIC_SOCKET

    @property
    def _ring_folder(self) -> Path:
        return state_folder(self.run_dir) / RINGS

    def ring_of(self, host: str) -> Path | None:
        """The socket where an agent of a host gets a ring that it shares with the switches; none:
        its frames go over the interface."""
        if not (self.rings and self.fused):
            return None
        return self._ring_folder / self.topology.attachment(self.topology.host(host)).interface

    def _fabric_config(self, switch: model.Switch) -> Path:
        """The traffic-manager file of a switch: the one it is given, or else one with the delays of
        its links, by which the process spreads the switches over threads."""
        given = self.config_for(switch)
        if given is not None:
            return given
        path = self.run_dir / "tm" / f"{switch.name}.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(traffic_manager_config(self.topology, switch, PortParameters())))
        return path

    def _check_interfaces(self, switch: model.Switch) -> None:
        for end in self._interfaces_of(switch):
            if not Path("/sys/class/net", end.interface).exists():
                raise InputError(
                    f"switch {switch.name}: interface {end.interface} is missing; it was there "
                    "when the network was built, so something else has removed it"
                )

    def _pcaps(self, name: str) -> Path | None:
        if not self.pcap:
            return None
        directory = self.run_dir / "pcaps" / name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def restart_switch(self, name: str) -> None:
        """Restarts a switch, which forgets all that it was given. Raises `ControlError`."""
        if self.control is not None:
            self.control.restart_switch(name)
            return
        if self.fused:
            raise ControlError(f"switch {name}: the fabric does not run")
        process = self.switch_processes.pop(name, None)
        if process is None:
            known = ", ".join(switch.name for switch in self.topology.switches)
            raise ControlError(f"there is no switch '{name}' to restart; switches: {known}")
        self.processes.stop([process])
        self.start_switch(self.topology.switch(name))

    def _interfaces_of(self, switch: model.Switch) -> list[model.Endpoint]:
        """The ports of a switch that are network interfaces: all, or in a fabric of one process
        those to hosts."""
        return [
            model.Endpoint(switch.name, port)
            for port, (far, _link) in self.topology.neighbours[switch.name].items()
            if not self.fused or self.topology.is_host(far.node)
        ]

    def _wait_until_listening(self, switch: model.Switch, deadline: float) -> None:
        process = self.switch_processes[switch.name]
        while True:
            if not process.running:
                raise process.died()
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", switch.grpc_port)) == 0:
                    return
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"switch {switch.name} does not listen on 127.0.0.1:{switch.grpc_port} after "
                    f"{START_SECONDS:.0f} s: {process.last_words()} (log: {process.log})"
                )
            time.sleep(0.02)

    def spawn_on(
        self, host: str, name: str, command: Sequence[str], stdout: IO[bytes] | None = None
    ) -> Process:
        """Starts a command in the namespace of a host."""
        attach = ["mnexec", "-a", str(self.net[host].pid)]
        return self.processes.spawn(name, [*attach, *command], stdout=stdout)

    def attach(self, host: str) -> None:
        """Gives a host its address and routes, again if it has lost them."""
        (port,) = self.topology.neighbours[host]
        self.net[host].attach(self.topology.host(host), f"{host}-eth{port}")

    def run_on(self, host: str, command: Sequence[str], timeout: float) -> tuple[int, str]:
        """Runs a command in the namespace of a host to its end: (exit code, output)."""
        attach = ["mnexec", "-a", str(self.net[host].pid)]
        done = subprocess.run(
            [*attach, *command], capture_output=True, text=True, timeout=timeout, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def switched_frames(self) -> tuple[int, int]:
        """Frames that came in at and went out of the interfaces of all switches so far; in a fabric
        of one process, those from and to hosts."""

        def total(counter: str) -> int:
            return sum(
                int(Path("/sys/class/net", end.interface, "statistics", counter).read_text())
                for switch in self.topology.switches
                for end in self._interfaces_of(switch)
            )

        return total("rx_packets"), total("tx_packets")

    def prompt(self) -> None:
        """Mininet's interactive prompt."""
        setLogLevel("output")
        logging.getLogger("mininet").propagate = False  # or every line appears twice
        FabricCLI(self.net, self)

    def stop(self) -> None:
        """Takes everything down; a second Ctrl-C meanwhile does not keep the rest from it."""
        if self._claim is None:
            return  # nothing of the run directory is ours
        with uninterrupted():
            self._take_down(self._claim)

    def _take_down(self, claim: Claim) -> None:
        try:
            self.processes.stop()
            self.switch_processes.clear()
        finally:
            try:
                if self.net is not None:
                    # Not Mininet's own stop: it would talk to shells that may be in the middle
                    # of a command. Namespaces go with their shells.
                    for node in (*self.net.hosts, *self.net.switches):
                        node.terminate()
                    self.net = None
            finally:
                for path in (self.run_dir / FABRIC_SOCKET, self.fabric_socket):
                    path.unlink(missing_ok=True)
                shutil.rmtree(self._ring_folder, ignore_errors=True)
                remove_interfaces(self.topology, self.run_dir)
                claim.close()
                self._claim = None


def remove_interfaces(topology: model.Topology, run_dir: Path) -> list[str]:
    """Deletes what exists in our namespace of the interfaces of this topology, and of the one that
    ran last in this directory; their peers go with them."""
    record = state_folder(run_dir) / INTERFACES_FILE
    ours = dict.fromkeys(end.interface for link in topology.links for end in link.ends)
    if record.exists():
        ours |= dict.fromkeys(_still_there(record.read_text()))
    stale = [name for name in ours if _index(name)]
    for name in stale:
        # A peer that is in the list too has gone with the first one: not an error.
        # A session of its own: Ctrl-C does not reach it.
        command = ["ip", "link", "del", name]
        subprocess.run(command, capture_output=True, check=False, start_new_session=True)
    record.unlink(missing_ok=True)
    return stale


def _still_there(record: str) -> list[str]:
    """The names in a record whose interfaces are those that were made then: others have other
    indices."""
    pairs = (line.rpartition(" ") for line in record.splitlines())
    return [name for name, _, index in pairs if index.isdecimal() and _index(name) == int(index)]


def _record_interfaces(link: model.Link, run_dir: Path) -> None:
    """Adds the ends of a link that are interfaces of our namespace."""
    with (made_state_folder(run_dir) / INTERFACES_FILE).open("a") as file:
        for end in link.ends:
            if index := _index(end.interface):
                file.write(f"{end.interface} {index}\n")


def _index(interface: str) -> int:
    """Number of an interface of our namespace, which no other gets later; 0: there is none."""
    try:
        return socket.if_nametoindex(interface)
    except OSError:
        return 0
