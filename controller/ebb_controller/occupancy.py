"""Entries of `occupancy.p4`: present only where the program's own counter triggers the trim."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site


def entries(site: Site) -> Iterator[P4TableEntry]:
    trimming = site.parameters.trimming
    if trimming is None or trimming.trigger != "occupancy":
        return
    for port in site.ports:
        yield P4TableEntry(
            "occupancy_limit",
            match=P4TableMatch(egress_port=port.number),
            action=P4TableAction("set_occupancy_limit", limit_bytes=trimming.occupancy_limit_bytes),
        )
