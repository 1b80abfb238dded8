"""The host agents of a run: started in the hosts' namespaces, read line by line.

An agent prints one JSON object per line: `{"event": "ready"}` once it listens, then a record per
finished or failed flow (docs/agent-records.md), and last `{"event": "end"}` with how late it was.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebb_controller.scheme import Scheme
from ebb_topologies.files import InputError
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.processes import Process

from ebb_experiments.load import Late
from ebb_experiments.measure import Record

POLL_SECONDS = 0.02


class AgentError(Exception):
    """An agent did not do what it was started for; the message says which and why."""


@dataclass
class Agent:
    """A running `ebb-agent` and what it has printed so far."""

    process: Process
    output: Path
    check: Callable[[], None]
    """Raises if waiting has become pointless: a switch has died."""

    def lines(self) -> list[Record]:
        """Every complete line so far."""
        text = self.output.read_bytes()
        complete = text[: text.rfind(b"\n") + 1]
        return [json.loads(line) for line in complete.splitlines() if line.strip()]

    def records(self) -> list[Record]:
        return [line for line in self.lines() if line.get("event") not in ("ready", "end")]

    def late(self) -> Late:
        """How late it was, once it has ended; nothing if it was killed."""
        ends = (line for line in self.lines() if line.get("event") == "end")
        return Late.together(Late.told(line.get("lateness", {})) for line in ends)

    def wait_for(self, condition: Callable[[list[Record]], bool], seconds: float) -> None:
        """Waits for records, in vain if the agent ends or does not print them in time."""
        deadline = time.monotonic() + seconds
        while self.process.running and time.monotonic() < deadline:
            if condition(self.records()):
                return
            self.check()
            time.sleep(POLL_SECONDS)

    def wait_ready(self, seconds: float = 10.0) -> None:
        deadline = time.monotonic() + seconds
        while not any(line.get("event") == "ready" for line in self.lines()):
            if not self.process.running:
                raise AgentError(str(self.process.died()))
            self.check()
            if time.monotonic() > deadline:
                raise AgentError(
                    f"{self.process.name} is not ready after {seconds:.0f} s: "
                    f"{self.process.last_words()} (log: {self.process.log})"
                )
            time.sleep(POLL_SECONDS)


def agent_parameters(binary: Path, scheme: Scheme) -> dict[str, dict[str, Any]]:
    """Every parameter of the agent, nominal: its own defaults, then what the scheme overrides.

    All of them, because a default that is a time has to be slowed down too.
    """
    done = subprocess.run([str(binary), "params"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AgentError(f"{binary} params failed: {done.stderr.strip()}")
    parameters: dict[str, dict[str, Any]] = json.loads(done.stdout)
    for section, values in scheme.agent.items():
        known = parameters.get(section)
        if known is None:
            raise InputError(
                f"scheme {scheme.label}: the agent has no parameters [{section}]; "
                f"sections: {', '.join(parameters)}"
            )
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise InputError(
                f"scheme {scheme.label}: unknown agent parameter {section}.{unknown[0]}; "
                f"valid: {', '.join(known)}"
            )
        known.update(values)
    return parameters


@dataclass(frozen=True)
class AgentRunner:
    """Starts agents on the hosts of a network, all with the same scheme and parameters."""

    net: FabricNet
    binary: Path
    transport: str
    parameters: Path
    port: int
    prefix: str
    """Goes into process names and output files: one per scheme and phase."""
    started: list[Agent] = field(default_factory=list)
    """Whoever looks at them takes them out."""

    def receiver(self, host: str, directory: Path | None = None) -> Agent:
        arguments = ["recv", "--port", str(self.port)]
        if directory is not None:
            directory.mkdir(parents=True, exist_ok=True)
            arguments += ["--dir", str(directory)]
        return self._start(host, f"recv-{host}", arguments)

    def sender(
        self,
        host: str,
        name: str,
        to: str,
        source: Path | int,
        start_at_ns: int | None = None,
        seed: int = 1,
    ) -> Agent:
        """Sends a file, or a generated object of that size; `start_at_ns` is CLOCK_MONOTONIC."""
        what = (
            [str(source)]
            if isinstance(source, Path)
            else ["--generate", str(source), "--seed", str(seed)]
        )
        arguments = ["send"]
        if start_at_ns is not None:
            arguments += ["--start-at-ns", str(start_at_ns)]
        arguments += [*what, f"{self.net.topology.host(to).ip}:{self.port}"]
        return self._start(host, name, arguments)

    def replicator(
        self, host: str, name: str, to: Sequence[str], source: Path, start_at_ns: int
    ) -> Agent:
        """Sends one file to several hosts: by SCDP over their group, else by a flow to each."""
        arguments = ["send", "--start-at-ns", str(start_at_ns)]
        if self.transport != "scdp":
            arguments.append("--unicast")
        return self._start(host, name, [*arguments, str(source), *self._at(to)])

    def server(self, host: str, directory: Path) -> Agent:
        """Sends what is in a directory to those who fetch it."""
        return self._start(
            host, f"serve-{host}", ["recv", "--port", str(self.port), "--serve", str(directory)]
        )

    def daemon(self, host: str) -> Agent:
        """One engine, and so one link and one pull queue, for all commands of the host."""
        return self._spawn(host, f"run-{host}", ["run", *self._engine(host)])

    def fetcher(self, host: str, name: str, wanted: str, sources: Sequence[str], to: Path) -> Agent:
        """Gets an object from all of `sources` at once, by the daemon of the host."""
        arguments = ["fetch", wanted, "--scheme", self.transport, "--output", str(to)]
        return self._spawn(host, name, [*arguments, "--from", *self._at(sources)])

    def _at(self, hosts: Sequence[str]) -> list[str]:
        return [f"{self.net.topology.host(host).ip}:{self.port}" for host in hosts]

    def _engine(self, host: str) -> list[str]:
        (port,) = self.net.topology.neighbours[host]
        own = ["--interface", f"{host}-eth{port}", "--params", str(self.parameters)]
        return [*own, "--lateness"]

    def _start(self, host: str, name: str, arguments: list[str]) -> Agent:
        """A command with an engine of its own."""
        command, *rest = arguments
        own = [*self._engine(host), "--scheme", self.transport]
        return self._spawn(host, name, [command, *own, *rest])

    def _spawn(self, host: str, name: str, arguments: list[str]) -> Agent:
        full_name = f"{self.prefix}-{name}"
        output = self.net.run_dir / "records" / f"{full_name}.jsonl"
        output.parent.mkdir(parents=True, exist_ok=True)
        command = [str(self.binary), *arguments]
        with output.open("wb") as sink:
            process = self.net.spawn_on(host, full_name, command, stdout=sink)
        agent = Agent(process, output, self.net.check)
        self.started.append(agent)
        return agent


def wait_all(agents: list[Agent], seconds: float) -> list[Record]:
    """Waits until every sender has ended; returns the last record of each, failed ones included."""
    deadline = time.monotonic() + seconds
    for agent in agents:
        while agent.process.running:
            agent.check()
            if time.monotonic() > deadline:
                raise AgentError(
                    f"{agent.process.name} is still sending after {seconds:.0f} s "
                    f"(log: {agent.process.log})"
                )
            time.sleep(POLL_SECONDS)
    found = []
    for agent in agents:
        records = agent.records()
        if not records:
            raise AgentError(str(agent.process.died()))
        found.append(records[-1])
    return found
