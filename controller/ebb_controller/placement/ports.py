"""The ports of a tier in one direction: sums of the arrival curves of what has been admitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from ebb_controller.placement.curves import NANOBITS_PER_BYTE, Curve
from ebb_controller.placement.tree import Tier, Whole

Constraint = Literal["queue", "rate", "none"]
"""Constraint of a port: that its queue bound, and with it its rate, is not more than it has; only
the rate (Oktopus); or nothing."""
NEVER_NS = 2**62
"""The knee of no curve."""
MOST_NB = 2**62
"""No port has room for as much, nanobits."""
MOST_CELLS = 2_000_000
"""Knees, over ports and curves, that are looked at together: it bounds the memory."""
FIRST_WIDTH = 8
"""Knees that a port has room for at first."""


class PortTable:
    """Exact sums per port, of as many ports at once as somebody asks about."""

    def __init__(self, tier: Tier, blocking_bytes: int | Whole) -> None:
        """`blocking_bytes`: what a guaranteed packet may wait for beside others, of every port or
        of each."""
        count = len(tier)
        self.rate_bps = tier.rate_bps
        self.room_nb: Whole = (tier.queue_bytes - blocking_bytes) * NANOBITS_PER_BYTE
        """Buffer for guaranteed traffic, nanobits."""
        self.burst_nb, self.peak_bps, self.used_bps, self.curves = np.zeros((4, count), np.int64)
        self._knee_ns = np.full((count, FIRST_WIDTH), NEVER_NS, np.int64)
        self._drop_bps = np.zeros((count, FIRST_WIDTH), np.int64)

    def add(self, port: int, curve: Curve) -> None:
        """Adds an arrival curve."""
        count = int(self.curves[port])
        if count == self._knee_ns.shape[1]:
            self._knee_ns = np.pad(self._knee_ns, ((0, 0), (0, count)), constant_values=NEVER_NS)
            self._drop_bps = np.pad(self._drop_bps, ((0, 0), (0, count)))
        drop = curve.peak_bps - curve.rate_bps
        at = self._place(port, curve.knee_ns, drop)
        for row, value in ((self._knee_ns[port], curve.knee_ns), (self._drop_bps[port], drop)):
            row[at + 1 : count + 1] = row[at:count]
            row[at] = value
        self._sum(port, curve, 1)

    def remove(self, port: int, curve: Curve) -> None:
        """Takes away a curve that was added: what is left is as if it had never been there."""
        count, drop = int(self.curves[port]), curve.peak_bps - curve.rate_bps
        at = self._place(port, curve.knee_ns, drop)
        found = at < count and (self._knee_ns[port, at], self._drop_bps[port, at])
        if found != (curve.knee_ns, drop):
            raise KeyError(f"port {port} has no curve {curve}")
        for row, empty in ((self._knee_ns[port], NEVER_NS), (self._drop_bps[port], 0)):
            row[at : count - 1] = row[at + 1 : count]
            row[count - 1] = empty
        self._sum(port, curve, -1)

    def _place(self, port: int, knee_ns: int, drop_bps: int) -> int:
        """Where a knee is, or would be: they are in order of time, those of one time in order of
        their drop."""
        knees = self._knee_ns[port, : self.curves[port]]
        first, last = np.searchsorted(knees, knee_ns), np.searchsorted(knees, knee_ns, "right")
        return int(first + np.searchsorted(self._drop_bps[port, first:last], drop_bps))

    def _sum(self, port: int, curve: Curve, sign: int) -> None:
        self.burst_nb[port] += sign * curve.burst_nb
        self.peak_bps[port] += sign * curve.peak_bps
        self.used_bps[port] += sign * curve.rate_bps
        self.curves[port] += sign

    def snapshot(self) -> tuple[bytes, ...]:
        """All sums and knees of all ports, to be compared."""
        used = max(int(self.curves.max(initial=0)), 1)
        arrays = (self.burst_nb, self.peak_bps, self.used_bps, self.curves)
        knees = (self._knee_ns[:, :used], self._drop_bps[:, :used])
        return tuple(array.tobytes() for array in (*arrays, *knees))

    def fits(
        self, ports: Whole, curves: Sequence[Curve], constraint: Constraint
    ) -> npt.NDArray[np.bool_]:
        """Whether each of the ports could take each of the curves: a row per port."""
        if constraint == "none":
            return np.ones((len(ports), len(curves)), np.bool_)
        rates = np.array([curve.rate_bps for curve in curves], np.int64)
        stable = self.used_bps[ports, None] + rates <= self.rate_bps[ports, None]
        if constraint == "rate":
            return stable
        room = self.room_nb[ports, None]
        width = 1 + int(self.curves[ports].max(initial=0))
        step = max(1, MOST_CELLS // (width * max(len(ports), 1)))
        for first in range(0, len(curves), step):
            some = slice(first, first + step)
            stable[:, some] &= self.backlog_nb(ports, curves[some]) <= room
        return stable

    def backlog_nb(self, ports: Whole, curves: Sequence[Curve]) -> Whole:
        """Backlog bounds with each of the curves added, nanobits, at most `MOST_NB`: a row per
        port. Right where the sum of the rates is not above the port's."""
        width = max(int(self.curves[ports].max(initial=0)), 1)
        knee, drop = self._knee_ns[ports, :width], self._drop_bps[ports, :width]
        zero = np.zeros((len(ports), 1), np.int64)
        start = np.hstack((zero, knee))[:, None, :]
        end = np.hstack((knee, zero + NEVER_NS))[:, None, :]
        spare = (self.rate_bps - self.peak_bps)[ports, None]
        slope = -np.hstack((spare, spare + np.cumsum(drop, axis=1)))[:, None, :]
        columns = ("burst_nb", "peak_bps", "rate_bps", "knee_ns")
        burst, peak, rate, at = (
            np.array([min(getattr(curve, name), MOST_NB) for curve in curves], np.int64)
            for name in columns
        )
        at = at[:, None]
        early = np.maximum(slope + peak[:, None], 0)
        late = np.maximum(slope + rate[:, None], 0)
        # Lengths before and after the new knee in which the queue grows.
        before = np.maximum(np.minimum(end, at) - start, 0)
        after = np.maximum(end - np.maximum(start, at), 0)
        grown = (before * early + after * late).sum(axis=2)
        about = (before * early.astype(np.float64) + after * late.astype(np.float64)).sum(axis=2)
        about += burst + self.burst_nb[ports, None].astype(np.float64)
        exact = grown + burst + self.burst_nb[ports, None]
        return np.where(about < MOST_NB, exact, MOST_NB)
