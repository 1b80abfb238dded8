"""A fabric whose agents share memory with the switches does what one over veths does: all pairs,
schemes of each kind, objects as files and made by the agents; and veths stay for all others."""

from __future__ import annotations

import json
import mmap
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from binaries import BINARIES, needs_root, needs_switches
from ebb_controller.program import Program
from ebb_experiments.cli import arguments, shares_rings
from ebb_experiments.results.results import Results
from ebb_experiments.run.loop import LoopThread
from ebb_experiments.run.run import Run
from ebb_experiments.run.wall import FabricSetup, Wall
from ebb_experiments.scenario.loaded import Loaded, all_at_once, resolve
from ebb_experiments.scenario.spec import ScenarioFile
from ebb_topologies.files import InputError, validate
from ebb_topologies.model import from_table
from ebb_topologies.run_state import RINGS, state_folder
from ebb_topologies.targets import target

SCHEMES = ("dctcp", "ndp", "scdp")
BYTES = 60_000
# Names of its own, so that no fabric that runs at the same time is touched.
HOSTS = {"rh1": "rl1", "rh2": "rl1", "rh3": "rl2", "rh4": "rl2"}
LINKS = [*HOSTS.items(), ("rl1", "rs1"), ("rl1", "rs2"), ("rl2", "rs1"), ("rl2", "rs2")]
TOPOLOGY = {
    "switch": [{"name": name} for name in ("rl1", "rl2", "rs1", "rs2")],
    "host": [{"name": name} for name in HOSTS],
    "link": [{"ends": list(ends), "rate_bps": 10**9, "delay_ns": 10_000} for ends in LINKS],
}
PAIRS = {(a, b) for a in HOSTS for b in HOSTS if a != b}


def loaded() -> Loaded:
    everyone = all_at_once("everyone", {"type": "all-to-all"}, BYTES)
    phase = {"workload": {"traffic": [everyone]}}
    table = {
        "topology": "here",
        "schemes": list(SCHEMES),
        "phase": [
            {"name": "made", "objects": "generated", **phase},
            {"name": "files", "objects": "files", **phase},
        ],
        "dilation": 50.0,
    }
    topology = from_table(TOPOLOGY, "here")
    return resolve(validate(ScenarioFile, table, "here"), "here", Path(), topology=topology)


@pytest.fixture(autouse=True)
def agents_of_few_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """They need less time to come up, and nothing here asks whether they began late."""
    monkeypatch.setattr("ebb_experiments.run.players.LEAD_SECONDS", 1.0)


def chosen(*options: str) -> bool:
    given = arguments(options)
    fused = not given.no_fused
    return shares_rings(given, target(given.switch, BINARIES.directory, fused=fused))


def test_memory_is_shared_unless_somebody_may_look_at_interfaces() -> None:
    assert chosen()
    assert chosen("--host-links", "shared", "--cli", "after")
    for options in (["--cli"], ["--cli", "after"], ["--pcap"], ["--no-fused"]):
        assert not chosen(*options), options
    assert not chosen("--host-links", "veth")
    with pytest.raises(InputError, match="FUSED=0"):
        chosen("--host-links", "shared", "--no-fused")


@contextmanager
def fabric(tmp_path: Path, *, rings: bool) -> Iterator[Wall]:
    scenario = loaded()
    program = Program.of(BINARIES.directory, *(s.fabric for s in scenario.schemes.values()))
    chosen = target("ebb", BINARIES.directory, fused=True)
    setup = FabricSetup(chosen, program, BINARIES, tmp_path / "fabric", rings=rings)
    setup.directory.mkdir()
    with LoopThread() as loop, Wall(scenario, setup, loop) as wall:
        wall.configure(next(iter(scenario.schemes.values())).fabric)
        yield wall


def play(tmp_path: Path, *, rings: bool) -> dict[str, tuple[Results, int]]:
    """Results by scheme, with the frames that came in at the switches' interfaces meanwhile."""
    found = {}
    with fabric(tmp_path, rings=rings) as wall:
        folder = state_folder(wall.directory) / RINGS
        assert folder.exists() == rings
        if rings:
            assert folder.stat().st_mode & 0o777 == 0o700
        for name in SCHEMES:
            pings = wall.ping_all()
            assert (pings.pairs, pings.lost) == (len(PAIRS), [])
            before, _ = wall.net.switched_frames()
            results = Run(wall.loaded, name, 1, wall, tmp_path / name).go()
            after, _ = wall.net.switched_frames()
            found[name] = (results, after - before)
    assert not folder.exists()
    return found


@needs_root
@needs_switches
@pytest.mark.usefixtures("own_ports")
@pytest.mark.parametrize("rings", [True, False], ids=["shared", "veth"])
def test_all_pairs_reach_each_other(tmp_path: Path, rings: bool) -> None:
    for name, (results, frames) in play(tmp_path, rings=rings).items():
        assert results.unfinished == 0, name
        for phase in ("made", "files"):
            flows = [flow for flow in results.flows if flow["phase"] == phase]
            assert {(f["source"], f["destination"]) for f in flows} == PAIRS, (name, phase)
            assert all(f["status"] == "finished" and f["bytes"] == BYTES for f in flows), name
        # Twice 12 objects of 41 packets, and as many ACKs or pulls, over memory or not.
        packets = 2 * len(PAIRS) * BYTES // 1500
        assert (frames < packets // 10) if rings else (frames > packets), (name, frames)


class Attacker:
    """A process that has got a ring, and its memory."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(path))
        greeting, (self.file,), _flags, _address = socket.recv_fds(self.socket, 64, 1)
        assert greeting.startswith(b"EbbRing1")
        self.memory = mmap.mmap(self.file, os.fstat(self.file).st_size)

    def fill(self, byte: bytes) -> None:
        """Writes over all of it, and has the switch look, if it has not already."""
        self.memory[:] = byte * len(self.memory)
        with suppress(BrokenPipeError):
            self.socket.send(b"\0")

    def say(self, message: bytes) -> None:
        """Sends a message."""
        self.socket.send(message)

    def wait_until_closed(self) -> None:
        """Raises TimeoutError if the switch does not close the ring."""
        self.socket.settimeout(20)
        while self.socket.recv(64):
            pass

    def close(self) -> None:
        """Goes."""
        self.socket.close()
        os.close(self.file)


@needs_root
@needs_switches
@pytest.mark.usefixtures("own_ports")
def test_who_breaks_the_rules_of_a_ring_loses_it_and_nobody_else_does(tmp_path: Path) -> None:
    with fabric(tmp_path, rings=True) as wall:
        path = wall.net.ring_of("rh1")
        assert path is not None
        for byte in (b"\xff", b"\x11", b"\x10"):
            attacker = Attacker(path)
            attacker.fill(byte)
            attacker.wait_until_closed()
            attacker.close()
        for nonsense in (b"\x01", b"\x09" * 60, b"\x01" * 5000):
            attacker = Attacker(path)
            attacker.say(nonsense)
            attacker.wait_until_closed()
            attacker.close()
        # The memory cannot be made shorter, and who only wakes the switch, or goes, harms nobody.
        attacker = Attacker(path)
        for length in (0, 4096):
            with pytest.raises(PermissionError):
                os.ftruncate(attacker.file, length)
        for _ in range(1000):
            attacker.say(b"\0")
        many = [Attacker(path) for _ in range(20)]
        wall.net.check()
        assert wall.ping_all().lost == []
        for each in (attacker, *many):
            each.close()
        results = Run(wall.loaded, "ndp", 1, wall, tmp_path / "ndp").go()
        assert results.unfinished == 0
        # And over a ring to the same port.
        _, routes = wall.net.run_on("rh1", ["ip", "-s", "-j", "link", "show", "rh1-eth1"], 5)
        assert json.loads(routes)[0]["stats64"]["tx"]["packets"] < 100
