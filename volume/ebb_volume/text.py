"""Results as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ebb_volume.anomalies import Anomalies
from ebb_volume.billing import Bill, nrmse
from ebb_volume.fitting import Fit
from ebb_volume.provisioning import Provision
from ebb_volume.quantities import shown_duration, shown_rate
from ebb_volume.series import Series


@dataclass(frozen=True, slots=True)
class Table:
    """A heading per column and rows of cells."""

    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


def of_series(series: Sequence[Series]) -> Table:
    """A row per series."""
    rows = []
    for each in series:
        rates = each.rate_bps
        empty = float((each.bytes == 0).mean()) if len(each) else 0.0
        rows.append([
            str(each.name), f"{len(each):,}", shown_duration(each.slot_ns), f"{empty:.1%}",
            f"{int(each.packets.sum()):,}", f"{int(each.bytes.sum()):,}",
            shown_rate(float(rates.mean())), shown_rate(float(rates.max())),
        ])  # fmt: skip
    head = ("series", "bins", "of", "empty", "packets", "bytes", "mean", "highest bin")
    return Table("Traffic", head, rows)


def of_fit(fit: Fit) -> list[Table]:
    """Laws and comparisons of a fit."""
    best = f"{fit.best} beats every other law" if fit.best else (
        f"undecided between {', '.join(fit.leading)}" if len(fit.leading) != 1
        else f"{fit.leading[0]} is not beaten, and does not beat every other law"
    )  # fmt: skip
    laws = []
    for name, each in sorted(fit.laws.items(), key=lambda item: item[1].aic):
        parameters = ", ".join(f"{key} {value:.6g}" for key, value in each.law.parameters.items())
        p = "" if each.p is None else f"{each.p:.3g} ± {each.p_error:.2g}"
        laws.append([name, parameters, f"{each.aic:.1f}", f"{each.correlation:.4f}",
                     f"{each.distance:.4f}", p])  # fmt: skip
    pairs = [
        [f"{c.first} : {c.second}", f"{c.ratio:+.2f}", f"{c.p:.2g}", f"{c.p_dependent:.2g}",
         c.verdict()]
        for c in fit.comparisons
    ]  # fmt: skip
    name = str(fit.series.name)
    return [
        Table(f"{name}, bins of {shown_duration(fit.series.slot_ns)}: {best}",
              ("law", "parameters (bytes)", "AIC", "plot correlation", "KS", "KS p"), laws,
              _dependence(fit)),
        Table(f"{name}: laws in pairs",
              ("first : second", "Vuong", "p", "p, dependence regarded", "better"), pairs),
        *_of_tail(fit),
    ]  # fmt: skip


def _dependence(fit: Fit) -> str:
    rho = ", ".join(f"{value:.2f} at {lag}" for lag, value in fit.autocorrelation.items())
    parts = [
        f"{len(fit.series):,} bins count as {fit.effective_bins:,.0f} independent ones "
        f"(autocorrelation {rho})"
    ]
    if fit.zero_share:
        parts.append(f"{fit.zero_share:.1%} of the bins are empty; laws are of the others")
    if fit.stationarity:
        each = fit.stationarity
        parts.append(f"{each.verdict()} (KPSS p {each.kpss_p:.2g}, ADF p {each.adf_p:.2g})")
    return "; ".join(parts)


def _of_tail(fit: Fit) -> list[Table]:
    if not fit.tail:
        return []
    law, truncated = fit.tail.power_law, fit.tail.truncated
    p = "" if fit.tail.p is None else f", p {fit.tail.p:.3g} ± {fit.tail.p_error:.2g}"
    note = (
        f"alpha {law.alpha:.4f}, x_min {law.x_min:.0f} bytes (nearest of {law.candidates} "
        f"candidates), {law.tail:,} bins in the tail, KS {law.distance:.4f}{p}"
    )
    if truncated:
        note += (
            f"; with an exponential cut: alpha {truncated.alpha:.4f}, {truncated.rate:.4g} per byte"
        )
    rows = [[c.alternative, f"{c.ratio:+.2f}", f"{c.p:.2g}", c.verdict()]
            for c in fit.tail.comparisons]  # fmt: skip
    title = f"{fit.series.name}: power law of the tail"
    return [Table(title, ("power law against", "Vuong", "p", "better"), rows, note)]


def of_provisions(series: Series, provisions: Sequence[Provision]) -> Table:
    """A row per method, bin and epsilon."""
    rows = [
        [shown_duration(p.slot_ns), f"{p.epsilon:g}", p.method, shown_rate(p.capacity_bps),
         f"{p.achieved:.4f}", f"{p.achieved / p.epsilon:.2f}"]
        for p in provisions
    ]  # fmt: skip
    head = ("bins of", "epsilon", "method", "capacity", "exceeded by", "over epsilon")
    return Table(f"{series.name}: capacity that a share epsilon of the bins exceeds", head, rows)


def of_bills(bills: Sequence[Bill], whole: Bill | None = None) -> Table:
    """A row for all of an only series, one per part, and the error of each model over the parts."""
    models = list(bills[0].predicted_bps)
    rows = [
        [each.name, shown_rate(each.billed_bps) if each.billed_bps is not None else "",
         str(each.intervals), shown_rate(each.actual_bps),
         *(shown_rate(each.predicted_bps[model]) for model in models)]
        for each in (*([whole] if whole else []), *bills)
    ]  # fmt: skip
    rows.append(["NRMSE", "", "", "", *(f"{nrmse(bills, model):.4f}" for model in models)])
    head = ("part", "billed", "intervals", "95 % of bins", *models)
    return Table("95th percentile", head, rows)


def of_anomalies(series: Series, found: Anomalies) -> Table:
    """A row per flag."""
    rows = [
        [flag.kind, flag.direction, f"{flag.begin_s:.6g}", f"{flag.end_s:.6g}",
         shown_rate(flag.rate_bps), shown_rate(flag.expected_bps), f"{flag.deviations:+.1f}"]
        for flag in found.flags
    ]  # fmt: skip
    note = "; ".join(found.findings) or "nothing that all of the series shows"
    if found.more:
        note += f"; {found.more} flags more"
    head = ("what", "is", "from, s", "to, s", "rate", "expected", "deviations")
    count = f"{len(found.flags)} flag{'s' * (len(found.flags) != 1)}"
    return Table(f"{series.name}: {count}", head, rows, note)
