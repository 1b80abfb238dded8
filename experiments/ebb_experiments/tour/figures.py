"""Two pictures of a run, as SVG text: a queue over time, and completion times.

Drawn here and not by a library, because `make run` does without the scientific packages.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#777777", "#6A3D9A")
"""Of Okabe and Ito, which the colour-blind tell apart, in the order of the schemes; then grey and
violet, then from the beginning."""
WIDTH, LEFT, RIGHT, TOP, BOTTOM = 760, 70, 16, 46, 40
"""Of a picture, in pixels: its width, and room around what is drawn."""
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


@dataclass(frozen=True, slots=True)
class Axes:
    """A rectangle in pixels, and the values at its right and upper edge; both begin at 0."""

    top: float
    height: float
    most_x: float
    most_y: float

    def at(self, x: float, y: float) -> str:
        across = LEFT + (WIDTH - LEFT - RIGHT) * x / self.most_x
        up = self.top + self.height * (1 - min(y, self.most_y) / self.most_y)
        return f"{across:.1f},{up:.1f}"

    def frame(self, unit: str, ticks_x: Sequence[float], ticks_y: Sequence[float]) -> Iterator[str]:
        """Lines and numbers; `ticks_x` may be empty, where the panel below has them."""
        for y in ticks_y:
            (left, height), (right, _) = (self.at(x, y).split(",") for x in (0, self.most_x))
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
        path = " ".join(self.at(x, y) for x, y in points)
        return f'<polyline class="line" stroke="{colour}" points="{path}"/>'


def ticks(most: float, about: int) -> list[float]:
    """Round numbers from 0 to the first that is not below `most`, about so many or fewer: steps
    are 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(most / about))
    step = next(part * power for part in (1, 2, 5, 10) if part * power >= most / about)
    return [round(step * number, 10) for number in range(math.ceil(most / step) + 1)]


def queues(title: str, series: Mapping[str, Points]) -> str:
    """A panel for each scheme: KB over ms. Their heights have scales of their own, or the shortest
    queues could not be seen."""
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
        parts.append(axes.line(until, COLOURS[number % len(COLOURS)]))
        parts.append(f'<text x="{LEFT + 6}" y="{top - 6}">{escape(name)}, KB</text>')
    height = TOP + len(shown) * (PANEL_HEIGHT + PANEL_GAP) - PANEL_GAP + BOTTOM
    return _picture(title, max(height, 2 * TOP), parts)


def completion(title: str, times_ms: Mapping[str, Sequence[float]]) -> str:
    """The share of flows that had ended by a time, a curve for each scheme."""
    shown = {name: sorted(times) for name, times in times_ms.items() if times}
    across = ticks(max((times[-1] for times in shown.values()), default=1.0), 8)
    axes = Axes(TOP, CURVE_HEIGHT, across[-1], 1.0)
    parts = [*axes.frame("flow completion time in ms, nominal", across, [0, 0.25, 0.5, 0.75, 1])]
    for number, (name, times) in enumerate(shown.items()):
        colour, below = COLOURS[number % len(COLOURS)], TOP + 18 + 18 * number
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
