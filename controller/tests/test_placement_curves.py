"""Arrival curves, queue bounds and the tables of ports, against worked numbers and fractions."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

import numpy as np
import pytest
from ebb_controller.placement.curves import (
    Curve,
    Guarantee,
    arrival_curve,
    backlog_nb,
)
from ebb_controller.placement.ports import MOST_NB, PortTable
from ebb_controller.placement.tree import Tier
from exact_calculus import Line, backlog
from hypothesis import given
from hypothesis import strategies as st

LINK = 10_000_000_000
CLASS_A = Guarantee(250_000_000, 15_000, 1_000_000_000, 1_000_000)
"""Moncaster table 5.3."""


def queue_bound_ns(curves: Iterable[Curve]) -> int | None:
    """Longest time from a packet's arrival at a port of this link until its last bit is sent, ns,
    rounded up. None: it has no limit."""
    bound = backlog_nb(curves, LINK)
    return None if bound is None else -(-bound // LINK)


@pytest.mark.parametrize(
    ("senders", "bound_ns"),
    [
        (10, 12_000),
        (11, 27_600),
        (12, 43_200),
        (20, 168_000),
        (25, 246_000),
        (26, 261_600),
        (39, 464_400),
        (40, 480_000),
    ],
)
def test_queue_bounds_of_class_a_are_max_of_12n_and_156n_less_144(
    senders: int, bound_ns: int
) -> None:
    curve = arrival_curve(CLASS_A, 1, 1, 1_500)
    assert (curve.knee_ns, curve.at(144_000)) == (144_000, 19_500 * 8_000_000_000)
    assert queue_bound_ns([curve] * senders) == bound_ns


def test_25_of_class_a_fit_into_250_us_and_20_if_bursts_came_at_once() -> None:
    curve = arrival_curve(CLASS_A, 1, 1, 1_500)
    at_once = Curve(15_000 * 8_000_000_000, 250_000_000, 250_000_000, 0)
    for one, most in ((curve, 25), (at_once, 20)):
        fits = [n for n in range(1, 60) if (queue_bound_ns([one] * n) or 1e9) <= 249_600]
        assert max(fits) == most
    assert queue_bound_ns([at_once] * 41) is None, "their rates are more than the link's"
    assert queue_bound_ns([at_once] * 40) is not None


def test_n_flows_of_one_packet_wait_for_n_packets() -> None:
    guarantee = Guarantee(100_000_000, 1_500, LINK)
    for flows in (1, 7, 100):
        curves = [arrival_curve(guarantee, 1, 1, 1_500)] * flows
        assert queue_bound_ns(curves) == flows * 1_200


def test_a_queue_of_two_packets_bunches_two_packets_of_a_flow_at_half_the_rate() -> None:
    """Moncaster figure 5.4."""
    half = Guarantee(LINK // 2, 1_500, LINK)
    quarter = Guarantee(LINK // 4, 1_500, LINK)
    waits = queue_bound_ns([arrival_curve(g, 1, 1, 1_500) for g in (half, quarter)])
    assert waits == 2_400
    assert arrival_curve(half, 1, 1, 1_500, waits).burst_nb == 2 * 1_500 * 8_000_000_000


@pytest.mark.parametrize(("senders", "receivers", "rate"), [(3, 7, 3), (7, 3, 3), (5, 5, 5)])
def test_the_hose_limits_the_rate_to_the_smaller_side_and_not_the_burst(
    senders: int, receivers: int, rate: int
) -> None:
    curve = arrival_curve(CLASS_A, senders, receivers, 1_500)
    assert curve.rate_bps == rate * CLASS_A.rate_bps
    after = curve.at(10**9) - curve.rate_bps * 10**9
    assert after == pytest.approx(senders * 15_000 * 8_000_000_000, rel=1e-4)


def test_bursts_grow_by_the_rate_times_the_capacities_before() -> None:
    for rate_bps, grown in ((250_000_000, 7_812.5), (2_000_000_000, 62_500)):
        guarantee = Guarantee(rate_bps, 1_500, LINK)
        curve = arrival_curve(guarantee, 1, 1, 1_500, 250_000)
        assert curve.burst_nb == (1_500 + grown) * 8_000_000_000
    paced = arrival_curve(CLASS_A, 1, 1, 1_500, 250_000, "paced")
    assert (paced.burst_nb, paced.peak_bps) == (1_500 * 8_000_000_000, 1_000_000_000)


GUARANTEES = st.builds(
    lambda rate, more, burst: Guarantee(rate, burst, rate + more),
    st.integers(1, 2_000_000_000),
    st.integers(0, 3_000_000_000),
    st.integers(1_500, 100_000),
)
CURVES = st.tuples(GUARANTEES, st.integers(1, 9), st.integers(1, 9), st.integers(0, 500_000))


@given(st.lists(CURVES, max_size=8))
def test_bounds_are_those_of_fractions_and_at_most_a_bit_for_each_sender_more(
    wanted: list[tuple[Guarantee, int, int, int]],
) -> None:
    curves = [arrival_curve(g, m, n, 1_500, wait) for g, m, n, wait in wanted]
    exact = []
    for g, m, n, wait in wanted:
        upstream, rate = Fraction(wait, 10**9), min(m, n) * g.rate_bps
        exact.append(
            (
                Line(m * 12_000 + m * g.peak_bps * upstream, Fraction(m * g.peak_bps)),
                Line(m * g.burst_bytes * 8 + rate * upstream, Fraction(rate)),
            )
        )
    bound, ours = backlog(exact, LINK), backlog_nb(curves, LINK)
    if bound is None or ours is None:
        assert bound is None and ours is None
        return
    slack = sum(curve.peak_bps for curve in curves)  # a ns at the peak rates
    assert bound * 10**9 <= ours <= bound * 10**9 + slack


def _table(queue_bytes: int = 312_000) -> PortTable:
    each = (np.full(3, value, np.int64) for value in (LINK, queue_bytes, 0))
    return PortTable(Tier(["a", "b", "c"], ["s"] * 3, [range(0)] * 3, *each), 1_500)


@given(st.lists(st.tuples(st.integers(0, 2), CURVES), max_size=20), st.data())
def test_a_table_has_the_bounds_of_its_curves_whatever_came_and_went(
    wanted: list[tuple[int, tuple[Guarantee, int, int, int]]], data: st.DataObject
) -> None:
    table, there = _table(), [[], [], []]  # type: tuple[PortTable, list[list[Curve]]]
    for port, (guarantee, m, n, wait) in wanted:
        curve = arrival_curve(guarantee, m, n, 1_500, wait)
        before = table.snapshot()
        table.add(port, curve)
        if data.draw(st.booleans()):
            table.remove(port, curve)
            assert table.snapshot() == before
        else:
            there[port].append(curve)
    nothing, new = Curve(0, 0, 0, 0), arrival_curve(CLASS_A, 3, 4, 1_500)
    found = table.backlog_nb(np.arange(3), [nothing, new]).tolist()
    for port in range(3):
        for number, more in ((0, nothing), (1, new)):
            exact = backlog_nb([*there[port], more], LINK)
            assert found[port][number] == (MOST_NB if exact is None else exact)
    for port, curves in enumerate(there):
        for curve in data.draw(st.permutations(curves)):
            table.remove(port, curve)
    assert table.snapshot() == _table().snapshot()


def test_a_table_holds_no_curve_that_was_not_added() -> None:
    with pytest.raises(KeyError, match="port 1 has no curve"):
        _table().remove(1, arrival_curve(CLASS_A, 1, 1, 1_500))


def test_absurd_curves_are_too_much_and_do_not_wrap_round() -> None:
    table = _table()
    for curve in (Curve(2**80, 1, 1, 0), Curve(0, 10**13, 0, 2**61), Curve(2**61, 2**61, 5, 2**61)):
        assert not table.fits(np.arange(3), [curve], "queue").any()
