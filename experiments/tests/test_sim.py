"""Virtual time, end to end: the controller configures simulated switches, hosts talk."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.csv
import pyarrow.parquet
import pytest
from binaries import BINARIES, needs_simulator
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms.drop_notification import NOTIFIED
from ebb_controller.mechanisms.trimming import TRIMMED
from ebb_experiments.results.arrow import SCHEMAS
from ebb_experiments.results.results import Results
from ebb_experiments.results.tables import Rows
from ebb_experiments.run.conversation import SimulatorError
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import Virtual, check_all_reported
from ebb_experiments.scenario.loaded import all_at_once, scenario
from ebb_experiments.sim import running


def incast(senders: int = 5, size: int = 60_000, **pattern: Any) -> dict[str, Any]:
    kind = {"type": "incast", "senders": senders, **pattern}
    return {"traffic": [all_at_once("incast", kind, size)]}


def simulate(directory: Path, scheme: str, threads: int = 1, **keys: Any) -> Results:
    table = {"schemes": [scheme], "workload": incast(), **keys}
    if "single_rack" not in keys:
        table["leaf_spine"] = {"leaves": 2, "spines": 2, "hosts_per_leaf": 3}
    loaded = scenario(table, "test")
    (seed,) = loaded.spec.seeds
    return Run(loaded, scheme, seed, Virtual(BINARIES, threads), directory).go()


@needs_simulator
def test_a_billion_senders_are_a_range_error(tmp_path: Path) -> None:
    """With the name of the user's file, not of the one that was made of it."""
    words = "test: traffic incast pattern: senders is 1000000000, expected 1 to 1000000$"
    with pytest.raises(SimulatorError, match=words):
        simulate(tmp_path, "ndp", workload=incast(1_000_000_000))


@needs_simulator
@pytest.mark.parametrize("scheme", ["dctcp", "ndp", "scdp"])
def test_the_result_does_not_depend_on_the_number_of_threads(tmp_path: Path, scheme: str) -> None:
    one, two = (simulate(tmp_path / str(threads), scheme, threads) for threads in (1, 2))
    assert [flow["status"] for flow in one.flows] == ["finished"] * 5
    assert one.run["trace_hash"] == two.run["trace_hash"]
    assert one.tables == two.tables
    assert one.run["transfers"] == {"ended": 5, "unfinished": 0}


@needs_simulator
def test_a_program_that_the_switches_refuse_is_one_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """They start without it then, and the controller hears why."""
    export = [{"register": "queue_drains", "what": "drain-bytes"}]
    override = {"ndp": {"fabric": {"ports": {"export": export}}}}
    words = r"^switch \w+ at \S+ refuses \S+/fabric.json: INVALID_ARGUMENT: .*queue_drains.*`make "
    with pytest.raises(ControllerError, match=words) as refused:
        simulate(tmp_path, "ndp", override=override)
    assert "\n" not in str(refused.value)
    told = capfd.readouterr()
    assert told.out + told.err == ""


@needs_simulator
@pytest.mark.parametrize("damaged", ["fabric.json", "fabric.p4info.txtpb"])
def test_a_damaged_program_is_named_though_the_simulator_has_started(
    tmp_path: Path, damaged: str
) -> None:
    names = ("ebb-agent", "ebb-simulator", "fabric.json", "fabric.p4info.txtpb")
    for name in names:
        (tmp_path / name).symlink_to(BINARIES.directory / name)
    (tmp_path / damaged).unlink()
    (tmp_path / damaged).write_text("{")
    table = {"schemes": ["ndp"], "workload": incast(), "single_rack": {"hosts": 6}}
    clock = Virtual(Binaries(tmp_path), threads=1)
    with pytest.raises(ControllerError, match=f"{damaged} is damaged"):
        Run(scenario(table, "test"), "ndp", 1, clock, tmp_path / "run").go()


@needs_simulator
def test_a_host_takes_its_time_for_each_packet(tmp_path: Path) -> None:
    """NDP's object of one packet is there when that has been taken."""
    one = incast(1, 1_000)
    at_once, later = (
        simulate(tmp_path / str(ns), "ndp", packet_ns=ns, workload=one) for ns in (0, 5_000)
    )
    (first,), (second,) = at_once.flows, later.flows
    assert second["fct_ns"] == first["fct_ns"] + 5_000


def requests(count: int, size: int, connections: int) -> dict[str, Any]:
    """A workload: `h1` fetches so many objects of this size from `h2`, one each millisecond."""
    pattern = {"type": "requests", "clients": "client", "servers": "server"}
    traffic = {
        "name": "requests",
        "pattern": pattern | {"connections": connections},
        "arrivals": {"type": "periodic", "period_ns": 1_000_000},
        "size": {"type": "fixed", "bytes": size},
        "count": count,
    }
    groups = [{"name": "client", "hosts": ["h1"]}, {"name": "server", "hosts": ["h2"]}]
    return {"group": groups, "traffic": [traffic], "duration_ns": 2_000_000_000}


@needs_simulator
def test_an_answer_may_wait_behind_others_for_as_long_as_the_run_lasts(tmp_path: Path) -> None:
    """Two requests of 20 MB at 10 Mbit/s over one connection: 32 s."""
    results = simulate(
        tmp_path,
        "tcp-droptail",
        single_rack={"hosts": 2, "rate_bps": 10_000_000, "delay_ns": 40_000},
        workload=requests(2, 20_000_000, connections=1),
        override={"tcp-droptail": {"agent": {"tcp": {"connections": "open"}}}},
        limit_ns=60_000_000_000,
        dilation=1,
    )
    assert [flow["status"] for flow in results.flows] == ["finished", "finished"]


@needs_simulator
def test_a_host_serves_as_many_as_ask(tmp_path: Path) -> None:
    """Requests of 1 MB that come eight times as fast as they are answered."""
    results = simulate(
        tmp_path,
        "tcp-droptail",
        single_rack={"hosts": 2, "rate_bps": 1_000_000_000, "delay_ns": 1_000},
        workload=requests(80, 1_000_000, connections=1),
        limit_ns=5_000_000_000,
    )
    assert [flow["status"] for flow in results.flows] == ["finished"] * 80
    waits = [flow["started_at_ns"] - flow["offered_at_ns"] for flow in results.flows]
    assert max(waits) < 100_000_000


@needs_simulator
def test_made_up_notifications(tmp_path: Path) -> None:
    """Those of flows that do not exist have nothing sent again, those of packets that somebody has
    seen do; however many threads there are."""
    forgery = {
        "host": "h6",
        "targets": ["h1"],
        "rate_hz": 100_000,
        "stop_ns": 100_000_000,
    }
    seen = forgery | {"overhears_after_ns": 10_000}

    def run(name: str, threads: int, *forgeries: dict[str, Any]) -> Results:
        workload = incast(1, 1_000_000, **{"from": "sender", "to": "receiver"}) | {
            "group": [
                {"name": "sender", "hosts": ["h1"]},
                {"name": "receiver", "hosts": ["h4"]},
            ]
        }
        keys: dict[str, Any] = {"workload": workload, "forgery": [*forgeries]}
        return simulate(tmp_path / name, "fastlane", threads, **keys)

    honest, invented = run("honest", 1), run("invented", 1, forgery)
    one, two = run("one", 1, seen), run("two", 2, seen)

    def again(results: Results) -> int:
        (flow,) = results.flows
        assert flow["status"] == "finished"
        return flow["retransmitted"]

    assert again(invented) == again(honest) == 0
    assert again(one) > 0
    assert one.run["trace_hash"] == two.run["trace_hash"] != honest.run["trace_hash"]


@needs_simulator
def test_pfabric_is_told_of_what_is_pushed_out(tmp_path: Path) -> None:
    results = simulate(tmp_path, "pfabric-fastlane", workload=incast(5, 200_000))
    assert [flow["status"] for flow in results.flows] == ["finished"] * 5
    told = results.total(NOTIFIED.name)
    assert told > 0
    assert sum(flow["retransmitted"] for flow in results.flows) >= told


@needs_simulator
def test_another_seed_is_another_run(tmp_path: Path) -> None:
    """Another seed of the workload too, which has none of its own here."""
    one, two = (simulate(tmp_path / str(seed), "ndp", seed=seed) for seed in (1, 2))
    assert one.run["trace_hash"] != two.run["trace_hash"]
    ends = [[(flow["source"], flow["destination"]) for flow in run.flows] for run in (one, two)]
    assert ends[0] != ends[1]


@needs_simulator
def test_a_lone_packet_takes_the_time_of_the_closed_form(tmp_path: Path) -> None:
    rack = {"hosts": 2, "rate_bps": 1_000_000_000, "delay_ns": 10_000}
    (flow,) = simulate(tmp_path, "ndp", single_rack=rack, workload=incast(1, 1_000)).flows
    # Ethernet, IPv4 and Ebb's header, then the envelope and the content (docs/wire-format.md).
    frame_bytes = 14 + 20 + 48 + flow["stream_bytes"]
    # Store and forward: the host's link and the switch's, 10 us of propagation on each.
    assert flow["fct_ns"] == pytest.approx(2 * (frame_bytes * 8 + 10_000), abs=1)


@needs_simulator
def test_the_files_of_a_run_say_the_same(tmp_path: Path) -> None:
    results = simulate(tmp_path, "ndp", workload=incast(5, 200_000))
    out = tmp_path / "out"
    results.write(out)
    for name, schema in SCHEMAS.items():
        table = pyarrow.parquet.read_table(out / f"{name}.parquet")
        assert table.schema.equals(schema)
        assert table.num_rows == len(results.tables[name])
        types = pyarrow.csv.ConvertOptions(
            column_types=schema, strings_can_be_null=True, quoted_strings_can_be_null=False
        )
        assert pyarrow.csv.read_csv(out / f"{name}.csv", convert_options=types).equals(table)
    about = json.loads((out / "run.json").read_text())
    assert about["trace_hash"] == results.run["trace_hash"]
    assert about["parameters"]["workload"]["seed"] == about["seed"] == 1
    assert about["versions"]["simulator"].startswith("ebb-simulator ")
    # Packets that the traffic managers handed back are those that the program trimmed or dropped.
    deflected = sum(queue["deflected_packets"] for queue in results.rows("queues"))
    assert results.total(TRIMMED.name) == deflected > 0


@needs_simulator
def test_phases_are_runs_of_their_own_in_the_same_tables(tmp_path: Path) -> None:
    phases = [
        {"name": "first", "workload": incast(2, 20_000), "repeat": 2},
        {"name": "second", "workload": incast(3, 20_000), "transports": ["ndp"]},
        {"name": "other", "workload": incast(3, 20_000), "transports": ["scdp"]},
    ]
    results = simulate(tmp_path, "ndp", workload=None, phase=phases)
    counted = Counter((flow["phase"], flow["round"]) for flow in results.flows)
    assert counted == {("first", 0): 2, ("first", 1): 2, ("second", 0): 3}
    assert {row["phase"] for row in results.rows("queues")} == {"first", "second"}
    results.write(tmp_path / "out")
    about = json.loads((tmp_path / "out" / "run.json").read_text())
    assert [each["phase"] for each in about["phases"]] == ["first", "first", "second"]
    # Each round has another seed.
    assert len({each["trace_hash"] for each in about["phases"]}) == 3
    assert (about["scheme"], about["seed"], about["clock"]) == ("ndp", 1, "virtual")


@needs_simulator
def test_queues_conserve_packets(tmp_path: Path) -> None:
    for queue in simulate(tmp_path, "dctcp").rows("queues"):
        assert queue["enqueued_packets"] == queue["dequeued_packets"] + queue["depth_packets"]


@needs_simulator
def test_a_simulator_that_dies_leaves_its_last_words(tmp_path: Path) -> None:
    workload = incast()
    workload["traffic"][0]["pattern"]["to"] = "nobody"
    with pytest.raises(SimulatorError, match="nobody"):
        simulate(tmp_path, "ndp", workload=workload)


@needs_simulator
def test_an_interrupted_run_leaves_no_process_and_touches_no_other_results(tmp_path: Path) -> None:
    scenario = tmp_path / "long.json"
    workload = incast(5, 100_000_000_000)
    keys = {"single_rack": {"hosts": 6}, "schemes": ["ndp"], "workload": workload}
    keys["limit_ns"] = 100_000_000_000
    scenario.write_text(json.dumps(keys))
    earlier = tmp_path / "long" / "earlier" / "ndp" / "run.json"
    earlier.parent.mkdir(parents=True)
    earlier.write_text("of an earlier run")
    (tmp_path / "long" / "latest").symlink_to("earlier")
    command = [sys.executable, "-m", "ebb_experiments.sim.cli", str(scenario)]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        deadline = time.monotonic() + 30
        while not (simulators := children.read_text().split()) or not (
            begun := list(tmp_path.glob("long/2*/ndp/workload.json"))
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.0)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=20)
    finally:
        process.kill()
    assert "ebb-sim: interrupted" in said
    assert process.returncode == 130
    assert not any(Path(f"/proc/{pid}").exists() for pid in simulators)
    assert not begun[0].with_name("run.json").exists()
    assert (tmp_path / "long" / "latest" / "ndp" / "run.json").read_text() == "of an earlier run"


def simulated_file(tmp_path: Path, schemes: list[str], senders: int) -> tuple[int, str]:
    """Runs `ebb-sim` of one file, whose content changes: (exit code, errors)."""
    file = tmp_path / "same.json"
    keys = {"single_rack": {"hosts": 6}, "schemes": schemes, "workload": incast(senders, 20_000)}
    file.write_text(json.dumps(keys))
    done = subprocess.run(
        [sys.executable, "-m", "ebb_experiments.sim.cli", str(file), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    return done.returncode, done.stderr


@needs_simulator
def test_results_of_two_runs_of_one_file_never_mix(tmp_path: Path) -> None:
    assert simulated_file(tmp_path, ["dctcp", "ndp"], 5)[0] == 0
    assert simulated_file(tmp_path, ["hull"], 3)[0] == 0
    latest = tmp_path / "same" / "latest"
    flows = pl.read_parquet(latest / "*" / "flows.parquet")
    assert flows["scheme"].to_list() == ["hull"] * 3
    first, second = sorted(path for path in latest.parent.iterdir() if not path.is_symlink())
    assert sorted(pl.read_parquet(first / "*" / "flows.parquet")["scheme"].unique()) == [
        "dctcp",
        "ndp",
    ]
    assert {"queues.svg", "completion.svg", "summary.json"} - {
        path.name for path in second.iterdir()
    } == {"queues.svg"}  # nobody has looked at queues
    # One that fails leaves all of them, and `latest`, as they are.
    before = {path: path.lstat().st_mtime_ns for path in latest.parent.rglob("*")}
    code, said = simulated_file(tmp_path, ["dctcp", "nothing"], 3)
    assert code == 1 and "nothing" in said
    assert {path: path.lstat().st_mtime_ns for path in latest.parent.rglob("*")} == before
    compared = subprocess.run(
        [
            sys.executable,
            "-m",
            "ebb_experiments.tour.compare",
            "--a",
            str(first),
            "--b",
            str(latest),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert compared.returncode == 0, compared.stdout
    assert f"A: {first.name}" in compared.stdout and f"B: {second.name}" in compared.stdout


@needs_simulator
def test_the_table_is_whole_and_has_means_over_seeds(tmp_path: Path) -> None:
    """Also where the output goes to a file, with long names and rounds of a phase."""
    name = "a-scheme-with-a-name-that-is-longer-than-all-of-those-that-we-have-ourselves"
    keys = {
        "single_rack": {"hosts": 6},
        "seed": [1, 2],
        "schemes": [name],
        "override": {name: {"scheme": "dctcp"}},
        "phase": [{"name": "incast", "repeat": 2, "workload": incast(5, 20_000)}],
    }
    file = tmp_path / "seeds.json"
    file.write_text(json.dumps(keys))
    done = subprocess.run(
        [sys.executable, "-m", "ebb_experiments.sim.cli", str(file), "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "80"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line.strip() for line in done.stdout.splitlines()]
    told = {seed: run_of(tmp_path / "seeds" / "latest" / name / f"seed-{seed}") for seed in (1, 2)}
    for seed, about in told.items():
        for number, phase in enumerate(about["phases"], start=1):
            (line,) = (
                x for x in lines if x.startswith(f"{name}, seed {seed}, incast round {number} ")
            )
            assert line.endswith(phase["trace_hash"])
    means = [line for line in lines if line.startswith(f"{name}, mean of 2, incast round ")]
    assert [line.split()[7] for line in means] == ["10/10", "10/10"]


def run_of(directory: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((directory / "run.json").read_text())
    return about


def test_means_over_seeds() -> None:
    rows = [["5/5", "1.000", "nan", "3", "x1"], ["4/5", "2.500", "1.0", "4", "y2"]]
    assert running._mean(rows) == ["9/10", "1.750", "nan", "3.5", ""]


# -- faults -----------------------------------------------------------------------------------

needs_faults = needs_simulator
UPLINK = {"do": "link", "a": "l0", "b": "s0"}


@needs_faults
@pytest.mark.parametrize("scheme", ["dctcp", "ndp", "scdp"])
def test_a_link_fails_and_the_controller_routes_around_it(tmp_path: Path, scheme: str) -> None:
    events = [
        UPLINK | {"at_ns": 200_000, "up": False},
        UPLINK | {"at_ns": 2_000_000, "up": True},
    ]
    one, two = (
        simulate(
            tmp_path / str(threads),
            scheme,
            threads,
            workload=incast(5, 100_000),
            event=events,
            controller_delay_ns=300_000,
        )
        for threads in (1, 2)
    )
    assert [flow["status"] for flow in one.flows] == ["finished"] * 5
    assert one.losses["link-down"] > 0
    said = [step["what"] for step in one.run["steps"] if not step.get("skipped")]
    assert said[0] == "link l0:4 - s0:1 down"
    assert said[1].startswith("the controller routes around l0 - s0: ")
    assert (one.run["trace_hash"], one.tables) == (two.run["trace_hash"], two.tables)


@needs_faults
def test_a_restarted_switch_forwards_again_when_the_controller_is_back(tmp_path: Path) -> None:
    event = {"do": "restart-switch", "switch": "s1", "at_ns": 200_000}
    keys = {"single_rack": {"hosts": 4}, "workload": incast(3, 100_000), "event": [event]}
    results = simulate(tmp_path, "dctcp", controller_delay_ns=500_000, **keys)
    assert [flow["status"] for flow in results.flows] == ["finished"] * 3
    # Nothing arrives before it has its program again, nor much before the senders try again.
    assert min(flow["fct_ns"] for flow in results.flows) > 700_000
    assert results.losses["no-program"] > 0
    never = simulate(
        tmp_path / "never", "dctcp", controller_delay_ns="never", limit_ns=20_000_000, **keys
    )
    assert {flow["status"] for flow in never.flows} == {"unfinished"}
    # Each with the reason, and of some how much has arrived.
    unfinished = "unfinished at the end of the run: "
    assert all(flow["reason"].startswith(unfinished) for flow in never.flows)
    assert never.reasons.total() == never.unfinished == 3
    assert all(unfinished in reason for reason in never.reasons)


def test_a_table_without_a_transfer_that_has_ended_is_refused() -> None:
    flows = Rows("flows", [{"transfer": 1}, {"transfer": 1}, {"transfer": 4}])
    check_all_reported(2, flows)
    with pytest.raises(
        SimulatorError, match="3 transfers have ended, and the table of flows has 2"
    ):
        check_all_reported(3, flows)


@needs_faults
@pytest.mark.parametrize("scheme", ["dctcp", "ndp", "scdp"])
def test_what_a_link_loses_or_corrupts_arrives_all_the_same(tmp_path: Path, scheme: str) -> None:
    event = UPLINK | {"at_ns": 0, "loss": 0.05, "corrupt": 0.05}
    results = simulate(
        tmp_path, scheme, workload=incast(5, 100_000), content="pattern", event=[event]
    )
    assert [flow["status"] for flow in results.flows] == ["finished"] * 5
    assert results.losses["link-loss"] > 0
    corrupt = [row for row in results.rows("drops") if row["reason"] == "link-corrupt"]
    assert sum(row["packets"] for row in corrupt) > 0


@needs_faults
def test_queues_are_sampled_and_ports_captured(tmp_path: Path) -> None:
    results = simulate(
        tmp_path,
        "ndp",
        single_rack={"hosts": 6},
        workload=incast(5, 50_000),
        sample=[{"ports": ["s1:*"], "queues": [1], "every_ns": 10_000}],
        event=[{"do": "capture", "port": "s1:1", "at_ns": 0, "until_ns": 400_000}],
    )
    samples = results.rows("samples")
    times = sorted({sample["at_ns"] for sample in samples})
    assert times[:3] == [0, 10_000, 20_000]
    assert len(samples) == 6 * len(times)
    # NDP's data queue has room for eight packets, and an incast fills one.
    assert max(sample["depth_packets"] for sample in samples) == 8
    deepest = {
        queue["port"]: queue["max_depth_packets"]
        for queue in results.rows("queues")
        if queue["queue"] == 1
    }
    for sample in samples:
        assert sample["depth_packets"] <= deepest[sample["port"]]
    captured = list((tmp_path / "captures").iterdir())
    assert captured
    assert all(path.stat().st_size > 24 for path in captured)


@needs_simulator
def test_an_object_to_several_and_from_several(tmp_path: Path) -> None:
    """The groups of the transfers are installed before the clock runs."""
    traffic = [
        all_at_once(name, {"type": f"storage-{name}", "placement": "any"}, 50_000)
        for name in ("write", "read")
    ]
    results = simulate(tmp_path, "scdp", workload={"traffic": traffic})
    assert {flow["status"] for flow in results.flows} == {"finished"}
    writes = [flow for flow in results.flows if flow["kind"] == "send-one-to-many"]
    reads = [flow for flow in results.flows if flow["kind"] == "fetch-many-to-one"]
    assert len(writes) == 3 * len(reads) == 3 * 6


@needs_simulator
def test_switches_count_from_the_end_of_the_warm_up(tmp_path: Path) -> None:
    """The second half of a flow that fills its link: half the packets, all of the link."""
    rack = {"hosts": 2, "rate_bps": 1_000_000_000, "delay_ns": 1_000}
    keys: dict[str, Any] = {"single_rack": rack, "workload": incast(1, 10_000_000)}
    whole, half = (
        simulate(tmp_path / str(warm), "ndp", limit_ns=10_000_000, warm_up_ns=warm, **keys)
        for warm in (0, 5_000_000)
    )
    # Pulls go the other way.
    all_of_it, rest = (
        max(run.rows("ports"), key=lambda row: row["transmitted_bytes"]) for run in (whole, half)
    )
    assert rest["transmitted_bytes"] == pytest.approx(all_of_it["transmitted_bytes"] / 2, rel=0.02)
    assert rest["utilisation"] == pytest.approx(1, abs=0.01)
