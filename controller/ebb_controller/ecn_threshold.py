"""Entries of `ecn_threshold.p4`: DCTCP's K, in the unit in which the target counts its queues."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site

FULL_PACKET_BYTES = 1500


def entries(site: Site) -> Iterator[P4TableEntry]:
    marking = site.parameters.step_marking
    if marking is None:
        return
    depth = marking.threshold_bytes
    if site.depth_unit == "packets":
        depth //= FULL_PACKET_BYTES
    for port in site.ports:
        yield P4TableEntry(
            "ecn_threshold",
            match=P4TableMatch(egress_port=port.number),
            action=P4TableAction("set_ecn_threshold", depth=depth),
        )
