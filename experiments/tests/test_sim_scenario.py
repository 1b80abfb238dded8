"""Scenario files: what they may say, and what is said about those that may not."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from ebb_experiments.run.run import Task
from ebb_experiments.run.virtual import host_keys
from ebb_experiments.scenario.faults import Reroute, SetLink
from ebb_experiments.scenario.loaded import Loaded, load_scenario, sampled_queues, scenario
from ebb_experiments.scenario.spec import ScenarioFile
from ebb_topologies.files import InputError, validate

SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"
WORKLOAD = {"traffic": []}
RACK = {"single_rack": {"hosts": 3}, "schemes": ["ndp"], "workload": WORKLOAD}


def load(tmp_path: Path, **keys: Any) -> Loaded:
    table = {key: value for key, value in {**RACK, **keys}.items() if value is not None}
    return scenario(table, "test", tmp_path)


def phase(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "workload": WORKLOAD, **keys}


@pytest.mark.parametrize(
    "path", sorted(p for p in SCENARIOS.rglob("*.toml") if "workload" not in p.name)
)
def test_every_scenario_of_the_tree_loads(path: Path) -> None:
    loaded = load_scenario(path)
    assert list(loaded.schemes) == loaded.spec.schemes
    assert all(list(loaded.rounds(scheme)) for scheme in loaded.schemes)


def test_an_inline_fabric_has_its_rates_and_is_slowed_in_proportion(tmp_path: Path) -> None:
    fast = load(tmp_path, single_rack={"hosts": 3, "rate_bps": 100_000_000_000, "delay_ns": 500})
    (link, *_) = fast.topology.links
    assert (link.rate_bps, link.delay_ns) == (100_000_000_000, 500)
    assert fast.dilation.factor == 1000
    assert load(tmp_path).dilation.factor == 10
    assert load(tmp_path, dilation=50).dilation.factor == 50


def test_an_override_changes_a_scheme_here_only(tmp_path: Path) -> None:
    changed = load(
        tmp_path,
        schemes=["ndp", "small"],
        override={
            "ndp": {"agent": {"ndp": {"initial_window_packets": 99}}},
            "small": {"scheme": "ndp", "label": "small", "fabric": {"hash_seed": 7}},
        },
    )
    assert changed.schemes["ndp"].agent["ndp"] == {"initial_window_packets": 99}
    small = changed.schemes["small"]
    assert (small.label, small.fabric.hash_seed) == ("small", 7)
    assert small.agent["ndp"] != {"initial_window_packets": 99}
    assert small.fabric.ports == changed.schemes["ndp"].fabric.ports


def test_a_part_of_the_traffic_has_a_transport_of_its_own(tmp_path: Path) -> None:
    parts: dict[str, Any] = {"traffic": [{"name": "web"}, {"name": "storage"}]}
    loaded = load(
        tmp_path,
        phase=[phase("both") | {"workload": parts}, phase("none")],
        workload=None,
        override={"ndp": {"transport_of": {"storage": "reno"}}},
    )
    tasks = [Task(loaded, "ndp", 1, one, tmp_path) for one in loaded.rounds("ndp")]
    assert [task.transport_of for task in tasks] == [{"storage": "reno"}, {}]
    wrong = {"ndp": {"transport_of": {"storrage": "reno"}}}
    with pytest.raises(InputError, match=r"transport_of\.storrage: no phase has .* 'storage'"):
        load(tmp_path, workload=parts, override=wrong)
    kernel = [phase("both", objects="kernel") | {"workload": parts}]
    mixed = {"ndp": {"transport_of": {"storage": "reno"}}}
    with pytest.raises(InputError, match="phase both has objects"):
        load(tmp_path, phase=kernel, workload=None, override=mixed)


def test_hosts_take_their_time_and_make_things_up_as_slowed_as_the_rest(tmp_path: Path) -> None:
    def keys(**given: Any) -> dict[str, Any]:
        loaded = load(tmp_path, dilation=10, limit_ns=3_000, **given)
        found = host_keys(loaded.spec, loaded.dilation)
        assert found.pop("patience_ns") == 30_000
        return found

    assert keys() == {}
    assert keys(packet_ns=5_000) == {"packet_ns": 50_000, "packets_at_once": 16}
    forgery = {"host": "h1", "targets": ["h2", "h3"], "stop_ns": 2_000}
    assert keys(forgery=[forgery | {"rate_hz": 0}]) == {}
    assert keys(forgery=[forgery | {"rate_hz": 1_000_000}]) == {
        "forgeries": [forgery | {"every_ns": 10_000, "start_ns": 0, "stop_ns": 20_000, "dscp": 56}]
    }
    seeing = forgery | {"rate_hz": 1_000_000, "overhears_after_ns": 20_000}
    assert keys(forgery=[seeing])["forgeries"][0]["overhears_after_ns"] == 200_000
    with pytest.raises(InputError, match="overhears_after_ns is 9: expected at least"):
        keys(forgery=[seeing | {"overhears_after_ns": 9}])


def test_samples_name_ports_by_pattern(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        sample=[
            {"ports": ["s1:[12]"], "every_ns": 1000},
            {"ports": ["s1:3"], "queues": [1], "every_ns": 1000},
        ],
    )
    queues = sampled_queues(loaded.spec, loaded.topology, loaded.schemes["ndp"])
    ids = [queue.id for queue in loaded.schemes["ndp"].fabric.ports.queue]
    assert queues == [*(("s1", port, queue) for port in (1, 2) for queue in ids), ("s1", 3, 1)]


def test_faults_are_part_of_a_scenario(tmp_path: Path) -> None:
    event = {"at_ns": 5, "do": "link", "a": "h1", "b": "s1", "up": False}
    (traffic,) = load(tmp_path, event=[event], controller_delay_ns=7).phases
    down, reroute = traffic.steps
    assert isinstance(down, SetLink)
    assert isinstance(reroute, Reroute)
    assert reroute.at_ns == 12


def test_faults_of_one_phase(tmp_path: Path) -> None:
    slower = {"at_ns": 3, "do": "link", "a": "h1", "b": "s1", "rate_bps": 1000}
    both = {"at_ns": 5, "do": "link", "a": "h2", "b": "s1", "up": False}
    phases = [phase("whole"), phase("slower") | {"event": [slower]}]
    loaded = load(tmp_path, workload=None, phase=phases, event=[both], controller_delay_ns=7)
    assert [[step.at_ns for step in traffic.steps] for traffic in loaded.phases] == [
        [5, 12],
        [3, 5, 12],
    ]


def test_files_of_a_workload_become_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "sizes.txt").write_text("# bytes, share\n100 0.5\n\n2000 1.0 # all\n")
    size = {"type": "empirical", "file": "sizes.txt", "interpolation": "step"}
    workload = load(tmp_path, workload={"traffic": [{"size": size}]}).phases[0].workload
    points = [(100, 0.5), (2_000, 1.0)]
    inlined = {"type": "empirical", "points": points, "interpolation": "step"}
    assert workload["traffic"][0]["size"] == inlined
    (tmp_path / "sizes.txt").write_text("100\n")
    with pytest.raises(InputError, match="line 1: expected `bytes share`"):
        load(tmp_path, workload={"traffic": [{"size": size}]})


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        (
            {"single_rack": None},
            "give exactly one of topology, fat_tree, three_tier, leaf_sp",
        ),
        ({"topology": "x.toml"}, "give exactly one of"),
        ({"single_rack": None, "fat_tree": {"k": 3}}, "k must be even, not 3"),
        ({"single_rack": None, "topology": "x.toml"}, "x.toml: cannot be read"),
        ({"schemes": []}, "no scheme to run; known: .*ndp"),
        ({"schemes": ["npd"]}, "unknown scheme 'npd'; did you mean 'ndp'"),
        ({"override": {"scdp": {}}}, r"override.scdp: there is no such scheme in \['ndp'\]"),
        ({"override": {"ndp": {"fabric": {"queues": 1}}}}, "with override.ndp: unknown key"),
        ({"override": {"ndp": {"agents": {}}}}, "valid keys: agent, fabric, label, scheme"),
        ({"workload": "none.toml"}, "none.toml: cannot be read"),
        ({"workload": None}, r"give exactly one of workload, \[\[phase\]\]"),
        ({"phase": [phase("a")]}, r"give exactly one of workload, \[\[phase\]\]"),
        ({"workload": None, "phase": [phase("a"), phase("a")]}, "two phases 'a' for one transport"),
        (
            {"workload": None, "phase": [phase("a", transports=["ndp"]), phase("a")]},
            "two phases 'a' for one transport",
        ),
        ({"workload": None, "phase": [phase("A")]}, "name"),
        ({"workload": None, "phase": [phase("a", repeat=1_000_000_000)]}, "repeat"),
        ({"workload": {"group": [{"hosts": ["h9"]}]}}, "has no host 'h9'"),
        ({"group": [{"receivers": ["h99"]}]}, "has no host 'h99'"),
        (
            {"group": [{"receivers": ["h1"], "address": "10.0.0.1"}]},
            "not an IPv4 multicast address",
        ),
        ({"group": [{"receivers": ["h1", "h2"]}, {"receivers": ["h2", "h1"]}]}, "two multicast"),
        ({"dilation": 0}, "dilation"),
        ({"seed": []}, "seed"),
        ({"seed": [1, 2, 1]}, r"seed: one of \[1, 2, 1\] is named twice"),
        ({"seed": -1}, "seed"),
        ({"speed": 1}, "unknown key 'speed'; did you mean 'seed'"),
        ({"sample": [{"ports": ["s2:*"], "every_ns": 1}]}, "sample 1: no switch port .* 's2:"),
        (
            {"sample": [{"ports": ["s1:1"], "every_ns": n} for n in (1, 2)]},
            "sample 2: every_ns = 2, but 1 in the first one",
        ),
        ({"event": [{"at_ns": 0, "do": "restart-switch", "switch": "s9"}]}, "no node 's9'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, keys: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(InputError, match=complaint) as caught:
        load(tmp_path, **keys)
    assert "\n" not in str(caught.value)


def test_loads_are_of_the_hosts_links_and_slowed_with_them(tmp_path: Path) -> None:
    """The generator's own default would stay 1 Gbit/s in a network that runs slower."""
    fast = load(tmp_path, single_rack={"hosts": 3, "rate_bps": 10_000_000_000})
    assert fast.phases[0].workload["link_rate_bps"] == 10_000_000_000
    assert fast.dilation.slow(fast.phases[0].workload)["link_rate_bps"] == 100_000_000
    own = load(tmp_path, workload={"traffic": [], "link_rate_bps": 5})
    assert own.phases[0].workload["link_rate_bps"] == 5


def test_a_scheme_of_ones_own_is_beside_the_scenario_or_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (beside := tmp_path / "beside").mkdir()
    (here := tmp_path / "here").mkdir()
    (here / "mine.toml").write_text('transport = "reno"\nlabel = "of the command line"\n')
    monkeypatch.chdir(here)
    assert load(beside, schemes=["mine.toml"]).schemes["mine.toml"].label == "of the command line"
    (beside / "mine.toml").write_text('transport = "reno"\nlabel = "of the scenario"\n')
    assert load(beside, schemes=["mine.toml"]).schemes["mine.toml"].label == "of the scenario"


def test_phases_are_run_in_order_by_those_whom_they_concern(tmp_path: Path) -> None:
    seeded = {"name": "b", "workload": {"seed": 7, "traffic": []}, "transports": ["scdp"]}
    phases = [phase("a", repeat=2), seeded]
    loaded = load(tmp_path, workload=None, phase=phases, schemes=["ndp", "scdp"])
    assert [one.label for one in loaded.rounds("ndp")] == ["a0", "a1"]
    assert [one.label for one in loaded.rounds("scdp")] == ["a0", "a1", "b"]
    # Each round has a seed of its own, and a workload may have one.
    seeds = [one.workload(1)["seed"] for one in loaded.rounds("scdp")]
    assert seeds == [1, 1001, 7]


def test_multicast_groups_are_those_of_the_file(tmp_path: Path) -> None:
    groups = [{"receivers": ["h1", "h3"]}, {"receivers": ["h2"], "address": "239.9.9.9"}]
    derived, given = load(tmp_path, group=groups).groups
    assert (derived.group, derived.members) == (1, ("h1", "h3"))
    assert derived.address.startswith("239.")
    assert (given.address, given.group) == ("239.9.9.9", 2)


@pytest.mark.parametrize(
    ("table", "phase"),
    [
        ("[file]\nbytes = 5", 'pattern = { type = "random"'),
        ("[incast]\nsenders = 8", 'pattern = { type = "incast"'),
        ("[storage]", 'pattern = { type = "storage-write"'),
    ],
)
def test_a_key_of_before_is_told_with_the_phase_to_write(
    tmp_path: Path, table: str, phase: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'topology = "x.toml"\nschemes = ["ndp"]\n{table}\n')
    with pytest.raises(InputError) as caught:
        load_scenario(path)
    first, *lines = str(caught.value).splitlines()
    assert first == f"{path}: {table.splitlines()[0]} is a phase now; write"
    assert lines[0] == "[[phase]]"
    assert any(line.startswith(phase) for line in lines)
    # The phase of the message is a phase indeed.
    text = "\n".join(lines[:-1])
    validate(ScenarioFile, RACK | {"workload": None} | tomllib.loads(text), "told")
