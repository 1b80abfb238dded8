"""Thrift's binary protocol, as much of it as BMv2's control plane needs.

BMv2 serves several services on one port: a method's name has the service and a colon in front.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from dataclasses import dataclass
from typing import Any, BinaryIO

CALL, EXCEPTION = 1, 3
VERSION = 0x80010000
STOP, BOOL, BYTE, DOUBLE, I16, I32, I64, STRING, STRUCT, MAP, SET, LIST = (
    *(0, 2, 3, 4, 6, 8, 10, 11, 12, 13, 14, 15),
)

Value = tuple[int, bytes]
"""A value: Thrift's type and its encoding."""


class ThriftError(Exception):
    """The switch refused a call, or did not understand it."""


class ConnectionLost(ThriftError):
    """The switch closed the connection: it has ended, or was not ready."""


def i32(value: int) -> Value:
    return I32, struct.pack(">i", value)


def i64(value: int) -> Value:
    return I64, struct.pack(">q", value)


def boolean(value: bool) -> Value:
    return BOOL, bytes([value])


def binary(value: bytes) -> Value:
    return STRING, struct.pack(">i", len(value)) + value


def text(value: str) -> Value:
    return binary(value.encode())


def structure(fields: dict[int, Value]) -> Value:
    encoded = (struct.pack(">bh", kind, at) + data for at, (kind, data) in fields.items())
    return STRUCT, b"".join(encoded) + bytes([STOP])


def sequence(kind: int, values: list[Value]) -> Value:
    return LIST, struct.pack(">bi", kind, len(values)) + b"".join(data for _, data in values)


@dataclass(frozen=True, slots=True)
class Request:
    service: str
    method: str
    arguments: tuple[Value, ...]


class Client:
    """One connection. Requests may be sent before the answers to earlier ones are read."""

    def __init__(self, port: int, timeout_s: float) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.answers = self.socket.makefile("rb")
        self.methods: deque[str] = deque()
        """Methods of the requests that are not answered yet, oldest first."""

    def close(self) -> None:
        self.answers.close()
        self.socket.close()

    def call(self, service: str, method: str, *arguments: Value) -> Any:
        """Calls a method and returns its result; structures are dicts by field number."""
        self.send([Request(service, method, arguments)])
        return self.receive()

    def send(self, requests: list[Request]) -> None:
        data = b""
        for request in requests:
            name = f"{request.service}:{request.method}".encode()
            head = struct.pack(">Ii", VERSION | CALL, len(name)) + name + struct.pack(">i", 0)
            data += head + structure(dict(enumerate(request.arguments, 1)))[1]
            self.methods.append(request.method)
        self.socket.sendall(data)

    def receive(self) -> Any:
        """The result of the oldest request that is not answered yet."""
        method = self.methods.popleft()
        reply = Reader(self.answers)
        (version,) = reply.unpack(">I")
        reply.take(reply.unpack(">i")[0])
        reply.take(4)
        result = reply.value(STRUCT)
        if version & 0xFF == EXCEPTION:
            raise ThriftError(f"{method}: {result.get(1, b'').decode(errors='replace')}")
        if refused := {at: problem for at, problem in result.items() if at > 0}:
            raise ThriftError(f"{method}: error {next(iter(refused.values())).get(1)}")
        return result.get(0)


class Reader:
    """Values from a connection."""

    def __init__(self, source: BinaryIO) -> None:
        self.source = source

    def take(self, count: int) -> bytes:
        data = self.source.read(count)
        if len(data) < count:
            raise ConnectionLost("the switch closed the connection")
        return data

    def unpack(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def value(self, kind: int) -> Any:
        numbers = {BOOL: ">?", BYTE: ">b", DOUBLE: ">d", I16: ">h", I32: ">i", I64: ">q"}
        if kind in numbers:
            return self.unpack(numbers[kind])[0]
        if kind == STRING:
            return self.take(self.unpack(">i")[0])
        if kind == STRUCT:
            fields = {}
            while (field := self.unpack(">b")[0]) != STOP:
                (at,) = self.unpack(">h")
                fields[at] = self.value(field)
            return fields
        if kind in (LIST, SET):
            element, count = self.unpack(">bi")
            return [self.value(element) for _ in range(count)]
        raise ThriftError(f"the switch sent a value of type {kind}")
