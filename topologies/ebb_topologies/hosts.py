"""The hosts of a topology in the form for workloads: name, address, rack, pod (docs/workloads.md).

`python -m ebb_topologies.hosts TOPOLOGY` prints them for `ebb-agent workload --hosts FILE.json`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology, load_topology
from ebb_topologies.text import printable


def host_list(topology: Topology) -> dict[str, list[dict[str, str]]]:
    """The content of a hosts file."""
    return {"host": [host_entry(topology, host.name) for host in topology.members]}


def host_entry(topology: Topology, name: str) -> dict[str, str]:
    """A host, or a virtual machine. Its rack is the switch at its link. Its pod is, in a fat-tree,
    the part before the `e` of the name of that switch; elsewhere its rack."""
    host = topology.host(name)
    rack = topology.attachment(host).node
    pod, edge, _ = rack.partition("e")
    return {
        "name": name,
        "address": host.ip,
        "rack": rack,
        "pod": pod if edge and pod.startswith("p") else rack,
    }


def main() -> int:
    """`python -m ebb_topologies.hosts TOPOLOGY`; returns the exit code."""
    try:
        (path,) = sys.argv[1:]
        print(json.dumps(host_list(load_topology(Path(path))), indent=1))
    except ValueError:
        print("usage: python -m ebb_topologies.hosts TOPOLOGY", file=sys.stderr)
        return 2
    except InputError as error:
        print(f"ebb: {printable(error)}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
