"""The tour: every scheme moves a file across pods, then meets an incast on a loaded port."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace

from ebb_topologies.files import write
from ebb_topologies.model import Host, Topology

from ebb_experiments.agents import Agent, AgentRunner, wait_all
from ebb_experiments.fabric import Fabric, same_file
from ebb_experiments.load import Load
from ebb_experiments.measure import FabricCounts, Flow
from ebb_experiments.storage import STORAGE_TRANSPORTS, StorageResult, store

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Round:
    """One incast: the synchronised flows, and all flows with the background's."""

    incast: list[Flow]
    flows: list[Flow]
    fabric: FabricCounts


@dataclass(frozen=True, slots=True)
class SchemeResult:
    """What one scheme did."""

    file: Flow
    file_fabric: FabricCounts
    rounds: list[Round]
    storage: StorageResult | None = None

    @property
    def flows(self) -> list[Flow]:
        """Of the two phases that every scheme runs."""
        return [self.file, *(flow for round_ in self.rounds for flow in round_.flows)]

    @property
    def incast(self) -> list[Flow]:
        return [flow for round_ in self.rounds for flow in round_.incast]

    @property
    def loads(self) -> list[Load]:
        """How busy the machine was, in every phase."""
        counts = [self.file_fabric, *(round_.fabric for round_ in self.rounds)]
        if self.storage is not None:
            counts += [self.storage.write.fabric, self.storage.read.fabric]
        return [each.load for each in counts if each.load is not None]

    @property
    def incast_fabric(self) -> FabricCounts:
        return FabricCounts.total([round_.fabric for round_ in self.rounds])


@dataclass
class Roles:
    """Who does what: spread over the fabric so that flows meet at the receiver's port only."""

    file_from: Host
    file_to: Host
    receiver: Host
    background: Host
    senders: list[Host]

    @classmethod
    def of(cls, topology: Topology, senders: int) -> Roles:
        first, *others, last = topology.hosts
        # The background flow comes from the far end, the senders from everywhere between.
        step = max(1, len(others) // senders)
        chosen = others[::step][:senders]
        chosen += [h for h in others if h not in chosen][: senders - len(chosen)]
        return cls(first, last, receiver=first, background=last, senders=chosen)


def probe(fabric: Fabric) -> Load:
    """One incast with the scheme that has most packets, to see whether the machine keeps up."""
    schemes = fabric.scenario.schemes
    pulling = [name for name in schemes if schemes[name].transport in STORAGE_TRANSPORTS]
    name = [*pulling, *schemes][0]
    fabric.configure(schemes[name])
    agents = fabric.agents("calibration", schemes[name])
    roles = Roles.of(fabric.topology, fabric.scenario.spec.incast.senders)
    load = _incast(fabric, agents, roles, 0, faults=False).fabric.load
    assert load is not None
    return load


def run_scheme(fabric: Fabric, name: str, progress: Progress) -> SchemeResult:
    scheme = fabric.scenario.schemes[name]
    progress("tables and queues")
    fabric.configure(scheme)
    agents = fabric.agents(name, scheme)
    roles = Roles.of(fabric.topology, fabric.scenario.spec.incast.senders)
    progress(f"file {fabric.scenario.spec.file.bytes / 1e6:g} MB")
    file_flow, file_fabric = _file(fabric, agents, roles)
    count = fabric.scenario.spec.incast.rounds
    rounds = []
    for index in range(count):
        progress(f"incast {len(roles.senders)} to 1, round {index + 1}/{count}")
        rounds.append(_incast(fabric, agents, roles, index))
    stored = None
    if fabric.scenario.spec.storage is not None and scheme.transport in STORAGE_TRANSPORTS:
        progress("storage")
        stored = store(fabric, agents)
    return SchemeResult(file_flow, file_fabric, rounds, stored)


def _file(fabric: Fabric, agents: AgentRunner, roles: Roles) -> tuple[Flow, FabricCounts]:
    spec = fabric.scenario.spec
    source = fabric.net.run_dir / "files" / f"{agents.prefix}.bin"
    source.parent.mkdir(exist_ok=True)
    content = random.Random(spec.seed).randbytes(spec.file.bytes)
    write(source, content)
    directory = fabric.net.run_dir / "received" / agents.prefix
    receiver = agents.receiver(roles.file_to.name, directory)
    receiver.wait_ready()
    before = fabric.start_counting()
    start = fabric.start_time()
    sender = agents.sender(roles.file_from.name, "file", roles.file_to.name, source, start)
    limit = fabric.time_limit(spec.file.bytes)
    with fabric.faults.during(agents.prefix, "file", start):
        sent = wait_all([sender], limit)
        (flow,) = fabric.collect(sent, receiver, limit)
    counts = fabric.counts(before, roles.file_to)
    arrived = directory / source.name
    if flow.ok and not same_file(arrived, content):
        flow = replace(flow, ok=False, why=f"{arrived} differs from what was sent")
    return flow, counts


def _incast(
    fabric: Fabric, agents: AgentRunner, roles: Roles, index: int, *, faults: bool = True
) -> Round:
    spec = fabric.scenario.spec.incast
    receiver = agents.receiver(roles.receiver.name)
    receiver.wait_ready()
    before = fabric.start_counting()
    start = fabric.start_time()
    lead = round(fabric.dilation.time(spec.background_lead_ns))
    to = roles.receiver.name
    sending: list[Agent] = [
        agents.sender(
            host.name,
            f"incast{index}-{host.name}",
            to,
            spec.bytes,
            start_at_ns=start + lead,
            seed=fabric.scenario.spec.seed + 1000 * index + number,
        )
        for number, host in enumerate(roles.senders)
    ]
    if spec.background_bytes:
        name, size = f"background{index}", spec.background_bytes
        host = roles.background.name
        sending.append(
            agents.sender(
                host, name, to, size, start, seed=fabric.scenario.spec.seed + 1000 * index + 999
            )
        )
    total = len(roles.senders) * spec.bytes + spec.background_bytes
    limit = fabric.time_limit(total)
    happening = fabric.faults.during(agents.prefix, f"incast{index}", start)
    with happening if faults else nullcontext():
        sent = wait_all(sending, limit)
        flows = fabric.collect(sent, receiver, limit)
    return Round(flows[: len(roles.senders)], flows, fabric.counts(before, roles.receiver))
