"""Storage: an object is written to several replicas and read back from all of them.

SCDP writes with one multicast session and reads with one session that all replicas send to. NDP has
neither: it writes with a flow to each replica, and reads a part of the object from each. While the
write goes on, other hosts send to the first replica, so that packets are trimmed.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ebb_topologies.files import write

from ebb_experiments.agents import Agent, AgentError, AgentRunner, wait_all
from ebb_experiments.fabric import Fabric, same_file
from ebb_experiments.measure import FabricCounts, Flow, Record, join
from ebb_experiments.scenario import Storage, StorageRoles

STORAGE_TRANSPORTS = ("ndp", "scdp")


@dataclass(frozen=True, slots=True)
class Transfer:
    """A write to all replicas, or a read from all."""

    flows: list[Flow]
    """Write: one per replica. Read: one, or one per part."""
    object_bytes: int
    sent_bytes: int
    """Payload that the senders put on their links, repair symbols and repetitions included."""
    fabric: FabricCounts

    @property
    def span_ns(self) -> float | None:
        """From the start until the last one had all, nominal; None if a flow failed."""
        if not all(flow.ok for flow in self.flows):
            return None
        end = max(flow.finished_ns for flow in self.flows)
        return end - min(flow.started_ns for flow in self.flows)

    def goodput_fraction(self, rate_bps: int) -> float:
        """Of the object, counted once, as a share of a line rate."""
        span = self.span_ns
        return 0.0 if span is None else self.object_bytes * 8e9 / span / rate_bps


@dataclass(frozen=True, slots=True)
class StorageResult:
    write: Transfer
    read: Transfer
    incast: list[Flow]
    """To the first replica, during the write."""

    @property
    def flows(self) -> list[Flow]:
        return [*self.write.flows, *self.incast, *self.read.flows]


def store(fabric: Fabric, agents: AgentRunner) -> StorageResult:
    """One write and one read of the same object."""
    spec = fabric.scenario.spec.storage
    assert spec is not None
    roles = StorageRoles.of(fabric.topology, spec)
    source = fabric.net.run_dir / "files" / f"{agents.prefix}-storage.bin"
    write(source, random.Random(fabric.scenario.spec.seed + 1).randbytes(spec.bytes))
    written, incast = _write(fabric, agents, roles, source, spec)
    return StorageResult(written, _read(fabric, agents, roles, source), incast)


def _write(
    fabric: Fabric, agents: AgentRunner, roles: StorageRoles, source: Path, spec: Storage
) -> tuple[Transfer, list[Flow]]:
    directories = {host.name: _directory(fabric, agents, host.name) for host in roles.replicas}
    receivers = {name: agents.receiver(name, path) for name, path in directories.items()}
    for receiver in receivers.values():
        receiver.wait_ready()
    before = fabric.start_counting()
    start = fabric.start_time()
    writer = agents.replicator(roles.client.name, "write", list(directories), source, start)
    lead = round(fabric.dilation.time(spec.incast_lead_ns))
    crossing = [
        agents.sender(
            host.name,
            f"write-incast-{host.name}",
            roles.replicas[0].name,
            spec.incast_bytes,
            start_at_ns=start + lead,
            seed=fabric.scenario.spec.seed + 2000 + number,
        )
        for number, host in enumerate(roles.incast)
    ]
    limit = fabric.time_limit(spec.replicas * spec.bytes + len(crossing) * spec.incast_bytes)
    with fabric.faults.during(agents.prefix, "write", start):
        crossed = wait_all([writer, *crossing], limit)[1:]
    written, content = writer.records(), source.read_bytes()
    flows, incast = [], []
    for number, host in enumerate(roles.replicas):
        sent = [_to(written, str(host.ip)), *(crossed if number == 0 else ())]
        flow, *others = fabric.collect(sent, receivers[host.name], limit)
        if number > 0 and "receivers" in sent[0]:
            # One sender for all: what it did is counted with the first replica.
            flow = replace(flow, timeouts=0, retransmitted=0, returned=0)
        flows.append(_checked(flow, directories[host.name] / source.name, content))
        incast += others
    counts = fabric.counts(before, roles.replicas[0])
    sent_bytes = sum(record["payload_bytes_sent"] for record in written)
    return Transfer(flows, spec.bytes, sent_bytes, counts), incast


def _read(fabric: Fabric, agents: AgentRunner, roles: StorageRoles, source: Path) -> Transfer:
    """From where the write put it. NDP cannot take one object from several hosts: the object is cut
    into as many parts as there are replicas, and each replica sends one."""
    content = source.read_bytes()
    replicas = [host.name for host in roles.replicas]
    pieces = {source.name: (content, replicas)}
    if agents.transport != "scdp":
        size = math.ceil(len(content) / len(replicas))
        parts = [content[at : at + size] for at in range(0, len(content), size)]
        pieces = {
            f"{source.name}.{number}": (part, [host])
            for number, (part, host) in enumerate(zip(parts, replicas, strict=True))
        }
        for name, (part, (host,)) in pieces.items():
            write(_directory(fabric, agents, host) / name, part)
    servers = {host: agents.server(host, _directory(fabric, agents, host)) for host in replicas}
    client = agents.daemon(roles.client.name)
    for agent in (*servers.values(), client):
        agent.wait_ready()
    before = fabric.start_counting()
    start = time.monotonic_ns()
    arrived = {name: fabric.net.run_dir / "received" / agents.prefix / name for name in pieces}
    fetches = [
        agents.fetcher(roles.client.name, f"read-{name}", name, hosts, arrived[name])
        for name, (_, hosts) in pieces.items()
    ]
    limit = fabric.time_limit(len(content))
    with fabric.faults.during(agents.prefix, "read", start):
        received = wait_all(fetches, limit)
    flows, sent_bytes = [], 0
    for record, (name, (part, hosts)) in zip(received, pieces.items(), strict=True):
        sent = [_served(servers[host], name, limit) for host in hosts]
        sent_bytes += sum(served["payload_bytes_sent"] for served in sent)
        flow = join(_together(sent, len(part)), record, fabric.dilation)
        flows.append(_checked(flow, arrived[name], part))
    fabric.net.processes.stop([agent.process for agent in (*servers.values(), client)])
    return Transfer(flows, len(content), sent_bytes, fabric.counts(before, roles.client))


def _served(server: Agent, name: str, limit: float) -> Record:
    """What a replica says of an object that it sent."""

    def of(records: Sequence[Record]) -> list[Record]:
        return [r for r in records if r["role"] == "sender" and r["name"] == name]

    server.wait_for(lambda records: bool(of(records)), limit)
    found = of(server.records())
    if not found:
        raise AgentError(f"{server.process.name} has no record of sending {name}")
    return found[-1]


def _together(sent: Sequence[Record], object_bytes: int) -> Record:
    """Several senders of one object as if they were one."""
    first = min(sent, key=lambda record: record["started_at_ns"])
    bad = [record for record in sent if record["status"] != "finished"]
    sums = ("timeouts", "retransmitted", "returned")
    return (
        first
        | {key: sum(record.get(key, 0) for record in sent) for key in sums}
        | {"object_bytes": object_bytes}
        | ({"status": "failed", "reason": bad[0].get("reason")} if bad else {})
    )


def _to(records: Sequence[Record], ip: str) -> Record:
    """The record of the flow to a host: its own, or that of the group it is in. A straggler that
    went on alone has one of its own too, but its object began with the group."""
    groups = [record for record in records if "receivers" in record]
    own = [record for record in records if record["peer"].startswith(f"{ip}:")]
    return (groups or own)[0]


def _checked(flow: Flow, arrived: Path, content: bytes) -> Flow:
    if flow.ok and not same_file(arrived, content):
        return replace(flow, ok=False, why=f"{arrived} differs from what was sent")
    return flow


def _directory(fabric: Fabric, agents: AgentRunner, host: str) -> Path:
    """Where a replica keeps its objects."""
    return fabric.net.run_dir / "received" / agents.prefix / host
