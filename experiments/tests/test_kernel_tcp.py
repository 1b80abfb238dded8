"""The kernel's DCTCP against RFC 8257: over a path that marks, in namespaces of this test."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from binaries import ROOT
from ebb_experiments.cli import playable
from ebb_experiments.results.flows import FlowTable
from ebb_experiments.run import kernel_host
from ebb_experiments.run.kernel_tcp import AVAILABLE, NAME, SOURCE, KernelDctcp, lacking
from ebb_experiments.scenario.loaded import load_scenario
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from rich.console import Console

VECTORS = SOURCE.with_name("alpha_vectors.json")
SCENARIO = ROOT / "experiments" / "scenarios" / "kernel.toml"
GAIN = 1 / 16
MARK_EVERY = 5
"""The path marks each fifth packet of data."""
OBJECT_BYTES = 1_000_000
CE = 3


@dataclass
class Formula:
    """RFC 8257 3.3, steps 1 to 8, in floating point."""

    alpha: float = 1.0
    window_end: int = 0
    acked: int = 0
    marked: int = 0

    def observe(self, una: int, next_: int, acked: int, ece: bool) -> None:
        self.acked += acked
        self.marked += acked if ece else 0
        if una > self.window_end and self.acked:
            self.alpha = (1 - GAIN) * self.alpha + GAIN * self.marked / self.acked
            self.window_end, self.acked, self.marked = next_, 0, 0


def test_the_formula_has_the_alpha_of_our_own_dctcp() -> None:
    formula, una = Formula(), 0
    for acked, ece, flight, alpha in json.loads(VECTORS.read_text())["acks"]:
        una += acked
        formula.observe(una, una + flight, acked, ece)
        assert formula.alpha == pytest.approx(alpha, abs=1e-9)


def test_tcp_info_of_an_older_kernel_is_filled_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as one:
        one.connect(listener.getsockname())
        told = kernel_host.info(one)
        assert len(told) >= kernel_host.INFO_BYTES
        assert kernel_host.number(kernel_host.RETRANSMITTED, told) == 0


@dataclass
class Path_:
    """Two hosts, and between them a process that marks and counts."""

    sender: int
    receiver: int
    """Process ids whose namespaces are the hosts."""
    marked_bytes: int = 0
    data_bytes: int = 0


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout


def host(stack: ExitStack, name: str, address: str, middle: int) -> int:
    """A namespace with one interface to the one of `middle`; the pid of its process."""
    holder = stack.enter_context(namespace())
    inside = ("nsenter", "--target", str(holder), "--net")
    between = ("nsenter", "--target", str(middle), "--net")
    run(*between, "ip", "link", "add", name, "type", "veth", "peer", "name", "eth0", "netns",
        str(holder))  # fmt: skip
    run(*between, "sysctl", "-qw", f"net.ipv6.conf.{name}.disable_ipv6=1")
    run(*between, "ip", "link", "set", name, "up")
    run(*inside, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    run(*inside, "ip", "address", "add", f"{address}/24", "dev", "eth0")
    run(*inside, "ip", "link", "set", "eth0", "up")
    run(*inside, "sh", "-c", "ethtool -K eth0 rx off tx off sg off tso off gso off gro off")
    return holder


class namespace:
    """A process with a network namespace of its own; gives its pid."""

    def __enter__(self) -> int:
        self.process = subprocess.Popen(
            ["unshare", "--net", "sh", "-c", "echo; exec sleep 60"], stdout=subprocess.PIPE
        )
        assert self.process.stdout is not None
        self.process.stdout.readline()
        return self.process.pid

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def mark(frame: bytearray) -> int:
    """Sets CE in an ECN-capable packet of data; returns its bytes of data, 0 if it has none."""
    header, total = (frame[14] & 15) * 4, struct.unpack_from("!H", frame, 16)[0]
    data = total - header - (frame[14 + header + 12] >> 4) * 4
    if frame[15] & 3 == 0 or data == 0:
        return 0
    frame[15] |= CE
    struct.pack_into("!H", frame, 24, 0)
    words = struct.unpack_from(f"!{header // 2}H", frame, 14)
    total = sum(words)
    total = (total & 0xFFFF) + (total >> 16)
    struct.pack_into("!H", frame, 24, ~(total + (total >> 16)) & 0xFFFF)
    return data


MIDDLE = """
import json, select, socket, sys
sys.path[:0] = json.loads(sys.argv[1])
from test_kernel_tcp import MARK_EVERY, mark
ends = [socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) for _ in "ab"]
for end, name in zip(ends, ("left", "right")):
    end.bind((name, 0))
print("ready", flush=True)
seen = marked = 0
while True:
    ready, _, _ = select.select([*ends, sys.stdin], [], [])
    if sys.stdin in ready:
        break
    for end in ready:
        frame, of = end.recvfrom(65536)
        if of[2] == socket.PACKET_OUTGOING:
            continue
        frame = bytearray(frame)
        if end is ends[0] and frame[12:14] == bytes([8, 0]) and frame[23] == 6 and len(frame) > 200:
            seen += 1
            if seen % MARK_EVERY == 0:
                marked += mark(frame)
        ends[end is ends[0]].send(frame)
print(marked, flush=True)
"""


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[None]:
    """The kernel's DCTCP, which notes every ACK."""
    if os.geteuid() != 0:
        pytest.skip("needs root: a BPF program and network namespaces")
    if missing := lacking("dctcp"):
        pytest.skip("; ".join(missing))
    dctcp = KernelDctcp()
    dctcp.load(tmp_path, "-DEBB_TRACE")
    try:
        yield
    finally:
        dctcp.unload()


def transfer(tmp_path: Path) -> int:
    """Sends an object from one host to the other; returns how many of its bytes were marked."""
    with ExitStack() as stack:
        middle = stack.enter_context(namespace())
        hosts = [
            (host(stack, "left", "10.99.0.1", middle), "10.99.0.1"),
            (host(stack, "right", "10.99.0.2", middle), "10.99.0.2"),
        ]
        path = json.dumps([str(Path(__file__).parent), *sys.path])
        between = subprocess.Popen(
            ["nsenter", "--target", str(middle), "--net", sys.executable, "-c", MIDDLE, path],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        stack.callback(between.kill)
        assert between.stdout is not None and between.stdin is not None
        assert between.stdout.readline() == "ready\n"
        about = {"id": 1, "job": 1, "traffic": "one", "kind": "send-one-to-one", "start_ns": 0}
        about |= {"bytes": OBJECT_BYTES, "to": "10.99.0.2", "port": 7100, "content": "one"}
        lines: list[list[str]] = [[], []]
        readers = []
        for index in (1, 0):
            pid, address = hosts[index]
            share = tmp_path / f"{address}.json"
            role = {"sends": [about] * (index == 0), "takes": [about] * (index == 1)}
            common = {"address": address, "port": 7100, "algorithm": "ebb_dctcp"}
            share.write_text(json.dumps(common | role))
            player = subprocess.Popen(
                ["nsenter", "--target", str(pid), "--net", sys.executable, kernel_host.__file__,
                 str(share), "0"], stdout=subprocess.PIPE, text=True,
            )  # fmt: skip
            stack.callback(player.kill)
            assert player.stdout is not None
            assert json.loads(player.stdout.readline())["event"] == "ready"
            reading = threading.Thread(
                target=lambda at, out: lines[at].append(out.readline()),
                args=(index, player.stdout), daemon=True,
            )  # fmt: skip
            reading.start()
            readers.append(reading)
        for reading in readers:
            reading.join(timeout=30)
        sent, got = (json.loads(each[0]) for each in lines)
        assert (sent["status"], got["sha256_ok"]) == ("finished", True)
        assert got["ce_marks"] > 0
        told, _ = between.communicate("\n", timeout=10)
        return int(told)


def newest_map(name: str) -> list[dict[str, Any]]:
    """The elements of the last map of this name: connections of an earlier test may keep theirs."""
    maps = [each for each in json.loads(run("bpftool", "-j", "map", "list")) if "name" in each]
    newest = max(each["id"] for each in maps if each["name"] == name)
    dump = json.loads(run("bpftool", "-j", "map", "dump", "id", str(newest)))
    return [each["formatted"]["value"] for each in dump]


def acks_of_the_kernel() -> list[dict[str, int]]:
    (variables,) = newest_map("ebb_dctc.bss")
    return newest_map("ebb_acks")[: variables[".bss"][0]["acks_seen"]]


@pytest.mark.usefixtures("traced")
def test_the_kernels_alpha_is_that_of_the_formula(tmp_path: Path) -> None:
    marked = transfer(tmp_path)
    acks = acks_of_the_kernel()
    # Both ends of the connection note theirs; the sender's are those that acknowledge the object.
    # The ACK of the handshake comes before the connection has its state.
    first = next(index for index, ack in enumerate(acks) if 1 < ack["acked"] <= OBJECT_BYTES)
    base = acks[first]["una"] - acks[first]["acked"]
    mine = [ack for ack in acks[first:] if (ack["una"] - base) % 2**32 < 2 * OBJECT_BYTES]
    formula = Formula()
    for ack in mine:
        una, next_ = ((ack[key] - base) % 2**32 for key in ("una", "next"))
        formula.observe(una, next_, ack["acked"], bool(ack["ece"]))
        assert ack["alpha"] / 2**20 == pytest.approx(formula.alpha, abs=1e-4)
    assert formula.alpha < 0.5
    # The receiver's ACKs tell which bytes were marked (RFC 8257 3.2), packet by packet.
    told = sum(ack["acked"] for ack in mine if ack["ece"])
    assert told == pytest.approx(marked, rel=0.05)


def test_objects_cross_the_kernels_tcp_and_both_ends_tell(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    about = {"id": 7, "job": 1, "traffic": "one", "kind": "send-one-to-one", "start_ns": 0}
    about |= {"bytes": 200_000, "to": "127.0.0.1", "port": port, "content": "seven"}
    share = {"address": "127.0.0.1", "port": port, "algorithm": "reno"}
    path = tmp_path / "share.json"
    path.write_text(json.dumps(share | {"sends": [about], "takes": [about]}))
    command = [sys.executable, kernel_host.__file__, str(path), "0"]
    player = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert player.stdout is not None
        lines = [json.loads(player.stdout.readline()) for _ in range(3)]
    finally:
        player.kill()
        player.wait()
    assert lines[0] == {"event": "ready"}
    ends = {line["role"]: line for line in lines[1:]}
    assert ends["receiver"]["sha256_ok"] is True
    assert ends["sender"]["status"] == "finished"
    assert ends["sender"]["payload_bytes_sent"] >= ends["sender"]["stream_bytes"]
    assert ends["sender"]["local"] == ends["receiver"]["peer"]
    flows = FlowTable(load_scenario(SCENARIO).topology, Dilation(10), {})
    for line in ends.values():
        flows.append(line)
    (row,) = flows.table()
    assert (row["status"], row["bytes"]) == ("finished", 200_000)
    # A busy machine may make the kernel's loss probe send a segment twice.
    assert row["retransmitted"] == ends["sender"]["retransmitted"]


def test_what_the_kernel_cannot_play_is_said(tmp_path: Path) -> None:
    assert lacking("reno") == []
    assert lacking("ndp") == ["the kernel has no 'ndp'; it has reno, dctcp, hull"]
    console = Console(file=io.StringIO())
    loaded = playable(load_scenario(SCENARIO, ["ndp", "tcp-droptail"]), console)
    assert list(loaded.schemes) == ["tcp-droptail"]
    with pytest.raises(InputError, match="kernel can play none of them"):
        playable(load_scenario(SCENARIO, ["ndp"]), console)


HOLD = """
import sys, time
from pathlib import Path
from ebb_experiments.run.kernel_tcp import KernelDctcp
KernelDctcp().load(Path(sys.argv[1]))
if sys.argv[2] == "run":
    KernelDctcp().belongs_to_this_process()
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("who", ["run", "hand"])
def test_what_a_killed_run_has_loaded_goes_with_the_next_run(tmp_path: Path, who: str) -> None:
    """And what somebody has loaded by hand stays, as does that of a run that is under way."""
    dctcp = KernelDctcp()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path), who], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "ready\n"
        dctcp.unload_of_killed_run()
        assert NAME in AVAILABLE.read_text().split()
        other.kill()
    dctcp.unload_of_killed_run()
    assert (NAME in AVAILABLE.read_text().split()) == (who == "hand")
    dctcp.unload_of_killed_run()  # nothing is recorded any more


def test_a_record_that_says_nothing_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebb_experiments.run.kernel_tcp.machine_folder", lambda: tmp_path)
    (tmp_path / NAME).write_text("12 x\n")
    KernelDctcp().unload_of_killed_run()
    assert list(tmp_path.iterdir()) == []
