"""Results as what JSON has: names with units, numbers, lists. Infinite and missing numbers are
null."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from ebb_volume.anomalies import Anomalies
from ebb_volume.billing import Bill, nrmse
from ebb_volume.fitting import Fit
from ebb_volume.notes import Notes
from ebb_volume.provisioning import Provision
from ebb_volume.series import Series

Record = dict[str, Any]


def of_series(series: Series) -> Record:
    """Name, extent and rates of a series."""
    rates = series.rate_bps
    return {
        "point": series.name.point,
        "class": series.name.kind,
        "start_ns": series.start_ns,
        "slot_ns": series.slot_ns,
        "bins": len(series),
        "empty_bins": int((series.bytes == 0).sum()),
        "bytes": int(series.bytes.sum()),
        "packets": int(series.packets.sum()),
        "mean_bps": float(rates.mean()) if len(rates) else None,
        "deviation_bps": float(rates.std()) if len(rates) else None,
        "highest_bps": float(rates.max()) if len(rates) else None,
    }


def of_fit(fit: Fit) -> Record:
    """A fit, with all its laws and tests."""
    found: Record = of_series(fit.series) | {
        "best": fit.best,
        "not_beaten": fit.leading,
        "zero_share": fit.zero_share,
        "laws": {
            name: {
                "parameters": each.law.parameters,
                "log_likelihood": each.log_likelihood,
                "aic": each.aic,
                "plot_correlation": each.correlation,
                "ks_distance": each.distance,
                "ks_p": each.p,
                "ks_p_error": each.p_error,
            }
            for name, each in fit.laws.items()
        },
        "comparisons": [
            {
                "first": each.first, "second": each.second, "log_ratio": each.log_ratio,
                "ratio": each.ratio, "p": each.p, "p_dependent": each.p_dependent,
                "effective_bins": each.effective, "better": each.verdict(),
            }
            for each in fit.comparisons
        ],
        "effective_bins": fit.effective_bins,
        "autocorrelation": {str(lag): rho for lag, rho in fit.autocorrelation.items()},
    }  # fmt: skip
    if fit.stationarity:
        each = fit.stationarity
        found["stationarity"] = {
            "kpss": each.kpss, "kpss_p": each.kpss_p, "adf": each.adf, "adf_p": each.adf_p,
            "tested": each.tested, "verdict": each.verdict(),
        }  # fmt: skip
    if fit.tail:
        found["tail"] = _of_tail(fit)
    return found


def _of_tail(fit: Fit) -> Record:
    tail = fit.tail
    assert tail is not None
    law = tail.power_law
    found: Record = {
        "alpha": law.alpha, "x_min_bytes": law.x_min, "tail_bins": law.tail,
        "ks_distance": law.distance, "candidates": law.candidates, "p": tail.p,
        "p_error": tail.p_error, "deviations": tail.spread,
        "comparisons": [
            {"alternative": c.alternative, "ratio": c.ratio, "p": c.p, "better": c.verdict()}
            for c in tail.comparisons
        ],
    }  # fmt: skip
    if tail.truncated:
        found["truncated"] = {"alpha": tail.truncated.alpha, "rate_per_byte": tail.truncated.rate}
    return found


def of_provisions(series: Series, provisions: Sequence[Provision]) -> Record:
    """The capacities of all methods for a series."""
    rows = [
        {
            "method": each.method, "slot_ns": each.slot_ns, "epsilon": each.epsilon,
            "capacity_bps": each.capacity_bps, "achieved": each.achieved, "bins": each.bins,
        }
        for each in provisions
    ]  # fmt: skip
    return of_series(series) | {"capacities": rows}


def of_bills(bills: Sequence[Bill], whole: Bill | None = None) -> Record:
    """95th percentiles, measured and predicted, of all of an only series and of the parts, with the
    error of each model over the parts."""
    return {
        "all": _of_bill(whole) if whole else None,
        "parts": [_of_bill(each) for each in bills],
        "nrmse": {model: nrmse(bills, model) for model in bills[0].predicted_bps},
    }


def _of_bill(bill: Bill) -> Record:
    return {
        "name": bill.name, "billed_bps": bill.billed_bps, "intervals": bill.intervals,
        "actual_bps": bill.actual_bps, "predicted_bps": bill.predicted_bps,
    }  # fmt: skip


def of_anomalies(series: Series, found: Anomalies) -> Record:
    """Findings and flags of a series."""
    return of_series(series) | {
        "findings": found.findings,
        "empty_share": found.empty_share,
        "full_share": found.full_share,
        "capacity_bps": found.capacity_bps,
        "period_s": found.period.period_s if found.period else None,
        "period_explains": found.period.explained if found.period else None,
        "flags": [
            {
                "kind": flag.kind, "direction": flag.direction, "begin_s": flag.begin_s,
                "end_s": flag.end_s, "rate_bps": flag.rate_bps, "expected_bps": flag.expected_bps,
                "deviations": flag.deviations,
            }
            for flag in found.flags
        ],
        "flags_more": found.more,
    }  # fmt: skip


def as_json(record: Record, notes: Notes) -> str:
    """With the remarks about the input."""
    return json.dumps(_finite({**record, "notes": list(notes)}), indent=2, allow_nan=False)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
