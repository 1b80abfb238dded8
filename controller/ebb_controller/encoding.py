"""Entities as P4Runtime messages, ready to be compared: an identity (key) and a value.

Large fabrics repeat themselves: all edge switches of a fat-tree hold the same routes to other pods.
So each entity is encoded once, and entities that switches report are looked up by their bytes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4MulticastGroupEntry,
    P4TableEntry,
)
from finsy.p4entity import decode_entity
from finsy.p4schema import P4Schema
from finsy.proto import p4r

from ebb_controller.canonical import in_order, replicated
from ebb_controller.mechanism import Entity
from ebb_controller.templates import Templates

T = TypeVar("T")


@dataclass(slots=True, eq=False)  # frozen ones take three times as long to make
class Encoded:
    """An entity in its canonical form, immutable."""

    entity: Entity
    """The entity as finsy has it."""
    key: bytes
    """Identity of the entity: its message without the value."""
    value: bytes
    """The message as P4Runtime has it, byte strings shortest, repeated fields sorted."""
    is_entry: bool
    """Whether it is a table entry, to which no other entity refers."""
    is_default: bool
    """Whether it is a default entry, which always exists and is only ever modified (P4Runtime
    section 9.1)."""
    is_const: bool
    """Whether it is a constant entry of the program, which cannot be changed."""

    @property
    def has_meter(self) -> bool:
        """Whether it is a table entry with the rates of a meter."""
        return type(self.entity) is P4TableEntry and self.entity.meter_config is not None


class Encoder:
    """Encodes the entities of one P4 program, and caches them."""

    def __init__(self) -> None:
        self._planned: dict[int, Encoded] = {}
        """Encoded entities by the identity of the entity."""
        self._alive: list[Entity] = []
        """These entities, so that no later object gets the identity of one."""
        self._known: dict[bytes, Encoded] = {}
        """Encoded entities by the bytes of a message that a switch sent."""
        self._once: dict[Any, Any] = {}
        """Values of `once`."""
        self._templates = Templates()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """A value that many switches share, by its key; made on the first call."""
        if key not in self._once:
            self._once[key] = make()
        made: T = self._once[key]
        return made

    def planned(self, entities: Sequence[Entity], schema: P4Schema) -> list[Encoded]:
        """Entities of a plan. Raises `ValueError` for what the program cannot express."""
        identities = list(map(id, entities))
        found = list(map(self._planned.get, identities))
        if None in found:
            new = [e for e, known in zip(entities, found, strict=True) if known is None]
            with _without_collection():
                encoded = self._encode(new, schema)
            self._planned.update(zip(map(id, new), encoded, strict=True))
            self._alive += new
            found = list(map(self._planned.get, identities))
        return cast("list[Encoded]", found)

    def received(self, messages: Sequence[bytes], schema: P4Schema) -> list[Encoded]:
        """Entities that a switch says it holds, from their messages. Raises `ValueError` if its
        program has no such entity."""
        found = list(map(self._known.get, messages))
        if None in found:
            new = [m for m, known in zip(messages, found, strict=True) if known is None]
            # Decoded and encoded again, byte strings are the shortest (P4Runtime section 8.3)
            # whatever the switch sent.
            entities = [decode_entity(p4r.Entity.FromString(m), schema) for m in new]
            self._known.update(zip(new, self._encode(entities, schema), strict=True))
            found = list(map(self._known.get, messages))
        return cast("list[Encoded]", found)

    def _encode(self, entities: Sequence[Entity], schema: P4Schema) -> list[Encoded]:
        """Entities encoded; those that are equal are the same object."""
        constant = self.once("constant tables", lambda: _constant_tables(schema))
        encoded = []
        filled = self._templates.encode(entities, schema)
        for entity, messages in zip(entities, filled, strict=True):
            value, key = messages or _encode(entity, schema)
            if type(entity) is P4TableEntry:
                is_default = entity.is_default_action
                is_const = entity.table_id in constant or (entity.is_const and not is_default)
                new = Encoded(entity, key, value, True, is_default, is_const)
            else:
                new = Encoded(entity, key, value, False, False, False)
            encoded.append(self._known.setdefault(value, new))
        return encoded


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disables the garbage collector while many objects are made, none of which is garbage: its
    passes over all of them would take as long as making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def describe(entity: Entity, schema: P4Schema) -> str:
    """An entity in words, for messages."""
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
        case P4CloneSessionEntry():
            return f"clone session {entity.session_id} -> {entity.replicas_str()}"


def _constant_tables(schema: P4Schema) -> frozenset[str]:
    """Names of the tables whose entries are all constant."""
    return frozenset(table.alias for table in schema.tables if table.is_const)


def _encode(entity: Entity, schema: P4Schema) -> tuple[bytes, bytes]:
    """Messages of an entity: whole, and without the value."""
    message = in_order(entity.encode(schema))
    value = message.SerializeToString(deterministic=True)
    key = p4r.Entity()
    key.CopyFrom(message)
    _clear_value(key)
    return bytes(value), bytes(key.SerializeToString(deterministic=True))


def _clear_value(message: p4r.Entity) -> None:
    match message.WhichOneof("entity"):
        case "table_entry":
            message.table_entry.ClearField("action")
            message.table_entry.ClearField("meter_config")
        case "action_profile_member":
            message.action_profile_member.ClearField("action")
        case "action_profile_group":
            message.action_profile_group.ClearField("members")
        case "packet_replication_engine_entry":
            entry = replicated(message)
            for field, _value in entry.ListFields():
                if field.name not in ("multicast_group_id", "session_id"):
                    entry.ClearField(field.name)
