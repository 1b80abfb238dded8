"""`python -m ebb_experiments.volume --out FOLDER`: the claims as a page, with figures."""

from __future__ import annotations

import argparse
import math
from collections import Counter
from pathlib import Path

import numpy as np
from ebb_topologies.palette import BLACK, BLUE, GREEN, ORANGE
from ebb_volume import figures, goodness, laws, provisioning, synthetic
from matplotlib.figure import Figure

from ebb_experiments.volume import claims

PAGE = """\
# The distribution of traffic volume: the claims

Alasmar's chapter 5 (INFOCOM 2019) beside [ebb-volume](../traffic-volume.md), seed {seed}. The
chapter rests on 229 traces, which are not available here; a row that needs them has no value of
ours, and no row reproduces one. *Formula*: arithmetic. *Synthetic*: what the method does with
traffic that we made, whose law is known. {counts}. Made by
`.venv/bin/python -m ebb_experiments.volume --out docs/volume`.

{findings}

| claim | chapter | rests on | ours | band | verdict | note |
|---|---:|---|---:|---:|---|---|
{rows}

![Left: correlation of the probability plot by length of bins. Right: exceedance.](volume.png)

Left: correlation of the probability plot, a log-normal law (filled) and a normal one (open), by
length of bins. Right: share of bins above the capacity, over epsilon, log-normal traffic.
"""
FINDINGS = """\
Which law wins depends on the traffic and on the length of the bins. The chapter's finding,
log-normal best at all lengths, holds here for traffic that is log-normal in short bins, and as far
as there are bins enough to decide; it does not for sums of on-off sources, nor for Poisson
arrivals, which come near a normal law as bins grow. By the chapter's own test, against the power
law in the tail, several laws win at once or none: it does not tell which law is right."""


def main() -> None:
    """Writes the page and the figure; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of README.md and volume.png"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    found = list(claims.rows(options.seed))
    counts = Counter(row.verdict for row in found)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in counts)
    page = PAGE.format(
        seed=options.seed, rows="\n".join(_row(row) for row in found), counts=told,
        findings=FINDINGS,
    )  # fmt: skip
    (options.out / "README.md").write_text(page)
    figures.write(_figure(options.seed), options.out / "volume.png")
    print(f"{told}: {options.out / 'README.md'}")


def _row(row: claims.Row) -> str:
    ours = "" if row.ours is None else f"{row.ours:.4g}"
    cells = (row.text, row.published, row.ground, ours, _band(row.band), row.verdict, row.note)
    return f"| {' | '.join(cells)} |"


def _band(band: tuple[float, float] | None) -> str:
    if band is None:
        return ""
    low, high = band
    if math.isinf(high):
        return f"≥ {low:.4g}"
    return f"≤ {high:.4g}" if math.isinf(low) else f"{low:.4g} to {high:.4g}"


def _figure(seed: int) -> Figure:
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for (name, colour), marker in zip(
        zip(claims.SOURCES, (BLUE, ORANGE, GREEN), strict=True), "os^", strict=True
    ):
        by_slot = claims.trace(name, seed)
        for law, fill in (("log-normal", "full"), ("normal", "none")):
            gammas = []
            for series in by_slot.values():
                values = series.bytes[series.bytes > 0].astype(np.float64)
                gammas.append(goodness.plot_correlation(values, laws.FITTERS[law](values)))
            left.plot([slot_ns / 1e9 for slot_ns in by_slot], gammas, marker=marker, color=colour,
                      fillstyle=fill, linestyle="-" if fill == "full" else ":",
                      label=name if fill == "full" else None)  # fmt: skip
    left.axhline(goodness.STRONG, color=BLACK, linewidth=0.8)
    left.set(xscale="log", xlabel="length of bins, s", ylabel="gamma")
    left.legend(frameon=False, fontsize=8)
    rng = np.random.default_rng([seed, 5])
    series = synthetic.series(synthetic.lognormal(9_000, 5e6, 0.45, rng, 0.5), "log-normal")
    epsilons = np.geomspace(0.5, 0.005, 12).tolist()
    for base10, dashes in ((False, "-"), (True, ":")):
        for method in ("meent",) if base10 else ("log-normal", "Weibull", "normal", "meent"):
            found = provisioning.provision(series, epsilons, base10=base10)
            points = [(p.epsilon, p.achieved / p.epsilon) for p in found if p.method == method]
            colour, _line, marker = figures.LOOKS[method]
            name = figures.LABELS.get(method, method)
            label = f"{name}, log to base 10" if base10 else name
            right.plot(*zip(*points, strict=True), marker=marker, markersize=4, color=colour,
                       linestyle=dashes, label=label)  # fmt: skip
    right.axhline(1, color=BLACK, linewidth=0.8)
    right.set(xscale="log", xlabel="epsilon", ylabel="exceeded by, over epsilon")
    right.legend(frameon=False, fontsize=8)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    return figure


if __name__ == "__main__":
    main()
