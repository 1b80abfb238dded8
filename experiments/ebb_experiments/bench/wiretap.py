"""Sees the frames of an interface in another network namespace, with their times of arrival."""

from __future__ import annotations

import contextlib
import ctypes
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from ebb_topologies.files import InputError

T = TypeVar("T")

ETH_P_ALL = 3
ETHERNET_BYTES = 14
TCP_PROTOCOL = 6
TCP_ECE = 0x40
_CLONE_NEWNET = 0x40000000
# From the kernel's headers: Python does not export them.
_SO_TIMESTAMPNS = 35
_SO_RCVBUFFORCE = 33
_TIMESPEC = struct.Struct("qq")
_SNAP_BYTES = 256
_BUFFER_BYTES = 256 << 20


def inside(namespace: str, run: Callable[[], T]) -> T:
    """Runs on a thread that has entered the network namespace. Sockets opened there stay there."""
    results: list[T] = []
    errors: list[BaseException] = []

    def enter() -> None:
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            with (Path("/run/netns") / namespace).open() as file:
                if libc.setns(file.fileno(), _CLONE_NEWNET) != 0:
                    raise OSError(ctypes.get_errno(), f"cannot enter namespace {namespace}")
            results.append(run())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    if errors:
        raise InputError(f"in namespace {namespace}: {errors[0]}") from errors[0]
    return results[0]


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame that the tap has seen."""

    at_ns: int
    """CLOCK_REALTIME when the kernel got it."""
    outgoing: bool
    bytes: bytes
    """The first bytes of the frame."""

    @property
    def is_tcp(self) -> bool:
        """Whether it is TCP over IPv4."""
        return self.bytes[12:14] == b"\x08\x00" and self.bytes[23] == TCP_PROTOCOL

    @property
    def packet_bytes(self) -> int:
        """Length of the IPv4 packet."""
        return int.from_bytes(self.bytes[16:18], "big")


class Wiretap:
    """A tap of an interface. Frames wait in the kernel until they are asked for, so that looking
    disturbs nothing."""

    def __init__(self, namespace: str, interface: str) -> None:
        def tap() -> socket.socket:
            tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
            tap.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            tap.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _BUFFER_BYTES)
            tap.bind((interface, ETH_P_ALL))
            tap.setblocking(False)
            return tap

        self._socket = inside(namespace, tap)

    def frames(self) -> list[Frame]:
        """The frames that came since the last call."""
        return list(self._read())

    def _read(self) -> Iterator[Frame]:
        while True:
            with contextlib.suppress(InterruptedError):
                try:
                    data, notes, _, address = self._socket.recvmsg(_SNAP_BYTES, 64)
                except BlockingIOError:
                    return
                for level, kind, value in notes:
                    if level == socket.SOL_SOCKET and kind == _SO_TIMESTAMPNS:
                        seconds, ns = _TIMESPEC.unpack(value[: _TIMESPEC.size])
                        outgoing = address[2] == socket.PACKET_OUTGOING
                        yield Frame(seconds * 1_000_000_000 + ns, outgoing, data)

    def echo_congestion(self, seconds: float) -> None:
        """Sends the next pure ACK that leaves here again, with ECN-Echo, at once: a sender does not
        look at one that is older than the last it got."""
        end = time.monotonic() + seconds
        self.frames()
        while time.monotonic() < end:
            for frame in self._read():
                if frame.outgoing and frame.is_tcp and frame.packet_bytes < 100:
                    return self.send(with_ecn_echo(frame.bytes))
        raise InputError("no ACK is seen: the flow is not under way")

    def send(self, frame: bytes) -> None:
        """Sends a frame from the interface."""
        self._socket.send(frame)

    def close(self) -> None:
        """Closes the socket."""
        self._socket.close()


def with_ecn_echo(ack: bytes) -> bytes:
    """The same ACK again, with ECN-Echo: as a receiver sends it that has seen a mark."""
    ip_bytes = (ack[ETHERNET_BYTES] & 0x0F) * 4
    end = ETHERNET_BYTES + int.from_bytes(ack[16:18], "big")
    tcp_at = ETHERNET_BYTES + ip_bytes
    tcp = bytearray(ack[tcp_at:end])
    tcp[13] |= TCP_ECE
    tcp[16:18] = b"\0\0"
    pseudo = ack[26:34] + struct.pack("!HH", TCP_PROTOCOL, len(tcp))
    tcp[16:18] = _checksum(pseudo + bytes(tcp)).to_bytes(2, "big")
    return ack[:tcp_at] + bytes(tcp)


def _checksum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
