"""Time dilation: the one module that knows D.

Experiments are written in nominal units. A fabric that runs at 1/D of nominal speed has every time
multiplied by D and every rate divided by D, and bytes unchanged; whatever it reports is converted
back. The unit in a name shows whether a number is a time or a rate.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ebb_topologies.model import Topology

TIME_SUFFIXES = ("_ns", "_us", "_ms", "_s")
"""Ends of the names of times."""
RATE_SUFFIXES = ("_bps", "_hz")
"""Ends of the names of rates."""
SECONDS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12}
"""Units of durations in messages, in seconds, largest first."""
DURATION = re.compile(rf"\b(\d+(?:\.\d+)?)({'|'.join(SECONDS)})\b")
"""A duration as the programs in Rust print it."""


@dataclass(frozen=True, slots=True)
class Dilation:
    """D: how many times slower than nominal the fabric runs. 1 is real time."""

    factor: float = 1.0
    """D, above 0."""

    def __post_init__(self) -> None:
        if not self.factor > 0:
            raise ValueError(f"dilation must be a positive number, not {self.factor}")

    def slow(self, parameters: Any, key: str = "") -> Any:
        """Nominal parameters (nested dicts and lists) for the slowed fabric. `key`: the key whose
        value they are, which shows the unit."""
        if isinstance(parameters, Mapping):
            return {name: self.slow(item, str(name)) for name, item in parameters.items()}
        if isinstance(parameters, Sequence) and not isinstance(parameters, str | bytes):
            return [self.slow(item, key) for item in parameters]
        if isinstance(parameters, bool) or not isinstance(parameters, int | float):
            return parameters
        if key.endswith(RATE_SUFFIXES):
            slowed = self.rate(parameters)
        elif key.endswith(TIME_SUFFIXES):
            slowed = self.time(parameters)
        else:
            return parameters
        # Whole ns and whole bit/s stay whole, as the programs that read them count them. A
        # frequency does not: a few per second become a fraction.
        whole = isinstance(parameters, int) and not key.endswith("_hz")
        return round(slowed) if whole else slowed

    def topology(self, nominal: Topology) -> Topology:
        """The topology with rates and delays of links in the slowed fabric."""
        links = tuple(
            replace(
                link,
                rate_bps=max(1, round(self.rate(link.rate_bps))),
                delay_ns=round(self.time(link.delay_ns)),
            )
            for link in nominal.links
        )
        return replace(nominal, links=links)

    def time(self, nominal: float) -> float:
        """A nominal time in the slowed fabric, in the same unit."""
        return nominal * self.factor

    def nominal_time(self, measured: float) -> float:
        """A time measured in the slowed fabric, in nominal units."""
        return measured / self.factor

    def nominal_times(self, measured: Iterable[float]) -> list[float]:
        """Times measured in the slowed fabric, in nominal units."""
        factor = self.factor
        return [each / factor for each in measured]

    def nominal_text(self, text: str) -> str:
        """A message with durations, as `4.2s`, measured in the slowed fabric, with nominal ones."""
        return text if self.factor == 1 else DURATION.sub(self._nominal_duration, text)

    def _nominal_duration(self, found: re.Match[str]) -> str:
        seconds = self.nominal_time(float(found[1])) * SECONDS[found[2]]
        unit = next((unit for unit, size in SECONDS.items() if seconds >= size), "ps")
        return f"{seconds / SECONDS[unit]:.6g}{unit}"

    def rate(self, nominal: float) -> float:
        """A nominal rate in the slowed fabric, in the same unit."""
        return nominal / self.factor
