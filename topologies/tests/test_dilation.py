"""Dilation: times stretch, rates shrink, bytes stay, and the way back is the identity."""

from __future__ import annotations

import pytest
from ebb_topologies.dilation import Dilation
from ebb_topologies.model import from_table
from ebb_topologies.traffic_manager import PortParameters, traffic_manager_config
from hypothesis import given
from hypothesis import strategies as st

NUMBERS = st.integers(min_value=0, max_value=10**12)
KEYS = st.sampled_from(["rto_ns", "rate_bps", "capacity_bytes", "window_packets", "beta_hz"])


@given(st.dictionaries(KEYS, NUMBERS), st.integers(min_value=1, max_value=1000))
def test_there_and_back(parameters: dict[str, int], factor: int) -> None:
    dilation = Dilation(factor)
    slow = dilation.slow(parameters)
    for key, value in parameters.items():
        match key.rpartition("_")[2]:
            case "ns":
                assert dilation.nominal_time(slow[key]) == pytest.approx(value)
            case "bps" | "hz":
                # Divided by D it is rounded to whole bit/s; times D that is off by D/2 at most.
                assert abs(slow[key] * factor - value) <= factor / 2 + 1
            case _:
                assert slow[key] == value


def test_nested_and_lists() -> None:
    slow = Dilation(50).slow({"tcp": [{"min_rto_ns": 10_000_000, "g": 0.0625}], "on": True})
    assert slow == {"tcp": [{"min_rto_ns": 500_000_000, "g": 0.0625}], "on": True}


def test_a_frequency_is_not_rounded_away() -> None:
    assert Dilation(50).slow({"beta_hz": 16}) == {"beta_hz": 0.32}


def test_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        Dilation(0)


def test_a_slowed_topology_gives_slowed_ports() -> None:
    topology = Dilation(50).topology(from_table({"fat_tree": {"k": 4}}, "test"))
    config = traffic_manager_config(topology, topology.switch("p0e0"), PortParameters())
    assert config["ports"] == {"1": "host-0", "2": "host-0", "3": "fabric-1", "4": "fabric-1"}
    host, fabric = config["profile"]
    assert (host["rate_bps"], host["delay_ns"]) == (20_000_000, 500_000)
    assert (host["rx_delay_ns"], fabric["rx_delay_ns"]) == (500_000, 0)
    assert host["queue"][0]["capacity_packets"] == 250


def test_durations_in_messages_are_nominal_again() -> None:
    said = "10.0.0.2:7000: nothing heard for 4.2s, 3 timeouts of 250us; 12s1 is no duration"
    nominal = "10.0.0.2:7000: nothing heard for 84ms, 3 timeouts of 5us; 12s1 is no duration"
    assert Dilation(50).nominal_text(said) == nominal
    assert Dilation().nominal_text(said) == said
