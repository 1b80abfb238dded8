"""Two pictures of a run, as SVG text: a queue over time, and completion times.

Drawn here and not by a library, because `make run` does without the scientific packages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

FREE_COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#777777",
    "#6A3D9A",
)
"""For schemes whose files name no colour: of Okabe and Ito, which the colour-blind tell apart, then
grey and violet."""
DECADE = 10.0
"""Times that span more have a logarithmic axis: on a linear one most of them share a corner."""
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 70, 16, 46, 40
"""Size of a picture, in pixels: its width, and room around the drawing."""
PANEL_HEIGHT, PANEL_GAP = 86, 26
CURVE_HEIGHT = 300
STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; fill: #1b2a38 }
  .title { font-size: 15px; font-weight: 600 }
  .axis { stroke: #9fb3c4; stroke-width: 1 }
  .grid { stroke: #dde5ec; stroke-width: 1 }
  .line { fill: none; stroke-width: 1.6 }
  svg { background: #ffffff }
  @media (prefers-color-scheme: dark) {
    text { fill: #dfe7ee } svg { background: #14202b }
    .axis { stroke: #5b7083 } .grid { stroke: #2a3a48 }
  }
"""
Points = Sequence[tuple[float, float]]


def colours(wanted: Mapping[str, str | None]) -> dict[str, str]:
    """A colour for each scheme: the one that its file names, unless another has it already; for all
    others the first of `FREE_COLOURS` that nobody has, or those again."""
    chosen: dict[str, str] = {}
    for name, colour in wanted.items():
        if colour is not None and colour not in chosen.values():
            chosen[name] = colour
    free = [colour for colour in FREE_COLOURS if colour not in chosen.values()] or FREE_COLOURS
    rest = [name for name in wanted if name not in chosen]
    chosen |= {name: free[number % len(free)] for number, name in enumerate(rest)}
    return chosen


@dataclass(frozen=True, slots=True)
class Axes:
    """A rectangle in pixels, and the values at its edges; upwards they begin at 0."""

    top: float
    height: float
    most_x: float
    most_y: float
    least_x: float = 0.0
    """At the left edge; above 0: the axis is logarithmic."""

    def at(self, x: float, y: float) -> str:
        """SVG coordinates of a point."""
        across = LEFT + (WIDTH - LEFT - RIGHT) * self._share(x)
        up = self.top + self.height * (1 - min(y, self.most_y) / self.most_y)
        return f"{across:.1f},{up:.1f}"

    def _share(self, x: float) -> float:
        """Share of the width to the left of a value."""
        if not self.least_x:
            return x / self.most_x
        return math.log(max(x, self.least_x) / self.least_x) / math.log(self.most_x / self.least_x)

    def frame(self, unit: str, ticks_x: Sequence[float], ticks_y: Sequence[float]) -> Iterator[str]:
        """Lines and numbers; `ticks_x` may be empty, where the panel below has them."""
        for y in ticks_y:
            (left, height), (right, _) = (
                self.at(x, y).split(",") for x in (self.least_x, self.most_x)
            )
            kind = "grid" if y else "axis"
            yield (
                f'<line class="{kind}" x1="{left}" y1="{height}" x2="{right}" y2="{height}"/>'
                f'<text x="{LEFT - 6}" y="{float(height) + 4:.1f}" text-anchor="end">{y:g}</text>'
            )
        for x in ticks_x:
            across, down = self.at(x, 0).split(",")
            low = float(down) + 16
            yield f'<text x="{across}" y="{low:.1f}" text-anchor="middle">{x:g}</text>'
        if ticks_x:
            middle, low = (LEFT + WIDTH - RIGHT) / 2, self.top + self.height + 34
            yield f'<text x="{middle}" y="{low:.1f}" text-anchor="middle">{escape(unit)}</text>'

    def line(self, points: Points, colour: str) -> str:
        """A polyline through these points."""
        path = " ".join(self.at(x, y) for x, y in points)
        return f'<polyline class="line" stroke="{colour}" points="{path}"/>'


def ticks(most: float, about: int) -> list[float]:
    """Round numbers from 0 to the first that is not below `most`, about this many or fewer: steps
    are 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most / about))
    step = next(part * power for part in (1, 2, 5, 10) if part * power >= most / about)
    return [round(step * number, 10) for number in range(math.ceil(most / step) + 1)]


def ticks_of_decades(least: float, most: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or the powers alone where there are many, from the last that
    is not above `least` to the first that is not below `most`."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    parts = (1, 2, 5) if len(powers) <= 4 else (1,)
    values = [float(f"{part}e{power}") for power in powers for part in parts]
    first = max(value for value in values if value <= least)
    last = min(value for value in values if value >= most)
    return [value for value in values if first <= value <= last]


def queues(
    title: str, series: Mapping[str, Points], wanted: Mapping[str, str | None] | None = None
) -> str:
    """A panel for each scheme: KB over ms. Their heights have scales of their own, or the shortest
    queues could not be seen. `wanted`: colours of schemes, as in `colours`."""
    colour = colours(dict.fromkeys(series) | dict(wanted or {}))
    shown = {name: points for name, points in series.items() if points}
    busy = [x for points in shown.values() for x, y in points if y > 0]
    across = ticks(max(busy, default=1.0), 6)
    parts: list[str] = []
    for number, (name, points) in enumerate(shown.items()):
        top = TOP + number * (PANEL_HEIGHT + PANEL_GAP)
        up = ticks(max(y for _, y in points) or 1.0, 2)
        axes = Axes(top, PANEL_HEIGHT, across[-1], up[-1])
        bottom = number == len(shown) - 1
        parts += axes.frame("ms since the traffic began, nominal", across if bottom else (), up)
        until = [point for point in points if point[0] <= across[-1]]
        parts.append(axes.line(until, colour[name]))
        parts.append(f'<text x="{LEFT + 6}" y="{top - 6}">{escape(name)}, KB</text>')
    height = TOP + len(shown) * (PANEL_HEIGHT + PANEL_GAP) - PANEL_GAP + BOTTOM
    return _picture(title, max(height, 2 * TOP), parts)


def completion(
    title: str,
    times_ms: Mapping[str, Sequence[float]],
    wanted: Mapping[str, str | None] | None = None,
) -> str:
    """The share of flows that had ended by a time, a curve for each scheme. `wanted`: colours of
    schemes, as in `colours`."""
    shown = {name: sorted(times) for name, times in times_ms.items() if times}
    chosen = colours(dict.fromkeys(times_ms) | dict(wanted or {}))
    least = min((times[0] for times in shown.values()), default=1.0)
    most = max((times[-1] for times in shown.values()), default=1.0)
    decades = 0 < least < most / DECADE
    across = ticks_of_decades(least, most) if decades else ticks(most, 8)
    axes = Axes(TOP, CURVE_HEIGHT, across[-1], 1.0, across[0])
    parts = [*axes.frame("flow completion time in ms, nominal", across, [0, 0.25, 0.5, 0.75, 1])]
    for number, (name, times) in enumerate(shown.items()):
        colour, below = chosen[name], TOP + 18 + 18 * number
        parts.append(axes.line(_steps(times), colour))
        parts.append(
            f'<line x1="{LEFT + 10}" y1="{below - 4}" x2="{LEFT + 34}" y2="{below - 4}" '
            f'stroke="{colour}" stroke-width="3"/>'
            f'<text x="{LEFT + 40}" y="{below}">{escape(name)}</text>'
        )
    return _picture(title, TOP + CURVE_HEIGHT + BOTTOM, parts)


def _steps(times: Sequence[float]) -> list[tuple[float, float]]:
    """The corners of the distribution function."""
    corners, share = [(0.0, 0.0)], 0.0
    for number, time in enumerate(times, start=1):
        corners.append((time, share))
        share = number / len(times)
        corners.append((time, share))
    return corners


def _picture(title: str, height: float, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        f'width="{WIDTH}" height="{height:g}" role="img">'
    )
    name = f'<text class="title" x="{LEFT}" y="20">{escape(title)}</text>'
    top = [head, f"<title>{escape(title)}</title>", f"<style>{STYLE}</style>", name]
    return "\n".join([*top, *parts, "</svg>"]) + "\n"
