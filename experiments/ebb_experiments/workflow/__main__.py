"""`python -m ebb_experiments.workflow --out FOLDER`: the claims of the model as a page, with a
figure."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ebb_experiments.workflow import claims
from ebb_experiments.workflow.model import (
    PAGE_DEADLINE_US,
    RUNS,
    exponential,
    measured,
    normal,
    percentile,
)

DISTRIBUTIONS = (measured(), exponential(1), exponential(3), normal(1), normal(3))
MOST_REQUESTS = 400
PAGE = """\
# Many requests, one page: what a long tail costs

Workflows of requests that take one round-trip time each, {runs} per row, seed {seed} (Zats, section
4.3). The measured times are known at five points; between them their logarithm is straight. What is
drawn below the measured minimum of 61 us becomes 61 us: drawn again instead, the single exponential
one would end 318 requests in time. Made by `python -m ebb_experiments.workflow`.

| claim | thesis | ours | band | |
|---|---:|---:|---:|---|
{rows}

Normal, 3x: 200 ms are 199 requests of 1.002 ms each, and their sum varies little, so 150 cannot be
what the model gives; the thesis shows steps of 50 or more.

![Left: shares of round-trip times. Right: time of a sequence of requests.](workflows.png)
"""


def main() -> None:
    """Writes the page and the figure into the folder `--out`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, required=True, help="folder of README.md and workflows.png"
    )
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    found = list(claims.rows(args.seed))
    rows = "\n".join(_row(row) for row in found)
    (args.out / "README.md").write_text(PAGE.format(runs=f"{RUNS:,}", seed=args.seed, rows=rows))
    _figure(args.seed).savefig(args.out / "workflows.png", metadata={"Software": None})
    print(
        f"{sum(row.holds for row in found)} of {len(found)} claims hold: {args.out / 'README.md'}"
    )


def _row(row: claims.Row) -> str:
    low, high = row.band
    verdict = "yes" if row.holds else "no"
    return f"| {row.text} | {row.published} | {row.ours:g} | {low:g} to {high:g} | {verdict} |"


def _figure(seed: int) -> Figure:
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    shares, sums = figure.subplots(1, 2)
    ranks = np.arange(1, RUNS + 1) / RUNS
    for distribution in DISTRIBUTIONS:
        rng = np.random.default_rng(seed)
        times = np.sort(distribution.draw(rng, RUNS)) / 1e3
        shares.plot(times, 1 - ranks + 1 / RUNS, label=distribution.name)
        total, tail = np.zeros(RUNS), []
        for _ in range(MOST_REQUESTS):
            total += distribution.draw(rng, RUNS)
            tail.append(percentile(total, 99.9) / 1e3)
        sums.plot(range(1, MOST_REQUESTS + 1), tail, label=distribution.name)
    shares.set(
        xscale="log", yscale="log", xlabel="round-trip time, ms", ylabel="share that is not shorter"
    )
    sums.axhline(PAGE_DEADLINE_US / 1e3, color="#777777", linestyle=":")
    sums.set(
        ylim=(0, 400),
        xlabel="requests, one after the other",
        ylabel="99.9th percentile of their time, ms",
    )
    shares.legend(frameon=False)
    return figure


if __name__ == "__main__":
    main()
