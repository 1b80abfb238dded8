"""P4Runtime messages in one canonical form, so that equal ones have equal bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from finsy.proto import p4r


def replicated(message: p4r.Entity) -> Any:
    """The multicast group or the clone session of an entry."""
    entry = message.packet_replication_engine_entry
    if entry.WhichOneof("type") == "clone_session_entry":
        return entry.clone_session_entry
    return entry.multicast_group_entry


def in_order(message: p4r.Entity) -> p4r.Entity:
    """The message without what a switch adds (counters, timers), and with what has no order
    sorted."""
    match message.WhichOneof("entity"):
        case "table_entry":
            entry = message.table_entry
            for name in ("counter_data", "meter_counter_data", "time_since_last_hit"):
                entry.ClearField(name)
            _sort(entry.match, lambda field: field.field_id)
            if entry.action.WhichOneof("type") == "action":  # to touch it would make it one
                _sort(entry.action.action.params, lambda parameter: parameter.param_id)
            if entry.is_default_action:
                entry.ClearField("priority")
        case "action_profile_member":
            member = message.action_profile_member
            _sort(member.action.params, lambda parameter: parameter.param_id)
        case "action_profile_group":
            # A MODIFY cannot change it (P4Runtime section 9.2.3), so it is no part of the value.
            message.action_profile_group.ClearField("max_size")
            _sort(message.action_profile_group.members, lambda member: member.member_id)
        case "packet_replication_engine_entry":
            replicas = replicated(message).replicas
            _sort(replicas, lambda r: (r.egress_port, r.port, r.instance))
    return message


def _sort(field: Any, key: Callable[[Any], Any]) -> None:
    """Sorts a repeated field of messages in place."""
    if len(field) < 2:
        return
    ordered = sorted(field, key=key)
    del field[:]
    field.extend(ordered)
