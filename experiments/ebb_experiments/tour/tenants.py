"""Packets of tenants against the bounds of their delay, under the wall clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ebb_controller.scheme import TenantHosts, known_schemes, load_scheme
from rich.table import Table

from ebb_experiments.results.tenants import Slowest, slowest
from ebb_experiments.tour.drawing import drawn, plain
from ebb_experiments.tour.summary import SchemeResult

COLUMNS = ("scheme", "tenant", "packets", "slowest", "took us", "bound us", "late us", "verdict")
CAPTION = (
    "slowest: the two VMs whose slowest packet took most of its bound, from when it conformed to "
    "the guarantee (without a pacer, left its VM) to its arrival. late: what agents and switches "
    "were late by at most, which a packet may be late by as well. Nominal."
)


@dataclass(frozen=True)
class TenantBound:
    """The slowest packet of a tenant in a run of a scheme, beside its bound."""

    slowest: Slowest
    late_ns: float
    """Greatest lateness of processes, nominal."""

    @property
    def holds(self) -> bool | None:
        """Whether the bound was kept: a packet may be late by the lateness of processes as well.
        None: undecided, because that lateness is greater than the bound itself."""
        beyond_ns = self.slowest.longest_ns - self.slowest.bound_ns
        if beyond_ns <= 0 or beyond_ns > self.late_ns:
            return beyond_ns <= 0
        return True if self.late_ns <= self.slowest.bound_ns else None

    @property
    def verdict(self) -> str:
        """The same in a word."""
        if not self.slowest.conforms:
            return "no guarantee: does not conform"
        return {True: "kept", False: "broken", None: "cannot tell"}[self.holds]

    @property
    def seen(self) -> str:
        """Finding, in a sentence."""
        return (
            f"{self.slowest.source} -> {self.slowest.destination} took "
            f"{self.slowest.longest_ns / 1e3:.0f} us of {self.slowest.bound_ns / 1e3:.0f}, "
            f"processes at most {self.late_ns / 1e3:.0f} us late"
        )


def bounds(result: SchemeResult) -> Iterator[TenantBound]:
    """Bounds of tenants with a guarantee, by name, over all rounds."""
    rows = [row for each in result.rounds for row in each.tenants]
    late_ns = max((each.late_ns for each in result.rounds), default=0.0)
    for each in slowest(rows):
        yield TenantBound(each, late_ns)


def pacing(scheme: str) -> str:
    """Guarantees that a scheme's hosts keep; those without a file keep none that is known."""
    hosts = load_scheme(scheme).tenants if scheme in known_schemes() else None
    return (hosts or TenantHosts()).pacing


def rows(results: Mapping[str, SchemeResult]) -> list[list[str]]:
    """Cells of the table, a row for each scheme and tenant."""
    return [
        _cells(name, each, each.slowest)
        for name, result in results.items()
        for each in bounds(result)
    ]


def _cells(scheme: str, each: TenantBound, worst: Slowest) -> list[str]:
    times = (worst.longest_ns, worst.bound_ns, each.late_ns)
    return [
        scheme,
        worst.tenant,
        str(worst.packets),
        f"{worst.source} -> {worst.destination}",
        *(f"{ns / 1e3:.0f}" for ns in times),
        each.verdict,
    ]


def table(results: Mapping[str, SchemeResult]) -> Table | None:
    """The table for a terminal; none: there are no tenants."""
    cells = rows(results)
    return drawn(COLUMNS, cells, caption=CAPTION) if cells else None


def markdown(results: Mapping[str, SchemeResult]) -> str:
    """The same as Markdown; empty: there are no tenants."""
    cells = rows(results)
    return "\n" + plain(COLUMNS, cells) if cells else ""
