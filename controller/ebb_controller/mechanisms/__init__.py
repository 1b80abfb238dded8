"""All mechanisms of the P4 program, and the parameters of all of them together."""

from __future__ import annotations

from typing import Self

from ebb_controller.mechanisms import (
    adaptive_routing,
    arp,
    counters,
    drop_notification,
    ecn_threshold,
    mlfq,
    multicast,
    occupancy,
    phantom_queue,
    return_to_sender,
    route,
    traffic_class,
    trimming,
)

MECHANISMS = (
    counters.PORTS,
    phantom_queue.MECHANISM,
    ecn_threshold.MECHANISM,
    trimming.MECHANISM,
    return_to_sender.MECHANISM,
    drop_notification.MECHANISM,
    occupancy.MECHANISM,
    mlfq.MECHANISM,
    adaptive_routing.MECHANISM,
    traffic_class.MECHANISM,
    route.MECHANISM,
    multicast.MECHANISM,
    arp.MECHANISM,
    counters.DROPS,
)
"""Counters are in tables and results in this order. Entries need none."""


class FabricParameters(
    route.WithHashSeed,
    mlfq.WithMlfq,
    trimming.WithTrimming,
    phantom_queue.WithPhantomQueue,
    ecn_threshold.WithStepMarking,
    adaptive_routing.WithAdaptiveRouting,
    drop_notification.WithDropNotification,
    traffic_class.WithClasses,
):
    """What the switches do for one scheme. Keys are listed from the last base to the first."""

    def without_traffic_manager(self) -> Self:
        """The parameters for a target that has no traffic manager of ours (BMv2)."""
        return self.without_deflection().without_export()


COUNTERS = {counter.name: counter for each in MECHANISMS for counter in each.counters}
"""Counters of all mechanisms, by name."""


def summed(kind: str) -> tuple[str, ...]:
    """Names of the counters of this `sum`."""
    return tuple(name for name, counter in COUNTERS.items() if counter.sum == kind)
