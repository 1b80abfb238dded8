"""`ebb-controller place`: what it prints, and one line for everything that is wrong."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from ebb_controller.cli import main

ROOT = Path(__file__).parents[2]
RACK = ROOT / "topologies" / "single-rack.toml"
TREE = ROOT / "topologies" / "fat-tree-k4.toml"
PAGE = (ROOT / "docs" / "silo.md").read_text()
NETWORK = "[network]\nqueue_bytes = 62_500\nvms_per_host = 2\n"
TENANT = '[[tenant]]\nname = "a"\nvms = 4\nrate_bps = 100_000_000\n'


def place(tmp_path: Path, text: str, *options: str, topology: Path = RACK) -> int:
    file = tmp_path / "tenants.toml"
    file.write_text(text)
    return main(["place", str(file), "--topology", str(topology), *options])


def example(kind: str) -> str:
    found = re.search(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)
    assert found
    return found[1]


def test_the_example_of_the_page_is_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place(tmp_path, example("toml"), "--explain") == 3
    printed = capsys.readouterr().out.splitlines()
    refused = printed.index("ads: refused")
    assert example("text").splitlines() == printed[:4] + printed[refused:], "one of the paths"


def test_json_has_every_path_hop_by_hop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert place(tmp_path, example("toml"), "--explain", "--json") == 3
    search, ads = json.loads(capsys.readouterr().out)["tenants"]
    assert search["admitted"] and search["hosts"] == {"h1": 1, "h2": 1, "h3": 1, "h4": 1}
    assert len(search["paths"]) == 4 * 3
    for path in search["paths"]:
        assert path["bound_ns"] == 466_000 and path["capacity_ns"] == 1_020_000
        up, down = path["hops"]
        assert (up["queue_ns"], up["blocking_ns"], up["propagation_ns"]) == (12_000, 12_000, 10_000)
        assert (down["queue_ns"], down["backlog_bytes"]) == (410_000, 51_250)
    assert not ads["admitted"]
    [why] = ads["refused"]
    assert (why["constraint"], why["where"]) == ("queue", "s1 -> h5")
    assert (why["needed"], why["available"]) == (67_750, 62_500)


def test_one_tenant_is_shown_while_all_are_placed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = TENANT.replace('"a"', '"b"')
    assert place(tmp_path, NETWORK + TENANT + other, "--tenant", "b") == 0
    out = capsys.readouterr().out
    assert out.startswith("b: 4 VMs: h3 2, h4 2") and "a:" not in out


def test_tenants_without_guarantees_take_slots_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place(tmp_path, NETWORK + '[[tenant]]\nname = "a"\nvms = 3\n', topology=TREE) == 0
    assert capsys.readouterr().out == "a: 3 VMs: h1 2, h2 1\n  no guarantees: lower priority\n"


def test_tenants_of_thousands_of_vms_end_in_time_and_tell_some_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = tmp_path / "large.toml"
    topology.write_text("[three_tier]\npods = 8\nedges_per_pod = 8\nhosts_per_edge = 32\n")
    huge = '[[tenant]]\nname = "h"\nvms = 4_096\nrate_bps = 1\nhosts = 16\n'
    few = TENANT.replace("vms = 4", "vms = 300")
    network = NETWORK.replace("62_500", "67_108_864")
    assert place(tmp_path, network + few + huge, "--json", topology=topology) == 3
    first, second = json.loads(capsys.readouterr().out)["tenants"]
    assert not first["admitted"] and second["admitted"]
    assert len(second["hosts"]) == 8 * 8 * 32
    small = few.replace("100_000_000", "1_000")
    assert place(tmp_path, network + small, "--json", topology=topology) == 0
    [found] = json.loads(capsys.readouterr().out)["tenants"]
    assert found["hosts_without_paths"] == len(found["hosts"]) - 100 == 50
    assert len(found["paths"]) == 100 * 99


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            NETWORK + TENANT.replace("100_", "2_000_"),
            "rate_bps = 2,000,000,000 is more than the 1,0",
        ),
        (NETWORK + TENANT + "peak_bps = 2_000_000_000", "peak_bps = 2,000,000,000 is more than"),
        (NETWORK + TENANT + "peak_bps = 1", "peak_bps = 1 is below rate_bps = 100,000,000"),
        (NETWORK + TENANT + "burst_bytes = 1_499", "is less than a packet of 1500 bytes"),
        (NETWORK + TENANT + "delay_ns = 1_000_000", "impossible.* between two are 1,020,000 ns"),
        (NETWORK + TENANT + "hosts = 5", "4 VMs cannot be on 5 hosts"),
        (NETWORK + TENANT + TENANT, "two tenants are named a"),
        (NETWORK + TENANT.replace("vms", "vm"), "unknown key 'tenant.0.vm'; did you mean 'vms'"),
        (NETWORK + TENANT.replace("4", "99_999_999"), "less than or equal to 4096"),
        (NETWORK + TENANT + f"burst_bytes = {2**63}", "less than or equal to 67108864"),
        (NETWORK + '[[tenant]]\nname = "a"\nvms = 1\ndelay_ns = 5', "delay_ns needs rate_bps"),
        (NETWORK, "'tenant' is missing"),
        (TENANT, "'network.queue_bytes' is missing: a topology has rates but no queue capacities"),
        ("network = 3\n" + TENANT, "'network': must be a table"),
        (
            "[network]\nqueue_bytes = 2_999\n" + TENANT,
            "queues of 2999 bytes hold no packet of 1500",
        ),
        (NETWORK + "[[tenant", "tenants.toml: "),
        (NETWORK + TENANT + "rate_bps = 5", "tenants.toml: "),
        ("", "'network.queue_bytes' is missing"),
    ],
)
def test_bad_input_is_one_line(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert place(tmp_path, text) == 1
    found = capsys.readouterr()
    assert found.out == ""
    [line] = found.err.splitlines()
    assert line.startswith("ebb-controller: ") and "tenants.toml" in line
    assert re.search(said, line), line


def test_unknown_tenants_topologies_and_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, said in (
        (["--tenant", "b"], "unknown tenant 'b'; "),
        (["--algorithm", "sila"], "there is no 'sila'; did you mean 'silo'"),
        (["--explian"], "did you mean --explain?"),
    ):
        assert place(tmp_path, NETWORK + TENANT, *options) == 1
        [line] = capsys.readouterr().err.splitlines()
        assert said in line
    assert place(tmp_path, NETWORK + TENANT, topology=tmp_path / "none.toml") == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "none.toml: cannot be read" in line


def test_without_numpy_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in sys.modules if name.startswith("ebb_controller.placement")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert main(["place", "x.toml"]) == 1
    [line] = capsys.readouterr().err.splitlines()
    assert "place needs numpy" in line and "placement" in line
