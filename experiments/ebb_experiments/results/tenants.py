"""Delays of tenants' packets against their bounds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from ebb_experiments.results.tables import Row


@dataclass(frozen=True)
class Slowest:
    """Packets of a tenant that is guaranteed something."""

    tenant: str
    packets: int
    pairs: int
    """How many pairs of VMs had packets."""
    late: int
    """How many of these had one later than the bound of a conforming packet."""
    source: str
    destination: str
    longest_ns: float
    bound_ns: float
    """Bound of the pair of VMs whose slowest packet took most of it, ns."""
    conforms: bool
    """Whether it keeps to its guarantee; otherwise nothing was promised to its packets."""


def slowest(rows: Iterable[Row]) -> Iterator[Slowest]:
    """Each tenant that is guaranteed something, by name, from rows of `tenants`."""
    guaranteed = sorted(
        (row for row in rows if row["bound_ns"] is not None), key=lambda row: row["tenant"]
    )
    for tenant, group in groupby(guaranteed, key=lambda row: row["tenant"]):
        pairs = list(group)
        worst = max(pairs, key=lambda row: row["longest_ns"] / row["bound_ns"])
        yield Slowest(
            tenant,
            sum(row["packets"] for row in pairs),
            len(pairs),
            sum(row["longest_ns"] > row["bound_ns"] for row in pairs),
            worst["source"],
            worst["destination"],
            worst["longest_ns"],
            worst["bound_ns"],
            bool(worst["conforms"]),
        )


def promises(rows: Iterable[Row]) -> Iterator[str]:
    """A line for each tenant that is guaranteed something: whether its packets were as fast as the
    bound of a conforming packet says."""
    for each in slowest(rows):
        within = "within the bound between"
        verdict = f"later than the bound between {each.late} of" if each.late else within
        if not each.conforms:
            verdict = "without a guarantee, as it does not conform, between"
        yield (
            f"tenant {each.tenant}: {each.packets} packets, {verdict} "
            f"{each.pairs} pairs of VMs; {each.source} -> {each.destination} took "
            f"{each.longest_ns / 1e3:.1f} us of {each.bound_ns / 1e3:.1f} us"
        )
