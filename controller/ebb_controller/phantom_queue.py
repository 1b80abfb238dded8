"""Entries of `phantom_queue.p4`: the drain rate gamma * C of each port and the threshold."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site

DRAIN_WINDOW_US = 2**16
"""The program counts the drain in bytes per 2^16 us, so that it needs no division."""


def entries(site: Site) -> Iterator[P4TableEntry]:
    phantom = site.parameters.phantom_queue
    if phantom is None:
        return
    for port in site.ports:
        bytes_per_us = phantom.drain_fraction * port.rate_bps / 8e6
        yield P4TableEntry(
            "phantom_queue",
            match=P4TableMatch(egress_port=port.number),
            action=P4TableAction(
                "set_phantom_queue",
                drain_rate=round(bytes_per_us * DRAIN_WINDOW_US),
                threshold_bytes=phantom.threshold_bytes,
                count_self=int(phantom.count_self),
            ),
        )
