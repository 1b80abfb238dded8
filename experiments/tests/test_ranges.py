"""A digit too many in a file is told with the file, the key and the range, before anything is
started or asked for memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ebb_controller.scheme import Scheme, load_scheme
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.scenario.spec import ScenarioFile
from ebb_experiments.study.spec import OnMininet, Size
from ebb_topologies.files import InputError
from ebb_topologies.model import TopologySpec, from_table
from pydantic import BaseModel

LIMITS = {"maximum", "exclusiveMaximum", "const"}


def unlimited(schema: Any, path: str = "") -> Iterator[str]:
    """Numbers of a JSON schema that have no upper limit, by their path in it."""
    if isinstance(schema, dict):
        if schema.get("type") in ("integer", "number") and not LIMITS & schema.keys():
            yield path
        for key, value in schema.items():
            yield from unlimited(value, f"{path}.{key}")
    elif isinstance(schema, list):
        for item in schema:
            yield from unlimited(item, path)


@pytest.mark.parametrize("model", [ScenarioFile, Scheme, TopologySpec, OnMininet])
def test_every_number_of_a_file_has_an_upper_limit(model: type[BaseModel]) -> None:
    assert list(unlimited(model.model_json_schema())) == []


def test_the_number_of_seeds_has_one() -> None:
    assert "maximum" in Size.model_json_schema()["properties"]["seeds"]["anyOf"][0]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[phase]]\nname = 'a'\nworkload = {}\nrepeat = 1_000_000", "'phase.0.repeat': .* 1000"),
        ("dilation = 1e9", "'dilation': "),
        ("[[event]]\nat_ns = 1e30\ndo = 'reroute'", "'event.0.*at_ns': "),
    ],
)
def test_a_scenario(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "s.toml"
    path.write_text(f'topology = "x.toml"\nschemes = ["ndp"]\n{text}\n')
    with pytest.raises(InputError, match=f"{path}: {words}"):
        load_scenario(path)


def test_a_scheme(tmp_path: Path) -> None:
    path = tmp_path / "s.toml"
    queue = "[[fabric.ports.queue]]\nid = 0\ncapacity_packets = 100_000_000_000"
    path.write_text(f'transport = "reno"\nlabel = "x"\n{queue}\n')
    with pytest.raises(InputError, match=f"{path}: 'fabric.ports.queue.0.capacity_packets': "):
        load_scheme(str(path))


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("limit_ns = 1_000_000_000_000", "'limit_ns': .* 100000000000"),
        ("coding_bps = 1e30", "'coding_bps': "),
        ("packets_at_once = 0", "'packets_at_once': "),
        ("seed = -1", "'seed"),
        ("arrivals_every_ns = 1", "arrivals_every_ns = 1 is 1000000000 times until limit_ns"),
        ("sample = [{ports = ['*'], every_ns = 1}]", "sample 1: every_ns = 1 is 1000000000 times"),
    ],
)
def test_a_scenario_in_virtual_time(tmp_path: Path, keys: str, words: str) -> None:
    path = tmp_path / "s.toml"
    start = "schemes = ['ndp']\nsingle_rack = { hosts = 3 }\nworkload = { traffic = [] }\n"
    path.write_text(start + keys)
    with pytest.raises(InputError, match=words):
        load_scenario(path)


def test_a_topology_as_large_as_a_generator_makes_is_built_in_seconds() -> None:
    """8192 hosts and 1280 switches; the time is that of the whole test run's patience."""
    topology = from_table({"fat_tree": {"k": 32}}, "test")
    assert (len(topology.hosts), len(topology.switches)) == (8192, 1280)


def test_a_list_of_more_switches_than_ports_is_refused() -> None:
    switches = [{"name": f"s{number}"} for number in range(50_001)]
    with pytest.raises(InputError, match="has 50001 switches; at most 50000"):
        from_table({"switch": switches, "host": [], "link": []}, "test")
