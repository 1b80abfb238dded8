"""Requests of a command to a switch: one connection, calls that wait for their answer.

Writes are those of the primary controller. If there is one, they are made under its election id,
which the switch reports to every controller: nobody is demoted. If there is none, this client is
the primary for as long as it lives. Packets and digests come to the primary of every role: for them
this client has roles of its own.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import grpc
from ebb_topologies.bounded import content_of
from ebb_topologies.errors import InputError
from finsy.p4entity import P4Entity, decode_entity
from finsy.p4schema import P4Schema
from finsy.proto import U128, p4i, p4r, p4r_grpc, rpc_code, rpc_status

from ebb_controller import ebb_fabric_pb2 as fabric
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller import ebb_trace_pb2 as trace
from ebb_controller.ctl.stream import ANSWERED, Stream, SwitchError

MAX_MESSAGE_BYTES = 64 << 20
"""Longest answer that is accepted: tables and their P4Info."""
MAX_METADATA_BYTES = 64 << 10
"""Longest trailing metadata that is accepted: the errors of a batch."""
BATCH = 500
"""Most updates of a request."""
CALL_SECONDS = 10.0
"""Timeout of a call to a switch."""
E = TypeVar("E", bound=P4Entity)


@dataclass(frozen=True, slots=True)
class Place:
    """Address of a switch, and the files for TLS with it."""

    address: str
    """HOST:PORT of its P4Runtime."""
    device_id: int
    """The device that requests name."""
    authority: Path | None = None
    """PEM file of the authority that signed its certificate; none: no TLS."""
    certificate: Path | None = None
    """PEM file of our own certificate; none: the switch wants none."""
    key: Path | None = None
    """PEM file of the key of our certificate."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise InputError("--cert and --key need each other: a certificate and its key")
        if self.certificate and not self.authority:
            raise InputError("--cert and --key need --cacert: without it there is no TLS")


def switch_of_fabric(name: str, socket: Path | None) -> Place:
    """Place of a switch of a running fabric, from its fabric service."""
    # Imported here, because it takes time to load.
    from ebb_topologies.run_state import usual_socket

    path = socket or usual_socket()
    options = [("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(f"unix:{path}", options) as channel:
        call = channel.unary_unary(
            "/ebb.fabric.v1.Fabric/GetFabric",
            request_serializer=fabric.GetFabricRequest.SerializeToString,
            response_deserializer=fabric.GetFabricResponse.FromString,
        )
        try:
            reply = call(fabric.GetFabricRequest(), timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            raise SwitchError(f"no fabric answers at {path}: {error.details()}") from error
    for switch in reply.switches:
        if switch.name == name:
            return Place(switch.grpc_address, switch.device_id)
    names = ", ".join(switch.name for switch in reply.switches)
    raise InputError(f"there is no switch '{name}' in the fabric at {path}; there are: {names}")


def connect(place: Place) -> grpc.Channel:
    """A connection to a switch. Raises `InputError` if a PEM file cannot be read."""
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_metadata_size", MAX_METADATA_BYTES),
    ]
    if place.authority:
        return grpc.secure_channel(place.address, _credentials(place), options)
    return grpc.insecure_channel(place.address, options)


def _credentials(place: Place) -> grpc.ChannelCredentials:
    files = (place.authority, place.key, place.certificate)
    return grpc.ssl_channel_credentials(*(content_of(path) if path else None for path in files))


class Client:
    """A P4Runtime client of one switch. Its methods raise `SwitchError` for errors of the switch,
    and `InputError` for entities that do not fit its P4Info."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._channel = connect(place)
        self._p4runtime = p4r_grpc.P4RuntimeStub(self._channel)
        self._schema: P4Schema | None = None
        self._stream: Stream | None = None
        self._election_id: int | None = None

    def close(self) -> None:
        """Ends the stream and the connection."""
        if self._stream:
            self._stream.close()
        self._channel.close()

    @property
    def schema(self) -> P4Schema:
        """The P4Info of the program, which is read once."""
        if self._schema is None:
            config = self._config(p4r.GetForwardingPipelineConfigRequest.P4INFO_AND_COOKIE)
            if not config.HasField("p4info"):
                raise SwitchError(
                    f"the switch at {self.place.address} reports no P4Info: it has no program, or "
                    "was started without one (ebb-switch --p4info FILE); `ebb-ctl program push "
                    "PROGRAM.json P4INFO.txtpb` installs both"
                )
            schema = P4Schema()
            schema.set_p4info(config.p4info)
            self._schema = schema
        return self._schema

    def _config(self, kind: Any) -> p4r.ForwardingPipelineConfig:
        request = p4r.GetForwardingPipelineConfigRequest(
            device_id=self.place.device_id, response_type=kind
        )
        reply = self._call(self._p4runtime.GetForwardingPipelineConfig, request)
        config: p4r.ForwardingPipelineConfig = reply.config
        return config

    def push(self, p4info: p4i.P4Info, program: bytes) -> None:
        """Replaces the program."""
        request = p4r.SetForwardingPipelineConfigRequest(
            device_id=self.place.device_id,
            election_id=U128.encode(self.election_id),
            action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
            config=p4r.ForwardingPipelineConfig(p4info=p4info, p4_device_config=program),
        )
        self._call(self._p4runtime.SetForwardingPipelineConfig, request, timeout=None)
        self._schema = None

    def version(self) -> str:
        """The version of P4Runtime that the switch has."""
        reply = self._call(self._p4runtime.Capabilities, p4r.CapabilitiesRequest())
        return str(reply.p4runtime_api_version)

    def read(self, wanted: E, timeout: float | None = None) -> Iterator[E]:
        """All entities that match this one, whose missing fields are wildcards."""
        entity = _checked(lambda: wanted.encode(self.schema))
        request = p4r.ReadRequest(device_id=self.place.device_id, entities=[entity])
        with self._errors():
            for reply in self._p4runtime.Read(request, timeout=timeout):
                for entity in reply.entities:
                    yield self._decoded(entity, type(wanted))

    def _decoded(self, entity: p4r.Entity, kind: type[E]) -> E:
        """An entity of a reply. Raises `SwitchError` if it does not fit P4Info or is of another
        kind."""
        try:
            found = decode_entity(entity, self.schema)
        except (ValueError, KeyError) as error:
            raise SwitchError(f"the switch tells what its P4Info does not have: {error}") from error
        if not isinstance(found, kind):
            raise SwitchError(f"the switch tells of another kind of entity: {found}")
        return found

    def write(self, kind: Any, entities: Iterable[P4Entity], writer: Writer | None = None) -> int:
        """Inserts, modifies or deletes, as the primary of the default role if no other is given;
        returns how many."""
        encoded = [_checked(lambda e=e: e.encode(self.schema)) for e in entities]
        for start in range(0, len(encoded), BATCH):
            updates = [p4r.Update(type=kind, entity=e) for e in encoded[start : start + BATCH]]
            writer = writer or Writer("", self.election_id)
            request = p4r.WriteRequest(
                device_id=self.place.device_id,
                role=writer.role,
                election_id=U128.encode(writer.election_id),
                updates=updates,
            )
            self._call(self._p4runtime.Write, request)
        return len(encoded)

    def insert(self, *entities: P4Entity) -> int:
        """Inserts entities; returns how many."""
        return self.write(p4r.Update.INSERT, entities)

    def modify(self, *entities: P4Entity) -> int:
        """Modifies entities; returns how many."""
        return self.write(p4r.Update.MODIFY, entities)

    def delete(self, *entities: P4Entity) -> int:
        """Deletes entities; returns how many."""
        return self.write(p4r.Update.DELETE, entities)

    def put(self, entity: P4Entity, is_there: bool) -> None:
        """Inserts an entity, or changes the one that is there."""
        self.write(p4r.Update.MODIFY if is_there else p4r.Update.INSERT, [entity])

    @property
    def election_id(self) -> int:
        """Election id of writes: the primary's, or ours where there is no primary."""
        if self._election_id is None:
            primary, highest = self._arbitrate(None)
            if primary is None:
                primary, highest = self._arbitrate(max(highest, 1))
            if primary is None:
                raise SwitchError(f"another controller took over meanwhile ({highest})")
            self._election_id = primary
        return self._election_id

    def _arbitrate(self, election_id: int | None) -> tuple[int | None, int]:
        """The primary's election id (none: there is no primary), and the highest that was seen."""
        self._stream = self._stream or Stream(self._p4runtime, self.place.device_id)
        with self._errors():
            update = self._stream.arbitrate(election_id)
        highest = U128.decode(update.election_id)
        return (highest if update.status.code in ANSWERED else None), highest

    def primary(self) -> int | None:
        """The election id of the controller that may write; none: there is no such controller."""
        return self._arbitrate(None)[0]

    @contextlib.contextmanager
    def stream(self, task: str) -> Iterator[Channel]:
        """A stream for packets or digests, as the primary of a role of this task: the controller
        of the switch stays the primary of its own, and both get them. The role has no
        configuration, which means full access."""
        stream = Stream(self._p4runtime, self.place.device_id, f"ebb-ctl {task}")
        # The latest client with this task takes over: election ids are times.
        channel = Channel(stream, Writer(stream.role, time.time_ns()))
        try:
            with self._errors():
                _check_roles(stream.arbitrate(None), stream.role)
                channel.elect(channel.writer.election_id)
                yield channel
        finally:
            stream.close()

    def statistics(self, *, reset: bool = False) -> tm.Stats:
        """Statistics of all ports and queues; `reset` sets them to zero after the reading."""
        request = tm.GetStatsRequest(device_id=self.place.device_id, reset=reset)
        reply: tm.Stats = self._unary("ebb.tm.v1.TrafficManager/GetStats", request, tm.Stats)
        return reply

    def queue_config(self) -> str:
        """Configuration of the traffic manager, as JSON."""
        request = tm.GetConfigRequest(device_id=self.place.device_id)
        method = "ebb.tm.v1.TrafficManager/GetConfig"
        return str(self._unary(method, request, tm.GetConfigResponse).config)

    def set_queue_config(self, config: str) -> None:
        """Replaces the configuration of the traffic manager. Raises `SwitchError`."""
        request = tm.SetConfigRequest(device_id=self.place.device_id, config=config)
        self._unary("ebb.tm.v1.TrafficManager/SetConfig", request, tm.SetConfigResponse)

    def trace(self, ports: Sequence[int], packets: int) -> Iterator[trace.Visit]:
        """Visits of packets that arrive from now on at the ports; at most this many packets."""
        call = self._channel.unary_stream(
            "/ebb.trace.v1.Trace/Watch",
            request_serializer=trace.WatchRequest.SerializeToString,
            response_deserializer=trace.Visit.FromString,
        )
        request = trace.WatchRequest(device_id=self.place.device_id, port=ports, packets=packets)
        with self._errors():
            yield from call(request)

    def _unary(self, method: str, request: Any, reply: Any) -> Any:
        call = self._channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=reply.FromString,
        )
        return self._call(call, request)

    def _call(self, call: Any, request: Any, timeout: float | None = CALL_SECONDS) -> Any:
        with self._errors():
            return call(request, timeout=timeout)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except grpc.RpcError as error:
            raise SwitchError(_reason(error, self.place)) from error


@dataclass(frozen=True, slots=True)
class Writer:
    """Role and election id of a write."""

    role: str
    election_id: int


@dataclass(frozen=True, slots=True)
class Channel:
    """A stream of packets and digests of a switch."""

    stream: Stream
    writer: Writer
    """The primary of the stream's role."""

    def elect(self, election_id: int) -> None:
        """Becomes primary. Raises `SwitchError` if another controller is."""
        _check_primary(self.stream.arbitrate(election_id))

    def updates(self) -> Iterator[p4r.StreamMessageResponse]:
        """Messages, until another controller takes over."""
        for reply in self.stream.replies():
            if reply.HasField("arbitration"):
                _check_primary(reply.arbitration)
            else:
                yield reply

    def send(self, request: p4r.StreamMessageRequest) -> None:
        """Sends, and waits until the switch has handled it: a switch handles messages in order, and
        answers a higher election id in any case."""
        self.stream.send(request)
        self.elect(self.writer.election_id + 1)


def _check_roles(update: p4r.MasterArbitrationUpdate, role: str) -> None:
    """Raises `SwitchError` if the switch has a primary and knows no roles. Such a switch, as BMv2,
    names no role in its answer."""
    if update.role.name != role and update.status.code == rpc_code.ALREADY_EXISTS:
        raise SwitchError(
            "the switch has a primary controller and knows no roles, so its packets and digests "
            "are that controller's alone"
        )


def _check_primary(update: p4r.MasterArbitrationUpdate) -> None:
    if update.status.code != rpc_code.OK:
        raise SwitchError("another ebb-ctl has taken over: each switch has one for this at a time")


def _checked(encode: Any) -> Any:
    """Result of `encode`, which encodes an entity of a user. Raises `InputError` for finsy's
    errors, which say what is wrong with the entity."""
    try:
        return encode()
    except (ValueError, KeyError) as error:
        raise InputError(str(error)) from error


def _reason(error: Any, place: Place) -> str:
    """The error in words: of each update that failed, or of the whole request."""
    code = error.code()
    if code == grpc.StatusCode.UNAVAILABLE:
        return (
            f"no P4Runtime server answers at {place.address}: is the switch running, and is that "
            f"its address (--addr)? ({error.details()})"
        )
    failed = _failed_updates(error)
    if failed:
        return "; ".join(failed)
    text = f"{code.name}: {error.details()}"
    if code == grpc.StatusCode.NOT_FOUND and "device" in str(error.details()):
        text += " (--device-id names another one)"
    return text


def _failed_updates(error: Any) -> list[str]:
    raw = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    if not raw:
        return []
    messages = []
    for packed in rpc_status.Status.FromString(raw).details:
        detail = p4r.Error()
        if packed.Unpack(detail) and detail.canonical_code != rpc_code.OK:
            messages.append(f"{rpc_code.Code.Name(detail.canonical_code)}: {detail.message}")
    return messages
