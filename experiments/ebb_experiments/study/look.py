"""One look per scheme, in every figure: colours of Okabe and Ito, which the colour-blind tell apart
too; markers and lines that survive a black-and-white print."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Look:
    label: str
    colour: str
    marker: str
    line: str = "-"


BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK, GREY = "#B8A900", "#0072B2", "#D55E00", "#CC79A7", "#777777"

LOOKS: dict[str, Look] = {
    "tcp": Look("TCP, drop-tail", BLACK, "o"),
    "tcp-ecn": Look("TCP-ECN", GREY, "X", "--"),
    "tcp-ecn-pacer": Look("TCP-ECN, paced", GREY, "P"),
    "tcp-qos": Look("TCP, small flows first", GREY, "v", "--"),
    "dctcp": Look("DCTCP, K = 30 KB", BLUE, "s"),
    "dctcp-65": Look("DCTCP, K = 65 packets", BLUE, "s"),
    "dctcp-6k-pacer": Look("DCTCP, K = 6 KB, paced", SKY, "D"),
    "dctcp-6k-no-pacer": Look("DCTCP, K = 6 KB", SKY, "d", "--"),
    "hull": Look("HULL", RED, "^"),
    "hull-no-pacer": Look("HULL without pacer", ORANGE, "<", "--"),
    "ndp": Look("NDP", GREEN, "v"),
    "ndp-16": Look("NDP, window of 16", GREY, "^", ":"),
    "ndp-per-flow": Look("NDP, a path per flow", GREY, "X", "--"),
    "ndp-daisy": Look("NDP, daisy chain", YELLOW, ">", "--"),
    "ndp-3-blocks": Look("NDP, 3 blocks at once", YELLOW, ">", "--"),
    "scdp": Look("SCDP", PINK, "*"),
    "scdp-one-level": Look("SCDP without MLFQ", "#6A3D9A", "p", "--"),
}
"""Looks by scheme, in the order of legends."""
