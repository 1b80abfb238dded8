"""Figures: traffic over time, shares above a rate, probability plots, exceedance, bills."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ebb_topologies.files import replacing
from ebb_topologies.palette import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, RED, SKY
from matplotlib.figure import Figure

from ebb_volume.anomalies import Anomalies
from ebb_volume.billing import Bill
from ebb_volume.fitting import Fit
from ebb_volume.provisioning import Provision
from ebb_volume.quantities import shown_duration
from ebb_volume.series import Numbers, Series

LOOKS = {
    "log-normal": (BLUE, "-", "o"),
    "normal": (ORANGE, "--", "s"),
    "Weibull": (GREEN, "-.", "^"),
    "gamma": (PINK, ":", "D"),
    "exponential": (GREY, "--", "x"),
    "meent": (RED, "--", "v"),
    "rule": (GREY, ":", "x"),
    "observed": (BLACK, "-", "*"),
}
"""Colour, line and marker by law or method."""
LABELS = {"meent": "Meent", "rule": "mean + 30 %", "observed": "observed"}
MOST_POINTS = 4_000
"""Points of a curve; of more bins, the least and the highest of as many groups are drawn."""


def write(figure: Figure, path: Path) -> None:
    """SVG or PNG by the name of the file."""
    with replacing(path) as part:
        figure.savefig(
            part, format=path.suffix.removeprefix(".") or "svg", metadata=_metadata(path)
        )


def _metadata(path: Path) -> dict[str, Any]:
    return {"Date": None} if path.suffix == ".svg" else {"Software": None}


def embedded(figure: Figure) -> str:
    """A PNG as the address of an image in HTML."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=110, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode()


def _new(panels: int = 1) -> tuple[Figure, list[Any]]:
    figure = Figure(figsize=(4.8 * panels if panels > 1 else 7.5, 3.6), layout="constrained")
    axes = np.atleast_1d(figure.subplots(1, panels)).tolist()
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _unit(rates: Numbers) -> tuple[float, str]:
    """Divisor and name of a unit in which most of the rates have few digits."""
    top = float(np.max(rates, initial=1.0))
    for size, name in ((1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if top >= size:
            return size, name
    return 1.0, "bit/s"


def _hours(series: Series) -> tuple[float, str]:
    seconds = len(series) * series.slot_ns / 1e9
    return (3600.0, "h") if seconds > 3 * 3600 else (1.0, "s")


def time_line(
    series: Series, lines: dict[str, float] | None = None, found: Anomalies | None = None
) -> Figure:
    """The rate of each bin; `lines`: rates by method, as horizontal lines; `found`: with shades
    over what was flagged."""
    figure, (axes,) = _new()
    rates = series.rate_bps
    size, unit = _unit(np.append(rates, list((lines or {}).values())))
    divisor, time_unit = _hours(series)
    times, low, high = _envelope(series.time_s / divisor, rates / size)
    axes.fill_between(times, low, high, color=SKY, linewidth=0.6, edgecolor=SKY)
    for method, capacity in (lines or {}).items():
        colour, dashes, _marker = LOOKS[method]
        axes.axhline(
            capacity / size, color=colour, linestyle=dashes,
            label=f"{LABELS.get(method, method)}: {capacity / size:.4g}",
        )  # fmt: skip
    if found:
        _flagged(axes, found, size, divisor)
        if found.period:
            expected = found.expected_bps / size
            curve = _few(series.time_s / divisor, expected)
            axes.plot(*curve, color=BLACK, linewidth=1, label="expected")
    axes.set(
        xlabel=f"time, {time_unit}", ylim=(0, None),
        ylabel=f"rate in bins of {shown_duration(series.slot_ns)}, {unit}",
    )  # fmt: skip
    axes.margins(x=0.01)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, loc="lower right", bbox_to_anchor=(1, 1), ncols=3)
    return figure


def _flagged(axes: Any, found: Anomalies, size: float, divisor: float) -> None:
    shades = {"high": ORANGE, "low": PINK, "empty": GREY, "full": RED}
    shown = set()
    for flag in found.flags:
        label = f"{flag.kind}, {flag.direction}"
        more = {} if label in shown else {"label": label}
        shown.add(label)
        colour = shades[flag.direction]
        if flag.kind == "stretch":
            axes.axvspan(
                flag.begin_s / divisor, flag.end_s / divisor, color=colour, alpha=0.25, **more
            )
        else:
            axes.plot(flag.begin_s / divisor, flag.rate_bps / size, "x", color=colour, **more)
    if found.capacity_bps:
        axes.axhline(found.capacity_bps / size, color=RED, linestyle=":", label="capacity")


def _envelope(times: Numbers, rates: Numbers) -> tuple[Numbers, Numbers, Numbers]:
    """Least and highest of neighbours, so that no peak is lost; of few bins, 0 and the rate."""
    step = -(-len(rates) // MOST_POINTS)
    if step == 1:
        return times, np.zeros(len(rates)), rates
    whole = len(rates) // step * step
    groups = rates[:whole].reshape(-1, step)
    return times[:whole:step], groups.min(axis=1), groups.max(axis=1)


def distribution(fit: Fit) -> Figure:
    """The density, the share above each rate, and the probability plots of all laws."""
    figure, (density, above, plot) = _new(3)
    factor = 8e9 / fit.series.slot_ns
    size, unit = _unit(fit.values * factor)
    rates = np.sort(fit.values * factor / size)
    to_bytes = size / factor
    grid = np.linspace(float(rates[0]), float(rates[-1]), 400)
    density.hist(rates, bins=60, density=True, color=SKY, alpha=0.6, label="bins")
    shares = 1 - np.arange(len(rates)) / len(rates)
    above.plot(*_few(rates, shares), ".", color=BLACK, markersize=2, label="bins")
    ranks = np.arange(1, len(rates) + 1) / (len(rates) + 1)
    for name, found in fit.laws.items():
        colour, dashes, _marker = LOOKS[name]
        law = found.law
        density.plot(
            grid, np.exp(law.log_density(grid * to_bytes)) * to_bytes, dashes, color=colour
        )
        above.plot(grid, law.above(grid * to_bytes), dashes, color=colour, label=name)
        if name != "exponential":
            quantiles = law.quantile(ranks) / to_bytes
            plot.plot(*_few(quantiles, rates), dashes, color=colour,
                      label=f"{name}: {found.correlation:.4f}")  # fmt: skip
    plot.plot(rates[[0, -1]], rates[[0, -1]], color=BLACK, linewidth=0.6)
    density.set(xlabel=f"rate, {unit}", ylabel="density", ylim=(0, None))
    above.set(
        xlabel=f"rate, {unit}", ylabel="share of bins above", yscale="log",
        ylim=(0.3 / len(rates), 1.5),
    )  # fmt: skip
    plot.set(xlabel=f"quantile of the law, {unit}", ylabel=f"bins in order, {unit}")
    for axes in (above, plot):
        axes.legend(frameon=False, fontsize=7)
    return figure


def _few(across: Numbers, up: Numbers) -> tuple[Numbers, Numbers]:
    """At most this many points, the ends included."""
    at = np.unique(np.linspace(0, len(across) - 1, MOST_POINTS).astype(int))
    return across[at], up[at]


def exceedance(provisions: Sequence[Provision]) -> Figure:
    """Share of bins that was to need more, and that did, by method; a panel per bin length."""
    slots = sorted({each.slot_ns for each in provisions})
    figure, panels = _new(max(len(slots), 1))
    for axes, slot_ns in zip(panels, slots, strict=True):
        here = [each for each in provisions if each.slot_ns == slot_ns]
        epsilons = sorted({each.epsilon for each in here})
        axes.plot(epsilons, epsilons, color=BLACK, linewidth=0.8, label="as asked for")
        floor = 0.3 / here[0].bins
        for method in dict.fromkeys(each.method for each in here):
            if method == "observed":
                continue
            points = sorted((e.epsilon, max(e.achieved, floor)) for e in here if e.method == method)
            colour, dashes, marker = LOOKS[method]
            axes.plot(*zip(*points, strict=True), marker=marker, linestyle=dashes, color=colour,
                      label=LABELS.get(method, method))  # fmt: skip
        axes.set(
            xscale="log", yscale="log", xlabel="epsilon", ylabel="share of bins that needed more",
            title=f"bins of {shown_duration(slot_ns)}",
        )  # fmt: skip
    panels[0].legend(frameon=False, fontsize=8)
    return figure


def percentiles(bills: Sequence[Bill]) -> Figure:
    """Actual and predicted 95th percentile of each part."""
    figure, (axes,) = _new()
    actual = np.array([each.actual_bps for each in bills])
    predicted = {name: np.array([each.predicted_bps[name] for each in bills])
                 for name in bills[0].predicted_bps}  # fmt: skip
    size, unit = _unit(np.concatenate([actual, *predicted.values()]))
    for name, values in predicted.items():
        colour, _dashes, marker = LOOKS[name]
        axes.plot(actual / size, values / size, marker, color=colour, label=name, alpha=0.8)
    ends = np.array([actual.min(), actual.max()]) / size
    axes.plot(ends, ends, color=BLACK, linewidth=0.8)
    axes.set(xlabel=f"actual 95th percentile, {unit}", ylabel=f"predicted, {unit}")
    axes.legend(frameon=False, fontsize=8)
    return figure
