"""The host agents of a run: started in the hosts' namespaces, read line by line.

An agent prints one JSON object per line: `{"event": "ready"}` once it listens, then a record per
finished or failed flow (docs/agent-records.md), and last `{"event": "end"}` with how late it was.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb_controller.scheme import Scheme
from ebb_topologies.files import InputError
from ebb_topologies.nearest import hint
from ebb_topologies.processes import Process

from ebb_experiments.results.load import Late
from ebb_experiments.run.run import Task

if TYPE_CHECKING:  # virtual time does without Mininet
    from ebb_topologies.mininet_net import FabricNet

POLL_SECONDS = 0.02

Line = dict[str, Any]


class AgentError(Exception):
    """An agent did not do what it was started for; the message says which and why."""


@dataclass
class Agent:
    """A running `ebb-agent` and what it has printed so far."""

    process: Process
    output: Path
    check: Callable[[], None]
    """Raises an error if waiting has become pointless, because a switch has died."""
    _lines: list[Line] = field(default_factory=list, init=False, repr=False)
    """Lines that have been read."""
    _bytes_read: int = field(default=0, init=False)
    """Where in `output` they end."""

    def lines(self) -> Sequence[Line]:
        """Every complete line so far. Whoever waits asks often: only what is new is read."""
        with self.output.open("rb") as file:
            file.seek(self._bytes_read)
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._lines += [json.loads(line) for line in complete.splitlines() if line.strip()]
        self._bytes_read += len(complete)
        return self._lines

    def late(self) -> Late:
        """How late it was, once it has ended; nothing if it was killed."""
        ends = (line for line in self.lines() if line.get("event") == "end")
        return Late.together(Late.from_report(line.get("lateness", {})) for line in ends)

    def wait_ready(self, seconds: float = 10.0) -> None:
        """Waits until it listens. Raises `AgentError` if it ends, or takes longer than
        `seconds`."""
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


@dataclass(frozen=True)
class Transport:
    """Properties of a transport of the agent."""

    name: str
    """As in scheme files: `transport`."""
    service_port: int
    """Port where hosts listen by default."""
    groups: bool
    """Whether one flow can have several receivers; without it each receiver has a flow."""
    many_to_one: bool
    """Whether one flow can have several senders."""


@cache
def transports(binary: Path) -> dict[str, Transport]:
    """All transports of an agent, by name."""
    return {entry["name"]: Transport(**entry) for entry in _printed(binary, "transports")}


def check_transports(binary: Path, where: str, names: Iterable[str]) -> None:
    """Raises InputError if the agent lacks a transport that is named there."""
    known = transports(binary)
    for name in names:
        if name not in known:
            raise InputError(f"{where}: unknown transport '{name}'; {hint(name, known)}")


def _printed(binary: Path, command: str) -> Any:
    """JSON that a command of the agent prints, as objects of the caller's own."""
    return json.loads(_output(binary, command))


@cache
def _output(binary: Path, command: str) -> str:
    done = subprocess.run([str(binary), command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AgentError(f"{binary} {command} failed: {done.stderr.strip()}")
    return done.stdout


def task_parameters(binary: Path, task: Task) -> dict[str, dict[str, Any]]:
    """As `agent_parameters`, for a task whose phases name transports that there are."""
    for phase in task.loaded.phases:
        check_transports(binary, f"phase {phase.name}", phase.transports or ())
    return agent_parameters(binary, task.loaded.schemes[task.scheme], **task.nic)


def agent_parameters(binary: Path, scheme: Scheme, **nic: int) -> dict[str, dict[str, Any]]:
    """Every parameter of the agent, nominal: its own defaults, then what follows from the fabric,
    then what the scheme overrides, then those of the interface.

    All of them, because a default that is a time has to be slowed down too.
    """
    named = [scheme.transport, *scheme.transport_of.values()]
    check_transports(binary, f"scheme {scheme.label}", named)
    parameters: dict[str, dict[str, Any]] = _printed(binary, "params")
    parameters["nic"].update(_of_fabric(scheme))
    for section, values in scheme.agent.items():
        valid = parameters.get(section)
        if valid is None:
            raise InputError(
                f"scheme {scheme.label}: the agent has no parameters [{section}]; "
                f"{hint(section, parameters)}"
            )
        unknown = sorted(set(values) - set(valid))
        if unknown:
            raise InputError(
                f"scheme {scheme.label}: unknown agent parameter {section}.{unknown[0]}; "
                f"{hint(unknown[0], valid)}"
            )
        for name, value in values.items():
            if (fault := _misfit(valid[name], value)) is not None:
                raise InputError(
                    f"scheme {scheme.label}: agent parameter {section}.{name} must be {fault}"
                )
        valid.update(values)
    parameters["nic"].update(nic)
    return parameters


def _misfit(default: Any, value: Any) -> str | None:
    """Why a parameter cannot have a value where its default is another kind; none: it may, as
    numbers that may be lists, and words that may be numbers."""
    if isinstance(default, bool) != isinstance(value, bool):
        needed = "true or false" if isinstance(default, bool) else "no truth value"
        return f"{needed}, not {json.dumps(value)}"
    if isinstance(default, int | float) and isinstance(value, str):
        return f"a number, not {json.dumps(value)}"
    return None


def _of_fabric(scheme: Scheme) -> dict[str, Any]:
    """Parameters of the NICs that follow from those of the switches: in a lossless fabric hosts
    obey PFC frames, and a class of packets is the queue in which they wait."""
    pfc = scheme.fabric.ports.pfc
    if pfc is None:
        return {}
    classes = [{"dscp": c.dscp, "queue": c.queue} for c in scheme.fabric.classes]
    return {"pfc": True, "pfc_response_ns": pfc.response_ns, "classes": classes}


@dataclass(frozen=True)
class Agents:
    """Starts agents on the hosts of a network."""

    net: FabricNet
    binary: Path
    directory: Path
    """Folder for what the agents print."""
    prefix: str
    """How the names of their processes begin."""
    runner: Sequence[str] = ()
    """Command that starts each of them, such as `chrt`; empty: none."""
    started: list[Agent] = field(default_factory=list)

    def start(self, host: str, name: str, *arguments: str) -> Agent:
        """Starts `ebb-agent` with these arguments, in the namespace of the host."""
        return self.start_command(host, name, [*self.runner, str(self.binary), *arguments])

    def start_command(self, host: str, name: str, command: Sequence[str]) -> Agent:
        """The same with any command that prints what an agent prints."""
        output = self.directory / f"{name}.jsonl"
        output.parent.mkdir(parents=True, exist_ok=True)
        with output.open("wb") as sink:
            process = self.net.spawn_on(host, f"{self.prefix}-{name}", command, stdout=sink)
        agent = Agent(process, output, self.net.check)
        self.started.append(agent)
        return agent

    def ring(self, host: str) -> tuple[str, ...]:
        """Options of an agent with an engine: the ring that it shares with the switches, if there
        are any."""
        path = self.net.ring_of(host)
        return () if path is None else ("--ring", str(path))

    def stop(self) -> None:
        """Ends all agents."""
        self.net.processes.stop([agent.process for agent in self.started])

    def late(self) -> Late:
        """How late all of them were, once they have ended."""
        return Late.together(agent.late() for agent in self.started)
