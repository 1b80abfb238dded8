"""Entities as P4Runtime messages, ready to be compared: what one is (its key) and what it says.

Large fabrics repeat themselves: all edge switches of a fat-tree hold the same routes to other pods.
So each entity is encoded once, and what switches tell is looked up by its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, TypeVar

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


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """An entity in one fixed form, whoever said it."""

    entity: Entity
    """The entity as finsy has it."""
    key: bytes
    """Identity of the entity: its message without the value."""
    value: bytes
    """The message as P4Runtime has it, byte strings shortest, repeated fields sorted."""

    @property
    def is_default(self) -> bool:
        """Whether it is a default entry, which always exists and is only ever modified (P4Runtime
        section 9.1)."""
        return type(self.entity) is P4TableEntry and self.entity.is_default_action

    @property
    def has_meter(self) -> bool:
        """Whether it is a table entry with the rates of a meter."""
        return type(self.entity) is P4TableEntry and self.entity.meter_config is not None

    @property
    def is_entry(self) -> bool:
        """Whether it is a table entry, which other entities do not name."""
        # By type: `isinstance` takes longer where the answer is no, as the classes are abstract.
        return type(self.entity) is P4TableEntry


class Encoder:
    """Encodes the entities of one P4 program, and remembers those that it has seen."""

    def __init__(self) -> None:
        self._planned: dict[int, tuple[Entity, Encoded]] = {}
        """Encoded entities by the identity of the entity, which is kept alive with them."""
        self._known: dict[bytes, Encoded] = {}
        """Encoded entities by the bytes of a message that a switch sent."""
        self._once: dict[Any, Any] = {}
        self._templates = Templates()

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """Something else that many switches share: made when it is first wanted by this key."""
        if key not in self._once:
            self._once[key] = make()
        made: T = self._once[key]
        return made

    def planned(self, entity: Entity, schema: P4Schema) -> Encoded:
        """An entity of a plan. Raises `ValueError` for what the program cannot express."""
        seen = self._planned.get(id(entity))
        if seen is not None:
            return seen[1]
        encoded = self._remember(self._encode(entity, schema))
        self._planned[id(entity)] = entity, encoded
        return encoded

    def received(self, message: p4r.Entity, schema: P4Schema) -> Encoded:
        """An entity that a switch says it holds. Raises `ValueError` if its program has no such
        entity."""
        raw = message.SerializeToString(deterministic=True)
        found = self._known.get(raw)
        if found is None:
            # Decoded and encoded again, byte strings are the shortest (P4Runtime section 8.3)
            # whatever the switch sent.
            found = self._remember(self._encode(decode_entity(message, schema), schema))
            self._known[raw] = found
        return found

    def _encode(self, entity: Entity, schema: P4Schema) -> Encoded:
        if type(entity) is P4TableEntry:
            filled = self._templates.encode(entity, schema)
            if filled is not None:
                value, key = filled
                return Encoded(entity, key, value)
        return _encode(entity, schema)

    def _remember(self, new: Encoded) -> Encoded:
        return self._known.setdefault(new.value, new)


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
        case P4CloneSessionEntry():
            return f"clone session {entity.session_id} -> {entity.replicas_str()}"


def _encode(entity: Entity, schema: P4Schema) -> Encoded:
    message = in_order(entity.encode(schema))
    value = message.SerializeToString(deterministic=True)
    key = p4r.Entity()
    key.CopyFrom(message)
    _clear_value(key)
    return Encoded(entity, bytes(key.SerializeToString(deterministic=True)), bytes(value))


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
