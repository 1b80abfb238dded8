"""Hosts in network namespaces on one bridge, each with its daemon.

a 10.9.0.1 ──┐
b 10.9.0.2 ──┼── bridge
c 10.9.0.3 ──┘
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ebb_agent import Agent, AgentGoneError

ROOT = Path(__file__).parents[3]
BINARY = Path(os.environ.get("EBB_AGENT", ROOT / "build/ebb-agent"))
PATIENCE = 20.0


def ip(arguments: str) -> None:
    subprocess.run(["ip", *arguments.split()], check=True)


@dataclass
class Host:
    """A namespace with a daemon in it."""

    namespace: str
    address: str
    socket: Path
    log: Path
    daemon: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def start(self, *arguments: str) -> None:
        command = ["ip", "netns", "exec", self.namespace, str(BINARY), "run"]
        command += ["--socket", str(self.socket), *arguments]
        with self.log.open("ab") as log:
            self.daemon = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while True:
            with contextlib.suppress(AgentGoneError):
                self.agent().close()
                return
            died = self.daemon.poll() is not None
            assert not died and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def agent(self) -> Agent:
        return Agent(self.socket)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self.daemon is not None:
            self.daemon.send_signal(how)
            self.daemon.wait(PATIENCE)
            self.daemon = None


@contextlib.contextmanager
def on_bridge(folder: Path, *arguments: str) -> Iterator[list[Host]]:
    """The three hosts, with their daemons started with these arguments; logs go to the folder."""
    name = f"api-{os.getpid()}"
    bridge = f"{name}-br"
    ip(f"netns add {bridge}")
    found: list[Host] = []
    try:
        ip(f"-n {bridge} link add name br0 type bridge mcast_snooping 0")
        ip(f"-n {bridge} link set br0 up")
        for number, letter in enumerate("abc", start=1):
            namespace = f"{name}-{letter}"
            ip(f"netns add {namespace}")
            address = f"10.9.0.{number}"
            found.append(
                Host(namespace, address, folder / f"{letter}.sock", folder / f"{letter}.log")
            )
            ip(f"-n {namespace} link add eth1 type veth peer name p{number} netns {bridge}")
            ip(f"-n {bridge} link set p{number} master br0 up")
            ip(f"-n {namespace} address add {address}/24 dev eth1")
            ip(f"-n {namespace} link set eth1 up")
            ip(f"-n {namespace} link set lo up")
        for host in found:
            host.start(*arguments)
        yield found
    finally:
        for host in found:
            host.stop(signal.SIGKILL)
            ip(f"netns delete {host.namespace}")
        ip(f"netns delete {bridge}")


def reason_to_skip() -> str:
    """Why hosts cannot be made; empty if they can."""
    if os.geteuid() != 0:
        return "needs root for network namespaces"
    return "" if BINARY.exists() else f"{BINARY} is not there; make build, or set EBB_AGENT"
