"""How a scheme is drawn, the same in every figure: the colour that its file names, for variants one
of Okabe and Ito, which the colour-blind tell apart too; markers and lines that survive a
black-and-white print."""

from __future__ import annotations

from dataclasses import dataclass

from ebb_controller.scheme import known_colour


@dataclass(frozen=True, slots=True)
class PlotStyle:
    label: str
    colour: str
    marker: str
    line: str = "-"


BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK, GREY = "#B8A900", "#0072B2", "#D55E00", "#CC79A7", "#777777"


def _of(scheme: str) -> str:
    """The colour in the file of a scheme."""
    return known_colour(scheme) or BLACK


PLOT_STYLES: dict[str, PlotStyle] = {
    "tcp": PlotStyle("TCP, drop-tail", _of("tcp-droptail"), "o"),
    "tcp-ecn": PlotStyle("TCP-ECN", GREY, "X", "--"),
    "tcp-ecn-pacer": PlotStyle("TCP-ECN, paced", GREY, "P"),
    "tcp-qos": PlotStyle("TCP, small flows first", GREY, "v", "--"),
    "dctcp": PlotStyle("DCTCP, K = 30 KB", _of("dctcp"), "s"),
    "dctcp-65": PlotStyle("DCTCP, K = 65 packets", _of("dctcp"), "s"),
    "dctcp-6k-pacer": PlotStyle("DCTCP, K = 6 KB, paced", SKY, "D"),
    "dctcp-6k-no-pacer": PlotStyle("DCTCP, K = 6 KB", SKY, "d", "--"),
    "fh": PlotStyle("FH", _of("fh"), "o"),
    "fh-own-buffers": PlotStyle("FH, buffers per priority", GREY, "x", ":"),
    "lps": PlotStyle("LPS", _of("lps"), "s", "--"),
    "detail": PlotStyle("DeTail", _of("detail"), "D"),
    "detail-drops": PlotStyle("DeTail without PFC", RED, "v", ":"),
    "detail-own-buffers": PlotStyle("DeTail, buffers per priority", GREEN, "x", ":"),
    "detail-shared": PlotStyle("DeTail, shared memory", SKY, "s", "--"),
    "detail-one-priority": PlotStyle("DeTail, one priority", PINK, "^", "--"),
    "fastlane": PlotStyle("FastLane", _of("fastlane"), "o"),
    "fastlane-fh": PlotStyle("FastLane, a path per flow", _of("fastlane-fh"), "o", "--"),
    "fastlane-seen": PlotStyle("FastLane, its packets seen", RED, "X", ":"),
    "fastlane-ideal": PlotStyle("FastLane, ideal", ORANGE, "D", ":"),
    "tcp-a": PlotStyle("TCP-A", BLUE, "s", "--"),
    "pfabric": PlotStyle("pFabric", _of("pfabric"), "P"),
    "pfabric-fastlane": PlotStyle("pFabric, told of drops", _of("pfabric-fastlane"), "X", "--"),
    "source-quench": PlotStyle("TCP, Source Quench", _of("source-quench"), "v", "--"),
    "hull": PlotStyle("HULL", _of("hull"), "^"),
    "hull-no-pacer": PlotStyle("HULL without pacer", ORANGE, "<", "--"),
    "ndp": PlotStyle("NDP", _of("ndp"), "v"),
    "ndp-16": PlotStyle("NDP, window of 16", GREY, "^", ":"),
    "ndp-per-flow": PlotStyle("NDP, a path per flow", GREY, "X", "--"),
    "ndp-daisy": PlotStyle("NDP, daisy chain", YELLOW, ">", "--"),
    "ndp-3-blocks": PlotStyle("NDP, 3 blocks at once", YELLOW, ">", "--"),
    "scdp": PlotStyle("SCDP", _of("scdp"), "*"),
    "scdp-one-level": PlotStyle("SCDP without MLFQ", "#6A3D9A", "p", "--"),
}
"""Styles by scheme, in the order of legends."""
