"""`python -m ebb_experiments.run.kernel_tcp load | unload`: our DCTCP in this machine's kernel.

Phases whose objects the hosts' own kernel moves: its TCP with Reno, with DCTCP, and with DCTCP
behind the pacer of HULL. DCTCP is a BPF program (host-agent/kernel), since few kernels have it.

Time is not slowed inside the kernel: its timers (200 ms at least) are nominal ones divided by the
dilation.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ebb_topologies.files import InputError, write
from ebb_topologies.processes import Process, start_time
from ebb_topologies.run_state import machine_folder

from ebb_experiments.run import kernel_host
from ebb_experiments.run.agents import Agent, Line
from ebb_experiments.run.players import LEAD_SECONDS, SENDS, Plan

if TYPE_CHECKING:  # mininet is imported only where there is a fabric
    from ebb_topologies.mininet_net import FabricNet

NAME = "ebb_dctcp"
"""The kernel's name of our DCTCP."""
AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
ALGORITHMS = {"reno": "reno", "dctcp": NAME, "hull": NAME}
"""The kernel's congestion control of a transport; it has no others."""
PACED = ("hull",)
"""Transports whose hosts have the pacer between them and the network."""
PORT = 7100
SOURCE = Path(__file__).resolve().parents[3] / "host-agent" / "kernel" / "ebb_dctcp.bpf.c"
BTF = Path("/sys/kernel/btf/vmlinux")
COMMANDS = {"clang": "clang", "bpftool": "bpftool", "nsenter": "util-linux"}
"""The distribution package that brings it, by command."""
HEADER = Path("/usr/include/bpf/bpf_tracing.h")
INSIDE, BUMP = "app0", "bump0"
"""The two ends of the link between the applications of a host and its pacer."""
ATTACH_SECONDS = 10.0


def lacking(transport: str) -> list[str]:
    """Why this machine's kernel cannot play hosts of this transport; empty: it can."""
    if transport not in ALGORITHMS:
        return [f"the kernel has no '{transport}'; it has {', '.join(ALGORITHMS)}"]
    if ALGORITHMS[transport] != NAME:
        return []
    found = [
        f"command '{command}' is missing: apt-get install {package}"
        for command, package in COMMANDS.items()
        if shutil.which(command) is None
    ]
    if not HEADER.exists():
        found.append("libbpf's headers are missing: apt-get install libbpf-dev")
    if not SOURCE.exists():
        found.append(f"{SOURCE.name} is not there: it comes with a work tree of Ebb")
    if not BTF.exists():
        found.append("this kernel has no BTF (CONFIG_DEBUG_INFO_BTF)")
    return found


class KernelDctcp:
    """Our DCTCP in the kernel, from `load` to `unload`. All namespaces of the machine have it."""

    def load(self, folder: Path, *defines: str) -> None:
        """Compiles and registers it. Raises `InputError` with what the compiler or the kernel
        says."""
        self.unload()  # what a killed run has left
        built = folder / "ebb_dctcp.bpf.o"
        machine = _run("uname", "-m")
        arch = {"x86_64": "x86", "aarch64": "arm64"}.get(machine, machine)
        _run(
            *(
                "clang",
                "-O2",
                "-g",
                "-target",
                "bpf",
                "-mcpu=v3",
                f"-D__TARGET_ARCH_{arch}",
                *defines,
            ),
            *(f"-I/usr/include/{machine}-linux-gnu", "-c", str(SOURCE), "-o", str(built)),
        )
        _run("bpftool", "struct_ops", "register", str(built))

    def unload(self) -> None:
        """Harmless if it is not there. Connections that have it keep it to their end."""
        while NAME in AVAILABLE.read_text().split():
            # Those that only connections still have are listed, too, before the newest one.
            _run("bpftool", "struct_ops", "unregister", "id", str(max(_registered())))
        _record().unlink(missing_ok=True)

    def belongs_to_this_process(self) -> None:
        """Has the next run unload it, of whatever scenario, if this process is killed."""
        number = max(_registered())
        write(_record(), f"{os.getpid()} {start_time(os.getpid())} {number}\n")

    def unload_of_killed_run(self) -> None:
        """Only what a run has loaded that does not run any more: who loads it by hand keeps it."""
        with suppress(FileNotFoundError):
            found = re.fullmatch(r"(\d+) (\d+) (\d+)\n", _record().read_text())
            pid, start, number = map(int, found.groups()) if found else (0, 0, 0)
            if found and start_time(pid) == start:
                return
            if found and number in _registered():
                _run("bpftool", "struct_ops", "unregister", "id", str(number))
            _record().unlink()


def _record() -> Path:
    """Which run has loaded it, while it is loaded: pid, start time, number in the kernel."""
    return machine_folder() / NAME


def _registered() -> list[int]:
    """Numbers of all that the kernel has under its name."""
    listed = json.loads(_run("bpftool", "-j", "struct_ops", "list"))
    return [each["id"] for each in listed if each["name"] == NAME]


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"{' '.join(command[:3])}: {(done.stderr or done.stdout).strip()}")
    return done.stdout.strip()


@dataclass
class Bump:
    """Applications of a host in a namespace of their own, which has the host's address. Between
    them and the host's interface is room for a process, and the kernel sees each packet once."""

    net: FabricNet
    host: str
    applications: Process | None = None

    @property
    def interface(self) -> str:
        """Interface of the host to its switch."""
        (port,) = self.net.topology.neighbours[self.host]
        return f"{self.host}-eth{port}"

    def up(self) -> None:
        """Moves the applications into their namespace."""
        host = self.net.topology.host(self.host)
        hold = ["unshare", "--net", "sleep", "infinity"]
        self.applications = self.net.spawn_on(self.host, f"applications-{self.host}", hold)
        pid = self.applications.popen.pid
        self._wait_for_namespace(pid)
        outside = [
            "set -e",
            f"ip link add {BUMP} type veth peer name {INSIDE} netns {pid}",
            f"sysctl -qw net.ipv6.conf.{BUMP}.disable_ipv6=1",
            f"ip link set {BUMP} up",
            f"ip address flush dev {self.interface}",
        ]
        inside = [
            "set -e",
            f"sysctl -qw net.ipv6.conf.{INSIDE}.disable_ipv6=1",
            "ip link set lo up",
            f"ip link set {INSIDE} address {host.mac} up",
            f"ip address add {host.ip}/32 dev {INSIDE}",
            f"ip neighbour replace {host.gateway_ip} lladdr {host.gateway_mac} dev {INSIDE}",
            f"ip route replace default via {host.gateway_ip} dev {INSIDE} onlink",
        ]
        for where, script in (([], outside), (self.inside, inside)):
            code, output = self.net.run_on(self.host, [*where, "sh", "-c", "; ".join(script)], 10.0)
            if code != 0:
                raise InputError(f"the pacer of {self.host}: {output.strip()}")

    @property
    def inside(self) -> Sequence[str]:
        """Prefix of a command that runs where the applications are."""
        assert self.applications is not None
        return ("nsenter", "--target", str(self.applications.popen.pid), "--net")

    def down(self) -> None:
        """The host is again as it was."""
        if self.applications is not None:
            # Its namespace goes with it, and the link.
            self.net.processes.stop([self.applications])
        self.net.attach(self.host)

    @staticmethod
    def _wait_for_namespace(pid: int) -> None:
        """Until `unshare` has done it."""
        deadline = time.monotonic() + ATTACH_SECONDS
        while Path(f"/proc/{pid}/comm").read_text().strip() != "sleep":
            if time.monotonic() > deadline:
                raise InputError(f"no namespace after {ATTACH_SECONDS:g} s")
            time.sleep(0.01)


class Pacer(Bump):
    """`ebb-agent pace` between a host's applications and its interface."""

    def __init__(self, plan: Plan, host: str) -> None:
        """The pacer of a host in a phase; `up` starts it."""
        super().__init__(plan.agents.net, host)
        self.plan = plan

    def up(self) -> None:
        """Moves the applications into a namespace of their own, behind `ebb-agent pace`."""
        super().up()
        self.plan.agents.start(
            *(self.host, f"pace-{self.host}", "pace", "--json"),
            *("--inside", BUMP, "--outside", self.interface),
            *("--params", str(self.plan.file("params"))),
        ).wait_ready()


@dataclass
class KernelHosts:
    """A process on every host that takes part, which sends and takes objects over the kernel's
    TCP. A `Player`."""

    plan: Plan
    dctcp: KernelDctcp = field(default_factory=KernelDctcp)
    pacers: dict[str, Pacer] = field(default_factory=dict)

    def prepare(self) -> None:
        """Checks that the kernel can run the transport and the schedule."""
        transport, label = self.plan.transport, self.plan.task.phase_round.title
        if missing := lacking(transport):
            raise InputError(f"phase {label}: " + "; ".join(missing))
        for line in self.plan.schedule:
            if line["kind"] not in SENDS or line.get("after"):
                raise InputError(
                    f"phase {label}: '{line['traffic']}' has a {line['kind']} that is no plain "
                    'transfer: objects = "kernel" can only send'
                )
        if ALGORITHMS[transport] == NAME:
            self.dctcp.load(self.plan.task.directory)
            self.dctcp.belongs_to_this_process()
        if transport in PACED:
            for host in sorted({line["sources"][0] for line in self.plan.schedule}):
                self.pacers[host] = Pacer(self.plan, host)
                self.pacers[host].up()

    def start(self) -> int:
        """Starts a process on each host. Returns the start of the traffic, on CLOCK_MONOTONIC."""
        start_ns = time.monotonic_ns() + round(LEAD_SECONDS * 1e9)
        ends = {h for line in self.plan.schedule for h in (*line["sources"], *line["destinations"])}
        started = [self._host(host, start_ns) for host in sorted(ends)]
        for agent in started:
            agent.wait_ready()
        return start_ns

    def _host(self, host: str, start_ns: int) -> Agent:
        share = {
            "address": self._address(host),
            "port": PORT,
            "algorithm": ALGORITHMS[self.plan.transport],
            "sends": [
                self._sent(line, to) for line, to in self._sends() if host in line["sources"]
            ],
            "takes": [self._sent(line, to) for line, to in self._sends() if to == host],
        }
        path = self.plan.file(f"share-{host}")
        write(path, json.dumps(share))
        pacer = self.pacers.get(host)
        command = [sys.executable, kernel_host.__file__, str(path), str(start_ns)]
        where = pacer.inside if pacer else ()
        return self.plan.agents.start_command(host, f"kernel-{host}", [*where, *command])

    def _sends(self) -> list[tuple[Line, str]]:
        """Each transfer to each of its destinations."""
        return [(line, to) for line in self.plan.schedule for to in line["destinations"]]

    def _sent(self, line: Line, to: str) -> Line:
        about = {key: line[key] for key in ("id", "job", "traffic", "kind", "bytes", "start_ns")}
        content = f"{self.plan.task.seed}-{self.plan.task.phase_round.label}-{line['id']}"
        return about | {"to": self._address(to), "port": PORT, "content": content}

    def _address(self, host: str) -> str:
        return str(self.plan.task.loaded.topology.host(host).ip)

    def done(self) -> bool:
        """Whether all objects have arrived, or one has failed."""
        return self._ended("receiver") >= self.plan.arrivals or self._has_failed()

    def _has_failed(self) -> bool:
        return any(line["status"] == "failed" for line in self.lines())

    def _ended(self, role: str) -> int:
        """Counted flows whose end of this role has reported."""
        lines = self.lines()
        return sum(line["role"] == role and self.plan.counts(line["traffic"]) for line in lines)

    def settled(self) -> bool:
        """Whether senders have reported as many flows as receivers."""
        return self._ended("sender") >= self._ended("receiver")

    def lines(self) -> list[Line]:
        """Lines about flows so far."""
        lines = (line for agent in self.plan.agents.started for line in agent.lines())
        return [line for line in lines if line["event"] == "flow"]

    def end(self) -> None:
        """Takes pacers and the kernel's DCTCP down."""
        for pacer in self.pacers.values():
            pacer.down()
        if ALGORITHMS.get(self.plan.transport) == NAME:
            self.dctcp.unload()


def main(arguments: Sequence[str]) -> int:
    """Loads it for programs of one's own (docs/kernel-tcp.md), or unloads it."""
    if list(arguments) not in (["load"], ["unload"]):
        print((__doc__ or "").partition("\n")[0], file=sys.stderr)
        return 2
    try:
        if missing := lacking("dctcp"):
            raise InputError("; ".join(missing))
        if arguments[0] == "unload":
            KernelDctcp().unload()
            return 0
        with tempfile.TemporaryDirectory() as folder:
            KernelDctcp().load(Path(folder))
    except InputError as error:
        print(f"kernel_tcp: {error}", file=sys.stderr)
        return 1
    print(f"{NAME}: {AVAILABLE.read_text().strip()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
