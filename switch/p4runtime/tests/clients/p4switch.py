"""A real `ebb-switch` for tests of P4Runtime clients: one switch without interfaces, so no root.

A link leads from its port 1 to its port 2: what a packet-out sends to port 1 comes in at port 2,
and what the program then sends to the CPU port is a packet-in.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from free_ports import first_free_port

BUILD = Path(os.environ.get("EBB_BUILD", Path(__file__).resolve().parents[4] / "build"))
SWITCH = BUILD / "ebb-switch"
PROGRAM = Path(__file__).resolve().parents[1] / "fixture" / "entities.p4"
_compiled = TemporaryDirectory[str](prefix="ebb-p4switch-")
FIXTURE = Path(_compiled.name)
P4INFO, JSON = FIXTURE / "entities.p4info.txtpb", FIXTURE / "entities.json"
"""The compiled program, from `compile_program` on."""
DEVICE_ID = 1
CPU_PORT = 510
PATIENCE_S = 20.0
"""Time that a busy machine may take for something that is usually instant."""

FABRIC = """
[[switch]]
name = "s1"
device_id = {device_id}
grpc_server_addr = "{address}"
cpu_port = {cpu_port}
{program}
[[link]]
a = "s1:1"
b = "s1:2"
"""


def compile_program() -> None:
    options = ["--p4runtime-files", str(P4INFO), "-o", str(JSON), str(PROGRAM)]
    subprocess.run([str(BUILD / "ebb-p4c"), *options], check=True, capture_output=True)


def free_address() -> str:
    return f"127.0.0.1:{first_free_port(1)}"


@contextmanager
def running(
    directory: Path, program: Path | None = None, options: Sequence[str] = ()
) -> Iterator[str]:
    """The switch, with a program of which controllers know nothing, or without, and with further
    options; where it serves P4Runtime."""
    address = free_address()
    fabric = directory / "fabric.toml"
    text = FABRIC.format(
        device_id=DEVICE_ID,
        address=address,
        cpu_port=CPU_PORT,
        program=f'program = "{program}"' if program else "",
    )
    fabric.write_text(text)
    log = directory / "switch.log"
    with log.open("w") as sink:
        command = [str(SWITCH), "--fabric", str(fabric), "--realtime", "off", *options]
        process = subprocess.Popen(command, stdout=sink, stderr=subprocess.STDOUT)
    try:
        wait_until_it_listens(address, process, log)
        yield address
    finally:
        process.terminate()
        try:
            code = process.wait(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    assert code == 0, log.read_text()


def wait_until_it_listens(address: str, process: subprocess.Popen[bytes], log: Path) -> None:
    host, _, port = address.partition(":")
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
            return
        time.sleep(0.02)
    raise AssertionError(f"the switch does not listen at {address}: {log.read_text()}")


def frame(dst: int, src: int = 0x0A, ether_type: int = 0x1234, payload: bytes = b"") -> bytes:
    header = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + ether_type.to_bytes(2, "big")
    return header + payload.ljust(46, b"\0")


def ipv4(src: int, dst: int, ttl: int = 64, protocol: int = 17) -> bytes:
    header = bytes([0x45, 0, 0, 46, 0, 0, 0, 0, ttl, protocol, 0, 0])
    return header + src.to_bytes(4, "big") + dst.to_bytes(4, "big")
