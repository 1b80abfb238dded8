# SPDX-License-Identifier: Apache-2.0
"""A network namespace with a veth pair per port: `sw{n}` for the switch, `ptf{n}` for the tests."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "ebb-ptf-"
"""The name of the namespace is this and the pid of its run."""
PORTS = range(1, 7)
"""Ports of the switch, each with a veth pair."""
MTU = 2000
"""MTU of the veths in bytes, above 1500 so that a frame longer than its IPv4 packet can be sent as
well."""


class TestbedError(Exception):
    """The namespace could not be made."""


def switch_interface(port: int) -> str:
    """The end of a veth pair that the switch has."""
    return f"sw{port}"


def tester_interface(port: int) -> str:
    """The end of a veth pair that the tests have."""
    return f"ptf{port}"


Names = Callable[[int], tuple[str, str]]
"""The ends of the veth pair of a port: that of the tests, and that of the switch."""


def interfaces(port: int) -> tuple[str, str]:
    """The ends of the veth pair of a port."""
    return tester_interface(port), switch_interface(port)


@contextmanager
def namespace(ports: Iterable[int] = PORTS, names: Names = interfaces) -> Iterator[str]:
    """Makes the namespace and removes it, with all in it, whatever happens."""
    _remove_stale()
    name = f"{PREFIX}{os.getpid()}"
    _ip("netns", "add", name)
    try:
        _fill(name, ports, names)
        yield name
    finally:
        _remove(name)


def _remove(name: str) -> None:
    """Ends what still runs in the namespace (a killed test leaves its switch), then removes it."""
    for pid in _ip("netns", "pids", name).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _fill(name: str, ports: Iterable[int], names: Names) -> None:
    # Without IPv6 the kernel sends nothing by itself.
    inside = ("netns", "exec", name)
    _ip(*inside, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    _ip(*inside, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
    _ip("-n", name, "link", "set", "lo", "up")
    for port in ports:
        ours, theirs = names(port)
        _ip("-n", name, "link", "add", ours, "mtu", str(MTU), "type", "veth",
            "peer", "name", theirs, "mtu", str(MTU))  # fmt: skip
        for interface in (ours, theirs):
            _ip("-n", name, "link", "set", interface, "up")


def _remove_stale() -> None:
    """Removes namespaces of runs that were killed: ours by their name, whose process is gone."""
    run = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=True)
    for line in run.stdout.splitlines():
        name = line.split()[0]
        pid = name.removeprefix(PREFIX)
        if name.startswith(PREFIX) and pid.isdigit() and not Path(f"/proc/{pid}").exists():
            _remove(name)


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    try:
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise TestbedError("`ip` is missing; install iproute2") from None
    if run.returncode:
        raise TestbedError(f"`{' '.join(command)}` failed: {run.stderr.strip()}")
    return run.stdout
