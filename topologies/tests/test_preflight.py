"""The pre-flight check names everything that is missing, with its remedy."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
from pathlib import Path

import pytest
from ebb_topologies import preflight
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table
from ebb_topologies.targets import Bmv2Target, EbbTarget, Target

RACK = from_table({"single_rack": {"hosts": 2}}, "test")
THERE = EbbTarget(Path("/"))


@pytest.fixture(autouse=True)
def a_perfect_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda command: f"/bin/{command}")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(preflight, "_port_is_free", lambda port: True)
    monkeypatch.setattr(preflight, "_no_veth", lambda: "")


def findings(target: Target = THERE) -> list[str]:
    return preflight.findings(RACK, target, [Path("/")])


def test_nothing_to_say() -> None:
    assert findings() == []


def test_no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert findings() == ["network namespaces need root: run with sudo"]


def test_a_missing_command_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None if name == "ethtool" else "/bin/x")
    assert findings() == ["command 'ethtool' is missing: apt-get install ethtool"]


def test_missing_mininet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    assert "apt-get install mininet" in findings()[0]


def test_a_missing_binary(tmp_path: Path) -> None:
    missing = [tmp_path / "ebb-switch", tmp_path / "fabric.json"]
    assert preflight.findings(RACK, EbbTarget(missing[0]), missing[1:]) == [
        f"{path} is not there: run `make build`" for path in missing
    ]


def test_a_port_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert not preflight._port_is_free(port)
        monkeypatch.setattr("ebb_topologies.model.FIRST_GRPC_PORT", port)
        busy = [finding for finding in findings() if "already in use" in finding]
        assert busy == [
            f"gRPC port already in use: {port} (s1). End what listens there "
            f"(`ss -ltnp 'sport = :{port}'` names it)"
        ]


def test_bmv2_has_thrift_ports_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_port_is_free", lambda port: port != 9091)
    assert findings() == []
    (busy,) = findings(Bmv2Target(Path("/")))
    assert busy.startswith("Thrift port already in use: 9091 (s1). End what listens there")


def test_a_kernel_without_veths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_no_veth", lambda: "RTNETLINK answers: Unknown device type")
    assert findings() == [
        "no veth interface in a network namespace can be made here: "
        "RTNETLINK answers: Unknown device type"
    ]


def test_who_refuses_veths_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    refusing = tmp_path / "mnexec"
    refusing.write_text("#!/bin/sh\necho 'mnexec: setns(CLONE_NEWNET): no' >&2; exit 1\n")
    refusing.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    said = preflight._no_veth()
    assert said == "mnexec: setns(CLONE_NEWNET): no (a container needs --privileged)"


def test_check_lists_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "_port_is_free", lambda _port: False)
    preflight_run = tmp_path / "run"
    with pytest.raises(InputError) as caught:
        preflight.check(RACK, EbbTarget(tmp_path / "ebb-switch"), [], preflight_run)
    lines = str(caught.value).splitlines()
    assert lines[0] == "cannot start:"
    assert len(lines) == 3
