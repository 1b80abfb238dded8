"""Style of a scheme in every figure. Label and colour are those of its file; variants that only an
experiment has take a colour of Okabe and Ito, whose palette the colour-blind can distinguish.
Markers and lines survive a black-and-white print."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ebb_controller.scheme import load_scheme
from ebb_topologies.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY, YELLOW


@dataclass(frozen=True, slots=True)
class PlotStyle:
    """Look of a scheme in figures."""

    label: str
    colour: str
    marker: str
    line: str = "-"


def _of(scheme: str, marker: str, line: str = "-", label: str | None = None) -> PlotStyle:
    """Label and colour of a scheme's file; `label` instead, for a variant of its parameters."""
    found = load_scheme(scheme)
    return PlotStyle(label or found.label, found.colour or BLACK, marker, line)


PLOT_STYLES: dict[str, PlotStyle] = {
    "tcp": _of("tcp-droptail", "o"),
    "tcp-ecn": PlotStyle("TCP-ECN", GREY, "X", "--"),
    "tcp-ecn-pacer": PlotStyle("TCP-ECN, paced", GREY, "P"),
    "tcp-qos": PlotStyle("TCP, small flows first", GREY, "v", "--"),
    "dctcp": _of("dctcp", "s"),
    "dctcp-65": _of("dctcp", "s", label="DCTCP, K = 65 packets"),
    "dctcp-6k-pacer": PlotStyle("DCTCP, K = 6 KB, paced", SKY, "D"),
    "dctcp-6k-no-pacer": PlotStyle("DCTCP, K = 6 KB", SKY, "d", "--"),
    "fh": _of("fh", "o"),
    "fh-one-buffer": PlotStyle("FH, one buffer", GREY, "x", ":"),
    "lps": _of("lps", "s", "--"),
    "detail": _of("detail", "D"),
    "detail-drops": PlotStyle("DeTail without PFC", RED, "v", ":"),
    "detail-one-buffer": PlotStyle("DeTail, one buffer", GREEN, "x", ":"),
    "detail-shared": PlotStyle("DeTail, shared memory", SKY, "s", "--"),
    "detail-one-priority": PlotStyle("DeTail, one priority", PINK, "^", "--"),
    "fastlane": _of("fastlane", "o"),
    "fastlane-fh": _of("fastlane-fh", "o", "--"),
    "fastlane-seen": PlotStyle("FastLane, its packets seen", RED, "X", ":"),
    "fastlane-ideal": PlotStyle("FastLane, ideal", ORANGE, "D", ":"),
    "tcp-a": PlotStyle("TCP-A", BLUE, "s", "--"),
    "pfabric": _of("pfabric", "P"),
    "pfabric-fastlane": _of("pfabric-fastlane", "X", "--"),
    "source-quench": _of("source-quench", "v", "--"),
    "hull": _of("hull", "^"),
    "hull-no-pacer": PlotStyle("HULL without pacer", ORANGE, "<", "--"),
    "ndp": _of("ndp", "v"),
    "silo": PlotStyle("Silo", BLUE, "o"),
    "silo-paced": PlotStyle("Silo, paced bursts", SKY, "D", "--"),
    "oktopus": PlotStyle("Oktopus", ORANGE, "s"),
    "okto-plus": PlotStyle("Okto+", YELLOW, "D", "--"),
    "locality": PlotStyle("locality, fair sharing", GREY, "^", ":"),
    "ndp-16": PlotStyle("NDP, window of 16", GREY, "^", ":"),
    "ndp-per-flow": PlotStyle("NDP, a path per flow", GREY, "X", "--"),
    "ndp-daisy": PlotStyle("NDP, daisy chain", YELLOW, ">", "--"),
    "ndp-3-blocks": PlotStyle("NDP, 3 blocks at once", YELLOW, ">", "--"),
    "scdp": _of("scdp", "*"),
    "scdp-author": PlotStyle("SCDP, queue of the author's model", GREY, "X", ":"),
    "trevi": _of("trevi", "h"),
    "trevi-cr": _of("trevi-cr", "H", "--"),
    "tcp-tcp": _of("tcp-droptail", "o", label="TCP, storage by TCP"),
    "dctcp-dctcp": _of("dctcp", "s", label="DCTCP, storage by DCTCP"),
    "tcp-trevi-fifo": PlotStyle("TCP, storage by Trevi, one FIFO", SKY, "X", "--"),
    "dctcp-trevi-fifo": PlotStyle("DCTCP, storage by Trevi, one FIFO", GREEN, "P", "--"),
    "tcp-trevi": _of("tcp-trevi", "h"),
    "dctcp-trevi": _of("dctcp-trevi", "H"),
    "scdp-one-level": PlotStyle("SCDP without MLFQ", "#6A3D9A", "p", "--"),
}
"""Styles by scheme, in the order of legends."""

_COLOURS = (RED, BLUE, GREEN, PINK, ORANGE, SKY, YELLOW, GREY, BLACK)
_MARKERS = "oDsX^Pv*"


def new_style(
    name: str, label: str, colour: str | None, others: Collection[PlotStyle]
) -> PlotStyle:
    """Style of a scheme that has no row here, with the label and the colour of its file where none
    of the others has them, as a variant of one of these would."""
    labels, taken = ({getattr(other, key) for other in others} for key in ("label", "colour"))
    free = [each for each in (colour, *_COLOURS) if each is not None and each not in taken]
    marker = _MARKERS[len(others) % len(_MARKERS)]
    return PlotStyle(name if label in labels else label, (free or _COLOURS)[0], marker)
