"""Orders to commands under the wall clock, and the meaning of their answers."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from binaries import BINARIES, ROOT, needs_agent
from ebb_controller import ebb_tm_pb2 as tm
from ebb_experiments.results.flows import FlowTable
from ebb_experiments.run.agents import Agent, Agents, Line
from ebb_experiments.run.players import AgentWorkloads, Commands, Plan, same_file
from ebb_experiments.run.run import Task
from ebb_experiments.run.wall import _between, _subtract
from ebb_experiments.scenario.loaded import all_at_once, load_scenario, scenario
from ebb_topologies.files import InputError

TOUR = ROOT / "experiments" / "scenarios" / "tour.toml"


def plan(directory: Path, scheme: str, label: str, file: Path = TOUR) -> Plan:
    loaded = load_scenario(file, [scheme])
    (phase_round,) = (one for one in loaded.rounds(scheme) if one.label == label)
    agents: Any = Agents(None, BINARIES.agent, directory / "records", "test")  # type: ignore[arg-type]
    return Plan.of(Task(loaded, scheme, 1, phase_round, directory), agents)


@needs_agent
def test_only_scdp_sends_to_a_group(tmp_path: Path) -> None:
    assert plan(tmp_path, "scdp", "write").receivers == [("h13", "h5", "h9")]
    assert plan(tmp_path, "ndp", "write").receivers == []


@needs_agent
def test_the_tour_is_what_its_page_says(tmp_path: Path) -> None:
    """Eight hosts send at the same instant, to a port that is loaded since 8 ms."""
    schedule = plan(tmp_path, "ndp", "incast1").schedule
    begun = sorted((line["traffic"], line["start_ns"]) for line in schedule)
    dilation = load_scenario(TOUR).dilation
    late = round(dilation.time(8_000_000))
    assert begun == [("background", 0), *[("incast", late)] * 8]
    assert {tuple(line["destinations"]) for line in schedule} == {("h1",)}
    # NDP reads a part from each replica, SCDP all from all of them.
    parts = plan(tmp_path, "ndp", "read").schedule
    assert sorted(line["sources"] for line in parts) == [["h13"], ["h5"], ["h9"]]
    (whole,) = plan(tmp_path, "scdp", "read").schedule
    assert sorted(whole["sources"]) == ["h13", "h5", "h9"]
    assert 0 <= sum(line["bytes"] for line in parts) - whole["bytes"] < 3


@needs_agent
def test_what_waits_for_others_takes_agents_that_play_by_themselves(tmp_path: Path) -> None:
    service = {"type": "fixed", "value_ns": 10}
    query = {"type": "partition-aggregate", "fan_out": 2, "query_bytes": 100, "service": service}
    traffic = all_at_once("search", query, 1_000)
    phase = {"name": "search", "objects": "files", "workload": {"traffic": [traffic]}}
    table = {"single_rack": {"hosts": 4}, "schemes": ["ndp"], "phase": [phase]}
    loaded = scenario(table, "test")
    (phase_round,) = loaded.rounds("ndp")
    agents: Any = Agents(None, BINARIES.agent, tmp_path / "records", "test")  # type: ignore[arg-type]
    made = Plan.of(Task(loaded, "ndp", 1, phase_round, tmp_path), agents)
    with pytest.raises(InputError, match=r"'search' has a query .* \"generated\" can"):
        Commands(made).prepare()


def ended(role: str, line: Line, **keys: Any) -> Line:
    """Record of an agent about a flow of a transfer from h1 to h16 in a fat-tree of 4 ports."""
    ends = ("10.0.0.2:9000", "10.3.1.3:7000")
    local, peer = ends if role == "sender" else reversed(ends)
    counts = dict.fromkeys(
        (
            *("packets_sent", "payload_bytes_sent", "retransmitted", "timeouts", "returned"),
            *("packets_received", "trimmed", "ce_marks", "duplicates", "decodes", "unneeded"),
        ),
        1,
    )
    return counts | {
        "event": "flow", "role": role, "local": local, "peer": peer, "session": 7,
        "name": f"file-{line['id']}.bin", "stream_bytes": 9, "started_at_ns": 50,
        "finished_at_ns": 90, "status": "finished", "sha256_ok": True, **keys,
    }  # fmt: skip


def told(made: Plan, *lines: Line, running: bool = False) -> Commands:
    """Commands of which one process has told these."""
    player = Commands(made, start_ns=40)
    output = made.task.directory / "lines"
    output.write_text("".join(json.dumps(line) + "\n" for line in lines))
    process: Any = SimpleNamespace(running=running, died=lambda: "send ended: no route")
    agent = Agent(process, output, lambda: None)
    made.agents.started.append(agent)
    player.running[made.schedule[0]["id"]] = agent
    return player


@needs_agent
def test_what_arrived_is_compared_with_what_was_sent(tmp_path: Path) -> None:
    made = plan(tmp_path, "ndp", "file")
    (line,) = made.schedule
    sender, receiver = ended("sender", line), ended("receiver", line)
    # The daemon tells what its client has told.
    player = told(made, sender, receiver, receiver)
    player._make_file(line)
    sent = tmp_path / "files" / "file-0.bin"
    arrived = tmp_path / "received" / "h16" / "file-0.bin"
    assert sent.stat().st_size == line["bytes"] == 4_000_000

    def row() -> dict[str, Any]:
        flows = FlowTable(made.task.loaded.topology, made.task.loaded.dilation, made.task.head)
        for each in player.lines():
            flows.append(each)
        (found,) = flows.table()
        return found

    assert player.settled()
    assert (row()["status"], row()["reason"]) == ("failed", "receiver: not what was sent")
    arrived.write_bytes(sent.read_bytes())
    assert same_file(arrived, sent)
    assert (row()["status"], row()["phase"], row()["source"]) == ("finished", "file", "h1")
    assert row()["bytes"] == 4_000_000


@needs_agent
def test_a_command_that_fails_without_a_flow_is_a_transfer_that_failed(tmp_path: Path) -> None:
    made = plan(tmp_path, "ndp", "file")
    player = told(made)
    assert player.done()
    assert not player.settled()
    (line,) = player.lines()
    assert (line["event"], line["status"]) == ("transfer", "failed")
    assert line["reason"] == "send ended: no route"
    assert not told(made, running=True).done()


@needs_agent
def test_a_phase_that_agents_play_ends_when_everything_has_arrived(tmp_path: Path) -> None:
    made = plan(tmp_path, "ndp", "incast1")
    assert made.arrivals == len(made.schedule) == 9
    player = AgentWorkloads(made)
    outputs = [tmp_path / name for name in ("h1", "h2")]
    for output in outputs:
        output.write_text('{"event": "ready"}\n')
        process: Any = SimpleNamespace(name=output.name)
        made.agents.started.append(Agent(process, output, lambda: None))
    for arrived, line in enumerate(made.schedule):
        assert not player.done() and len(player.to_come) == 9 - arrived
        about = {"traffic": line["traffic"], "transfer": line["id"], "kind": line["kind"]}
        with outputs[arrived % 2].open("a") as output:
            output.write(json.dumps(ended("sender", line) | about) + "\n")
            output.write(json.dumps(ended("receiver", line) | about) + "\n")
    assert player.done()
    assert len(player.lines()) == 2 * len(made.schedule)


@needs_agent
@pytest.mark.parametrize("why", ["send", "answer"])
def test_a_phase_ends_with_what_will_never_arrive(why: str, tmp_path: Path) -> None:
    """A sender gives up, of whom the receiver has not heard; or an answer will not come, because
    its query failed."""
    made = plan(tmp_path, "ndp", "incast1")
    player = AgentWorkloads(made)
    output = tmp_path / "h1"
    process: Any = SimpleNamespace(name="h1")
    made.agents.started.append(Agent(process, output, lambda: None))
    never = {"event": "transfer", "part": "receive", "reason": "never begun"}
    status = {"status": "failed" if why == "send" else "not-started"}
    lines = [
        (ended("sender", line) if why == "send" else never)
        | {"transfer": line["id"], "kind": line["kind"]}
        | status
        for line in made.schedule
    ]
    open_still = lines[0] | {"event": "transfer", "status": "unfinished"}
    output.write_text("".join(json.dumps(line) + "\n" for line in [*lines[1:], open_still]))
    assert not player.done()
    with output.open("a") as more:
        more.write(json.dumps(lines[0]) + "\n")
    assert player.done()


def test_what_ended_elsewhere_is_no_longer_unfinished() -> None:
    """The host that was to answer has not heard of the query that failed."""
    known = {"event": "transfer", "transfer": 1, "job": 0, "traffic": "t", "bytes": 9}
    known |= {"kind": "response"}
    at_client = known | {"part": "receive", "status": "not-started", "reason": "never begun"}
    at_server = known | {"part": "start", "status": "unfinished", "reason": "it waits"}
    loaded = load_scenario(TOUR)
    for lines in ([at_client, at_server], [at_server, at_client]):
        table = FlowTable(loaded.topology, loaded.dilation, {})
        for line in lines:
            table.append(line)
        assert list(table.table().column("status")) == ["not-started"]


def test_what_is_counted_begins_with_the_phase() -> None:
    before = {"s1": {"port_in": [(5, 50), (7, 70)]}}
    after = {"s1": {"port_in": [(9, 90), (2, 20)]}}  # the second began again with its switch
    assert _between(before, after) == {"s1": {"port_in": [(4, 40), (2, 20)]}}

    def stats(**drops: int) -> tm.Stats:
        count = {reason: tm.Count(packets=n, bytes=n) for reason, n in drops.items()}
        return tm.Stats(drops=[tm.OtherDrops(port=1, reason=r, count=c) for r, c in count.items()])

    now = stats(down=9, loss=4, old=3)
    _subtract(stats(down=5, old=3), now)
    assert [(drop.reason, drop.count.packets) for drop in now.drops] == [("down", 4), ("loss", 4)]
