"""Traffic volume of a link: per time slot, the log-normal that fits it, and what to provision."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import NormalDist, fmean, pstdev
from typing import Any

from ebb_experiments.results.tables import Row
from ebb_experiments.scenario.loaded import Loaded

from ebb_dashboard.picture import Wire

EPSILON = 0.01
"""Share of the slots in which more may come than the link is provisioned for."""
LEAST_SLOTS = 8
"""Slots with traffic that a fit needs."""
MAX_POINTS = 600
"""Slots of a line over time, and points of a distribution; of more, neighbours are joined."""
Key = tuple[str, str]
"""Scheme and phase."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    """A law of volumes whose logarithms are normal."""

    mu: float
    """Mean of the natural logarithms."""
    sigma: float
    """Their standard deviation, above 0."""

    def share_below(self, value: float) -> float:
        """Probability of at most a value above 0."""
        return NormalDist(self.mu, self.sigma).cdf(log(value))

    def quantile(self, share: float) -> float:
        """Rate that is exceeded with probability 1 - `share`."""
        return exp(NormalDist(self.mu, self.sigma).inv_cdf(share))


def fitted(volumes: Iterable[float]) -> LogNormal | None:
    """The log-normal of maximum likelihood, by the moments of the logarithms, for the slots with
    traffic. None: they are too few, or all the same."""
    logs = [log(volume) for volume in volumes if volume > 0]
    if len(logs) < LEAST_SLOTS or (sigma := pstdev(logs)) == 0:
        return None
    return LogNormal(fmean(logs), sigma)


class LinkVolumes:
    """Volume of the ports in each slot, of the schemes and phases that have ended."""

    def __init__(self) -> None:
        self._slots: dict[Key, dict[str, dict[int, int]]] = {}
        """Bytes of all classes, by point and start of the slot."""
        self._slot_ns: dict[Key, int] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Takes the table `volume` of a scheme, which replaces that of the same phases. Of several
        rounds of a phase the first counts."""
        rounds: dict[Key, int] = {}
        found: dict[Key, dict[str, dict[int, int]]] = {}
        for row in rows:
            key = (row["scheme"], row["phase"])
            if key not in rounds:
                rounds[key] = row["round"]
                found[key] = defaultdict(lambda: defaultdict(int))
                self._slot_ns[key] = row["slot_ns"]
            if rounds[key] == row["round"]:
                found[key][row["point"]][row["slot_start_ns"]] += row["bytes"]
        self._slots |= found

    def of(self, link: Wire) -> dict[str, Any]:
        """The answer to `volume` (docs/dashboard.md): of each port of the link that has sent."""
        places = [str(place) for place in (link.a, link.b) if place.port is not None]
        return {
            "series": [
                {"place": place, "scheme": scheme, "phase": phase}
                | _series(points[place], self._slot_ns[scheme, phase])
                for (scheme, phase), points in list(self._slots.items())
                for place in places
                if place in points
            ]
        }


def volume_control(loaded: Loaded) -> list[str]:
    """The control of a page for volumes, if any scheme counts them."""
    return ["volume"] if any(each.fabric.volume for each in loaded.schemes.values()) else []


def _series(slots: dict[int, int], slot_ns: int) -> dict[str, Any]:
    """A port: bit/s over time, its distribution and the fit, and the rate to provision."""
    starts = sorted(slots)
    rates = [slots[start] * 8e9 / slot_ns for start in starts]
    law = fitted(rates)
    provisioned = None if law is None else law.quantile(1 - EPSILON)
    busy = _evenly(sorted(rate for rate in rates if rate > 0))
    return {
        "slot_ns": slot_ns,
        "slots": len(rates),
        "idle": sum(rate == 0 for rate in rates),
        **_over_time(starts, rates),
        "busy_bps": busy,
        "fit": None if law is None else [law.share_below(rate) for rate in busy],
        "mean_bps": fmean(rates),
        "provisioned_bps": provisioned,
        "epsilon": EPSILON,
        "exceeded": None
        if provisioned is None
        else sum(rate > provisioned for rate in rates) / len(rates),
    }


def _over_time(starts: Sequence[int], rates: Sequence[float]) -> dict[str, list[float]]:
    """At most `MAX_POINTS`, each the highest of its neighbours, so that no peak is lost."""
    step = -(-len(rates) // MAX_POINTS)
    places = range(0, len(rates), step)
    return {
        "t_ns": [starts[place] for place in places],
        "bps": [max(rates[place : place + step]) for place in places],
    }


def _evenly(values: Sequence[float]) -> list[float]:
    """At most `MAX_POINTS` of sorted values, evenly spread, the first and the last among them."""
    if len(values) <= MAX_POINTS:
        return list(values)
    step = (len(values) - 1) / (MAX_POINTS - 1)
    return [values[round(index * step)] for index in range(MAX_POINTS)]
