"""All mechanisms of the P4 program, and the parameters of all of them together."""

from __future__ import annotations

from typing import Self

from ebb_controller.mechanism import Mechanism
from ebb_controller.mechanisms import (
    adaptive_routing,
    arp,
    codel,
    counters,
    drop_notification,
    ecn_threshold,
    mlfq,
    multicast,
    occupancy,
    phantom_queue,
    policing,
    return_to_sender,
    route,
    source_quench,
    traffic_class,
    trimming,
    void_frames,
    volume_counters,
)

MECHANISMS = (
    counters.PORTS,
    phantom_queue.MECHANISM,
    ecn_threshold.MECHANISM,
    codel.MECHANISM,
    source_quench.MECHANISM,
    trimming.MECHANISM,
    return_to_sender.MECHANISM,
    drop_notification.MECHANISM,
    void_frames.MECHANISM,
    policing.MECHANISM,
    occupancy.MECHANISM,
    mlfq.MECHANISM,
    adaptive_routing.MECHANISM,
    traffic_class.MECHANISM,
    route.MECHANISM,
    multicast.MECHANISM,
    volume_counters.MECHANISM,
    arp.MECHANISM,
    counters.DROPS,
)
"""Counters are in tables and results in this order. Entries need none."""

FABRIC = "fabric"
"""The program of p4src with all mechanisms but those that name another."""
PROGRAMS = (FABRIC, codel.PROGRAM, void_frames.PROGRAM, volume_counters.PROGRAM)
"""All programs of p4src for fabrics: each has the mechanisms of those before it, and more."""


def of_program(name: str) -> tuple[Mechanism, ...]:
    """Mechanisms of a program of p4src, by its name without `.p4`."""
    there = PROGRAMS[: PROGRAMS.index(name) + 1] if name in PROGRAMS else (name,)
    return tuple(each for each in MECHANISMS if each.program in (None, *there))


def program_for(*parameters: FabricParameters) -> str:
    """The first program of p4src that does what all these say, by its name without `.p4`."""
    return max((each.program for each in parameters), key=PROGRAMS.index, default=FABRIC)


class FabricParameters(
    volume_counters.WithVolume,
    policing.WithPolicing,
    void_frames.WithVoidFrames,
    route.WithHashSeed,
    mlfq.WithMlfq,
    trimming.WithTrimming,
    phantom_queue.WithPhantomQueue,
    source_quench.WithSourceQuench,
    ecn_threshold.WithStepMarking,
    adaptive_routing.WithAdaptiveRouting,
    drop_notification.WithDropNotification,
    traffic_class.WithClasses,
):
    """Parameters of all switches for one scheme. Keys are listed from the last base to the
    first."""

    @property
    def program(self) -> str:
        """The first program of p4src that does all this, by its name without `.p4`."""
        if self.volume is not None:
            return volume_counters.PROGRAM
        if self.policing is not None or self.void_frames:
            return void_frames.PROGRAM
        return FABRIC if self.codel is None else codel.PROGRAM

    def without_traffic_manager(self) -> Self:
        """The parameters for a target that has no traffic manager of ours (BMv2)."""
        return self.without_deflection().without_export().without_class_of_copies()


COUNTERS = {counter.name: counter for each in MECHANISMS for counter in each.counters}
"""Counters of all mechanisms, by name."""


def summed(kind: str) -> tuple[str, ...]:
    """Names of the counters of this `sum`."""
    return tuple(name for name, counter in COUNTERS.items() if counter.sum == kind)
