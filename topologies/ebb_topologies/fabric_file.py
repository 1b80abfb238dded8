"""The file of `ebb-switch --fabric`: a whole topology in one process (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ebb_topologies.model import Endpoint, Switch, Topology
from ebb_topologies.run_state import FABRIC_SOCKET
from ebb_topologies.targets import CPU_PORT, DROP_PORT

CAPTURES = "pcaps"
"""Folder of the captures that clients request, beside the file."""


def fabric_file(
    topology: Topology,
    config_for: Callable[[Switch], Path | None] = lambda _switch: None,
    socket: Path = Path(FABRIC_SOCKET),
    program: Mapping[str, Any] | None = None,
    rings: Path | None = None,
) -> dict[str, Any]:
    """Content of the file: links between switches are inside the process, links to hosts are
    network interfaces. `socket` is relative to the folder of the file, or absolute; `program`:
    what the switches start with, as `ebb_controller.Program.files` gives it; none: nothing.
    `rings`: the folder of the sockets where agents get shared rings; none: they get none."""
    return {
        **({"program": dict(program)} if program is not None else {}),
        "fabric_socket": str(socket),
        **({"rings": str(rings)} if rings is not None else {}),
        "captures": CAPTURES,
        "switch": [_switch(topology, s, config_for(s)) for s in topology.switches],
        "host": [{"name": h.name, "at": _at(topology.attachment(h))} for h in topology.hosts],
        "link": [{"a": _at(link.a), "b": _at(link.b)} for link in topology.inner_links],
    }


def _switch(topology: Topology, switch: Switch, config: Path | None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": switch.name,
        "device_id": switch.device_id,
        "grpc_server_addr": f"127.0.0.1:{switch.grpc_port}",
        "cpu_port": CPU_PORT,
        "drop_port": DROP_PORT,
        "interfaces": {
            str(port): Endpoint(switch.name, port).interface
            for port, (far, _link) in topology.neighbours[switch.name].items()
            if topology.is_host(far.node)
        },
    }
    if config is not None:
        entry["tm"] = str(config.absolute())
    return entry


def _at(end: Endpoint) -> str:
    return f"{end.node}:{end.port}"
