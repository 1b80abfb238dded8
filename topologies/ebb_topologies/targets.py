"""The switches a topology can be built of: ebb-switch and BMv2's simple_switch_grpc."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from ebb_topologies.files import InputError
from ebb_topologies.model import Switch

DROP_PORT = 511
"""Port of v1model's `mark_to_drop`: the highest of 9 bits, as on BMv2."""
CPU_PORT = 510
"""Port of packets to and from a controller."""
PRIORITY_QUEUES = 8
"""Queues of a port on BMv2, one for each value of v1model's `priority`."""
FIRST_THRIFT_PORT = 9090
"""TCP port below that of BMv2's first switch, for its own interface; the default of BMv2."""


class Target(Protocol):
    """How to start one switch."""

    @property
    def binary(self) -> Path:
        """The program."""
        ...

    @property
    def has_traffic_manager(self) -> bool:
        """Whether the target has byte-accurate queues, deflection and our gRPC service."""
        ...

    def listens(self, switch: Switch) -> dict[str, int]:
        """The TCP ports of 127.0.0.1 that one switch takes, by what they are for."""
        ...

    def command(
        self, switch: Switch, interfaces: dict[int, str], config: Path | None, pcap: Path | None
    ) -> list[str]:
        """The command line; `config` is a traffic-manager configuration file."""
        ...


@runtime_checkable
class FabricTarget(Target, Protocol):
    """A target that can have all switches of a topology, and the links between them, in one
    process."""

    def fabric_command(self, file: Path, pcap: Path | None) -> list[str]:
        """The command line; `file` is what `fabric_file` gives, as JSON."""
        ...


def _interfaces(interfaces: dict[int, str]) -> list[str]:
    return [part for port, name in interfaces.items() for part in ("-i", f"{port}@{name}")]


@dataclass(frozen=True)
class EbbTarget:
    """An ebb-switch process per switch."""

    binary: Path
    has_traffic_manager: bool = True

    def listens(self, switch: Switch) -> dict[str, int]:
        """TCP ports of a switch, by what is served there."""
        return {"gRPC": switch.grpc_port}

    def command(
        self, switch: Switch, interfaces: dict[int, str], config: Path | None, pcap: Path | None
    ) -> list[str]:
        """Command line of one switch."""
        return [
            str(self.binary),
            *("--no-p4", "--device-id", str(switch.device_id)),
            *_interfaces(interfaces),
            *("--grpc-server-addr", f"127.0.0.1:{switch.grpc_port}"),
            *("--cpu-port", str(CPU_PORT), "--drop-port", str(DROP_PORT)),
            *(("--tm", str(config)) if config else ()),
            *(("--pcap", str(pcap)) if pcap else ()),
        ]


@dataclass(frozen=True)
class EbbFabricTarget(EbbTarget):
    """One ebb-switch process for all switches."""

    threads: int = 1
    """Threads that share the switches; 0: one for each processor."""

    def fabric_command(self, file: Path, pcap: Path | None) -> list[str]:
        """Command line of the process, which reads the switches from a fabric file."""
        return [
            str(self.binary),
            *("--fabric", str(file), "--threads", str(self.threads)),
            *(("--pcap", str(pcap)) if pcap else ()),
        ]


@dataclass(frozen=True)
class Bmv2Target:
    """A simple_switch_grpc process per switch."""

    binary: Path
    has_traffic_manager: bool = False

    def listens(self, switch: Switch) -> dict[str, int]:
        """TCP ports of a switch, by what is served there."""
        return {"gRPC": switch.grpc_port, "Thrift": FIRST_THRIFT_PORT + switch.device_id}

    def command(
        self, switch: Switch, interfaces: dict[int, str], config: Path | None, pcap: Path | None
    ) -> list[str]:
        """Command line of one switch."""
        return [
            str(self.binary),
            *("--no-p4", "--device-id", str(switch.device_id)),
            *_interfaces(interfaces),
            *("--thrift-port", str(self.listens(switch)["Thrift"])),
            *(("--pcap", str(pcap)) if pcap else ()),
            "--",
            *("--grpc-server-addr", f"127.0.0.1:{switch.grpc_port}"),
            *("--cpu-port", str(CPU_PORT), "--drop-port", str(DROP_PORT)),
            *("--priority-queues", str(PRIORITY_QUEUES)),
        ]


def target(kind: str, build_dir: Path, fused: bool = False, threads: int = 1) -> Target:
    """The target named `ebb` or `bmv2`; `fused`: one process for all switches, if it can, with so
    many threads (0: one for each processor)."""
    if kind == "ebb":
        binary = build_dir / "ebb-switch"
        return EbbFabricTarget(binary, threads=threads) if fused else EbbTarget(binary)
    if kind == "bmv2":
        found = shutil.which("simple_switch_grpc")
        if found is None:
            raise InputError(
                "SWITCH=bmv2 needs simple_switch_grpc on PATH (p4lang/behavioral-model); "
                "without it use SWITCH=ebb"
            )
        return Bmv2Target(Path(found))
    raise InputError(f"SWITCH must be 'ebb' or 'bmv2', not '{kind}'")
