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
