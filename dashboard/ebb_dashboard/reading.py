"""Entries of a switch, read over P4Runtime by a client that controls nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import grpc
from ebb_controller.ctl import values
from ebb_controller.encoding import describe
from ebb_controller.errors import ControllerError
from ebb_topologies.text import printable
from finsy import P4ActionProfileMember, P4TableEntry
from finsy.p4entity import decode_entity
from finsy.p4schema import P4Schema
from finsy.proto import p4r

SERVICE = "/p4.v1.P4Runtime"
READ_SECONDS = 10.0
MAX_ENTRIES = 200
"""Most entries of a table that are shown; of the others, their number."""
MAX_CELLS = 2000
"""Most cells of counters that are shown."""
EVERY_GROUP = p4r.Entity(
    packet_replication_engine_entry=p4r.PacketReplicationEngineEntry(
        multicast_group_entry=p4r.MulticastGroupEntry()
    )
)
"""Wildcard read of the multicast groups of the packet replication engine."""


async def held(channel: grpc.aio.Channel, device_id: int) -> dict[str, Any]:
    """Entries by table, other entities, and cells of counters that are not zero. Raises
    `ControllerError`."""
    try:
        names = await schema(channel, device_id)
        wanted = [
            p4r.Entity(action_profile_member=p4r.ActionProfileMember()),
            p4r.Entity(action_profile_group=p4r.ActionProfileGroup()),
            p4r.Entity(table_entry=p4r.TableEntry()),
            EVERY_GROUP,
            *(
                P4TableEntry(table.alias, is_default_action=True).encode(names)
                for table in names.tables
                if table.const_default_action is None
            ),
        ]
        tables: dict[str, list[str]] = {table.alias: [] for table in names.tables}
        others: list[str] = []
        async for entity in read(channel, device_id, wanted):
            decoded = decode_entity(entity, names)
            if isinstance(decoded, P4TableEntry):
                tables[decoded.table_id].append(printable(_entry(names, decoded)))
            else:
                others.append(printable(_other(names, decoded)))
        return {
            "tables": [_list(name, entries) for name, entries in tables.items()],
            "others": _list("groups and members", others),
            "counters": await _counters(channel, device_id, names),
        }
    except grpc.aio.AioRpcError as error:
        raise ControllerError(
            f"it does not answer: {error.code().name} {error.details()}"
        ) from error
    except ValueError as error:
        raise ControllerError(f"it holds what does not fit its program: {error}") from error


async def schema(channel: grpc.aio.Channel, device_id: int) -> P4Schema:
    """The names of the program that a switch runs. Raises `grpc.aio.AioRpcError`."""
    request = p4r.GetForwardingPipelineConfigRequest(
        device_id=device_id,
        response_type=p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE,
    )
    call = channel.unary_unary(
        f"{SERVICE}/GetForwardingPipelineConfig",
        request_serializer=type(request).SerializeToString,
        response_deserializer=p4r.GetForwardingPipelineConfigResponse.FromString,
    )
    reply = await call(request, timeout=READ_SECONDS)
    return P4Schema(reply.config.p4info)


async def _counters(
    channel: grpc.aio.Channel, device_id: int, schema: P4Schema
) -> list[dict[str, Any]]:
    names = {counter.id: counter.alias for counter in schema.counters}
    wanted = [p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=number)) for number in names]
    cells: list[dict[str, Any]] = []
    async for entity in read(channel, device_id, wanted):
        entry = entity.counter_entry
        if entry.data.packet_count and len(cells) < MAX_CELLS:
            cells.append(
                {
                    "name": names[entry.counter_id],
                    "index": entry.index.index,
                    "packets": entry.data.packet_count,
                    "bytes": entry.data.byte_count,
                }
            )
    return cells


async def read(
    channel: grpc.aio.Channel, device_id: int, entities: Iterable[p4r.Entity]
) -> AsyncIterator[p4r.Entity]:
    """Entities of a switch. Raises `grpc.aio.AioRpcError`."""
    request = p4r.ReadRequest(device_id=device_id, entities=entities)
    call = channel.unary_stream(
        f"{SERVICE}/Read",
        request_serializer=type(request).SerializeToString,
        response_deserializer=p4r.ReadResponse.FromString,
    )
    async for reply in call(request, timeout=READ_SECONDS):
        for entity in reply.entities:
            yield entity


def _entry(schema: P4Schema, entry: P4TableEntry) -> str:
    """An entry in the words of `ebb-ctl`, on one line."""
    if entry.is_default_action:
        key = "default"
    else:
        fields = values.match(schema.tables[entry.table_id], entry.match)
        key = ", ".join(f"{name} {value}" for name, value in fields.items()) or "any"
    priority = f" (priority {entry.priority})" if entry.priority else ""
    return f"{key}{priority} -> {_action(values.table_action(schema, entry.action))}"


def _other(schema: P4Schema, entity: Any) -> str:
    if isinstance(entity, P4ActionProfileMember) and entity.action is not None:
        action = _action(values.one_action(schema, entity.action))
        return f"member {entity.member_id} of {entity.action_profile_id} -> {action}"
    return describe(entity, schema)


def _action(action: Any) -> str:
    """The result of `values.table_action`, as text."""
    match action:
        case {"name": name, "parameters": parameters}:
            given = ", ".join(f"{each} {value}" for each, value in parameters.items())
            weight = f" by weight {action['weight']}" if "weight" in action else ""
            return f"{name}({given}){weight}"
        case {"member": number}:
            return f"member {number}"
        case {"group": number}:
            return f"group {number}"
        case list():
            return ", ".join(map(_action, action))
    return "nothing"


def _list(name: str, entries: list[str]) -> dict[str, Any]:
    more = max(0, len(entries) - MAX_ENTRIES)
    return {"name": name, "entries": entries[:MAX_ENTRIES], "more": more}
