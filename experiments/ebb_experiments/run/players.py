"""Senders of the objects of a phase under the wall clock: agents that play the workload themselves,
or a command of `ebb-agent` for each transfer."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any, Protocol

from ebb_topologies.files import InputError, write
from ebb_topologies.hosts import host_list

from ebb_experiments.results.flows import SHARED
from ebb_experiments.run.agents import Agent, AgentError, Agents, Line, task_parameters, transports
from ebb_experiments.run.run import Task
from ebb_experiments.run.tenants import hypervisor, machines

LEAD_SECONDS = 3.0
"""Time that agents get to come up and prepare, before the schedule that they play begins."""
START_SECONDS = 0.4
"""Time that commands get to come up and wait for their common start."""
SETTLE_NS = 2_000_000
"""Nominal time between that and the first transfer."""
GRACE_SECONDS = 60.0
"""Time after the limit at which agents end by themselves if they are not stopped."""
BEYOND_LIMIT = 1.2
"""An object that a link cannot carry until the limit is cut to this times what it can: an agent
makes its content and hash before it sends."""
FOLDERS = ("files", "served", "received")
"""Folders of `Commands`: what is sent, what may be fetched, and what has arrived."""
SENDS = ("send-one-to-one", "send-one-to-many")
FETCHES = ("fetch-one-to-one", "fetch-many-to-one")
REPORTED = ("flow", "transfer")
"""Events of agents that a player reports."""


@dataclass(frozen=True)
class Plan:
    """Work of a phase, with its files."""

    task: Task
    agents: Agents
    parameters: dict[str, Any]
    """Parameters of the agents, dilated."""

    @classmethod
    def of(cls, task: Task, agents: Agents) -> Plan:
        """Writes the files of a task, and returns the plan."""
        for folder in FOLDERS:  # receivers overwrite nothing
            shutil.rmtree(task.directory / folder, ignore_errors=True)
        task.directory.mkdir(parents=True, exist_ok=True)
        dilation, nominal = task.loaded.dilation, task_parameters(agents.binary, task)
        plan = cls(task, agents, dilation.slow(nominal))
        workload = within(task.phase_round.workload(task.seed), task.loaded.spec.limit_ns)
        write(plan.file("params"), json.dumps(plan.parameters, indent=1))
        write(plan.file("workload"), json.dumps(dilation.slow(workload)))
        write(plan.file("hosts"), json.dumps(host_list(task.loaded.topology)))
        plan.departures.unlink(missing_ok=True)
        for host, vms in machines(task.loaded, task.scheme).items():
            keys = hypervisor(task.loaded) | {"departures": str(plan.departures), "vms": vms}
            write(plan.file(f"vms-{host}"), json.dumps(keys))
        return plan

    def file(self, name: str) -> Path:
        """Path of a file of the task."""
        return self.task.directory / f"{name}.json"

    @property
    def departures(self) -> Path:
        """Where hosts note when packets of virtual machines conformed."""
        return self.task.directory / "departures"

    @property
    def transport(self) -> str:
        """Name of the transport."""
        return self.task.loaded.schemes[self.task.scheme].transport

    def transport_of(self, line: Line) -> str:
        """The transport that carries a transfer."""
        return self.task.transport_of.get(line["traffic"], self.transport)

    def sends_to_groups(self, line: Line) -> bool:
        """Whether a transfer to several hosts is one flow."""
        return transports(self.agents.binary)[self.transport_of(line)].groups

    @cached_property
    def schedule(self) -> list[Line]:
        """The transfers, as every agent computes them."""
        command = [str(self.agents.binary), "workload", str(self.file("workload"))]
        command += ["--hosts", str(self.file("hosts"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            error = done.stderr.strip().replace(command[2], self.task.phase_round.traffic.place)
            raise AgentError(f"the workload: {error}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def receivers(self) -> list[tuple[str, ...]]:
        """Sets of hosts that something is sent to all at once, if that takes groups."""
        several = [
            line
            for line in self.schedule
            if line["kind"] == "send-one-to-many" and self.sends_to_groups(line)
        ]
        return list(dict.fromkeys(tuple(sorted(line["destinations"])) for line in several))

    def counts(self, traffic: str | None) -> bool:
        """Whether a phase ends with this part of the workload."""
        ends_with = self.task.loaded.spec.ends_with
        return not ends_with or traffic in ends_with

    @cached_property
    def arrivals(self) -> int:
        """How many objects have to arrive before the phase ends."""
        counted = (line for line in self.schedule if self.counts(line["traffic"]))
        return sum(len(line["destinations"]) for line in counted)


class Player(Protocol):
    """Who moves the objects of a `Plan`."""

    @property
    def plan(self) -> Plan:
        """The plan, with the transfers of the schedule."""

    def prepare(self) -> None:
        """Everything that can be done before the clock runs."""

    def start(self) -> int:
        """Returns what the schedule calls 0 (CLOCK_MONOTONIC)."""

    def done(self) -> bool:
        """Whether everything has arrived that the phase ends with, or never will. To be asked again
        and again."""

    def settled(self) -> bool:
        """Whether both ends of all flows have reported their end."""

    def lines(self) -> list[Line]:
        """Lines of flows that have ended, and of transfers that came to none
        (docs/workloads.md)."""

    def end(self) -> None:
        """Takes down what `prepare` has put up, the agents apart. Called whatever happened."""


@dataclass
class AgentWorkloads:
    """`ebb-agent bench` on every host, which plays its share of the workload."""

    plan: Plan
    looked_at: Counter[str] = field(default_factory=Counter, init=False)
    """Lines that have been looked at for it, by what the agent's process is called."""

    def prepare(self) -> None:
        """Nothing: the agents check their workload themselves."""

    def _played(self, host: str) -> tuple[str, ...]:
        """Options that say whose shares the agent of a host plays: its own, or those of its virtual
        machines, whose frames go over the interface."""
        tenancy = self.plan.task.loaded.tenancy
        if tenancy is not None and host in tenancy.by_host:
            return ("--vms", str(self.plan.file(f"vms-{host}")))
        return ("--self", host, *self.plan.agents.ring(host))

    def start(self) -> int:
        """Starts an agent on each host. Returns the start of the traffic, on CLOCK_MONOTONIC."""
        start_ns = time.monotonic_ns() + round(LEAD_SECONDS * 1e9)
        task = self.plan.task
        patience = task.loaded.dilation.time(task.loaded.spec.limit_ns) + GRACE_SECONDS * 1e9
        for index, host in enumerate(task.loaded.topology.hosts):
            self.plan.agents.start(
                *(host.name, host.name, "bench", "--json", "--lateness"),
                *("--transport", self.plan.transport, *self._played(host.name)),
                *(f"--transport-of={name}={each}" for name, each in task.transport_of.items()),
                *("--workload", str(self.plan.file("workload"))),
                *("--hosts", str(self.plan.file("hosts"))),
                *("--params", str(self.plan.file("params"))),
                *("--start-at-ns", str(start_ns), "--protocol-seed", str(task.seed + index)),
                *("--patience-ns", str(round(patience))),
            )
        return start_ns

    def done(self) -> bool:
        """Whether all hosts have done their shares."""
        # The agents stay for those who may have missed the end.
        for agent in self.plan.agents.started:
            lines, name = agent.lines(), agent.process.name
            for line in lines[self.looked_at[name] :]:
                self._look_at(line)
            self.looked_at[name] = len(lines)
        return not self.to_come

    @cached_property
    def to_come(self) -> dict[int, int]:
        """At how many destinations each transfer has yet to end, of those that the phase ends with;
        without those that have ended."""
        lines = (line for line in self.plan.schedule if self.plan.counts(line["traffic"]))
        return {line["id"]: len(line["destinations"]) for line in lines}

    def _look_at(self, line: Line) -> None:
        number = line.get("transfer")
        if line["event"] not in REPORTED or number not in self.to_come:
            return
        if line.get("role") == "receiver":
            self.to_come[number] -= 1
        elif line["event"] == "transfer" and line["status"] != "unfinished":
            self.to_come[number] = 0  # it came to no flow, and will come to none
        elif line["status"] == "failed" and line["kind"] not in SHARED:
            self.to_come[number] = 0  # the other end may never report it
        if self.to_come[number] <= 0:
            del self.to_come[number]

    def settled(self) -> bool:
        """False: agents report both ends by themselves."""
        return False

    def lines(self) -> list[Line]:
        """Lines about flows and transfers so far."""
        lines = (line for agent in self.plan.agents.started for line in agent.lines())
        return [line for line in lines if line["event"] in REPORTED]

    def end(self) -> None:
        """Nothing: the agents end with the plan."""


@dataclass
class Commands:
    """A daemon on every host that takes part, and a command for each transfer; objects are files,
    and what has arrived is compared with what was sent by our own SHA-256."""

    plan: Plan
    start_ns: int = 0
    waiting: list[Line] = field(default_factory=list)
    """Fetches that are not due yet, in the order of time."""
    running: dict[int, Agent] = field(default_factory=dict)
    """Commands under way, by transfer."""

    def prepare(self) -> None:
        """Checks that the schedule can be made of commands."""
        label = self.plan.task.phase_round.title
        for line in self.plan.schedule:
            if line["kind"] not in (*SENDS, *FETCHES) or line.get("after"):
                raise InputError(
                    f"phase {label}: '{line['traffic']}' has a {line['kind']} that "
                    'waits for others or for an answer: objects = "files" cannot do that, '
                    '"generated" can'
                )
        hosts = {h for line in self.plan.schedule for h in self._ends(line)}
        for line in self.plan.schedule:
            self._make_file(line)
        daemons = [self._daemon(i, host) for i, host in enumerate(sorted(hosts))]
        for daemon in daemons:
            daemon.wait_ready()

    def start(self) -> int:
        """Starts daemons and commands. Returns the start of the traffic, on CLOCK_MONOTONIC."""
        dilation = self.plan.task.loaded.dilation
        lead_ns = START_SECONDS * 1e9 + dilation.time(SETTLE_NS)
        self.start_ns = time.monotonic_ns() + round(lead_ns)
        for line in self.plan.schedule:
            if line["kind"] in SENDS:
                self._send(line)
            else:
                self.waiting.append(line)
        return self.start_ns

    def done(self) -> bool:
        """Starts fetches that are due. Whether all transfers have ended."""
        now = time.monotonic_ns()
        while self.waiting and self.start_ns + self.waiting[0]["start_ns"] <= now:
            self._fetch(self.waiting.pop(0))
        left = [line for line in self.plan.schedule if self._is_open(line)]
        return all(not self.plan.counts(line["traffic"]) for line in left)

    def _is_open(self, line: Line) -> bool:
        """Whether the command of a transfer is yet to be started, or runs."""
        command = self.running.get(line["id"])
        return command is None or bool(command.process.running)

    def settled(self) -> bool:
        """Both ends of every flow have reported; never, if a command has failed."""
        ends = Counter((line["id"], flow["role"]) for flow, line in self._flows())
        return all(
            ends[line["id"], "receiver"] >= len(line["destinations"])
            and ends[line["id"], "sender"] >= len(line["sources"])
            for line in self.plan.schedule
        )

    def lines(self) -> list[Line]:
        """Lines about flows so far; transfers whose command has failed have one too."""
        ended = [line for line in self.plan.schedule if not self._is_open(line)]
        return [*starmap(self._checked, self._flows()), *map(self._failed, ended)]

    def end(self) -> None:
        """Nothing: daemons and commands end with the plan."""

    def _flows(self) -> Iterator[tuple[Line, Line]]:
        """Lines about flows, each with the line of its transfer in the schedule. A flow that a
        daemon and the command that it served both report is there once."""
        by_name = {self._name(line): line for line in self.plan.schedule}
        seen: set[tuple[Any, ...]] = set()
        for agent in self.plan.agents.started:
            for flow in agent.lines():
                if flow["event"] != "flow" or flow["name"] not in by_name:
                    continue
                key = tuple(flow[key] for key in ("role", "local", "peer", "session"))
                if key not in seen:
                    seen.add(key)
                    yield flow, by_name[flow["name"]]

    def _checked(self, flow: Line, line: Line) -> Line:
        """A line about a flow, with the keys of its transfer; of a receiver, whether the file that
        has arrived is the one that was sent."""
        offered = None if line["kind"] in FETCHES else self.start_ns + line["start_ns"]
        flow = flow | self._about(line) | {"offered_at_ns": offered}
        if flow["role"] == "receiver" and flow["status"] == "finished":
            (host,) = (h for h in line["destinations"] if self._at(h, flow["local"]))
            there = self._folder("received", host) / self._name(line)
            flow["sha256_ok"] = same_file(there, self._source(line))
        return flow

    def _at(self, host: str, address: str) -> bool:
        return self.plan.task.loaded.topology.host(host).ip == address.partition(":")[0]

    def _failed(self, line: Line) -> Line:
        """A line for a transfer whose command has ended; it counts if there is no flow of it."""
        why = str(self.running[line["id"]].process.died())
        return self._about(line) | {"event": "transfer", "status": "failed", "reason": why}

    @staticmethod
    def _about(line: Line) -> Line:
        return {"transfer": line["id"]} | {k: line[k] for k in ("job", "traffic", "kind", "bytes")}

    @staticmethod
    def _ends(line: Line) -> Sequence[str]:
        return (*line["sources"], *line["destinations"])

    def _name(self, line: Line) -> str:
        return f"{self.plan.task.phase_round.label}-{line['id']}.bin"

    def _source(self, line: Line) -> Path:
        return self._folder("files") / self._name(line)

    def _folder(self, *names: str) -> Path:
        folder = self.plan.task.directory.joinpath(*names)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _make_file(self, line: Line) -> None:
        content = random.Random(f"{self.plan.task.seed}-{self._name(line)}")
        write(self._source(line), content.randbytes(line["bytes"]))
        if line["kind"] in FETCHES:
            for host in line["sources"]:
                os.link(self._source(line), self._folder("served", host) / self._name(line))

    def _daemon(self, index: int, host: str) -> Agent:
        """Starts the daemon of a host: one engine, and so one link and one pull queue, for all its
        transfers."""
        (port,) = self.plan.task.loaded.topology.neighbours[host]
        return self.plan.agents.start(
            *(host, f"run-{host}", "run", "--lateness", "--interface", f"{host}-eth{port}"),
            *("--params", str(self.plan.file("params"))),
            *("--protocol-seed", str(self.plan.task.seed + index)),
            *("--dir", str(self._folder("received", host))),
            *("--serve", str(self._folder("served", host))),
            *self.plan.agents.ring(host),
        )

    def _send(self, line: Line) -> None:
        (source,) = line["sources"]
        many = len(line["destinations"]) > 1 and not self.plan.sends_to_groups(line)
        self._command(
            *(line, source, "send", "--start-at-ns", str(self.start_ns + line["start_ns"])),
            *(("--unicast",) if many else ()),
            *(str(self._source(line)), *self._addresses(line["destinations"])),
        )

    def _fetch(self, line: Line) -> None:
        (host,) = line["destinations"]
        to = self._folder("received", host) / self._name(line)
        self._command(
            *(line, host, "fetch", self._name(line), "--output", str(to)),
            *("--from", *self._addresses(line["sources"])),
        )

    def _command(self, line: Line, host: str, command: str, *arguments: str) -> None:
        transport = self.plan.transport_of(line)
        common = ["--json", "--transport", transport, "--priority", str(line["priority"])]
        name = f"{command}-{host}-{line['id']}"
        self.running[line["id"]] = self.plan.agents.start(host, name, command, *common, *arguments)

    def _addresses(self, hosts: Sequence[str]) -> Iterator[str]:
        return (self.plan.task.loaded.topology.host(host).ip for host in hosts)


def within(workload: dict[str, Any], limit_ns: int) -> dict[str, Any]:
    """The workload with objects of fixed size no longer than a link carries until the limit."""
    most = round(workload["link_rate_bps"] * limit_ns / 8e9 * BEYOND_LIMIT)
    traffic = []
    for each in workload.get("traffic", ()):
        size = each.get("size", {})
        if size.get("type") == "fixed" and size["bytes"] > most:
            each = each | {"size": size | {"bytes": most}}
        traffic.append(each)
    return workload | {"traffic": traffic}


def same_file(one: Path, other: Path) -> bool:
    """Whether both are there and have the same SHA-256; ours, not the agent's word."""
    return one.exists() and _sha256(one) == _sha256(other)


def _sha256(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()
