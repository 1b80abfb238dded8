"""Makes a switch hold exactly what the plan says, and reads it back.

What the switch holds is read first and only the difference is written, so that a second controller
run, a change of scheme and a restarted switch are one and the same case.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
    inserted: int
    modified: int
    deleted: int

    @property
    def total(self) -> int:
        return self.inserted + self.modified + self.deleted


async def reconcile(switch: Switch, wanted: Sequence[Entity]) -> Change:
    """Writes the difference and verifies by reading back."""
    schema = switch.p4info
    present = await _read(switch, wanted)
    target = _by_identity(wanted, schema)
    stale = [present[key] for key in present if key not in target and not _is_default(present[key])]
    new = [target[key] for key in target if key not in present]
    changed = [
        target[key]
        for key in target
        if key in present and _normal(target[key], schema) != _normal(present[key], schema)
    ]
    # Entries let go of groups, groups of members: deleted in the reverse of the insert order.
    # Entries change before groups disappear, so modifications come between.
    await _write(switch, "insert", [e for e in new if not isinstance(e, P4TableEntry)])
    await _write(switch, "modify", changed)
    await _write(switch, "insert", [e for e in new if isinstance(e, P4TableEntry)])
    for kind in reversed(INSERT_ORDER):
        await _write(switch, "delete", [e for e in stale if isinstance(e, kind)])
    await _verify(switch, wanted)
    return Change(len(new), len(changed), len(stale))


async def _verify(switch: Switch, wanted: Sequence[Entity]) -> None:
    schema = switch.p4info
    present = await _read(switch, wanted)
    target = _by_identity(wanted, schema)
    for key, entity in target.items():
        held = present.get(key)
        if held is None:
            raise ControllerError(
                f"switch {switch.name}: {describe(entity)} was accepted but does not read back"
            )
        if _normal(entity, schema) != _normal(held, schema):
            raise ControllerError(
                f"switch {switch.name}: {describe(entity)} reads back as {describe(held)}"
            )
    for key, held in present.items():
        if key not in target and not _is_default(held):
            raise ControllerError(
                f"switch {switch.name}: {describe(held)} is there but not in the plan"
            )


async def _read(switch: Switch, wanted: Sequence[Entity]) -> dict[bytes, Entity]:
    """All entities of the kinds we manage, by identity."""
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
        raise ControllerError(f"switch {switch.name}: read failed: {error.message}") from error
    ours = [e for e in found if not (isinstance(e, P4TableEntry) and e.table_id in const_tables)]
    return _by_identity(ours, switch.p4info)


async def read(
    switch: Switch, request: Sequence[Kind], kind: type[Kind] | tuple[type[Kind], ...]
) -> list[Kind]:
    """The entities of some kinds that match a (wildcard) request."""
    stream = switch.read(request)
    # finsy declares the generator's overloads as coroutines.
    return [entity async for entity in stream if isinstance(entity, kind)]  # type: ignore[attr-defined]


async def _write(switch: Switch, operation: str, entities: Sequence[Entity]) -> None:
    if not entities:
        return
    try:
        if operation == "insert":
            # A default entry exists always: it is only ever modified (P4Runtime 9.1).
            await switch.insert([e for e in entities if not _is_default(e)])
            await switch.modify([e for e in entities if _is_default(e)])
        elif operation == "modify":
            await switch.modify(entities)
        else:
            await switch.delete(entities)
    except P4ClientError as error:
        raise ControllerError(_explain(switch, operation, entities, error)) from error


def _explain(
    switch: Switch, operation: str, entities: Sequence[Entity], error: P4ClientError
) -> str:
    """The first update that failed, by name, and why."""
    for index, detail in sorted(error.details.items()):
        cause = detail.message or detail.canonical_code.name
        entity = describe(entities[index]) if index < len(entities) else f"update {index}"
        more = len(error.details) - 1
        tail = f" (and {more} more)" if more else ""
        return f"switch {switch.name}: cannot {operation} {entity}: {cause}{tail}"
    return (
        f"switch {switch.name}: cannot {operation} {len(entities)} entities, first "
        f"{describe(entities[0])}: {error.code.name} {error.message}"
    )


def describe(entity: Entity) -> str:
    """One entity as a person would name it."""
    match entity:
        case P4TableEntry(is_default_action=True):
            return f"default action of table {entity.table_id} -> {entity.action}"
        case P4TableEntry():
            key = ", ".join(f"{name}={value}" for name, value in (entity.match or {}).items())
            return f"table {entity.table_id} [{key}] -> {entity.action}"
        case P4ActionProfileMember():
            return f"member {entity.member_id} of {entity.action_profile_id} -> {entity.action}"
        case P4ActionProfileGroup():
            members = [member.member_id for member in entity.members or ()]
            return f"group {entity.group_id} of {entity.action_profile_id} -> members {members}"
        case P4MulticastGroupEntry():
            return f"multicast group {entity.multicast_group_id} -> {list(entity.replicas)}"


def _by_identity(entities: Iterable[Entity], schema: P4Schema) -> dict[bytes, Entity]:
    return {_identity(entity, schema): entity for entity in entities}


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
            message.action_profile_group.ClearField("max_size")
        case "packet_replication_engine_entry":
            message.packet_replication_engine_entry.multicast_group_entry.ClearField("replicas")
    return bytes(message.SerializeToString(deterministic=True))


def _normal(entity: Entity, schema: P4Schema) -> bytes:
    return bytes(_canonical(entity, schema).SerializeToString(deterministic=True))


def _canonical(entity: Entity, schema: P4Schema) -> p4r.Entity:
    """The message without what a switch adds (counters, timers) and in one fixed order."""
    message = entity.encode(schema)
    match message.WhichOneof("entity"):
        case "table_entry":
            entry = message.table_entry
            for name in ("counter_data", "meter_counter_data", "time_since_last_hit"):
                entry.ClearField(name)
            fields = sorted(entry.match, key=lambda field: field.field_id)
            del entry.match[:]
            entry.match.extend(fields)
            if entry.is_default_action:
                entry.ClearField("priority")
        case "action_profile_group":
            group = message.action_profile_group
            members = sorted(group.members, key=lambda member: member.member_id)
            del group.members[:]
            group.members.extend(members)
        case "packet_replication_engine_entry":
            multicast = message.packet_replication_engine_entry.multicast_group_entry
            replicas = sorted(multicast.replicas, key=lambda r: (r.egress_port, r.port, r.instance))
            del multicast.replicas[:]
            multicast.replicas.extend(replicas)
    return message


def _is_default(entity: Entity) -> bool:
    return isinstance(entity, P4TableEntry) and entity.is_default_action
