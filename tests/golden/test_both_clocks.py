"""One script of requests, carried out by daemons in namespaces and by the simulator: both tell the
same of every flow, but times, ports and counts of packets."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_hosts import BINARY, Host, on_bridge, reason_to_skip
from ebb_experiments.results.flows import FlowTable
from ebb_experiments.run import virtual
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.scenario.loaded import load_scenario
from recorded import BUILD
from request_script import STEADY

Line = dict[str, Any]

LEAD_NS = 1_500_000_000
"""For three agents to come up and prepare."""
SECONDS = 30.0
NAMES = ("h1", "h2", "h3")
SCRIPT = ("transfer", "job", "traffic", "kind", "part", "bytes")
"""The keys of a record that say what it is of the script."""


def traffic(name: str, pattern: Line, size: int, count: int) -> Line:
    return {
        "name": name,
        "pattern": pattern,
        "arrivals": {"type": "poisson", "rate_hz": 50},
        "size": {"type": "fixed", "bytes": size},
        "count": count,
    }


def script(scheme: str) -> Line:
    """Sends, queries with their answers, fetches, and objects in replicas in each way there is."""
    two = {"replicas": 2, "placement": "any"}
    modes = ["multi-unicast", "daisy-chain", *(["one-to-many"] if scheme == "scdp" else [])]
    reads = ["nearest", *(["many-to-one"] if scheme == "scdp" else [])]
    query = {"type": "partition-aggregate", "fan_out": 2, "query_bytes": 500}
    service = {"type": "fixed", "value_ns": 1_000_000}
    return {
        "seed": 3,
        "traffic": [
            traffic("sends", {"type": "random"}, 20_000, 6),
            traffic("queries", {**query, "service": service}, 3_000, 3),
            traffic("requests", {"type": "requests", "connections": 1}, 10_000, 6),
            *(traffic(m, {"type": "storage-write", "mode": m} | two, 10_000, 3) for m in modes),
            *(traffic(m, {"type": "storage-read", "mode": m} | two, 10_000, 3) for m in reads),
        ],
    }


def steady(lines: list[Line], names: dict[str, str]) -> list[Line]:
    """Values that depend on no time, with names for addresses, in an order that does not either."""
    found = []
    for line in lines:
        if line["event"] in ("flow", "transfer"):
            kept = {key: line[key] for key in ("event", *SCRIPT, *STEADY) if key in line}
            for key in ("local", "peer"):
                # A group is none of the hosts.
                kept[key] = names.get(line[key].partition(":")[0], "group")
            if "senders" in line:
                # The peer is the one that was heard first: a matter of time.
                peers = (sender["peer"].partition(":")[0] for sender in line["senders"])
                kept["peer"] = [names[peer] for peer in peers]
            kept["name"] = line["name"].partition("-")[2]
            found.append(kept)
    return sorted(found, key=lambda kept: json.dumps(kept, sort_keys=True))


def told_by_agents(hosts: list[Host], scheme: str, scratch: Path) -> list[Line]:
    places = [
        {"name": name, "address": host.address, "rack": "r", "pod": "p"}
        for name, host in zip(NAMES, hosts, strict=True)
    ]
    workload = scratch / f"{scheme}.json"
    workload.write_text(json.dumps(script(scheme) | {"host": places}))
    start_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC) + LEAD_NS
    running = []
    for name, host in zip(NAMES, hosts, strict=True):
        command = ["ip", "netns", "exec", host.namespace, str(BINARY), "bench"]
        command += ["--transport", scheme, "--socket", str(host.socket), "--self", name]
        command += ["--workload", str(workload), "--start-at-ns", str(start_ns)]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    try:
        printed = [process.communicate(timeout=SECONDS)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    lines = [json.loads(line) for text in printed for line in text.splitlines()]
    names = {host.address: name for name, host in zip(NAMES, hosts, strict=True)}
    return steady(lines, names)


def told_by_simulator(scheme: str, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> list[Line]:
    lines: list[Line] = []

    class Recorder(FlowTable):
        def append(self, line: Line) -> None:
            lines.append(line)
            super().append(line)

    monkeypatch.setattr(virtual, "FlowTable", Recorder)
    scenario = scratch / "scenario.toml"
    workload = scratch / "workload.json"
    workload.write_text(json.dumps(script(scheme)))
    scenario.write_text(
        f'single_rack = {{ hosts = 3 }}\nschemes = ["{scheme}"]\nworkload = "{workload.name}"\n'
    )
    loaded = load_scenario(scenario, None)
    Run(loaded, scheme, 1, virtual.Virtual(Binaries(BUILD)), scratch / scheme).go()
    return steady(lines, {host.ip: host.name for host in loaded.topology.hosts})


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Host]]:
    if reason := reason_to_skip():
        pytest.skip(reason)
    with on_bridge(tmp_path_factory.mktemp("daemons")) as hosts:
        yield hosts


@pytest.mark.parametrize("scheme", ["ndp", "scdp", "dctcp"])
def test_agents_and_simulator_tell_the_same(
    scheme: str, hosts: list[Host], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = told_by_simulator(scheme, tmp_path, monkeypatch)
    assert {line["traffic"] for line in simulated} == {t["name"] for t in script(scheme)["traffic"]}
    assert all(line["status"] == "finished" for line in simulated)
    assert told_by_agents(hosts, scheme, tmp_path) == simulated
