"""The file of a fabric in one process."""

from __future__ import annotations

from pathlib import Path

from ebb_topologies.fabric_file import fabric_file
from ebb_topologies.model import from_table


def test_inner_links_are_links_and_host_ports_are_interfaces() -> None:
    topology = from_table({"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 1}}, "test")
    content = fabric_file(topology)
    assert (content["fabric_socket"], content["captures"]) == ("fabric.sock", "pcaps")
    assert [s["name"] for s in content["switch"]] == ["l0", "l1", "s0"]
    assert [s["interfaces"] for s in content["switch"]] == [{"1": "l0-eth1"}, {"1": "l1-eth1"}, {}]
    assert [s["grpc_server_addr"] for s in content["switch"]] == [
        f"127.0.0.1:{port}" for port in (9559, 9560, 9561)
    ]
    assert content["link"] == [{"a": "l0:2", "b": "s0:1"}, {"a": "l1:2", "b": "s0:2"}]
    assert content["host"] == [{"name": "h1", "at": "l0:1"}, {"name": "h2", "at": "l1:1"}]


def test_a_traffic_manager_file_is_named_wherever_the_process_runs() -> None:
    topology = from_table({"single_rack": {"hosts": 1}}, "test")
    content = fabric_file(topology, lambda switch: Path(f"{switch.name}.json"))
    assert content["switch"][0]["tm"] == str(Path.cwd() / "s1.json")


def test_the_program_to_start_with_is_named_once() -> None:
    topology = from_table({"single_rack": {"hosts": 1}}, "test")
    assert "program" not in fabric_file(topology)
    program = {"json": "/p.json", "p4info": "/p.txtpb", "cookie": 7}
    content = fabric_file(topology, program=program)
    assert content["program"] == program
    assert not any("program" in switch for switch in content["switch"])


def test_rings_are_given_only_if_they_are_asked_for() -> None:
    topology = from_table({"single_rack": {"hosts": 1}}, "test")
    assert "rings" not in fabric_file(topology)
    assert fabric_file(topology, rings=Path("/run/ebb/x/rings"))["rings"] == "/run/ebb/x/rings"
