# SPDX-License-Identifier: Apache-2.0
"""A small blocking P4Runtime client: finsy's entities over grpcio.

The controller of the project is asynchronous and reconciles a whole fabric; a packet test wants to
write three entries and read a counter.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from ebb_controller.mechanism import Counter, Entity, Register
from ebb_controller.mechanisms.drop_notification import DROP_NOTIFICATION
from ebb_controller.mechanisms.occupancy import OCCUPANCY_LIMIT
from ebb_controller.mechanisms.phantom_queue import PHANTOM_QUEUE
from ebb_controller.mechanisms.trimming import TRIMMING, Trimming
from ebb_controller.tna import (
    QUEUE_OF_PORT,
    QUEUES,
    Chip,
    occupancy_meter,
    phantom_drain,
    pick,
    translated,
    trim_session,
)
from finsy import (
    P4CounterEntry,
    P4MulticastGroupEntry,
    P4RegisterEntry,
    P4Schema,
    P4TableAction,
    P4TableEntry,
)
from finsy.proto import U128, p4r, p4r_grpc, rpc_status

DEVICE_ID = 0
"""Device id of a switch that was not given one."""
ELECTION_ID = 1
"""Any number but 0, since there is no other controller."""
CALL_SECONDS = 10.0
"""Timeout of a call to the switch."""
PORTS_WITH_QUEUES = 16
"""Ports whose queues the ghost thread of Tofino 2 knows."""
UNLIMITED_BPS = 100_000_000_000
"""Rate of ports without a limit, for meters."""


class ControlPlaneError(Exception):
    """The switch refused something; the message says what and why."""


@dataclass(frozen=True, slots=True)
class Count:
    """Value of one cell of a counter."""

    packets: int
    """Packets that were counted."""
    bytes: int
    """Bytes of these packets, without FCS."""


class ControlPlane:
    """The primary controller of one switch."""

    def __init__(self, address: str, p4info: Path, program: Path) -> None:
        self._schema = P4Schema(p4info, program)
        self._channel = grpc.insecure_channel(address)
        self._stub = p4r_grpc.P4RuntimeStub(self._channel)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._stream: Any = None

    def connect(self, timeout_seconds: float = 1.0) -> bool:
        """Becomes primary and installs the program. False if the switch does not answer yet."""
        try:
            self._stub.Capabilities(
                p4r.CapabilitiesRequest(), timeout=timeout_seconds, wait_for_ready=True
            )
        except grpc.RpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                return False
            raise ControlPlaneError(f"Capabilities: {_explain(error)}") from None
        self._stream = self._stub.StreamChannel(iter(self._requests.get, None))
        arbitration = p4r.MasterArbitrationUpdate(
            device_id=DEVICE_ID, election_id=U128.encode(ELECTION_ID)
        )
        self._requests.put(p4r.StreamMessageRequest(arbitration=arbitration))
        reply = next(self._stream).arbitration
        if reply.status.code:
            raise ControlPlaneError(f"not primary: {reply.status.message}")
        self._call(
            "SetForwardingPipelineConfig",
            p4r.SetForwardingPipelineConfigRequest(
                device_id=DEVICE_ID,
                election_id=U128.encode(ELECTION_ID),
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=self._schema.get_pipeline_config(),
            ),
        )
        return True

    def close(self) -> None:
        """Ends the stream and the connection."""
        self._requests.put(None)
        if self._stream is not None:
            self._stream.cancel()
        self._channel.close()

    # finsy's operators write into the entry, and entries of equal content are one (`Table.entry`).

    def insert(self, entry: Entity) -> None:
        """Adds an entry."""
        self._write(+copy(entry))

    def modify(self, entry: Entity) -> None:
        """Replaces the action of an entry, or the default action of a table."""
        self._write(~copy(entry))

    def multicast_group(self, group: int, ports: list[int]) -> None:
        """Adds a multicast group."""
        self._write(+P4MulticastGroupEntry(group, replicas=[(port, 1) for port in ports]))

    def counter(self, counter: Counter, index: int) -> Count:
        """Reads a cell of an indirect counter."""
        entity = P4CounterEntry(counter.name, index=index).encode(self._schema)
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[entity])
        for reply in self._read(request):
            for answer in reply.entities:
                entry = P4CounterEntry.decode(answer, self._schema)
                return Count(entry.packet_count, entry.byte_count)
        raise ControlPlaneError(f"counter {counter.name}[{index}]: the switch returned nothing")

    def full_name(self, register: Register) -> str:
        """The qualified name of a register, with the names of its controls."""
        return str(self._schema.registers[register.name].name)

    def register(self, register: Register, index: int) -> tuple[int, ...]:
        """Reads a cell of a register: its bits, or those of each field of its struct."""
        entity = P4RegisterEntry(register.name, index=index).encode(self._schema)
        request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[entity])
        for reply in self._read(request):
            for answer in reply.entities:
                data = answer.register_entry.data
                parts = data.struct.members or [data]
                return tuple(int.from_bytes(part.bitstring) for part in parts)
        raise ControlPlaneError(f"register {register.name}[{index}]: the switch returned nothing")

    def wait_for_count(
        self, counter: Counter, index: int, packets: int, seconds: float = 5.0
    ) -> Count:
        """Reads a counter until it has counted `packets` or the time is over; returns the last
        value."""
        deadline = time.monotonic() + seconds
        while True:
            count = self.counter(counter, index)
            if count.packets == packets or time.monotonic() > deadline:
                return count
            time.sleep(0.01)

    def _write(self, entity: Any) -> None:
        request = p4r.WriteRequest(
            device_id=DEVICE_ID,
            election_id=U128.encode(ELECTION_ID),
            updates=[entity.encode_update(self._schema)],
        )
        self._call("Write", request)

    def _read(self, request: Any) -> Iterator[Any]:
        try:
            yield from self._stub.Read(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            raise ControlPlaneError(f"Read: {_explain(error)}\n{request}") from None

    def _call(self, method: str, request: Any) -> None:
        try:
            getattr(self._stub, method)(request, timeout=CALL_SECONDS)
        except grpc.RpcError as error:
            about = request if method == "Write" else ""
            raise ControlPlaneError(f"{method}: {_explain(error)}\n{about}") from None


class TnaControlPlane(ControlPlane):
    """Control plane of a program of p4src/tna: requests of tests in the units of the chip, with
    entries that only these programs need."""

    def __init__(
        self, address: str, p4info: Path, program: Path, chip: Chip, slow_bps: int
    ) -> None:
        super().__init__(address, p4info, program)
        self._chip = chip
        self._slow_bps = slow_bps
        self._has_session = False
        self._rates: set[int] = set()

    def connect(self, timeout_seconds: float = 1.0) -> bool:
        """Becomes primary, installs the program, and the entries that any plan needs."""
        if not super().connect(timeout_seconds):
            return False
        if self._schema.tables.get("pick") is not None:
            for entry in pick():
                super().insert(entry)
            for cell in range(QUEUES * PORTS_WITH_QUEUES):
                queue = QUEUE_OF_PORT.entry({"pipe": 0, "qid": cell}, queue_index=cell)
                super().insert(queue)
        return True

    def insert(self, entry: Entity) -> None:
        """Adds an entry."""
        for made in translated([entry], self._chip):
            super().insert(made)
        self._add(entry)

    def modify(self, entry: Entity) -> None:
        """Replaces the action of an entry, or the default action of a table."""
        for made in translated([entry], self._chip):
            super().modify(made)
        self._add(entry)

    def modify_as_is(self, entry: Entity) -> None:
        """Replaces the default action of a table by one of p4src/tna."""
        super().modify(entry)

    def _add(self, entry: Entity) -> None:
        """Adds the entries that an entry of a test needs on TNA, as `ebb_controller.tna.added`."""
        if not isinstance(entry, P4TableEntry) or not isinstance(entry.action, P4TableAction):
            return
        table, args = entry.table_id, entry.action.args
        if table in (TRIMMING.name, DROP_NOTIFICATION.name) and not self._has_session:
            self._has_session = True
            super().insert(trim_session(args.get("size", Trimming().size)))
        if table == PHANTOM_QUEUE.name and args["drain_bytes_per_65536_us"] not in self._rates:
            self._rates.add(args["drain_bytes_per_65536_us"])
            for drained in phantom_drain(args["drain_bytes_per_65536_us"]):
                super().insert(drained)
        if table == OCCUPANCY_LIMIT.name:
            assert entry.match is not None
            port, limit = entry.match["egress_port"], args["limit_bytes"]
            self._write(~occupancy_meter(port, self._slow_bps or UNLIMITED_BPS, limit))


def _explain(error: Any) -> str:
    """Status code, message, and the errors of single updates, which P4Runtime hides in the
    trailer."""
    lines = [f"{error.code().name}: {error.details()}"]
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = rpc_status.Status()
            status.ParseFromString(value)
            for detail in status.details:
                sub_error = p4r.Error()
                if detail.Unpack(sub_error) and sub_error.canonical_code:
                    lines.append(f"  {sub_error.message}")
    return "\n".join(lines)
