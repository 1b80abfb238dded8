"""`ebb-simulator` as a context manager: a network that stands still until a command runs it.

While it stands still its switches serve P4Runtime like real ones, so the controller configures
them as it does on Mininet. Everything here is in the simulator's units: slowed by the dilation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

from ebb_controller.mechanisms import FabricParameters
from ebb_controller.program import Program
from ebb_topologies.files import write
from ebb_topologies.hosts import host_entry
from ebb_topologies.model import Topology
from ebb_topologies.run_state import FABRIC_SOCKET
from ebb_topologies.targets import CPU_PORT, DROP_PORT

from ebb_experiments.run.conversation import Conversation, Line, SimulatorError


class Sink(Protocol):
    """Takes lines: a list, or a table that keeps less of them."""

    def append(self, line: Line, /) -> None:
        """Takes a line."""
        ...


WORKLOAD = "workload.json"
"""Name of the workload file, which lies beside the network file."""


@dataclass(frozen=True, slots=True)
class Group:
    """Receivers of one-to-many transfers; the network must know them before the clock runs."""

    address: str
    receivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a simulation."""

    at_ns: int
    packet_hops: int
    events: int
    ended: int
    """Transfers that have ended, failed ones included."""
    unfinished: int
    """Transfers that have not, those yet to start included."""
    skipped_ns: int = field(default=0, kw_only=True)
    """Time that has been skipped, which is part of `at_ns`."""


@dataclass(frozen=True, slots=True)
class Pause(Progress):
    """Progress when the clock has stopped."""

    seconds: float
    """Real time for which the clock has run since the start, s."""


@dataclass
class Simulator:
    """A network in virtual time."""

    binary: Path
    topology: Topology
    transport: str
    transport_of: Mapping[str, str]
    """Transports of parts of the workload that have another one, by the names of the parts."""
    parameters: dict[str, Any]
    """Parameters of the agents, as `ebb-agent params` shows them."""
    program: Program
    """Program of the switches from the start."""
    queues: FabricParameters
    """Parameters of the switches, of which only the queues are used before the controller comes."""
    workload: dict[str, Any]
    """Keys of a workload file, dilated."""
    directory: Path
    """Folder for the network file and the simulator's log."""
    seed: int = 1
    threads: int = 0
    """Threads; 0: as many as there are processors. The result does not depend on it."""
    workload_place: str = WORKLOAD
    """Name of the file of the workload in messages."""
    coding_bps: int = 0
    """Rate at which a host codes a block of SCDP or Trevi, bit/s; 0: instantly."""
    vms: Mapping[str, Sequence[Line]] = field(default_factory=dict[str, list[Line]])
    """Virtual machines of hosts, by name, as the network file has them."""
    host_keys: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Keys of the network file about hosts: patience, time per packet, forgeries."""
    content: str = "zeros"
    skip: bool = False
    """Whether rounds that repeat each other are skipped."""
    faults: bool = False
    """Whether links, restarts and captures are served (`ebb.fabric.v1`)."""
    loopback: str = "127.0.0.1"
    """IP address at which everything is served."""
    records: Sink = field(default_factory=list[Line])
    """Gets ended flows, at both ends, and transfers without one, in the simulator's units."""
    ends_with: Sequence[str] = ()
    """Parts of the workload whose end is the end of a run until flows end; empty: all parts."""
    arrivals_every_ns: int = 0
    """Period of the samples of arrived bytes of every object, ns; 0: none."""
    arrivals: Sink = field(default_factory=list[Line])
    """Gets `arrivals` lines: of an object when it has ended, or at the report."""
    samples: Sink = field(default_factory=list[Line])
    """Gets queue depths, in the simulator's units: `sampling` lines, and `sample` lines after
    each."""
    nics: list[Line] = field(default_factory=list)
    """Set by the report: counts of the NICs of hosts that obey PFC, in the simulator's units."""
    tenants: Sink = field(default_factory=list[Line])
    """Gets `delays` lines, of packets between virtual machines, at the report."""
    hypervisors: list[Line] = field(default_factory=list)
    """Set by the report: counts of the hypervisor of each host with virtual machines."""
    skips: list[Line] = field(default_factory=list)
    """Set by the report: rounds skipped of each part of the workload, if skipping is on."""
    meanwhile: Callable[[], None] = lambda: None
    """Called while it starts."""
    groups: list[Group] = field(default_factory=list)
    """Multicast groups of the transfers to come."""
    transfers: int = 0
    """Number of transfers to come."""
    used_threads: int = 0
    """Threads that the simulator uses, from its answer."""
    _sockets: TemporaryDirectory[str] | None = None
    _conversation: Conversation | None = None

    def network(self) -> dict[str, Any]:
        """Content of the network file."""
        switches = [
            {
                "name": switch.name,
                "device_id": switch.device_id,
                "grpc_server_addr": self.address,
                "cpu_port": CPU_PORT,
                "drop_port": DROP_PORT,
                "traffic_manager": self.program.queues(self.topology, switch, self.queues.ports),
            }
            for switch in self.topology.switches
        ]
        labels = {h.name: host_entry(self.topology, h.name) for h in self.topology.hosts}
        hosts = [
            {
                "name": h.name,
                "ip": h.ip,
                "mac": h.mac,
                "gateway_mac": h.gateway_mac,
                "rack": labels[h.name]["rack"],
                "pod": labels[h.name]["pod"],
                "rate_bps": self.topology.link(h).rate_bps,
                **({"vms": vms} if (vms := self.vms.get(h.name)) else {}),
            }
            for h in self.topology.hosts
        ]
        links = [
            [
                {"node": end.node, "port": 0 if self.topology.is_host(end.node) else end.port}
                for end in link.ends
            ]
            for link in self.topology.links
        ]
        return {
            "transport": self.transport,
            **({"transport_of": dict(self.transport_of)} if self.transport_of else {}),
            "params": self.parameters,
            "seed": self.seed,
            "switches": switches,
            "program": self.program.files(),
            "hosts": hosts,
            "links": links,
            "coding_bps": self.coding_bps,
            "content": self.content,
            "workload": WORKLOAD,
            **self.host_keys,
            **({"ends_with": list(self.ends_with)} if self.ends_with else {}),
            **({"skip": True} if self.skip else {}),
            **({"arrivals_every_ns": n} if (n := self.arrivals_every_ns) else {}),
            **({"fabric_socket": str(self.fabric_socket)} if self.faults else {}),
        }

    @property
    def address(self) -> str:
        """Address at which all switches serve P4Runtime: one connection is enough for them, and
        opening many takes longer than their use."""
        return f"{self.loopback}:{self.topology.switches[0].grpc_port}"

    def __enter__(self) -> Simulator:
        self.directory.mkdir(parents=True, exist_ok=True)
        file = self.directory / "network.json"
        write(file, json.dumps(self.network()))
        write(self.directory / WORKLOAD, json.dumps(self.workload))
        log = self.directory / "simulator.log"
        places = {str(self.directory / WORKLOAD): self.workload_place}
        self._conversation = Conversation(self.binary, file, log, self.threads, places)
        try:
            self.meanwhile()
            ready = self._running.next("ready")
        except BaseException:
            self._end(patience=0.0)
            raise
        self.used_threads = ready["threads"]
        self.transfers = ready["transfers"]
        self.groups = [Group(g["address"], tuple(g["receivers"])) for g in ready["groups"]]
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        # During a run it does not read orders, so it would not notice their end.
        self._end(patience=5.0 if kind is None else 0.0)

    def run(
        self,
        until_ns: int,
        *,
        until_flows_end: bool = False,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> Pause:
        """Lets the clock run until `until_ns`, or with `until_flows_end` until shortly after the
        last flow has ended."""
        self._running.order({"do": "run", "until_ns": until_ns, "flows": until_flows_end})
        for line in self._running.lines():
            match line["event"]:
                case "progress":
                    del line["event"]
                    on_progress(Progress(**line))
                case "flow" | "transfer":
                    self.records.append(line)
                case "arrivals":
                    self.arrivals.append(line)
                case "sampling" | "sample":
                    self.samples.append(line)
                case "paused":
                    del line["event"]
                    return Pause(**line)
                case other:
                    raise SimulatorError(f"the simulator said `{other}` while it was running")
        raise self._running.died()

    def sample(self, every_ns: int, queues: Sequence[tuple[str, int, int]]) -> None:
        """Samples queues, as (switch, port, queue), every `every_ns` from now on."""
        names = [{"switch": s, "port": port, "queue": queue} for s, port, queue in queues]
        self._running.order({"do": "sample", "every_ns": every_ns, "queues": names})

    def report(self) -> str:
        """Ends all samples, gets the lines of transfers that have not ended and of all that is
        reported at the end, and returns the hash of the trace."""
        self._running.order({"do": "report"})
        for line in self._running.lines():
            match line["event"]:
                case "flow" | "transfer" | "open":
                    self.records.append(line)
                case "skipping":
                    del line["event"]
                    self.skips.append(line)
                case "arrivals":
                    self.arrivals.append(line)
                case "sampling" | "sample":
                    self.samples.append(line)
                case "delays":
                    self.tenants.append(line)
                case "hypervisor":
                    del line["event"]
                    self.hypervisors.append(line)
                case "nic":
                    del line["event"]
                    self.nics.append(line)
                case "end":
                    return str(line["trace_hash"])
                case other:
                    raise SimulatorError(f"the simulator said `{other}` instead of a report")
        raise self._running.died()

    def finish(self) -> None:
        """Lets it end by itself: there are no more orders, and its services are not used any more.
        Leaving the context waits for its end: the next one may be at the same address."""
        self._running.finish()

    @property
    def fabric_socket(self) -> Path:
        """Socket of the fabric service, in a folder of this user's: the path of a socket has at
        most 107 bytes, which `directory` may exceed."""
        if self._sockets is None:
            self._sockets = TemporaryDirectory(prefix="ebb-")
        return Path(self._sockets.name) / FABRIC_SOCKET

    @property
    def pid(self) -> int:
        """Process id, for measurements of its processor time and memory."""
        return self._running.pid

    @property
    def _running(self) -> Conversation:
        if self._conversation is None:
            raise SimulatorError("the simulator has not been started")
        return self._conversation

    def _end(self, patience: float = 5.0) -> None:
        """Ends the simulator, if it has not ended."""
        sockets, self._sockets = self._sockets, None
        if sockets is not None:
            sockets.cleanup()
        conversation, self._conversation = self._conversation, None
        if conversation is not None:
            conversation.end(patience)
