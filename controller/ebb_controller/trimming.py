"""Entries of `trimming.p4`: how much of a packet is kept, and how the rest travels."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site


def entries(site: Site) -> Iterator[P4TableEntry]:
    trimming = site.parameters.trimming
    if trimming is None:
        return

    def action(dscp: int) -> P4TableAction:
        return P4TableAction(
            "set_trimming",
            size=trimming.size,
            dscp_value=dscp,
            queue_index=trimming.queue_index,
        )

    for port in site.ports:
        at_last_hop = port.to_host and trimming.lasthop_dscp_value is not None
        dscp = trimming.lasthop_dscp_value if at_last_hop else trimming.dscp_value
        assert dscp is not None
        yield P4TableEntry(
            "trimming", match=P4TableMatch(egress_port=port.number), action=action(dscp)
        )
