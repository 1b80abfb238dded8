"""Colours of figures: those of Okabe and Ito, which the colour-blind tell apart too."""

from __future__ import annotations

BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, RED, PINK, GREY = "#B8A900", "#0072B2", "#D55E00", "#CC79A7", "#777777"
