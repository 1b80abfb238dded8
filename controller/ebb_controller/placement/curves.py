"""Arrival curves and what they do to a queue, in whole numbers.

Times are in ns, rates in bit/s, and amounts of data in nanobits (bit/s times ns, 1e-9 bit): so the
amount that a rate gives in a time is a whole number, and sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

NANOBITS_PER_BYTE = 8_000_000_000
"""Nanobits in a byte."""
Bursts = Literal["bunched", "paced"]
"""Effect of queues on a burst: `bunched`, its packets may leave a port back to back (Kurose 1992),
which is a bound; `paced`, they keep the peak rate through the network. That is no bound, but what
Moncaster section 5.4.2.2 leaves open when it says that curves are limited by the peak rate."""


@dataclass(frozen=True, slots=True)
class Guarantee:
    """Guarantee of each VM of a tenant: Silo's {B, S, d}, and Bmax."""

    rate_bps: int
    """B: average rate at which it may send and receive (hose model), bit/s."""
    burst_bytes: int
    """S: what it may send at once after it has sent less than B, bytes on the wire."""
    peak_bps: int
    """Bmax: rate within a burst, bit/s; at least B."""
    delay_ns: int | None = None
    """d: most that a conforming packet takes from the sender's interface to the receiver's, ns;
    none: only bandwidth and burst are guaranteed."""


@dataclass(frozen=True, slots=True)
class Curve:
    """An arrival curve A(t): a burst at t = 0, the peak rate until the knee, then the rate."""

    burst_nb: int
    """A(0), nanobits."""
    peak_bps: int
    """Slope before the knee, bit/s."""
    rate_bps: int
    """Slope after the knee, bit/s; at most the peak."""
    knee_ns: int
    """Where the slope changes, ns; 0: it has `rate_bps` all along."""

    def at(self, time_ns: int) -> int:
        """Most that arrives in any interval of this length, nanobits."""
        early = min(time_ns, self.knee_ns)
        return self.burst_nb + self.peak_bps * early + self.rate_bps * (time_ns - early)


def arrival_curve(
    guarantee: Guarantee,
    senders: int,
    receivers: int,
    packet_bytes: int,
    upstream_ns: int = 0,
    bursts: Bursts = "bunched",
) -> Curve:
    """The curve of a tenant at a port with `senders` of its VMs before and `receivers` behind it.

    The hose model limits the rate to min(senders, receivers) B, but not the burst, as all may burst
    to one receiver. Packets have at most `packet_bytes`. A packet may be late by up to
    `upstream_ns` from the queues it has passed, so what arrives here in t was sent in t plus that:
    A(t + upstream), whose burst is S + B upstream. A knee that is no whole number of ns is rounded
    up, which only raises the curve.
    """
    rate_bps = min(senders, receivers) * guarantee.rate_bps
    peak_bps = senders * guarantee.peak_bps
    sustained = senders * guarantee.burst_bytes * NANOBITS_PER_BYTE + rate_bps * upstream_ns
    first = senders * packet_bytes * NANOBITS_PER_BYTE
    if bursts == "bunched":
        first += peak_bps * upstream_ns
    if first >= sustained or peak_bps == rate_bps:
        return Curve(min(first, sustained), rate_bps, rate_bps, 0)
    return Curve(first, peak_bps, rate_bps, _ceil(sustained - first, peak_bps - rate_bps))


def backlog_nb(curves: Iterable[Curve], service_bps: int) -> int | None:
    """Most that waits at a port that sends at `service_bps`, nanobits: the largest vertical
    distance between the sum of the curves and the service curve. None: it has no limit."""
    bound, slope, before = 0, -service_bps, 0
    knees = []
    for curve in curves:
        bound += curve.burst_nb
        slope += curve.peak_bps
        knees.append((curve.knee_ns, curve.peak_bps - curve.rate_bps))
    for knee_ns, drop_bps in sorted(knees):
        bound += max(slope, 0) * (knee_ns - before)
        slope, before = slope - drop_bps, knee_ns
    return None if slope > 0 else bound


def send_ns(data_bytes: int, rate_bps: int) -> int:
    """Time to send so much at a rate, ns, rounded up."""
    return _ceil(data_bytes * NANOBITS_PER_BYTE, rate_bps)


def _ceil(numerator: int, denominator: int) -> int:
    return -(-numerator // denominator)
