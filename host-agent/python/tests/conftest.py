"""The fixture with three hosts."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_hosts import BINARY, Host, ip


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """Three hosts whose daemons have been started."""
    if os.geteuid() != 0:
        pytest.skip("needs root for network namespaces")
    if not BINARY.exists():
        pytest.skip(f"{BINARY} is not there; make build, or set EBB_AGENT")
    name = f"api-{os.getpid()}"
    bridge = f"{name}-br"
    ip(f"netns add {bridge}")
    found = []
    try:
        ip(f"-n {bridge} link add name br0 type bridge mcast_snooping 0")
        ip(f"-n {bridge} link set br0 up")
        for number, letter in enumerate("abc", start=1):
            namespace = f"{name}-{letter}"
            ip(f"netns add {namespace}")
            host = Host(
                namespace,
                f"10.9.0.{number}",
                tmp_path / f"{letter}.sock",
                tmp_path / f"{letter}.log",
            )
            found.append(host)
            ip(f"-n {namespace} link add eth1 type veth peer name p{number} netns {bridge}")
            ip(f"-n {bridge} link set p{number} master br0 up")
            ip(f"-n {namespace} address add {host.address}/24 dev eth1")
            ip(f"-n {namespace} link set eth1 up")
            ip(f"-n {namespace} link set lo up")
        for host in found:
            host.start()
        yield found
    finally:
        for host in found:
            host.stop(signal.SIGKILL)
            ip(f"netns delete {host.namespace}")
        ip(f"netns delete {bridge}")
