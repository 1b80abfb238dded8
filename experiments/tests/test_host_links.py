"""A fabric whose agents share memory with the switches does what one over veths does: all pairs,
schemes of each kind, objects as files and made by the agents; and veths stay for all others."""

from __future__ import annotations

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


def play(tmp_path: Path, *, rings: bool) -> dict[str, tuple[Results, int]]:
    """Results by scheme, with the frames that came in at the switches' interfaces meanwhile."""
    scenario, found = loaded(), {}
    program = Program.of(BINARIES.directory, *(s.fabric for s in scenario.schemes.values()))
    chosen = target("ebb", BINARIES.directory, fused=True)
    setup = FabricSetup(chosen, program, BINARIES, tmp_path / "fabric", rings=rings)
    setup.directory.mkdir()
    with LoopThread() as loop, Wall(scenario, setup, loop) as wall:
        folder = state_folder(setup.directory) / RINGS
        assert folder.exists() == rings
        if rings:
            assert folder.stat().st_mode & 0o777 == 0o700
        wall.configure(next(iter(scenario.schemes.values())).fabric)
        for name in SCHEMES:
            pings = wall.ping_all()
            assert (pings.pairs, pings.lost) == (len(PAIRS), [])
            before, _ = wall.net.switched_frames()
            results = Run(scenario, name, 1, wall, tmp_path / name).go()
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
