"""Damaged frames through a chain of switches, a process each, whose links lose frames: every switch
accounts for every frame. Needs root, `tc`, a switch and the compiled program.

`EBB_DAMAGED_FRAMES=20000 pytest -s` prints what was counted.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import struct
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from built import BUILD, NEEDS_PROGRAM, PROGRAM
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.controller import Controller
from ebb_controller.scheme import load_scheme
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.mininet_net import FabricNet
from ebb_topologies.model import Endpoint, Host, Link, Switch, Topology, from_table
from ebb_topologies.targets import EbbTarget

FRAMES = int(os.environ.get("EBB_DAMAGED_FRAMES", "2000"))
"""Frames that each end of the chain sends."""
LOSS = 0.05
RANDOM = 2**32 - 0x1000 + 56
"""Where a classic BPF program reads a random number (SKF_AD_OFF + SKF_AD_RANDOM)."""
SETTLED_SECONDS = 0.5
"""After so long without a frame none is on its way, unless the machine is busy."""
BUSY_SECONDS = 30.0

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
    NEEDS_PROGRAM,
    pytest.mark.usefixtures("own_ports"),
    pytest.mark.skipif(
        not (BUILD / "ebb-switch").exists(), reason="no build/ebb-switch: run `make build`"
    ),
]

# In the namespace of a host: INTERFACE SEED COUNT FRAME..., frames in hexadecimal.
ATTACK = """
import random, socket, sys
interface, seed, count, *frames = sys.argv[1:]
frames = [bytes.fromhex(frame) for frame in frames]
dice = random.Random(int(seed))
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
wire.bind((interface, 0))
for _ in range(int(count)):
    frame = bytearray(dice.choice(frames))
    for _ in range(dice.randrange(6)):
        frame[dice.randrange(len(frame))] = dice.randrange(256)
    kind = dice.random()
    if kind < 0.3:
        del frame[dice.randrange(14, len(frame)) :]
    elif kind < 0.4:
        frame += dice.randbytes(dice.randrange(1, 200))
    wire.send(frame[:1514])
"""


@dataclass(frozen=True)
class Reading(EbbTarget):
    """A switch that takes frames from its interfaces in this way."""

    io: str = "ring"

    def command(
        self, switch: Switch, interfaces: dict[int, str], config: Path | None, pcap: Path | None
    ) -> list[str]:
        return [*super().command(switch, interfaces, config, pcap), "--io", self.io]


class LossyNet(FabricNet):
    """A network whose links between switches lose frames at random, and tell nobody.

    The kernel forwards them: A - A' B' - B, from A' to B' and back.
    """

    def _add_link(self, link: Link) -> None:
        if link not in self.topology.inner_links:
            super()._add_link(link)
            return
        links, filters = [], []
        for end in link.ends:
            own, far = end.interface, far_side(end)
            links += [
                f"ip link add name {own} type veth peer name {far}",
                f"echo 1 > /proc/sys/net/ipv6/conf/{far}/disable_ipv6",
                f"ip link set dev {far} up",
            ]
            filters += [
                f"tc qdisc add dev {far} clsact",
                # Classic BPF: a random number up to the threshold is a frame that is dropped (2,
                # TC_ACT_SHOT), all others are for the next filter (-1, TC_ACT_UNSPEC).
                f"tc filter add dev {far} ingress protocol all prio 1 bpf direct-action bytecode"
                f" '4,32 0 0 {RANDOM},37 0 1 {int(LOSS * 2**32)},6 0 0 {2**32 - 1},6 0 0 2'",
            ]
        for end, other in (link.ends, link.ends[::-1]):
            filters.append(
                f"tc filter add dev {far_side(end)} ingress protocol all prio 2 u32 match u32 0 0"
                f" action mirred egress redirect dev {far_side(other)}"
            )
        shell(links)
        try:
            shell(filters)
        except subprocess.CalledProcessError as error:
            pytest.skip(f"tc cannot lose frames here: {error.stderr.strip().splitlines()[-1]}")


def shell(script: list[str]) -> None:
    command = ["sh", "-ec", "\n".join(script)]
    subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)


def far_side(end: Endpoint) -> str:
    return f"{end.interface}-far"


def chain() -> Topology:
    return from_table(
        {
            "switch": [{"name": name} for name in ("y1", "y2", "y3")],
            "host": [{"name": name} for name in ("yh1", "yh2")],
            "link": [
                {"ends": e} for e in (["y1", "y2"], ["y2", "y3"], ["yh1", "y1"], ["yh2", "y3"])
            ],
            "link_defaults": {"rate_bps": 100_000_000},
        },
        "chain",
    )


def internet_checksum(data: bytes) -> int:
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total ^ 0xFFFF


def frames(source: Host, destination: Host) -> list[bytes]:
    """A frame of each traffic class of the scheme and of each protocol that the program parses."""
    ethernet = bytes.fromhex((source.gateway_mac + source.mac).replace(":", "")) + b"\x08\x00"
    arp = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + ethernet[6:12]
    arp += socket.inet_aton(source.ip) + bytes(6) + socket.inet_aton(source.gateway_ip)
    made = [ethernet[:12] + b"\x08\x06" + arp]
    for dscp in (0, 10, 12, 46):
        for protocol, length in ((6, 40), (17, 1000), (17, 1460), (253, 1460)):
            header = struct.pack("!BBHHHBBH", 0x45, dscp << 2, 20 + length, 7, 0, 64, protocol, 0)
            header += socket.inet_aton(source.ip) + socket.inet_aton(destination.ip)
            checksum = struct.pack("!H", internet_checksum(header))
            ports = struct.pack("!HHHH", 40000, 53, length, 0)
            made.append(ethernet + header[:10] + checksum + header[12:] + ports + bytes(length - 8))
    return made


@dataclass
class Account:
    """The frames of one switch, or of all links between switches."""

    taken: int = 0
    """Frames taken from interfaces; for links, from the switches that sent them."""
    given: int = 0
    """Frames given to interfaces; for links, to the switches behind them."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Frames dropped, by reason."""

    @property
    def balanced(self) -> bool:
        return self.taken == self.given + self.dropped.total()

    def since(self, before: Account) -> Account:
        return Account(
            self.taken - before.taken,
            self.given - before.given,
            self.dropped - before.dropped,
        )


def interfaces(topology: Topology, switch: str) -> list[str]:
    return [Endpoint(switch, port).interface for port in topology.neighbours[switch]]


def counter(interface: str, name: str) -> int:
    return int(Path("/sys/class/net", interface, "statistics", name).read_text())


def account(names: list[str], told: tm.Stats) -> Account:
    # Packets that the far side of a veth did not take in are the link's, too.
    given = sum(counter(name, kind) for name in names for kind in ("tx_packets", "tx_dropped"))
    result = Account(taken=sum(counter(name, "rx_packets") for name in names), given=given)
    for drops in told.drops:
        result.dropped[drops.reason] += drops.count.packets
    for queue in (queue for port in told.ports for queue in port.queues):
        result.dropped["egress"] += queue.egress_dropped.packets
        for refused in queue.drops:
            result.dropped[refused.reason] += refused.count.packets
    return result


def account_of_links(topology: Topology) -> Account:
    """The account of all links between switches: dropped is what their filters and far sides did
    not pass on."""
    ends = [end for link in topology.inner_links for end in link.ends]
    own, far = [end.interface for end in ends], [far_side(end) for end in ends]
    command = ["tc", "-s", "-j", "qdisc", "show"]
    shown = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    filters = (q["drops"] for q in shown if q["dev"] in far and q["kind"] == "clsact")
    full = sum(counter(name, "tx_dropped") for name in own + far)
    return Account(
        taken=sum(counter(name, kind) for name in own for kind in ("tx_packets", "tx_dropped")),
        given=sum(counter(name, "rx_packets") for name in own),
        dropped=Counter({"lost": sum(filters), "full": full}),
    )


async def settled(topology: Topology, managers: TrafficManagers) -> dict[str, Account]:
    """The accounts, once no frame is on its way any more."""
    deadline = time.monotonic() + BUSY_SECONDS
    before: dict[str, Account] = {}
    while time.monotonic() < deadline:
        told = await managers.statistics()
        now = {name: account(interfaces(topology, name), stats) for name, stats in told.items()}
        now["links"] = account_of_links(topology)
        if now == before:
            return now
        before = now
        await asyncio.sleep(SETTLED_SECONDS)
    raise AssertionError("frames still move")


def attack(net: FabricNet, source: Host, destination: Host, seed: int) -> None:
    (port,) = net.topology.neighbours[source.name]
    where = Endpoint(source.name, port).interface
    told = [frame.hex() for frame in frames(source, destination)]
    command = ["python3", "-c", ATTACK, where, str(seed), str(FRAMES), *told]
    code, output = net.run_on(source.name, command, timeout=BUSY_SECONDS)
    assert code == 0, output


async def attacked(net: FabricNet) -> dict[str, Account]:
    left, right = net.topology.hosts
    managers = TrafficManagers(net.topology)
    try:
        async with Controller(net.topology, PROGRAM, "bytes", traffic_managers=managers) as fabric:
            await fabric.configure(load_scheme("ndp-return").fabric)
            before = await settled(net.topology, managers)
            await asyncio.gather(
                asyncio.to_thread(attack, net, left, right, 1),
                asyncio.to_thread(attack, net, right, left, 2),
            )
            deadline = time.monotonic() + BUSY_SECONDS
            while True:
                after = await settled(net.topology, managers)
                accounts = {name: after[name].since(before[name]) for name in after}
                balanced = all(frames_of.balanced for frames_of in accounts.values())
                if balanced or time.monotonic() > deadline:
                    return accounts
    finally:
        await managers.close()


@pytest.mark.parametrize("io", ["ring", "sockets"])
def test_every_frame_is_accounted_for(io: str, tmp_path: Path) -> None:
    topology = chain()
    with LossyNet(topology, Reading(BUILD / "ebb-switch", io=io), tmp_path) as net:
        accounts = asyncio.run(asyncio.wait_for(attacked(net), 150))
    for name, frames_of in accounts.items():
        print(f"{io}: {name} {frames_of}")
    for name, frames_of in accounts.items():
        assert frames_of.balanced, name
    assert accounts["y2"].taken > FRAMES / 10
    assert accounts["y1"].dropped["ingress-mark-to-drop"] > 0
    assert accounts["links"].dropped["lost"] > 0
