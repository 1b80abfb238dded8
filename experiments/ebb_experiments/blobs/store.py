"""A blob store on the hosts of a fabric: its locator, daemons and replicas, and its clients."""

from __future__ import annotations

import hashlib
import json
import signal
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ebb_topologies.processes import Process

from ebb_experiments.run.agents import Agent, AgentError, transports
from ebb_experiments.run.fabric import Fabric

COPIES, LEAST, ROWS = 3, 2, 8
DEAD_AFTER_SECONDS = 3
"""When a silent replica leaves its rows."""
CLIENT_SECONDS = 90.0
"""How long a command of a client may take."""
READY_SECONDS = 20.0
POLL_SECONDS = 0.02

Line = dict[str, Any]


@dataclass
class Outcome:
    """Output of a client's command, and how it ended."""

    lines: list[Line]
    code: int
    """Exit code; negative: it was killed."""
    log: Path


@dataclass
class Store:
    """The processes of a store. Its locator listens on a Unix socket, which every network namespace
    of this machine reaches, so that no fault of the fabric cuts it off."""

    fabric: Fabric
    binary: Path
    folder: Path
    """Folder of tracts, database, files and records of this run."""
    transport: str
    hosts: tuple[str, ...]
    """Those with a replica."""
    parameters: dict[str, Any]
    """Parameters of all agents."""
    _agents: dict[str, list[Agent]] = field(default_factory=dict)
    """Processes on each host; the locator is on `locator`."""
    _clients: dict[str, Process] = field(default_factory=dict)
    _count: int = 0

    @property
    def socket(self) -> Path:
        """Where the locator listens."""
        return self.folder / "locator"

    def start(self) -> None:
        """Starts all. Raises `AgentError` if something does not."""
        self.folder.mkdir(parents=True)
        (self.folder / "params.json").write_text(json.dumps(self.parameters))
        self.start_locator()
        for host in self.hosts:
            self.start_replica(host)

    def start_locator(self) -> None:
        """Starts the locator, with what its database holds."""
        addresses = [str(self.fabric.topology.host(host).ip) for host in self.hosts]
        options = ["--listen", str(self.socket), "--database", str(self.folder / "names.redb")]
        options += ["--copies", str(COPIES), "--least", str(LEAST), "--rows", str(ROWS)]
        options += ["--dead-after", str(DEAD_AFTER_SECONDS), "--server", *addresses]
        command = [str(self.binary), "blob", "locator", "--json", *options]
        self._agents["locator"] = [self._ready(self._spawn("", "locator", command), 1)]

    def start_replica(self, host: str) -> None:
        """Starts the daemon of a host, and its replica with the tracts that are there."""
        params = str(self.folder / "params.json")
        daemon = [str(self.binary), "run", "--json", "--params", params]
        daemon += ["--socket", str(self.folder / f"{host}.socket")]
        agents = [self._ready(self._spawn(host, "daemon", daemon), len(transports(self.binary)))]
        self._agents[host] = agents
        replica = [str(self.binary), "blob", "replica", "--json", "--dir", str(self.tracts(host))]
        replica += ["--socket", str(self.folder / f"{host}.socket"), *self._options()]
        agents.append(self._ready(self._spawn(host, "replica", replica), 1))

    def kill(self, who: str) -> None:
        """Kills what runs on a host, or the locator."""
        for agent in reversed(self._agents.pop(who, [])):
            _kill(agent.process)

    def kill_client(self, host: str) -> bool:
        """Kills the command that a client has under way; whether it has one."""
        process = self._clients.get(host)
        if process is None or not process.running:
            return False
        _kill(process)
        return True

    def tracts(self, host: str) -> Path:
        """Folder of a replica."""
        return self.folder / f"tracts-{host}"

    def command(self, host: str, *words: str) -> Outcome:
        """Runs `ebb-agent blob` on a host to its end. Raises `AgentError` if there is none."""
        name, *arguments = words
        options = self._options() if name in ("put", "get") else ["--locator", str(self.socket)]
        if name in ("put", "get"):
            options += ["--params", str(self.folder / "params.json")]
        command = [str(self.binary), "blob", name, "--json", *options, *arguments]
        agent = self._spawn(host, f"client-{name}", command)
        self._clients[host] = agent.process
        deadline = time.monotonic() + CLIENT_SECONDS
        while agent.process.running:
            if time.monotonic() > deadline:
                _kill(agent.process)
                raise AgentError(
                    f"{agent.process.name}: no end after {CLIENT_SECONDS:g} s "
                    f"(log: {agent.process.log})"
                )
            time.sleep(POLL_SECONDS)
        lines = [line for line in agent.lines() if line["event"] == "blob"]
        self.fabric.net.processes.stop([agent.process])
        return Outcome(lines, agent.process.popen.returncode, agent.process.log)

    def alive(self) -> int:
        """How many servers the locator has heard lately."""
        status = self.command(self.hosts[0], "repair", "--status").lines
        return sum(server["alive"] for line in status for server in line["servers"])

    def damage(self, host: str) -> bool:
        """Changes a byte of a tract of a replica; whether it has one."""
        for path in sorted(self.tracts(host).glob("tract-*")):
            content = bytearray(path.read_bytes())
            if content:
                content[len(content) // 2] ^= 1
                path.write_bytes(content)
                return True
        return False

    def unsound(self) -> list[str]:
        """Files of replicas whose content is not what their name says."""
        return [
            str(path)
            for host in self.hosts
            for path in sorted(self.tracts(host).glob("tract-*"))
            if hashlib.sha256(path.read_bytes()).hexdigest() != path.name.rpartition("-")[2]
        ]

    def stop(self) -> None:
        """Ends all processes."""
        for who in list(self._agents):
            self.kill(who)
        for process in self._clients.values():
            _kill(process)

    def _options(self) -> list[str]:
        return ["--locator", str(self.socket), "--transport", self.transport]

    def _spawn(self, host: str, name: str, command: list[str]) -> Agent:
        self._count += 1
        label = f"{self.folder.name}-{self._count:03}-{host}-{name}"
        output = self.folder / f"{label}.jsonl"
        net = self.fabric.net
        with output.open("wb") as sink:
            process = (
                net.spawn_on(host, label, command, stdout=sink)
                if host
                else net.processes.spawn(label, command, stdout=sink)
            )
        return Agent(process, output, net.check)

    def _ready(self, agent: Agent, count: int) -> Agent:
        """Waits until a process has reported `count` times that it listens."""
        deadline = time.monotonic() + READY_SECONDS
        while sum(line.get("event") == "ready" for line in agent.lines()) < count:
            if not agent.process.running:
                raise AgentError(str(agent.process.died()))
            if time.monotonic() > deadline:
                raise AgentError(
                    f"{agent.process.name} is not ready after {READY_SECONDS:g} s: "
                    f"{agent.process.last_words()} (log: {agent.process.log})"
                )
            time.sleep(POLL_SECONDS)
        return agent


def _kill(process: Process) -> None:
    if process.running:
        process.popen.send_signal(signal.SIGKILL)
    process.popen.wait()
