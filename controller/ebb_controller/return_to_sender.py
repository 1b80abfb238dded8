"""Entries of `return_to_sender.p4`: the classes of headers that go back when they do not fit."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site


def entries(site: Site) -> Iterator[P4TableEntry]:
    trimming = site.parameters.trimming
    if trimming is None or not trimming.return_to_sender:
        return
    # Headers of other switches come with either value, whatever the ports of this one write.
    classes = {trimming.dscp_value}
    if trimming.lasthop_dscp_value is not None:
        classes.add(trimming.lasthop_dscp_value)
    for dscp in sorted(classes):
        yield P4TableEntry(
            "return_to_sender",
            match=P4TableMatch(dscp=dscp),
            action=P4TableAction("return_header"),
        )
