"""A host whose kernel's TCP moves objects: `python kernel_host.py SHARE.json START_NS`.

Stands alone: it runs in the namespace of a host. It accepts objects on a port of its own and sends
those of its share when they are due, one connection each, and prints the lines that an agent would
(docs/agent-records.md). An object is its number, its size and its SHA-256, then its content; the
receiver answers with one byte, and the sender then sends the number of its packets that ACKs
reported as marked.
"""

from __future__ import annotations

import hashlib
import json
import random
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Any

HEAD = struct.Struct("!IQ32s")
MARKS = struct.Struct("!I")
INTACT, DAMAGED = b"1", b"0"
CHUNK = 1 << 16
# Places in the kernel's `struct tcp_info` (linux/tcp.h), which only grows at its end.
INFO_BYTES = 248
RETRANSMITTED = struct.Struct("100xI")
SEGMENTS_RECEIVED = struct.Struct("140xI")
"""Segments that came in: at a sender the ACKs, with the handshake and the answer."""
DATA_SEGMENTS_RECEIVED = struct.Struct("152xI")
DATA_SEGMENTS_SENT = struct.Struct("156xI")
DELIVERED_MARKED = struct.Struct("196xI")
BYTES_SENT = struct.Struct("200xQ")
TIMEOUTS = struct.Struct("240xH")

_printing = threading.Lock()


def report(line: dict[str, Any]) -> None:
    """Prints a line of JSON."""
    with _printing:
        print(json.dumps(line), flush=True)


def info(connection: socket.socket) -> bytes:
    """`struct tcp_info`, filled up with zeros where the kernel is older."""
    tcp_info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO_BYTES)
    return tcp_info.ljust(INFO_BYTES, b"\0")


def number(place: struct.Struct, tcp_info: bytes) -> int:
    """A number of `TCP_INFO`."""
    (value,) = place.unpack_from(tcp_info)
    return int(value)


def control_congestion(sock: socket.socket, algorithm: str) -> None:
    """Selects the congestion control of a socket."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, algorithm.encode())


def content(seed: str, size: int) -> bytes:
    """Content of an object, the same at both ends."""
    return random.Random(seed).randbytes(size)


def exactly(connection: socket.socket, size: int) -> bytes:
    """Raises ConnectionError if the peer ends before."""
    parts = bytearray()
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the peer ended the connection early")
        parts += part
    return bytes(parts)


def address(of: tuple[str, int]) -> str:
    """Address as `IP:PORT`."""
    return f"{of[0]}:{of[1]}"


class Record:
    """Keys of the line of a flow that do not depend on its outcome."""

    def __init__(self, role: str, transfer: dict[str, Any], connection: socket.socket) -> None:
        self.transfer = transfer
        self.started_ns = time.monotonic_ns()
        self.role = role
        self.connection = connection

    def report(self, finished_ns: int, peer: tuple[str, int], **more: Any) -> None:
        """Prints the record of a flow that has ended."""
        about = {key: self.transfer[key] for key in ("job", "traffic", "kind", "bytes")}
        local = self.connection.getsockname()
        report(
            about
            | {
                "event": "flow",
                "role": self.role,
                "scheme": "kernel",
                "local": address(local),
                "peer": address(peer),
                "session": self.transfer["id"],
                "transfer": self.transfer["id"],
                "stream_bytes": HEAD.size + self.transfer["bytes"],
                "offered_at_ns": self.transfer["start_ns"],
                "started_at_ns": self.started_ns,
                "finished_at_ns": finished_ns,
                "status": "finished",
            }
            | more
        )


def receive(connection: socket.socket, peer: tuple[str, int], known: dict[int, Any]) -> None:
    """Takes one object, of the transfers that are `known`."""
    first = connection.recv(1, socket.MSG_PEEK)
    begun_ns = time.monotonic_ns()
    if not first:
        return
    transfer, size, sha256 = HEAD.unpack(exactly(connection, HEAD.size))
    if transfer not in known or known[transfer]["bytes"] != size:
        return
    record = Record("receiver", known[transfer], connection)
    record.started_ns = begun_ns
    digest, left, parts = hashlib.sha256(), size, []
    while left:
        part = connection.recv(min(CHUNK, left))
        if not part:
            raise ConnectionError("the peer ended the connection early")
        parts.append(part)
        left -= len(part)
    finished_ns = time.monotonic_ns()
    for part in parts:
        digest.update(part)
    intact = digest.digest() == sha256
    tcp_info = info(connection)
    connection.sendall(INTACT if intact else DAMAGED)
    (marked,) = MARKS.unpack(exactly(connection, MARKS.size))
    record.report(
        finished_ns,
        peer,
        sha256_ok=intact,
        packets_received=number(DATA_SEGMENTS_RECEIVED, tcp_info),
        ce_marks=marked,
        trimmed=0,
        duplicates=0,
        decodes=0,
        unneeded=0,
    )


def send(transfer: dict[str, Any], algorithm: str, body: bytes) -> None:
    """Sends one object when it is due."""
    with socket.socket() as connection:
        control_congestion(connection, algorithm)
        head = HEAD.pack(transfer["id"], len(body), hashlib.sha256(body).digest())
        time.sleep(max(0.0, (transfer["start_ns"] - time.monotonic_ns()) / 1e9))
        record = Record("sender", transfer, connection)
        peer = (transfer["to"], transfer["port"])
        try:
            connection.connect(peer)
            connection.sendall(head + body)
            intact = exactly(connection, 1) == INTACT
            finished_ns, tcp_info = time.monotonic_ns(), info(connection)
            connection.sendall(MARKS.pack(number(DELIVERED_MARKED, tcp_info)))
            failed = {} if intact else {"status": "failed", "reason": "not what was sent"}
        except OSError as error:
            finished_ns, tcp_info = time.monotonic_ns(), info(connection)
            failed = {"status": "failed", "reason": str(error)}
        record.report(
            finished_ns,
            peer,
            packets_sent=number(DATA_SEGMENTS_SENT, tcp_info),
            retransmitted=number(RETRANSMITTED, tcp_info),
            timeouts=number(TIMEOUTS, tcp_info),
            payload_bytes_sent=number(BYTES_SENT, tcp_info),
            acks=number(SEGMENTS_RECEIVED, tcp_info),
            returned=0,
            **failed,
        )


def serve(listener: socket.socket, known: dict[int, Any]) -> None:
    """Accepts connections for ever, each in a thread of its own."""
    while True:
        connection, peer = listener.accept()
        threading.Thread(target=_serve_one, args=(connection, peer, known), daemon=True).start()


def _serve_one(connection: socket.socket, peer: tuple[str, int], known: dict[int, Any]) -> None:
    with connection:
        try:
            receive(connection, peer, known)
        except OSError as error:
            print(f"an object from {address(peer)} did not arrive: {error}", file=sys.stderr)


def main() -> None:
    """Sends and receives the share of one host."""
    share = json.loads(Path(sys.argv[1]).read_text())
    start_ns, algorithm = int(sys.argv[2]), share["algorithm"]
    for transfer in (*share["sends"], *share["takes"]):
        transfer["start_ns"] += start_ns
    listener = socket.create_server((share["address"], share["port"]), backlog=1024)
    control_congestion(listener, algorithm)
    known = {transfer["id"]: transfer for transfer in share["takes"]}
    bodies = [content(each["content"], each["bytes"]) for each in share["sends"]]
    for transfer, body in zip(share["sends"], bodies, strict=True):
        threading.Thread(target=send, args=(transfer, algorithm, body)).start()
    report({"event": "ready"})
    serve(listener, known)


if __name__ == "__main__":
    main()
