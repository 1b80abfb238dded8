"""Virtual time, end to end: the controller configures simulated switches, hosts talk."""

from __future__ import annotations

from pathlib import Path

import pytest
from ebb_controller.scheme import load_scheme
from ebb_experiments.sim.run import Binaries, SimResult, run_scheme, transfers
from ebb_experiments.sim.scenario import SimScenario
from ebb_experiments.sim.simulator import SimulatorError
from ebb_topologies.files import InputError
from ebb_topologies.model import Topology, from_table

BINARIES = Binaries(Path(__file__).resolve().parents[2] / "build")

pytestmark = pytest.mark.skipif(
    not BINARIES.simulator.exists(), reason="needs build/ebb-simulator: run `make build`"
)

INCAST = """
[[traffic]]
name = "incast"
pattern = { type = "incast", senders = 5 }
arrivals = { type = "once" }
size = { type = "fixed", bytes = 60_000 }
"""


def simulate(
    directory: Path, topology: Topology, scheme: str, workload: str, threads: int = 1
) -> SimResult:
    directory.mkdir(exist_ok=True)
    file = directory / "workload.toml"
    file.write_text(workload)
    scenario = SimScenario(topology="", schemes=[scheme], workload=str(file))
    listed = transfers(BINARIES, topology, file, directory)
    return run_scheme(BINARIES, scenario, topology, load_scheme(scheme), listed, directory, threads)


@pytest.mark.parametrize("scheme", ["dctcp", "ndp", "scdp"])
def test_the_result_does_not_depend_on_the_number_of_threads(tmp_path: Path, scheme: str) -> None:
    topology = from_table({"leaf_spine": {"leaves": 2, "spines": 2, "hosts_per_leaf": 3}}, "test")
    one, two = (
        simulate(tmp_path / str(threads), topology, scheme, INCAST, threads) for threads in (1, 2)
    )
    assert one.pause.unfinished == 0
    assert len(one.flows) == 5
    assert all(flow.ok for flow in one.flows), one.flows
    assert one.report.trace_hash == two.report.trace_hash
    assert one.flows == two.flows


def test_a_lone_packet_takes_the_time_of_the_closed_form(tmp_path: Path) -> None:
    topology = from_table({"single_rack": {"hosts": 2}}, "test")
    workload = INCAST.replace("senders = 5", "senders = 1").replace("60_000", "1_000")
    (flow,) = simulate(tmp_path, topology, "ndp", workload).flows
    frame_bytes = 14 + 20 + 48 + 1_000
    # Store and forward: the host's link and the switch's, 10 us of propagation on each.
    assert flow.fct_ns == pytest.approx(2 * (frame_bytes * 8 + 10_000), abs=1)


def test_what_the_simulator_cannot_do_is_said(tmp_path: Path) -> None:
    topology = from_table({"single_rack": {"hosts": 6}}, "test")
    with pytest.raises(InputError, match="fetch-one-to-one"):
        simulate(tmp_path, topology, "ndp", INCAST.replace("5 }", "5, fetch = true }"))


def test_a_simulator_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    topology = from_table({"single_rack": {"hosts": 2}}, "test")
    scenario = SimScenario(topology="", schemes=["ndp"], workload="", mtu_bytes=600)
    transfer = {
        "id": 0, "kind": "send-one-to-one", "sources": ["h1"], "destinations": ["h1"],
        "bytes": 1, "start_ns": 0, "priority": 0,
    }  # fmt: skip
    with pytest.raises(SimulatorError, match="h1 sends to itself"):
        run_scheme(BINARIES, scenario, topology, load_scheme("ndp"), [transfer], tmp_path)
