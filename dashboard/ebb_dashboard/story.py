"""The messages so far that a newly opened page needs. Bounded, without IO."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

Data = dict[str, Any]
Value = TypeVar("Value")
Message = tuple[str, Data]
"""Name and data of an event (docs/dashboard.md)."""

RECENT_CELLS = 60_000
"""Most numbers of ports that are kept of samples: 750 samples of a fat-tree of 20 switches."""
MAX_RECENT = 750
"""Most samples that are kept."""
LINES = 200
"""Most lines about steps that are kept."""
MAX_PHASES = 200
"""Most phases of schemes that are kept; the oldest ones are removed."""
CURVE_POINTS = 4000
"""Most points of a curve; beyond that every second one is left out."""


@dataclass
class Curve:
    """The longest queue of the fabric over the time of a phase."""

    t_ns: list[float] = field(default_factory=list)
    """Nominal time since the phase began."""
    bytes: list[int] = field(default_factory=list)
    """Bytes in the longest queue of all ports then."""
    _every: int = 1
    """Points added per point that is kept."""
    _skipped: int = 0
    """Points added since the last one that was kept."""

    def add(self, t_ns: float, size: int) -> None:
        """Adds a point, which is later than those before."""
        self._skipped += 1
        if self._skipped < self._every:
            return
        self._skipped = 0
        self.t_ns.append(t_ns)
        self.bytes.append(size)
        if len(self.t_ns) > CURVE_POINTS:
            del self.t_ns[::2], self.bytes[::2]
            self._every *= 2


class Story:
    """Messages so far."""

    def __init__(self) -> None:
        self._latest: dict[str, Data] = {}
        self._curves: dict[tuple[str, str], Curve] = {}
        self._results: dict[tuple[str, str], Data] = {}
        self._recent: deque[Data] = deque(maxlen=MAX_RECENT)
        self._lines: deque[Data] = deque(maxlen=LINES)

    def add(self, event: str, data: Data) -> None:
        """Takes a message in."""
        match event:
            case "hello":
                ports = max(1, len(data["picture"]["ports"]))
                self._recent = deque(maxlen=max(1, min(MAX_RECENT, RECENT_CELLS // ports)))
                self._curves.clear()
                self._results.clear()
                self._latest = {event: data}
            case "phase":
                self._latest[event] = data
                if data["running"]:
                    self._curves.pop(_of(data), None)
                    self._recent.clear()
            case "sample":
                self._recent.append(data)
                phase = self._latest.get("phase")
                if phase is not None and phase["running"]:
                    curve = _kept(self._curves, _of(phase), Curve())
                    curve.add(data["at_ns"], max(data["queue"], default=0))
            case "curve":
                self._curves[_of(data)] = Curve(list(data["t_ns"]), list(data["bytes"]))
            case "result":
                self._results.pop(_of(data), None)
                _kept(self._results, _of(data), data)
            case "line":
                self._lines.append(data)
            case _:
                self._latest[event] = data

    def beginning(self) -> Iterator[Message]:
        """First messages to a new page."""
        if "hello" not in self._latest:
            return
        yield "hello", self._latest["hello"]
        for event, data in self._latest.items():
            if event != "hello":
                yield event, data
        for (scheme, phase), curve in self._curves.items():
            head = {"scheme": scheme, "phase": phase}
            yield "curve", head | {"t_ns": curve.t_ns, "bytes": curve.bytes}
        for result in self._results.values():
            yield "result", result
        yield "samples", {"samples": list(self._recent)}
        for line in self._lines:
            yield "line", line


def _of(data: Data) -> tuple[str, str]:
    return str(data["scheme"]), str(data["phase"])


def _kept(kept: dict[tuple[str, str], Value], key: tuple[str, str], new: Value) -> Value:
    """The value of the key, `new` if it has none; the oldest key makes room for it."""
    if key not in kept:
        while len(kept) >= MAX_PHASES:
            del kept[next(iter(kept))]
        kept[key] = new
    return kept[key]
