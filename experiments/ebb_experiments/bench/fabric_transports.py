"""The permutation of `fabric_net` as real transfers: an object from every host to another one."""

from __future__ import annotations

import dataclasses
import json
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ebb_controller.scheme import Scheme, load_scheme
from ebb_topologies.dilation import Dilation
from ebb_topologies.processes import Process

from ebb_experiments.bench.fabric_net import (
    START_SECONDS,
    BenchFabric,
    Cpu,
    sleep_until,
)
from ebb_experiments.bench.machine import process_cpu_s
from ebb_experiments.run.agents import Agent, AgentError, Agents, Line, agent_parameters

DILATION = Dilation(10)
"""How much slower than the schemes' 1 Gbit/s and 10 us the links of 100 Mbit/s and 100 us are."""
MTU_BYTES = 1500
AGENT_COALESCE_US = 250
"""How long what arrives or is due waits for more at the agents."""
WINDOW_PACKETS = 64
"""Initial window of the receiver-driven schemes: it has to cover the time that processes need to
wake each other, too, which a network of hardware does not have."""
CATCH_UP_PACKETS = 8
"""How many packets a process that comes late may send at once; the queues of ndp hold no more."""
SLOWEST = 20
"""A flow is given up after this many times its duration at line rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfers:
    """Transfers of one object per host, all at the same time."""

    scheme: str
    object_bytes: int
    goodput_bps: list[float]
    """Goodput of each flow that finished, from its start to its last acknowledgment."""
    failed: int
    seconds: float
    """Time from the common start to the end of the last flow."""
    counters: dict[str, int]
    drops: dict[str, int]
    cpu: Cpu
    agents_cpu_s: float

    @property
    def mean_bps(self) -> float:
        return sum(self.goodput_bps) / max(1, len(self.goodput_bps))

    def as_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def transfer(fabric: BenchFabric, name: str, line_bps: int, seconds: float) -> Transfers:
    """Sends objects that take `seconds` at line rate."""
    scheme = load_scheme(name)
    fabric.configure(scheme.fabric)
    size = round(line_bps * seconds / 8)
    agents, own = _agents(fabric, name, scheme, line_bps)
    receivers = [
        agents.start(host.name, f"recv-{host.name}", "recv", *own(host.name))
        for host in fabric.topology.hosts
    ]
    for receiver in receivers:
        receiver.wait_ready()
    before = fabric.drops()
    start_ns = time.monotonic_ns() + round(START_SECONDS * 1e9)
    senders = [
        agents.start(
            *(source.name, f"send-{source.name}", "send", *own(source.name), to.ip),
            *("--generate", str(size), "--seed", str(seed), "--start-at-ns", str(start_ns)),
        )
        for seed, (source, to) in enumerate(fabric.pairs)
    ]
    processes = [agent.process for agent in (*senders, *receivers)]
    sleep_until(start_ns - 200_000_000)
    fabric.run_first(processes)
    sleep_until(start_ns)
    cpu_before, agents_before = fabric.cpu(), _cpu(processes)
    agents_after = dict(agents_before)
    limit = time.monotonic() + SLOWEST * seconds + 10
    while any(agent.process.running for agent in senders) and time.monotonic() < limit:
        # An agent that has ended cannot be asked any more.
        agents_after |= _cpu(processes)
        time.sleep(0.02)
    cpu = fabric.cpu() - cpu_before
    elapsed = (time.monotonic_ns() - start_ns) / 1e9
    records = [_last(sender) for sender in senders]
    fabric.net.processes.stop([receiver.process for receiver in receivers])
    finished = [record for record in records if record["status"] == "finished"]
    counters: Counter[str] = Counter()
    for record in records:
        counters.update({key: record[key] for key in ("packets_sent", "retransmitted", "timeouts")})
    return Transfers(
        scheme=name,
        object_bytes=size,
        goodput_bps=[record["object_bytes"] * 8e9 / record["duration_ns"] for record in finished],
        failed=len(records) - len(finished),
        seconds=elapsed,
        counters=dict(counters),
        drops=dict(fabric.drops() - before),
        cpu=cpu,
        agents_cpu_s=sum(agents_after.values()) - sum(agents_before.values()),
    )


def _agents(
    fabric: BenchFabric, name: str, scheme: Scheme, line_bps: int
) -> tuple[Agents, Callable[[str], list[str]]]:
    """The agents, and a function that gives the options of an engine of a host."""
    binary = fabric.context.agent
    nominal = agent_parameters(
        binary,
        scheme,
        rate_bps=round(line_bps * DILATION.factor),
        mtu_bytes=MTU_BYTES,
        catch_up_packets=CATCH_UP_PACKETS,
    )
    parameters: dict[str, Any] = DILATION.slow(nominal)
    parameters["engine"] |= {"coalesce_microseconds": AGENT_COALESCE_US}
    for section in ("ndp", "scdp"):
        parameters[section]["initial_window_packets"] = WINDOW_PACKETS
    path = fabric.directory / f"{name}.json"
    path.write_text(json.dumps(parameters, indent=1))

    def own(host: str) -> list[str]:
        (port,) = fabric.topology.neighbours[host]
        engine = ["--interface", f"{host}-eth{port}", "--params", str(path)]
        return [*engine, "--scheme", scheme.transport]

    return Agents(fabric.net, binary, fabric.directory / "records", name), own


def _last(sender: Agent) -> Line:
    """The record of a sender that has ended, whether its flow failed or not."""
    records = [line for line in sender.lines() if line["event"] == "flow"]
    if sender.process.running or not records:
        raise AgentError(str(sender.process.died()))
    return records[-1]


def _cpu(processes: list[Process]) -> dict[int, float]:
    return {p.popen.pid: process_cpu_s(p.popen.pid) for p in processes if p.running}
