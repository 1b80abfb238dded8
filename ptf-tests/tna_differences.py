# SPDX-License-Identifier: Apache-2.0
"""Packet tests whose result differs on p4src/tna, by module or test, with the reason
(docs/porting-tofino.md, "v1model against TNA"). They are skipped there with it."""

from __future__ import annotations

OPTIONS = "IPv4 options are dropped"
REFUSED = "what has not asked for deflection is dropped by the traffic manager, not by the program"
EXPORT = "queues are exported to a ghost thread, not to a register"
SESSION = "packets are cut at the length of the mirror session"
FIELD = "the rank is a field of v1model's metadata"
DEPTHS = "depths are cells, not packets"
COUNTED = "p4src/tna has no table queue_accounting"

DIFFERENCES = {
    "adaptive_routing": COUNTED,
    "adaptive_routing.ExportedBytesOfLowerClasses": EXPORT,
    "adaptive_routing.ExportedMarking": EXPORT,
    "adaptive_routing.ExportedVectors": EXPORT,
    "adaptive_routing.PausedPath": EXPORT,
    "drop_notification.Lost": SESSION,
    "drop_notification.Metered": "the composition has no trimming",
    "drop_notification.Occupancy": "the composition has no trimming",
    "drop_notification.OffWithoutEntries": REFUSED,
    "drop_notification.OnItsWay": "ingress does not know the length of a frame",
    "drop_notification.Options": OPTIONS,
    "drop_notification.OthersGetNone": REFUSED,
    "drop_notification.PushedOut": FIELD,
    "drop_notification.QueueOfNotificationsFull": SESSION,
    "drop_notification.WhatTheThesisNames": SESSION,
    "ecn_threshold.Threshold": DEPTHS,
    "flow_control.AtTheByte": "in the queue a packet has the header routed_t in front",
    "forwarding.Unicast": OPTIONS,
    "malformed.DroppedAndCounted": "ingress does not know the length of a frame",
    "multicast.OneReplicaIsTrimmed": "multicast is not trimmed",
    "multicast.ToTheGroup": "the copy to the port of arrival is never made, so it is not counted",
    "port_counters.PacketsAndBytes": "with FCS, and what leaves with its header routed_t",
    "ranks": FIELD,
    "return_to_sender.OffWithoutEntries": REFUSED,
    "return_to_sender.OthersAreDropped": REFUSED,
    "return_to_sender.TrimmedHere": OPTIONS,
    "return_to_sender.WayBackFull": "a header that is refused goes back to ingress again",
    "sharing.ForegroundMarksItself": DEPTHS,
    "sharing.ScavengerByArrival": DEPTHS,
    "sharing.ScavengerByPriority": DEPTHS,
    "sharing.Share": DEPTHS,
    "trimming.AnyPacketOfTheClass": OPTIONS,
    "trimming.ControlIsNeverTrimmed": REFUSED,
    "trimming.EveryTrimIsAccountedFor": "a trimmed header that is refused is no deflect-failed",
    "trimming.LastHop": "one mirror session cuts for all ports",
    "trimming.OccupancyCounts": "a meter stands for the register, and counts the FCS",
    "trimming.OccupancyLimit": "a meter stands for the register, and counts the FCS",
    "trimming.OthersAreDropped": REFUSED,
}
"""A test by its name; a module for all its tests that have no line of their own."""


def reason(module: str, test: str) -> str | None:
    """Why a test is skipped; none if it runs."""
    return DIFFERENCES.get(f"{module}.{test}") or DIFFERENCES.get(module)
