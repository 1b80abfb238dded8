"""Entries of `mlfq.p4`: level to queue, and bytes sent to level for in-switch demotion."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.site import Site

FLOW_BYTES_MAX = 2**32 - 1


def entries(site: Site) -> Iterator[P4TableEntry]:
    parameters = site.parameters
    modes = {traffic_class.mlfq for traffic_class in parameters.classes}
    if modes == {"off"}:
        return
    for level, queue in enumerate(parameters.mlfq_queues):
        yield P4TableEntry(
            "mlfq_level",
            match=P4TableMatch(level=level),
            action=P4TableAction("set_mlfq_queue", queue=queue),
        )
    if "in-switch" in modes:
        bounds = [0, *parameters.mlfq_thresholds_bytes, FLOW_BYTES_MAX + 1]
        for level, (low, high) in enumerate(pairwise(bounds)):
            yield P4TableEntry(
                "mlfq_demotion",
                match=P4TableMatch(flow_bytes=(low, high - 1)),
                action=P4TableAction("set_mlfq_level", level=level),
                priority=1,
            )
