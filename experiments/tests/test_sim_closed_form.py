"""A lone flow through the real `fabric.p4` takes the time of the closed form, to the nanosecond.

The same over a smaller program, with more schemes and sizes: simulator/src/tests/closed_forms.rs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from binaries import BINARIES, needs_simulator
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import all_at_once, scenario

RATE_BPS = 1_000_000_000
DELAY_NS = 10_000
MTU = 1500
ETHERNET, IPV4, TCP, EBB = 14, 20, 20, 48
SYN_OPTIONS = 12
"""Maximum segment size, window scale, SACK permitted."""
WINDOWS = {
    "ndp": {"ndp": {"initial_window_packets": 60}},
    "scdp": {"scdp": {"initial_window_packets": 60}},
    "dctcp": {"tcp": {"initial_window_packets": 1000, "max_window_packets": 1000}},
}
"""Longer than a round trip, so that nothing but the network takes time."""

pytestmark = needs_simulator


def frame_ns(ip_bytes: int) -> float:
    return (ip_bytes + ETHERNET) * 8e9 / RATE_BPS


def train_ns(full: int, last_ip_bytes: int, switches: int) -> float:
    """From the first bit leaving one host to the last at the other: this many full packets, and a
    shorter one that waits behind the one before it at every switch."""
    propagation = (switches + 1) * DELAY_NS
    if full == 0:
        return (switches + 1) * frame_ns(last_ip_bytes) + propagation
    return (full + switches) * frame_ns(MTU) + frame_ns(last_ip_bytes) + propagation


def closed_form_ns(scheme: str, stream_bytes: int, switches: int) -> float:
    header = IPV4 + (TCP if scheme == "dctcp" else EBB)
    payload = MTU - header
    full = (stream_bytes - 1) // payload
    data = train_ns(full, stream_bytes - full * payload + header, switches)
    handshake = 2 * train_ns(0, IPV4 + TCP + SYN_OPTIONS, switches) if scheme == "dctcp" else 0
    return handshake + data


@pytest.mark.parametrize("scheme", WINDOWS)
@pytest.mark.parametrize(("destination", "switches"), [("h2", 1), ("h3", 3), ("h5", 5)])
def test_a_lone_flow(tmp_path: Path, scheme: str, destination: str, switches: int) -> None:
    pattern = {"type": "random", "from": "source", "to": "destination"}
    traffic = [
        # Each long after the one before it has ended.
        all_at_once(f"of-{size}", pattern, size) | {"start_ns": 20_000_000 * number}
        for number, size in enumerate((1, 5_000, 150_000))
    ]
    groups = [
        {"name": "source", "hosts": ["h1"]},
        {"name": "destination", "hosts": [destination]},
    ]
    table: dict[str, Any] = {
        "fat_tree": {"k": 4, "rate_bps": RATE_BPS, "delay_ns": DELAY_NS},
        "schemes": [scheme],
        "override": {scheme: {"agent": WINDOWS[scheme]}},
        "workload": {"group": groups, "traffic": traffic},
    }
    loaded = scenario(table, "test")
    results = Run(loaded, scheme, loaded.spec.seeds[0], Virtual(BINARIES, 1), tmp_path).go()
    assert len(results.flows) == len(traffic)
    for flow in results.flows:
        expected = closed_form_ns(scheme, flow["stream_bytes"], switches)
        assert flow["fct_ns"] == pytest.approx(expected, abs=1), flow
