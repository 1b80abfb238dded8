"""Requirements of a Mininet run, checked before anything is started; all findings at once."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

from ebb_topologies.files import InputError
from ebb_topologies.installation import remedy
from ebb_topologies.model import Topology
from ebb_topologies.processes import end_leftovers
from ebb_topologies.targets import Target

COMMANDS = {
    "ip": "iproute2",
    "ethtool": "ethtool",
    "mnexec": "mininet",
    "ping": "iputils-ping",
    "unshare": "util-linux",
}
"""The distribution package that brings it, by command."""


def check(topology: Topology, target: Target, files: Iterable[Path], run_dir: Path) -> None:
    """Raises `InputError` with every reason why a run cannot start.

    Processes of a crashed run of the same directory are ended first: they would hold the ports.
    """
    if os.geteuid() == 0:
        end_leftovers(run_dir)
    problems = findings(topology, target, files)
    if problems:
        raise InputError("cannot start:\n  - " + "\n  - ".join(problems))


def findings(topology: Topology, target: Target, files: Iterable[Path]) -> list[str]:
    """Every reason why a run of `topology` cannot start, each with its remedy."""
    found = []
    if os.geteuid() != 0:
        found.append("network namespaces need root: run with sudo")
    for command, package in COMMANDS.items():
        if shutil.which(command) is None:
            found.append(f"command '{command}' is missing: apt-get install {package}")
    if importlib.util.find_spec("mininet") is None:
        found.append(
            "Python module 'mininet' is missing: apt-get install mininet, then `make setup` "
            "(the environment must see the distribution's packages)"
        )
    for file in (target.binary, *files):
        if not file.exists():
            found.append(f"{file} is not there: {remedy(file)}")
    busy: dict[str, dict[int, str]] = {}
    for switch in topology.switches:
        for purpose, port in target.listens(switch).items():
            if not _port_is_free(port):
                busy.setdefault(purpose, {})[port] = switch.name
    for purpose, names in busy.items():
        ports = ", ".join(f"{port} ({name})" for port, name in names.items())
        found.append(
            f"{purpose} port already in use: {ports}. End what listens there "
            f"(`ss -ltnp 'sport = :{next(iter(names))}'` names it)"
        )
    if not found and (refusal := _no_veth()):
        found.append(f"no veth interface in a network namespace can be made here: {refusal}")
    return found


def _port_is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _no_veth() -> str:
    """Error of a veth interface in a namespace, as Mininet makes them; empty if it can be made.

    Where this fails, Mininet would wait forever for the shell of its first node.
    """
    command = ["mnexec", "-n", "ip", "link", "add", "p0", "type", "veth", "peer", "name", "p1"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    if tried.returncode == 0:
        return ""
    said = " ".join(tried.stderr.split()) or f"exit code {tried.returncode}"
    return f"{said} (a container needs --privileged)"
