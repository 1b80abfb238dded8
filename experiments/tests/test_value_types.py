"""A value of another type than a key has, for every key of every kind of file: one line that names
the file, never a traceback."""

from __future__ import annotations

import datetime
import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from binaries import ROOT
from ebb_controller.scheme import load_scheme
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.study.spec import load_experiment
from ebb_topologies.files import InputError
from ebb_topologies.model import load_topology

SCENARIO = """
single_rack = { hosts = 4, rate_bps = 1_000_000_000, delay_ns = 10_000 }
schemes = ["dctcp", "mine"]
limit_ns = 1_000_000_000
warm_up_ns = 0
seed = [1, 2]
dilation = 50.0
controller_delay_ns = "never"
link_override = [{ ends = ["s1", "h1"], rate_bps = 1_000_000, delay_ns = 5 }]

[override.mine]
scheme = "ndp"
agent.ndp.initial_window = 5

[[sample]]
ports = ["*:*"]
queues = [1]
every_ns = 100_000

[[group]]
receivers = ["h1", "h2"]
address = "239.0.0.1"

[[forgery]]
host = "h1"
targets = ["h2"]
rate_hz = 1000.0
stop_ns = 1000

[[phase]]
name = "incast"
repeat = 2
objects = "generated"
transports = ["ndp", "dctcp"]
[[phase.event]]
at_ns = 5
do = "restart-switch"
switch = "s1"
[phase.workload]
seed = 5
[[phase.workload.group]]
name = "g"
hosts = ["h1", "h2"]
[[phase.workload.traffic]]
name = "x"
pattern = { type = "incast", senders = 1, to = "g" }
arrivals = { type = "poisson", load = 0.2 }
size = { type = "empirical", points = [[100, 0.5], [200, 1.0]] }
"""
WORKLOAD = tomli_w.dumps(tomllib.loads(SCENARIO)["phase"][0]["workload"])
NO_KEY_HAS_IT = [
    datetime.date(1979, 5, 27),
    10**400,
    "a\0b",
    [datetime.time(7, 32)],
    float("inf"),
    {"x": float("nan")},
]
ALWAYS = 4
"""How many of them no key of an experiment has, either: the others are not finite."""
SOME_HAVE_IT = [-1, 1.5, True, "", "x", [], [1], ["x"], [{}], {}]


def workload(path: Path) -> None:
    """As a scenario that names it."""
    table = tomllib.loads(SCENARIO)
    table["phase"][0]["workload"] = path.name
    scenario_of_it = path.with_name("s.toml")
    scenario_of_it.write_text(tomli_w.dumps(table))
    scenario(scenario_of_it)


def scenario(path: Path) -> None:
    """Until it is handed to other programs."""
    loaded = load_scenario(path)
    for name, scheme in loaded.schemes.items():
        json.dumps(scheme.agent, allow_nan=False)
        for phase_round in loaded.rounds(name):
            json.dumps(phase_round.workload(1), allow_nan=False)


def shipped(name: str) -> str:
    return (ROOT / name).read_text()


def shortened(name: str) -> str:
    """The file with only those figures and claims that have a key which the ones before lack."""
    table = tomllib.loads(shipped(name))
    for entries in (table["figure"], table["claim"]):
        known: set[str] = set()
        for entry in list(entries):
            if known >= entry.keys():
                entries.remove(entry)
            known |= entry.keys()
    return tomli_w.dumps(table)


KINDS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "scenario": (scenario, SCENARIO),
    "workload": (workload, WORKLOAD),
    "scheme": (lambda path: load_scheme(str(path)), shipped("experiments/schemes/detail.toml")),
    "topology": (load_topology, shipped("topologies/fat-tree-k4-limited.toml")),
    "experiment": (load_experiment, shortened("experiments/papers/hull-two-flows.toml")),
}


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Key paths of everything in a table; of a list's entries that have the same keys one."""
    seen = set()
    for at, siblings in _places(value, (), frozenset()):
        kind = (tuple(key for key in at if isinstance(key, str)), siblings)
        if kind not in seen:
            seen.add(kind)
            yield at


def _places(
    value: Any, at: tuple[str | int, ...], siblings: frozenset[str]
) -> Iterator[tuple[tuple[str | int, ...], frozenset[str]]]:
    if at:
        yield at, siblings
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _places(item, (*at, key), frozenset(value))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, (*at, index), siblings | {"of a list"})


@contextmanager
def changed(table: dict[str, Any], at: tuple[str | int, ...], value: Any) -> Iterator[None]:
    """Another value at a place, for a while."""
    inner: Any = table
    for key in at[:-1]:
        inner = inner[key]
    before, inner[at[-1]] = inner[at[-1]], value
    yield
    inner[at[-1]] = before


@pytest.mark.parametrize("kind", KINDS)
def test_each_key_with_each_type(tmp_path: Path, kind: str) -> None:
    read, text = KINDS[kind]
    table = tomllib.loads(text)
    path = tmp_path / "bad.toml"
    path.write_text(text)
    read(path)  # what is changed is good
    # Where the band of a claim may be open, numbers need not be finite.
    refused = NO_KEY_HAS_IT[:ALWAYS] if kind == "experiment" else NO_KEY_HAS_IT
    for at in places(table):
        for value in (*NO_KEY_HAS_IT, *SOME_HAVE_IT):
            with changed(table, at, value):
                path.unlink()  # A file that is truncated is written to the disk at once.
                path.write_text(tomli_w.dumps(table))
            try:
                read(path)
            except InputError as error:
                message = str(error)
                assert "\n" not in message, (at, value, message)
                if value in refused:
                    assert message.startswith(f"{path}: "), (at, value, message)
                    assert isinstance(value, int) or ".".join(map(str, at)) in message
            else:
                assert value not in refused, (at, value)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("pattern = { type = 1979-05-27 }", "'workload.traffic.0.pattern.type': must be text, "),
        ("pattern = { type = 5 }\nname = 07:32:00", "'workload.traffic.0.name': must be text, "),
        ("start_ns = inf", "'workload.traffic.0.start_ns': must be a finite number, not inf"),
    ],
)
def test_the_key_is_named_and_what_is_expected(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"single_rack = {{}}\nschemes = ['ndp']\n[[workload.traffic]]\n{line}\n")
    with pytest.raises(InputError) as refused:
        load_scenario(path)
    assert str(refused.value).startswith(f"{path}: {words}")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("group = 5", "'group': must be a list, not 5"),
        ("group = ['x']", "'group.0': "),
        ("seed = 'x'", "'seed': must be a whole number, not 'x'"),
    ],
)
def test_what_is_read_of_a_workload_is_looked_at(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(f"single_rack = {{}}\nschemes = ['ndp']\n[workload]\n{line}\n")
    with pytest.raises(InputError) as refused:
        load_scenario(path)
    assert str(refused.value).startswith(f"{path}: workload: {words}")


def test_what_a_scenario_names_is_told_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        "single_rack = {}\nschemes = ['ndp']\nworkload = {}\n[[group]]\nreceivers = ['nobody']\n"
    )
    with pytest.raises(InputError, match=rf"^{path}: group 1: .* has no host 'nobody'$"):
        load_scenario(path)


def test_what_is_shipped_is_read() -> None:
    for path in (ROOT / "experiments" / "papers").glob("*.toml"):
        load_experiment(path)
    for path in (ROOT / "experiments" / "scenarios").rglob("*.toml"):
        if not path.stem.endswith("-workload"):
            load_scenario(path)
