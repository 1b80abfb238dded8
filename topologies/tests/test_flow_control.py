"""Headroom and thresholds of priority flow control: the thesis' numbers, and what does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.flow_control import PFC_FRAME_BYTES, Buffer
from ebb_topologies.model import Endpoint, Link, from_table
from ebb_topologies.traffic_manager import (
    PfcParameters,
    PortParameters,
    QueueParameters,
    traffic_manager_config,
)
from hypothesis import given
from hypothesis import strategies as st

BUFFER = Buffer(ingress_bytes=131_072, lossless_queues=8, reaction_ns=1_024, max_frame_bytes=1_530)
"""The switch of the thesis; a receiver of pauses has two quanta at 1 Gbit/s."""


def link(rate_bps: int = 10**9, delay_ns: int = 5_476) -> Link:
    """A link with the delays of the thesis: 476 ns of propagation, 5 us of transceivers."""
    return Link(Endpoint("a", 1), Endpoint("b", 1), rate_bps, delay_ns)


def test_the_numbers_of_the_thesis() -> None:
    """Section 5.2.3: 36.456 us, which are 4557 bytes; 8192 is the middle of 4557 and 11827."""
    assert BUFFER.headroom_bytes(link()) == 4_557
    thresholds = BUFFER.thresholds([link()], "s1")
    assert (thresholds.pause_bytes, thresholds.resume_bytes) == (8_192, 4_557)
    assert 131_072 // 8 - 4_557 == 11_827


def test_eight_queues_do_not_fit_at_10_gbps_and_two_do() -> None:
    """60 quanta of reaction at 10 Gbit/s; the other delays as at 1 Gbit/s."""
    faster = replace(BUFFER, reaction_ns=3_072)
    with pytest.raises(InputError) as error:
        faster.thresholds([link(10**10)], "switch s1")
    said = "switch s1: 8 lossless queues need 8 * 20590 = 164720 bytes of headroom of the 131072 of"
    assert said in str(error.value)
    two = replace(faster, lossless_queues=2).thresholds([link(10**10)], "s1")
    assert (two.pause_bytes, two.resume_bytes) == (32_768, 20_590)


def test_the_link_that_needs_most_decides() -> None:
    slow, fast = link(250_000_000), link()
    assert BUFFER.headroom_bytes(slow) < BUFFER.headroom_bytes(fast)
    assert BUFFER.thresholds([slow, fast], "s1") == BUFFER.thresholds([fast], "s1")
    assert BUFFER.headroom_bytes(link(delay_ns=50_000)) > BUFFER.headroom_bytes(fast)


@given(
    st.integers(1_600, 10**7), st.integers(1, 8), st.integers(0, 10**7), st.integers(10**6, 10**11)
)
def test_nothing_is_lost_below_thresholds(size: int, queues: int, reaction: int, rate: int) -> None:
    """Every queue can hold what was there when it paused and what arrives after that."""
    buffer = Buffer(size, queues, reaction, 1_530)
    headroom = buffer.headroom_bytes(link(rate))
    try:
        found = buffer.thresholds([link(rate)], "s1")
    except InputError:
        assert queues * (2 * headroom + 1_530 + PFC_FRAME_BYTES) > size - queues or 2 * headroom > (
            size // queues
        )
        return
    assert found.resume_bytes <= found.pause_bytes
    assert queues * (found.pause_bytes + 1_530 + PFC_FRAME_BYTES + headroom) <= size


def test_dilation_changes_no_threshold_but_lateness_does() -> None:
    topology = from_table({"fat_tree": {"k": 4}}, "test")
    ports = PortParameters(
        queue=[QueueParameters(id=number, lossless=True) for number in (0, 6)],
        ingress_bytes=131_072,
        egress_bytes=131_072,
        pipeline_delay_ns=7_284,
        pfc=PfcParameters(),
    )

    def thresholds(ports: PortParameters, factor: float) -> tuple[int, int]:
        slowed = Dilation(factor).topology(topology)
        slow = PortParameters.model_validate(Dilation(factor).slow(ports.model_dump()))
        pfc = traffic_manager_config(slowed, slowed.switches[0], slow)["pfc"]
        return pfc["pause_bytes"], pfc["resume_bytes"]

    assert thresholds(ports, 1) == thresholds(ports, 50) == (32_768, 6_599)
    late = ports.model_copy(update={"pfc": PfcParameters(wakeup_ns=100_000)})
    assert thresholds(late, 50) == (32_768, 6_599 + 12_500)
