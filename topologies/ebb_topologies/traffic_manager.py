"""Traffic manager configuration of each switch, from the topology and a scheme's queues.

The schema of the result is the one of docs/architecture.md, "Traffic manager configuration".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ebb_topologies.model import Switch, Topology

Count = Annotated[int, Field(gt=0, lt=2**32)]
"""A number of packets or bytes that a port holds."""


class QueueParameters(BaseModel):
    """One queue of every port. Higher ids are served first inside a group."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    id: Annotated[int, Field(ge=0, le=7)]
    """Queue id, v1model's `priority`: 0 lowest."""
    capacity_packets: Count | None = None
    """Packets it holds; none: no limit of its own."""
    capacity_bytes: Count | None = None
    """Bytes it holds; none: no limit of its own."""
    pool: bool = False
    """Whether the queue counts against the port's shared pool (`pool_packets`, `pool_bytes`)."""
    on_full: Literal["tail-drop", "deflect"] = "tail-drop"
    """What happens to a packet that does not fit: lost, or back to P4, which may trim it."""


class GroupParameters(BaseModel):
    """Queues that share one weight of the weighted round robin between groups, in packets."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    queues: list[Annotated[int, Field(ge=0, le=7)]]
    """Ids of the queues; strict priority inside the group."""
    weight: Annotated[int, Field(gt=0, lt=2**32)]
    """Packets per turn (NDP: 10 for control, 1 for data)."""


class PortParameters(BaseModel):
    """The queues of every port of the fabric: the same on all ports, as in the papers."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)

    queue: list[QueueParameters] = [QueueParameters(id=0, capacity_packets=250)]
    """Default: 250 packets of tail-drop buffer (HULL section 6.3)."""
    group: list[GroupParameters] = []
    """Weighted groups of queues; an empty list: strict priority over all queues."""
    pool_packets: Count | None = None
    """Packets that the queues with `pool` hold together (SCDP section IV: 20); none: no such
    limit."""
    pool_bytes: Count | None = None
    """Bytes that the queues with `pool` hold together; none: no such limit."""
    frame_overhead_bytes: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Bytes a frame costs on the wire beyond its own: 24 for preamble, FCS and inter-frame gap."""

    @model_validator(mode="after")
    def _consistent(self) -> PortParameters:
        ids = [queue.id for queue in self.queue]
        if len(set(ids)) != len(ids):
            raise ValueError(f"two queues have the same id: {sorted(ids)}")
        grouped = [q for group in self.group for q in group.queues]
        if self.group and sorted(grouped) != sorted(ids):
            raise ValueError(
                f"groups must name every queue once: queues {ids}, in groups {grouped}"
            )
        return self


def traffic_manager_config(
    topology: Topology, switch: Switch, parameters: PortParameters
) -> dict[str, Any]:
    """The configuration of one switch, with the rates and delays of `topology`'s links.

    Hosts do not delay what they send, so a host-facing port delays what it receives.
    """
    profiles: dict[tuple[int, int, bool], dict[str, Any]] = {}
    ports: dict[str, str] = {}
    shared = parameters.model_dump(exclude_none=True)
    if not parameters.group:
        del shared["group"]
    for port, (far, link) in topology.neighbours[switch.name].items():
        to_host = topology.is_host(far.node)
        key = (link.rate_bps, link.delay_ns, to_host)
        profile = profiles.setdefault(
            key,
            {
                "name": f"{'host' if to_host else 'fabric'}-{len(profiles)}",
                "rate_bps": link.rate_bps,
                "delay_ns": link.delay_ns,
                "rx_delay_ns": link.delay_ns if to_host else 0,
                **shared,
            },
        )
        ports[str(port)] = profile["name"]
    return {"depth_unit": "bytes", "profile": list(profiles.values()), "ports": ports}
