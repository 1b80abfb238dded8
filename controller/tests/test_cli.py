"""`ebb-controller` as a process: its lines, its exit codes, its end by signals."""

from __future__ import annotations

import json
import logging
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from built import NEEDS_PROGRAM, PROGRAM
from ebb_controller import cli
from ebb_controller.mechanisms import FABRIC, of_program

pytestmark = NEEDS_PROGRAM

# Two fake switches in the place of a fabric. Their ports are printed, then they wait to be ended.
SERVE = """
import asyncio
from fake_switch import FakeSwitch
async def serve():
    switches = [await FakeSwitch(1).start(), await FakeSwitch(2).start()]
    print(*(switch.port for switch in switches), flush=True)
    await asyncio.sleep(60)
asyncio.run(serve())
"""
# The command with the fake switches' ports.
COMMAND = """
import sys
from functools import partial
from ebb_controller import cli
ports = [int(port) for port in sys.argv[1].split(",")]
address = lambda node: f"127.0.0.1:{ports[node.device_id - 1]}"
cli.Controller = partial(cli.Controller, address=address)
cli.TrafficManagers = partial(cli.TrafficManagers, address=address)
sys.exit(cli.main(sys.argv[2:]))
"""
TOPOLOGY = """
switch = [{ name = "s1" }, { name = "s2" }]
host = [{ name = "h1" }, { name = "h2" }]
link = [{ ends = ["h1", "s1"] }, { ends = ["s1", "s2"] }, { ends = ["h2", "s2"] }]
"""


@pytest.fixture(scope="module")
def ports() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", SERVE],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    ) as servers:
        assert servers.stdout is not None
        yield ",".join(servers.stdout.readline().split())
        servers.kill()


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    (tmp_path / "fabric.json").write_text("{}")
    shutil.copy(PROGRAM.p4info, tmp_path)
    (tmp_path / "topology.toml").write_text(TOPOLOGY)
    return ["--topology", str(tmp_path / "topology.toml"), "--program", str(tmp_path)]


def start(ports: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, ports, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(ports: str, *arguments: str) -> tuple[int, str]:
    with start(ports, *arguments) as process:
        output, _ = process.communicate(timeout=20)
        return process.returncode, output


def test_once_installs_and_shows_counters(ports: str, files: list[str]) -> None:
    code, output = run(ports, *files, "--scheme", "ndp", "--once", "--stats")
    assert code == 0, output
    assert "topology: 2 switches hold scheme ndp, read back" in output
    assert "connection lost" not in output
    (row,) = (line for line in output.splitlines() if line.strip().startswith("s2 "))
    # Every counter of the fake switch sums to 30; then drops, CE, longest queue (no deflections).
    there = [c for each in of_program(FABRIC) for c in each.counters if c.heading]
    assert row.split() == ["s2", *["30"] * len(there), "3", "5", "4,500"]
    assert "deflected" not in output


def test_a_signal_is_a_normal_end(ports: str, files: list[str]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        with start(
            ports, *files, "--scheme", "dctcp", "--switch", "bmv2", "--multicast", "h1,h2"
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if "read back (" in line:
                    break
            time.sleep(0.1)
            process.send_signal(number)
            output, _ = process.communicate(timeout=10)
            assert process.returncode == 0, output
            assert "the switches keep what they have" in output


def test_the_groups_of_a_store_are_followed(ports: str, files: list[str], tmp_path: Path) -> None:
    locator = tmp_path / "locator"
    follow = ["--switch", "bmv2", "--locator", str(locator)]
    with start(ports, *files, "--scheme", "dctcp", *follow) as process:
        assert process.stdout is not None
        patience = threading.Timer(20, process.kill)
        patience.start()
        said = []
        for line in process.stdout:
            said.append(line)
            if "blob store: 1 sets of replicas have a multicast group" in line:
                break
            if "No such file" in line:
                threading.Thread(target=tell_a_row, args=(locator,), daemon=True).start()
        patience.cancel()
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=10)
    assert process.returncode == 0, (said, output)
    # That nobody answers yet is said once.
    assert sum(str(locator) in line for line in said) == 1, said


def tell_a_row(path: Path) -> None:
    """Is a locator with a row of both hosts, until the first question has its answer."""
    answer = {"table": [{"version": 1, "replicas": ["10.0.0.2", "10.0.0.3"]}]}
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(json.dumps(answer).encode() + b"\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--scheme", "nsp"], "unknown scheme 'nsp'; did you mean 'ndp'?"),
        (["--scheme", "no.toml"], "no.toml: cannot be read: No such file"),
        (["--scheme", "ndp", "--dilation", "x"], "--dilation must be a positive number, not 'x'"),
        (["--scheme", "ndp", "--stats", "0"], "--stats must be a positive number, not '0'"),
        (["--scheme", "ndp", "--multicast", "10.0.0.1=h1"], "'10.0.0.1' is not an IPv4 multicast"),
        (["--scheme", "ndp", "--multicast", "239.0.0.1=h9"], "has no host 'h9'"),
        (["--scheme", "ndp", "--multicast", "h1,h9"], "has no host 'h9'"),
        (["--scheme", "ndp", "--locator", "here"], "'here' is no address of a locator; give"),
        (["--scheme", "ndp", "--locator", "./here", "--once"], "leave out --once"),
        (["--scheme", "ndp", "--program", "nowhere"], "run `make build`"),
        (
            ["--scheme", "ndp", "--switch", "tofino"],
            "there is no 'tofino'; known: ebb, bmv2",
        ),
        ([], "--scheme"),
    ],
)
def test_errors_are_one_line(
    files: list[str],
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The level that the command sets is taken back afterwards.
    monkeypatch.setattr(logging.getLogger("finsy"), "level", logging.NOTSET)
    assert cli.main([*files, *arguments]) == 1
    output = capsys.readouterr().out
    assert message in output
    assert len(output.splitlines()) == 1


def test_an_unreachable_fabric(files: list[str]) -> None:
    code, output = run("1,1", *files, "--scheme", "ndp", "--connect-seconds", "0.2")
    assert code == 1
    assert output.startswith("ebb-controller: switch s1 cannot be reached")
    assert len(output.splitlines()) == 1


def test_silent_switches_are_named_long_before_they_are_an_error(files: list[str]) -> None:
    code, output = run("1,1", *files, "--scheme", "ndp", "--connect-seconds", "3")
    assert code == 1
    first, last = output.splitlines()
    assert first == "no answer yet from s1, s2; waiting up to 3 s (--connect-seconds)"
    assert last.startswith("ebb-controller: switch s1 cannot be reached")
