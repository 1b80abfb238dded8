"""Delays of tenants' packets against their bounds, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from ebb_experiments.results.tables import Row


def promises(rows: Iterable[Row]) -> Iterator[str]:
    """A line for each tenant that is guaranteed something: whether its packets were as fast as the
    bound of a conforming packet says. It shows the two VMs with the largest share of their
    bound."""
    guaranteed = sorted(
        (row for row in rows if row["bound_ns"] is not None), key=lambda row: row["tenant"]
    )
    for tenant, group in groupby(guaranteed, key=lambda row: row["tenant"]):
        pairs = list(group)
        worst = max(pairs, key=lambda row: row["longest_ns"] / row["bound_ns"])
        late = sum(row["longest_ns"] > row["bound_ns"] for row in pairs)
        verdict = f"later than the bound between {late} of" if late else "within the bound between"
        yield (
            f"tenant {tenant}: {sum(row['packets'] for row in pairs)} packets, {verdict} "
            f"{len(pairs)} pairs of VMs; {worst['source']} -> {worst['destination']} took "
            f"{worst['longest_ns'] / 1e3:.1f} us of {worst['bound_ns'] / 1e3:.1f} us"
        )
