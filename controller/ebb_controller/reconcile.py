"""Makes a switch hold exactly what the plan says, and reads it back.

What the switch holds is read first and only the difference is written, so that a second controller
run, a change of scheme and a restarted switch are one and the same case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4ClientError,
    P4MulticastGroupEntry,
    P4TableEntry,
    Switch,
)
from finsy.p4entity import P4Entity
from finsy.p4schema import P4Schema
from finsy.proto import p4r

from ebb_controller.plan import INSERT_ORDER, Entity

Kind = TypeVar("Kind", bound=P4Entity)


class ControllerError(Exception):
    """The fabric is not as planned. The message names switch, table, entry and cause."""


@dataclass(frozen=True, slots=True)
class Change:
    inserted: int = 0
    modified: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.modified + self.deleted

    def __str__(self) -> str:
        return f"{self.inserted} new, {self.modified} changed, {self.deleted} deleted"


async def reconcile(switch: Switch, wanted: Sequence[Entity]) -> Change:
    """Writes the difference and verifies by reading back."""
    schema = switch.p4info
    target = _target(switch, wanted)
    present = await _read(switch, wanted)
    stale = [present[key] for key in present if key not in target and not _is_default(present[key])]
    new = [target[key] for key in target if key not in present]
    changed = [
        target[key]
        for key in target
        if key in present and _normal(target[key], schema) != _normal(present[key], schema)
    ]
    change = Change(len(new), len(changed), len(stale))
    if not change.total:
        return change  # what was just read is the read-back
    # Entries let go of groups, groups of members: deleted in the reverse of the insert order.
    # Entries change before groups disappear, so modifications come between.
    await _write(switch, "insert", [e for e in new if not isinstance(e, P4TableEntry)])
    await _write(switch, "modify", changed)
    await _write(switch, "insert", [e for e in new if isinstance(e, P4TableEntry)])
    for kind in reversed(INSERT_ORDER):
        await _write(switch, "delete", [e for e in stale if isinstance(e, kind)])
    _verify(switch, target, await _read(switch, wanted))
    return change


def _target(switch: Switch, wanted: Sequence[Entity]) -> dict[bytes, Entity]:
    """The plan by identity; what the program cannot express is an error that names it."""
    target: dict[bytes, Entity] = {}
    for entity in wanted:
        try:
            key = _identity(entity, switch.p4info)
        except ValueError as error:
            raise ControllerError(
                f"switch {switch.name}: {entity} does not fit the P4 program: {error}"
            ) from error
        if key in target:
            raise ControllerError(
                f"switch {switch.name}: planned twice: {describe(target[key], switch.p4info)} and "
                f"{describe(entity, switch.p4info)}"
            )
        target[key] = entity
    return target


def _verify(switch: Switch, target: dict[bytes, Entity], present: dict[bytes, Entity]) -> None:
    schema = switch.p4info
    for key, entity in target.items():
        held = present.get(key)
        if held is None:
            raise ControllerError(
                f"switch {switch.name}: {describe(entity, schema)} was accepted but does not "
                "read back"
            )
        if _normal(entity, schema) != _normal(held, schema):
            raise ControllerError(
                f"switch {switch.name}: {describe(entity, schema)} reads back as "
                f"{describe(held, schema)}"
            )
    for key, held in present.items():
        if key not in target and not _is_default(held):
            raise ControllerError(
                f"switch {switch.name}: {describe(held, schema)} is there but not in the plan"
            )


async def _read(switch: Switch, wanted: Sequence[Entity]) -> dict[bytes, Entity]:
    """All entities of the kinds we manage, by identity."""
    # A read gives entries or default entries, never both; of the defaults only the plan's matter.
    defaults = [e for e in wanted if isinstance(e, P4TableEntry) and e.is_default_action]
    kinds: list[Entity] = [
        P4ActionProfileMember(),
        P4ActionProfileGroup(),
        P4MulticastGroupEntry(),
        P4TableEntry(),
        *(P4TableEntry(e.table_id, is_default_action=True) for e in defaults),
    ]
    const_tables = {table.alias for table in switch.p4info.tables if table.is_const}
    try:
        found = await read(switch, kinds, INSERT_ORDER)
    except P4ClientError as error:
        raise ControllerError(
            f"switch {switch.name}: its entries cannot be read: {error.code.name} {error.message}"
        ) from error
    except ValueError as error:
        raise ControllerError(
            f"switch {switch.name}: it holds an entry that does not fit the P4 program: {error}"
        ) from error
    return {
        _identity(entity, switch.p4info): entity
        for entity in found
        if not (isinstance(entity, P4TableEntry) and _is_const(entity, const_tables))
    }


async def read(
    switch: Switch, request: Sequence[Kind], kind: type[Kind] | tuple[type[Kind], ...]
) -> list[Kind]:
    """The entities of some kinds that match a (wildcard) request."""
    stream = switch.read(request)
    # finsy declares the generator's overloads as coroutines.
    return [entity async for entity in stream if isinstance(entity, kind)]  # type: ignore[attr-defined]


async def _write(switch: Switch, operation: str, entities: Sequence[Entity]) -> None:
    if operation == "insert":
        # A default entry exists always: it is only ever modified (P4Runtime section 9.1).
        await _write(switch, "modify", [e for e in entities if _is_default(e)])
        entities = [e for e in entities if not _is_default(e)]
    if not entities:
        return
    write = {"insert": switch.insert, "modify": switch.modify, "delete": switch.delete}[operation]
    try:
        await write(entities)
    except P4ClientError as error:
        raise ControllerError(_explain(switch, operation, entities, error)) from error


def _explain(
    switch: Switch, operation: str, entities: Sequence[Entity], error: P4ClientError
) -> str:
    """The first update that failed, by name, and why."""
    schema = switch.p4info
    for index, detail in sorted(error.details.items()):
        cause = f"{detail.canonical_code.name} {detail.message}".strip()
        entity = describe(entities[index], schema) if index < len(entities) else f"update {index}"
        more = len(error.details) - 1
        tail = f" (and {more} more)" if more else ""
        return f"switch {switch.name}: cannot {operation} {entity}: {cause}{tail}"
    return (
        f"switch {switch.name}: cannot {operation} {len(entities)} entities, first "
        f"{describe(entities[0], schema)}: {error.code.name} {error.message}".rstrip()
    )


def describe(entity: Entity, schema: P4Schema) -> str:
    """One entity as a person would name it."""
    match entity:
        case P4TableEntry(is_default_action=True):
            return f"default action of table {entity.table_id} -> {entity.action_str(schema)}"
        case P4TableEntry():
            key = entity.match_str(schema)
            return f"table {entity.table_id} [{key}] -> {entity.action_str(schema)}"
        case P4ActionProfileMember():
            action = entity.action_str(schema)
            return f"member {entity.member_id} of {entity.action_profile_id} -> {action}"
        case P4ActionProfileGroup():
            members = [member.member_id for member in entity.members or ()]
            return f"group {entity.group_id} of {entity.action_profile_id} -> members {members}"
        case P4MulticastGroupEntry():
            return f"multicast group {entity.multicast_group_id} -> {entity.replicas_str()}"


def _identity(entity: Entity, schema: P4Schema) -> bytes:
    """What makes an entity the same one: its key without its value."""
    message = _canonical(entity, schema)
    match message.WhichOneof("entity"):
        case "table_entry":
            message.table_entry.ClearField("action")
        case "action_profile_member":
            message.action_profile_member.ClearField("action")
        case "action_profile_group":
            message.action_profile_group.ClearField("members")
        case "packet_replication_engine_entry":
            message.packet_replication_engine_entry.multicast_group_entry.ClearField("replicas")
    return bytes(message.SerializeToString(deterministic=True))


def _normal(entity: Entity, schema: P4Schema) -> bytes:
    return bytes(_canonical(entity, schema).SerializeToString(deterministic=True))


def _canonical(entity: Entity, schema: P4Schema) -> p4r.Entity:
    """The message without what a switch adds (counters, timers) and in one fixed order.

    finsy has decoded and encoded again what was read, so that byte strings are the shortest
    (P4Runtime section 8.3) whatever the switch sent.
    """
    message = entity.encode(schema)
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
            multicast = message.packet_replication_engine_entry.multicast_group_entry
            _sort(multicast.replicas, lambda r: (r.egress_port, r.port, r.instance))
    return message


def _sort(field: Any, key: Callable[[Any], Any]) -> None:
    """Sorts a repeated field of messages in place."""
    ordered = sorted(field, key=key)
    del field[:]
    field.extend(ordered)


def _is_const(entry: P4TableEntry, const_tables: set[str]) -> bool:
    """Whether an entry is part of the program: nobody can change it."""
    return entry.table_id in const_tables or (entry.is_const and not entry.is_default_action)


def _is_default(entity: Entity) -> bool:
    return isinstance(entity, P4TableEntry) and entity.is_default_action
