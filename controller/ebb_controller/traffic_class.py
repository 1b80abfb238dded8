"""Entries of `traffic_class.p4`: what each DSCP gets."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableAction, P4TableEntry, P4TableMatch

from ebb_controller.parameters import MLFQ
from ebb_controller.site import Site


def entries(site: Site) -> Iterator[P4TableEntry]:
    for traffic_class in site.parameters.classes:
        yield P4TableEntry(
            "traffic_class",
            match=P4TableMatch(dscp=traffic_class.dscp),
            action=P4TableAction(
                "set_traffic_class",
                queue=traffic_class.queue,
                spray=int(traffic_class.spray),
                trimmable=int(traffic_class.trimmable),
                mlfq=MLFQ[traffic_class.mlfq],
            ),
        )
