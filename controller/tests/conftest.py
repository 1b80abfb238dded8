"""What several tests of the controller want of the machine."""

from __future__ import annotations

import socket

import finsy.switch
import pytest


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """finsy waits 10 s before it tries again a switch that failed within 2 s."""
    monkeypatch.setattr(finsy.switch, "_FAIL_THROTTLE_SECS", 0.1)


@pytest.fixture
def own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches listen where no other fabric of this machine does."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    monkeypatch.setattr("ebb_topologies.model.FIRST_GRPC_PORT", port)
    monkeypatch.setattr("ebb_topologies.targets.FIRST_THRIFT_PORT", port + 100)
