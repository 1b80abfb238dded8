"""A topology as an SVG picture: `python -m ebb_topologies.draw FILE.toml > picture.svg`.

Nodes stand in rows by their distance from the hosts, so that a fat-tree looks like one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology, load_topology
from ebb_topologies.text import printable

CELL_WIDTH = 58
"""Width of a node with its margin in the longest row, pixels."""
ROW_HEIGHT = 96
"""Distance between rows, pixels."""
MARGIN = 34
"""Margin of the picture, pixels."""
STYLE = """
  text { font: 12px ui-sans-serif, system-ui, sans-serif; text-anchor: middle; fill: #1b2a38 }
  line { stroke: #9fb3c4; stroke-width: 1.4 }
  .switch { fill: #d9ecf5; stroke: #1f6f8b; stroke-width: 1.4 }
  .host { fill: #fdf3dc; stroke: #b07d2b; stroke-width: 1.4 }
"""


def svg(topology: Topology) -> str:
    """The picture as SVG text; the same topology always gives the same text."""
    places = dict(_places(topology))
    width = max(x for x, _ in places.values()) + MARGIN
    height = max(y for _, y in places.values()) + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" role="img">',
            f"<title>{escape(topology.name)}</title>",
            f"<style>{STYLE}</style>",
            f'<rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *_lines(topology, places),
            *_boxes(topology, places),
            "</svg>\n",
        ]
    )


def tiers(topology: Topology) -> list[list[str]]:
    """Nodes by hops from the nearest host: hosts first, then the switches they hang on, ..."""
    return rows(
        [host.name for host in topology.hosts],
        [switch.name for switch in topology.switches],
        [(link.a.node, link.b.node) for link in topology.links],
    )


def rows(
    hosts: Sequence[str], switches: Sequence[str], links: Sequence[tuple[str, str]]
) -> list[list[str]]:
    """As `tiers`, from the names of nodes and the linked pairs. Switches without a path to a host
    come last."""
    neighbours: dict[str, list[str]] = {name: [] for name in (*hosts, *switches)}
    for a, b in links:
        neighbours[a].append(b)
        neighbours[b].append(a)
    order = {name: place for place, name in enumerate(switches)}
    placed = set(hosts)
    found = []
    row = list(hosts)
    while row:
        found.append(row)
        above = {far for node in row for far in neighbours[node]} - placed
        placed |= above
        row = sorted(above, key=order.__getitem__)
    left = [name for name in switches if name not in placed]
    return [*found, left] if left else found


def _places(topology: Topology) -> Iterator[tuple[str, tuple[float, float]]]:
    levels = tiers(topology)
    width = max(map(len, levels)) * CELL_WIDTH
    for level, row in enumerate(levels):
        y = MARGIN + (len(levels) - 1 - level) * ROW_HEIGHT
        for index, node in enumerate(row):
            yield node, (MARGIN / 2 + width * (index + 0.5) / len(row), y)


def _lines(topology: Topology, places: dict[str, tuple[float, float]]) -> Iterator[str]:
    for link in topology.links:
        (x1, y1), (x2, y2) = places[link.a.node], places[link.b.node]
        yield f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def _boxes(topology: Topology, places: dict[str, tuple[float, float]]) -> Iterator[str]:
    for node in topology.nodes:
        x, y = places[node.name]
        if topology.is_host(node.name):
            yield f'<circle class="host" cx="{x:g}" cy="{y:g}" r="17"/>'
        else:
            corner = f'x="{x - 24:g}" y="{y - 15:g}"'
            yield f'<rect class="switch" {corner} width="48" height="30" rx="5"/>'
        yield f'<text x="{x:g}" y="{y + 4:g}">{escape(node.name)}</text>'


def main() -> int:
    """`python -m ebb_topologies.draw TOPOLOGY.toml`; returns the exit code."""
    if len(sys.argv) != 2:
        print("usage: python -m ebb_topologies.draw TOPOLOGY.toml > picture.svg", file=sys.stderr)
        return 2
    try:
        print(svg(load_topology(Path(sys.argv[1]))), end="")
    except InputError as error:
        print(f"draw: {printable(error)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
