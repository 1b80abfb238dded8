"""Max-min fair rates: what an ideal TCP gives flows that share ports."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


def max_min(ports: Indices, flows: Numbers, capacity: Numbers) -> Numbers:
    """Rate of each flow of groups of equal flows. `ports`: a row per group, those that it crosses,
    where the last port of all is the one without limit that fills the row up; `flows`: of each
    group; `capacity`: of each port."""
    rates = np.zeros(len(flows))
    left = capacity.copy()
    open_ = np.arange(len(flows))
    while len(open_):
        at, weight = ports[open_], flows[open_]
        load = np.bincount(at.ravel(), np.repeat(weight, at.shape[1]), len(capacity))
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(load > 0, np.maximum(left, 0) / load, np.inf)
        share[-1] = np.inf
        own = share[at].min(axis=1)
        # A port is full as soon as the flows on it have its share; so are those on which no flow
        # has less elsewhere.
        lowest = np.full(len(capacity), np.inf)
        np.minimum.at(lowest, at.ravel(), np.repeat(own, at.shape[1]))
        full = lowest >= share * (1 - 1e-12)
        full[-1] = False
        fixed = (full[at] & (share[at] <= own[:, None] * (1 + 1e-12))).any(axis=1)
        done = open_[fixed]
        rates[done] = own[fixed]
        used = np.repeat(rates[done] * flows[done], at.shape[1])
        left -= np.bincount(ports[done].ravel(), used, len(capacity))
        open_ = open_[~fixed]
    return rates
