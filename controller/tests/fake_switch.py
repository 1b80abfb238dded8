"""A P4Runtime server without a data plane, which can be told to misbehave.

It is strict where a real one is: one primary, references must exist and cannot be deleted while in
use, inserts of what exists and changes of what does not are refused, a default entry is only read
when asked for.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
from ebb_controller import ebb_tm_pb2 as tm
from finsy.proto import U128, p4r, p4r_grpc, rpc_code, rpc_status
from google.protobuf import any_pb2

PUSH_SECONDS = 0.01
"""How long a program takes to be loaded."""

Entity = p4r.Entity
Key = bytes


class Refused(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


@dataclass
class Faults:
    """Ways to misbehave; each function gets the entity concerned."""

    refuse: Callable[[Entity], str | None] = lambda _entity: None
    """Reason to refuse the write of an entity; none: it is written."""
    lose: Callable[[Entity], bool] = lambda _entity: False
    """Whether to accept a write and forget it."""
    alter: Callable[[Entity], None] = lambda _entity: None
    """Changes an entity that is read back, in place."""
    refuse_pipeline: str | None = None
    refuse_session: str | None = None
    refuse_queues: str | None = None
    busy: dict[str, int] = field(default_factory=dict)
    """How many of the next calls are refused for want of room, by method."""
    pushing: list[int] = field(default_factory=list)
    """How many pushes were under way, in all switches with this list, since each began or ended."""


@dataclass
class FakeSwitch(p4r_grpc.P4RuntimeServicer):
    device_id: int
    faults: Faults = field(default_factory=Faults)
    port: int = 0
    entities: dict[Key, Entity] = field(default_factory=dict)
    writes: list[tuple[str, Entity]] = field(default_factory=list)
    """Every accepted update, with its operation."""
    pipelines: int = 0
    """How often a pipeline was set."""
    config: p4r.ForwardingPipelineConfig | None = None
    queues: dict[str, Any] | None = None
    """Configuration that the traffic manager was given; none: not yet."""
    versions_told: int = 0
    """How often it was asked for its version of P4Runtime."""
    programs_told: int = 0
    """How often it was asked for its program."""
    peers: set[str] = field(default_factory=set)
    """Connections over which there were sessions or questions about queues."""
    _server: Any = None
    _sessions: dict[int, Any] = field(default_factory=dict)
    """Contexts of the controllers' streams by election id; the highest id is primary."""

    async def start(self) -> FakeSwitch:
        self._server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        p4r_grpc.add_P4RuntimeServicer_to_server(self, self._server)
        self._server.add_generic_rpc_handlers((self._traffic_manager(),))
        self.port = self._server.add_insecure_port(f"127.0.0.1:{self.port}")
        await self._server.start()
        return self

    def _traffic_manager(self) -> Any:
        """The service of switch/p4-proto/proto/ebb_tm.proto, as far as the controller uses it."""
        return grpc.method_handlers_generic_handler(
            "ebb.tm.v1.TrafficManager",
            {
                name: grpc.unary_unary_rpc_method_handler(
                    handler, request.FromString, lambda reply: bytes(reply.SerializeToString())
                )
                for name, handler, request in (
                    ("SetConfig", self._set_queues, tm.SetConfigRequest),
                    ("GetStats", self._queue_statistics, tm.GetStatsRequest),
                )
            },
        )

    async def _room(self, method: str, context: Any) -> None:
        if self.faults.busy.get(method):
            self.faults.busy[method] -= 1
            words = "the requests of all clients together are too long; try again"
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, words)

    async def _set_queues(self, request: Any, context: Any) -> Any:
        await self._room("SetConfig", context)
        if self.faults.refuse_queues:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.faults.refuse_queues)
        self.queues = json.loads(request.config)
        return tm.SetConfigResponse()

    async def _queue_statistics(self, _request: Any, context: Any) -> Any:
        self.peers.add(context.peer())
        queue = tm.QueueStats(queue=7, max_depth_bytes=4500, ecn_ce=tm.Count(packets=5))
        queue.drops.add(reason="tail-drop", count=tm.Count(packets=3))
        return tm.Stats(ports=[tm.PortStats(port=1, queues=[queue])])

    async def stop(self) -> None:
        await self._server.stop(None)

    async def restart(self) -> None:
        """Crashes and starts again at the same port, with everything forgotten."""
        await self.stop()
        self.entities.clear()
        self.writes.clear()
        self._sessions.clear()
        self.config = None
        self.queues = None
        await self.start()

    # -- P4Runtime ----------------------------------------------------------------------------

    async def Capabilities(self, _request: Any, _context: Any) -> Any:
        self.versions_told += 1
        return p4r.CapabilitiesResponse(p4runtime_api_version="1.3.0")

    async def StreamChannel(self, requests: AsyncIterator[Any], context: Any) -> AsyncIterator[Any]:
        self.peers.add(context.peer())
        if self.faults.refuse_session:
            await context.abort(grpc.StatusCode.NOT_FOUND, self.faults.refuse_session)
        election = -1
        try:
            async for request in requests:
                election = U128.decode(request.arbitration.election_id)
                if self._sessions.setdefault(election, context) is not context:
                    await context.abort(
                        grpc.StatusCode.INVALID_ARGUMENT, "Election id already exists"
                    )
                yield self._arbitration(election)
        finally:
            if self._sessions.get(election) is context:
                del self._sessions[election]

    def _arbitration(self, election: int) -> Any:
        highest = max(self._sessions)
        code = rpc_code.OK if election == highest else rpc_code.ALREADY_EXISTS
        return p4r.StreamMessageResponse(
            arbitration=p4r.MasterArbitrationUpdate(
                device_id=self.device_id,
                election_id=U128.encode(highest),
                status=rpc_status.Status(code=code),
            )
        )

    async def SetForwardingPipelineConfig(self, request: Any, context: Any) -> Any:
        await self._only_primary(request, context)
        await self._room("SetForwardingPipelineConfig", context)
        begun = self.faults.pushing
        begun.append(begun[-1] + 1 if begun else 1)
        await asyncio.sleep(PUSH_SECONDS)
        begun.append(begun[-1] - 1)
        if self.faults.refuse_pipeline:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, self.faults.refuse_pipeline)
        self.config = request.config
        self.pipelines += 1
        self.entities.clear()
        return p4r.SetForwardingPipelineConfigResponse()

    async def GetForwardingPipelineConfig(self, _request: Any, context: Any) -> Any:
        self.programs_told += 1
        if self.config is None:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                "No forwarding pipeline config set for this device",
            )
        return p4r.GetForwardingPipelineConfigResponse(config=self.config)

    async def Write(self, request: Any, context: Any) -> Any:
        await self._only_primary(request, context)
        await self._room("Write", context)
        errors = []
        for update in request.updates:
            try:
                self._apply(p4r.Update.Type.Name(update.type), update.entity)
                errors.append(p4r.Error(canonical_code=rpc_code.OK))
            except Refused as refused:
                errors.append(
                    p4r.Error(canonical_code=refused.code, message=str(refused), space="fake")
                )
        if any(error.canonical_code != rpc_code.OK for error in errors):
            await _abort_with_details(context, errors)
        return p4r.WriteResponse()

    async def Read(self, request: Any, context: Any) -> AsyncIterator[Any]:
        await self._room("Read", context)
        for wanted in request.entities:
            if wanted.WhichOneof("entity") == "counter_entry":
                yield p4r.ReadResponse(entities=self._counters(wanted.counter_entry))
                continue
            found = []
            for entity in self.entities.values():
                if _matches(entity, wanted):
                    copy = Entity()
                    copy.CopyFrom(entity)
                    self.faults.alter(copy)
                    found.append(copy)
            group = wanted.packet_replication_engine_entry.multicast_group_entry
            if group.multicast_group_id and _key(wanted) not in self.entities:
                # As BMv2 does.
                await context.abort(grpc.StatusCode.NOT_FOUND, "Multicast group does not exist")
            yield p4r.ReadResponse(entities=found)

    # -- what it holds ------------------------------------------------------------------------

    async def _only_primary(self, request: Any, context: Any) -> None:
        if not self._sessions or U128.decode(request.election_id) != max(self._sessions):
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "not primary")

    def _apply(self, operation: str, entity: Entity) -> None:
        reason = self.faults.refuse(entity)
        if reason is not None:
            raise Refused(rpc_code.RESOURCE_EXHAUSTED, reason)
        key = _key(entity)
        is_default = entity.table_entry.is_default_action
        if operation == "INSERT" and (key in self.entities or is_default):
            raise Refused(rpc_code.ALREADY_EXISTS, "it exists")
        if operation in ("MODIFY", "DELETE") and key not in self.entities and not is_default:
            raise Refused(rpc_code.NOT_FOUND, "there is no such entity")
        if operation == "DELETE":
            if any(key in _references(other) for other in self.entities.values()):
                raise Refused(rpc_code.FAILED_PRECONDITION, "it is in use")
        else:
            missing = [ref for ref in _references(entity) if ref not in self.entities]
            if missing:
                raise Refused(rpc_code.NOT_FOUND, "it names something that is not there")
        if self.faults.lose(entity):
            return
        self.writes.append((operation, entity))
        if operation == "DELETE":
            del self.entities[key]
        else:
            self.entities[key] = entity

    @staticmethod
    def _counters(request: Any) -> list[Entity]:
        return [
            Entity(
                counter_entry=p4r.CounterEntry(
                    counter_id=request.counter_id,
                    index=p4r.Index(index=index),
                    data=p4r.CounterData(packet_count=10 * index, byte_count=1000 * index),
                )
            )
            for index in ((2, 0, 1) if not request.HasField("index") else [request.index.index])
        ]


def _key(entity: Entity) -> Key:
    key = Entity()
    match entity.WhichOneof("entity"):
        case "table_entry":
            entry = entity.table_entry
            key.table_entry.table_id = entry.table_id
            key.table_entry.match.extend(entry.match)
            key.table_entry.priority = entry.priority
            key.table_entry.is_default_action = entry.is_default_action
        case "action_profile_member":
            key.action_profile_member.member_id = entity.action_profile_member.member_id
        case "action_profile_group":
            key.action_profile_group.group_id = entity.action_profile_group.group_id
        case "packet_replication_engine_entry":
            group = entity.packet_replication_engine_entry.multicast_group_entry
            target = key.packet_replication_engine_entry.multicast_group_entry
            target.multicast_group_id = group.multicast_group_id
    return bytes(key.SerializeToString(deterministic=True))


def _references(entity: Entity) -> list[Key]:
    def member(number: int) -> Key:
        return _key(Entity(action_profile_member=p4r.ActionProfileMember(member_id=number)))

    match entity.WhichOneof("entity"):
        case "action_profile_group":
            return [member(m.member_id) for m in entity.action_profile_group.members]
        case "table_entry":
            action = entity.table_entry.action
            if action.WhichOneof("type") == "action_profile_group_id":
                group = p4r.ActionProfileGroup(group_id=action.action_profile_group_id)
                return [_key(Entity(action_profile_group=group))]
            if action.WhichOneof("type") == "action_profile_member_id":
                return [member(action.action_profile_member_id)]
    return []


def _matches(entity: Entity, wanted: Entity) -> bool:
    kind = entity.WhichOneof("entity")
    if kind != wanted.WhichOneof("entity"):
        return False
    if kind != "table_entry":
        return True
    entry, request = entity.table_entry, wanted.table_entry
    return (
        request.table_id in (0, entry.table_id)
        and request.is_default_action == entry.is_default_action
    )


async def _abort_with_details(context: Any, errors: list[Any]) -> None:
    details = []
    for error in errors:
        packed = any_pb2.Any()
        packed.Pack(error)
        details.append(packed)
    status = rpc_status.Status(code=rpc_code.UNKNOWN, details=details)
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    await context.abort(grpc.StatusCode.UNKNOWN, "some updates failed")
