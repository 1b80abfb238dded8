"""Makes a switch hold exactly what the plan says, and reads it back.

The entities of the switch are read first and only the difference is written, so that a second
controller run, a change of scheme and a restarted switch are one case. While a connection lasts,
the entities read back are kept: the next plan is compared with them, and only those that it changes
are read again.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from operator import attrgetter

import grpc
from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4ClientError,
    P4CloneSessionEntry,
    P4MeterConfig,
    P4MulticastGroupEntry,
    P4TableEntry,
)
from finsy.p4entity import P4Entity, encode_entities
from finsy.proto import U128, p4r

from ebb_controller.channel import ChannelSwitch
from ebb_controller.encoding import Encoded, Encoder, describe
from ebb_controller.errors import ControllerError
from ebb_controller.mechanism import Entity
from ebb_controller.patience import patiently
from ebb_controller.plan import INSERT_ORDER
from ebb_controller.together import together
from ebb_controller.wire import header, splitter

BATCH = 5_000
"""Most updates of one request: 1 MB of the longest entries."""
UNDER_WAY = 3
"""Most write requests to a switch without an answer: it works on the first while the next ones are
encoded and sent."""
CALL_SECONDS = 10.0
"""Timeout of a call to a switch."""
_READ = "/p4.v1.P4Runtime/Read"
_WRITE = "/p4.v1.P4Runtime/Write"

TYPES = {
    "insert": p4r.Update.INSERT,
    "modify": p4r.Update.MODIFY,
    "delete": p4r.Update.DELETE,
}
"""Types of updates by operation."""

Held = Mapping[bytes, Encoded]
"""Entities of a switch by key, see `Encoded.key`."""


@dataclass(frozen=True, slots=True)
class Change:
    """Numbers of entities of a switch that had to change."""

    inserted: int = 0
    """Entities that it did not have."""
    modified: int = 0
    """Entities that it had with another value."""
    deleted: int = 0
    """Entities that are not in the plan."""

    @property
    def total(self) -> int:
        """Sum of the three; 0: the switch already held the plan."""
        return self.inserted + self.modified + self.deleted

    def __str__(self) -> str:
        return f"{self.inserted} new, {self.modified} changed, {self.deleted} deleted"


async def reconcile(
    switch: ChannelSwitch,
    wanted: Sequence[Entity],
    encoder: Encoder,
    held: Held | None = None,
    *,
    in_order: bool = False,
) -> tuple[Change, Held]:
    """Writes the difference and verifies it by reading back; returns what was changed and what the
    switch holds now.

    `held`: what the switch holds, if that is known; none: it is read. `in_order`: the switch does
    the updates of a request one after the other, so that groups can be in one request with the
    entries that refer to them; other switches may do them in any order.
    """
    target = _target(switch, wanted, encoder)
    everything = _all(wanted, switch, encoder)
    present = held
    if present is None:
        present = await _read(switch, everything, encoder)
    stale = [e for key, e in present.items() if key not in target and not e.is_default]
    new = [e for key, e in target.items() if key not in present]
    changed = [e for key, e in target.items() if key in present and e.value != present[key].value]
    change = Change(len(new), len(changed), len(stale))
    if not change.total:
        return change, present  # what was just read is the read-back
    # Entries refer to groups, groups to members: deletion is in the reverse of the insert order.
    # Entries are modified before, so that none refers to a group that is deleted.
    others = [] if in_order else [e for e in new if not e.is_entry]
    await _write(switch, "insert", others)
    await _write(switch, "modify", changed)
    await _write(switch, "insert", [e for e in new if e.is_entry] if others else new)
    for kind in reversed(INSERT_ORDER):
        await _write(switch, "delete", [e for e in stale if isinstance(e.entity, kind)])
    if held is None or change.total > len(target) // 4:
        present = await _read(switch, everything, encoder)
    else:
        touched = {e.key for e in (*new, *changed, *stale)}
        reads = encode_entities(_touched([*new, *changed], stale), switch.p4info)
        read_back = await _read(switch, p4r.ReadRequest(entities=reads), encoder)
        present = {k: e for k, e in held.items() if k not in touched}
        present |= {k: e for k, e in read_back.items() if k in touched}
    _verify(switch, target, present)
    return change, present


def _target(
    switch: ChannelSwitch, wanted: Sequence[Entity], encoder: Encoder
) -> dict[bytes, Encoded]:
    """The plan by key. Raises `ControllerError` for an entity that does not fit the program or is
    planned twice."""
    schema = switch.p4info
    try:
        encoded = encoder.planned(wanted, schema)
    except ValueError:
        for entity in wanted:
            try:
                encoder.planned([entity], schema)
            except ValueError as error:
                raise ControllerError(
                    f"switch {switch.name}: {entity} does not fit the P4 program: {error}"
                ) from error
        raise
    target = _by_key(encoded)
    if len(target) < len(encoded):
        first: dict[bytes, Entity] = {}
        for entity, each in zip(wanted, encoded, strict=True):
            if each.key in first:
                raise ControllerError(
                    f"switch {switch.name}: planned twice: {describe(first[each.key], schema)} and "
                    f"{describe(entity, schema)}"
                )
            first[each.key] = entity
    return target


_key = attrgetter("key")


def _by_key(entities: Sequence[Encoded]) -> dict[bytes, Encoded]:
    return dict(zip(map(_key, entities), entities, strict=True))


def _verify(switch: ChannelSwitch, target: Held, present: Held) -> None:
    if present == target:
        return  # quick: the encoder returns one object for equal entities
    schema = switch.p4info
    for key, encoded in target.items():
        held = present.get(key)
        if held is None:
            raise ControllerError(
                f"switch {switch.name}: {describe(encoded.entity, schema)} was accepted but does "
                "not read back"
            )
        if encoded.value != held.value:
            raise ControllerError(
                f"switch {switch.name}: {describe(encoded.entity, schema)} reads back as "
                f"{describe(held.entity, schema)}"
            )
    for key, held in present.items():
        if key not in target and not held.is_default:
            raise ControllerError(
                f"switch {switch.name}: {describe(held.entity, schema)} is there but not in the "
                "plan"
            )


_KINDS: tuple[Entity, ...] = (
    P4ActionProfileMember(),
    P4ActionProfileGroup(),
    P4MulticastGroupEntry(),
    P4TableEntry(),
)
"""Wildcard reads of all kinds of entities that the controller manages, except default entries and
clone sessions."""
_SESSIONS = P4CloneSessionEntry()
"""Wildcard read of clone sessions."""
_NO_METER = P4MeterConfig(cir=0, cburst=0, pir=0, pburst=0)
"""In a read of entries: asks for their meters, too."""


def _all(wanted: Sequence[Entity], switch: ChannelSwitch, encoder: Encoder) -> p4r.ReadRequest:
    """Reads of all entities that matter to a plan, one request for most plans. Clone sessions are
    read only if it has some: else no packet takes one. Default entries are read by table: wildcard
    reads leave them out, and only those of the plan matter."""
    sessions = any(type(e) is P4CloneSessionEntry for e in wanted)
    entries = [e for e in wanted if type(e) is P4TableEntry]
    defaults = tuple(e.table_id for e in entries if e.is_default_action)
    metered = tuple(sorted({e.table_id for e in entries if e.meter_config}))

    def reads() -> p4r.ReadRequest:
        asked = [
            *_KINDS,
            *([_SESSIONS] if sessions else []),
            *(P4TableEntry(table, is_default_action=True) for table in defaults),
            *(P4TableEntry(table, meter_config=_NO_METER) for table in metered),
        ]
        return p4r.ReadRequest(entities=encode_entities(asked, switch.p4info))

    return encoder.once((sessions, defaults, metered), reads)


def _touched(written: Sequence[Encoded], stale: Sequence[Encoded]) -> list[Entity | p4r.Entity]:
    """Reads after a change: of written and deleted entities, by key. BMv2 answers NOT_FOUND to the
    read of a deleted group, so of kinds other than entries all are read if one was deleted."""
    gone = {type(e.entity) for e in stale if not e.is_entry}
    kinds = [kind for kind in (*_KINDS, _SESSIONS) if type(kind) in gone]
    entries = [e for e in stale if e.is_entry]
    return [*kinds, *map(_read_of, (*written, *entries))]


def _read_of(encoded: Encoded) -> p4r.Entity:
    """The read of one entity, with its meter if it has one: that is returned on request only."""
    asked = p4r.Entity()
    asked.ParseFromString(encoded.key)
    if encoded.has_meter:
        asked.table_entry.meter_config.SetInParent()
    return asked


async def _read(
    switch: ChannelSwitch, request: p4r.ReadRequest, encoder: Encoder
) -> dict[bytes, Encoded]:
    """Entities of a switch that match a request, by key; constant entries are left out."""
    schema = switch.p4info

    async def read() -> list[Encoded]:
        return [
            encoded
            async for reply in _encoded_replies(switch, request)
            for encoded in encoder.received(_entities(reply), schema)
        ]

    try:
        found = await patiently(read)
    except P4ClientError as error:
        raise ControllerError(
            f"switch {switch.name}: its entries cannot be read: {error.code.name} {error.message}"
        ) from error
    except ValueError as error:
        raise ControllerError(
            f"switch {switch.name}: it holds an entry that does not fit the P4 program: {error}"
        ) from error
    return _by_key([e for e in found if not e.is_const])


async def messages(
    switch: ChannelSwitch, request: Sequence[P4Entity | p4r.Entity]
) -> AsyncIterator[p4r.Entity]:
    """Answer of a switch to a read, undecoded."""
    message = p4r.ReadRequest(entities=encode_entities(request, switch.p4info))
    async for reply in replies(switch, message):
        for entity in reply.entities:
            yield entity


async def replies(
    switch: ChannelSwitch, request: p4r.ReadRequest
) -> AsyncIterator[p4r.ReadResponse]:
    """The replies of a switch to a request without its device and role, as they arrive; finsy's
    `switch.read` would decode every entity."""
    async for reply in _encoded_replies(switch, request):
        yield p4r.ReadResponse.FromString(reply)


_entities = splitter(p4r.ReadResponse.ENTITIES_FIELD_NUMBER)


async def _encoded_replies(switch: ChannelSwitch, request: p4r.ReadRequest) -> AsyncIterator[bytes]:
    # Protobuf merges concatenated messages: device and role need no copy of a shared request.
    call = _channel(switch, "reading from").unary_stream(_READ)
    head = p4r.ReadRequest(device_id=switch.device_id, role=switch.role_name)
    message = head.SerializeToString() + request.SerializeToString()
    try:
        async for reply in call(message, timeout=CALL_SECONDS):
            yield reply
    except grpc.RpcError as error:
        raise P4ClientError(error, "ReadRequest") from None


def _channel(switch: ChannelSwitch, action: str) -> grpc.aio.Channel:
    channel = switch.channel
    if channel is None:
        raise ControllerError(f"switch {switch.name}: connection lost while {action} it")
    return channel


async def _write(switch: ChannelSwitch, operation: str, entities: Sequence[Encoded]) -> None:
    """Writes as finsy's `switch.write` does, which would make an object of each update."""
    # Groups may refer to members of an earlier request; entries do not refer to each other.
    in_flight = asyncio.Semaphore(UNDER_WAY if all(e.is_entry for e in entities) else 1)

    async def write(batch: Sequence[Encoded]) -> None:
        async with in_flight:
            try:
                await patiently(partial(_request, switch, operation, batch))
            except P4ClientError as error:
                raise ControllerError(_explain(switch, operation, batch, error)) from error

    starts = range(0, len(entities), BATCH)
    await together(write(entities[start : start + BATCH]) for start in starts)


async def _request(switch: ChannelSwitch, operation: str, entities: Sequence[Encoded]) -> None:
    call = _channel(switch, "writing to").unary_unary(_WRITE)
    head = p4r.WriteRequest(
        device_id=switch.device_id,
        role=switch.role_name,
        election_id=U128.encode(switch.election_id),
    )
    parts = [head.SerializeToString()]
    for encoded in entities:
        value = encoded.value
        parts += _update(_done(operation, encoded), len(value)), value
    try:
        await call(b"".join(parts), timeout=CALL_SECONDS)
    except grpc.RpcError as error:
        raise P4ClientError(error, "WriteRequest") from None


@cache
def _update(operation: str, length: int) -> bytes:
    """The bytes before an entity of this length as an update of a request."""
    update = bytes(p4r.Update(type=TYPES[operation]).SerializeToString())
    update += header(p4r.Update.ENTITY_FIELD_NUMBER, length)
    return header(p4r.WriteRequest.UPDATES_FIELD_NUMBER, len(update) + length) + update


def _done(operation: str, encoded: Encoded) -> str:
    """Operation on an entity: default entries always exist, so they are modified, not inserted."""
    return "modify" if operation == "insert" and encoded.is_default else operation


def _explain(
    switch: ChannelSwitch, operation: str, entities: Sequence[Encoded], error: P4ClientError
) -> str:
    """In words, the first update of a batch that failed, and why."""
    schema = switch.p4info
    for index, detail in sorted(error.details.items()):
        cause = f"{detail.canonical_code.name} {detail.message}".strip()
        entity = (
            describe(entities[index].entity, schema) if index < len(entities) else f"update {index}"
        )
        done = _done(operation, entities[index]) if index < len(entities) else operation
        more = len(error.details) - 1
        tail = f" (and {more} more)" if more else ""
        return f"switch {switch.name}: cannot {done} {entity}: {cause}{tail}"
    return (
        f"switch {switch.name}: cannot {operation} {len(entities)} entities, first "
        f"{describe(entities[0].entity, schema)}: {error.code.name} {error.message}".rstrip()
    )
