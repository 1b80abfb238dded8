"""Traffic manager configuration of each switch, from the topology and a scheme's queues.

The schema of the result is the one of docs/architecture.md, "Traffic manager configuration".
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator
from pydantic.dataclasses import dataclass

from ebb_topologies.model import Switch, Topology

Count = Annotated[int, Field(gt=0, lt=2**32)]
"""A number of packets or bytes that a port holds."""
Nanoseconds = Annotated[int, Field(ge=0, lt=2**63)]
"""A time that a switch takes or waits."""
OnFull = Literal["tail-drop", "deflect", "push-out", "push-out-deflect", "deflect-either"]
"""Treatments of a packet that does not fit into its queue."""


class QueueParameters(BaseModel):
    """One queue of every port. Higher ids are served first inside a group."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    id: Annotated[int, Field(ge=0, le=31)]
    """Queue id: v1model's `priority` (to 7) or Tofino's `qid`; 0 lowest."""
    capacity_packets: Count | None = None
    """Packets it holds; none: no limit of its own."""
    capacity_bytes: Count | None = None
    """Bytes it holds; none: no limit of its own."""
    pool: bool = False
    """Whether the queue counts against the port's shared pool (`pool_packets`, `pool_bytes`)."""
    pool_exempt: bool = False
    """Whether the pool's limit bounds only what gives way to the queue: when nothing is left of
    that, its packets are kept up to its own capacity."""
    on_full: OnFull = "tail-drop"
    """Treatment of a packet that does not fit: lost, back to P4, which may trim it, or queued in
    place of packets at the tail of the lowest queue that shares the buffer, which are lost or, with
    `rank`, may go back to P4 too. `deflect-either`: it or the youngest packet of the queue goes
    back to P4, with equal probability."""
    lossless: bool = False
    """Whether neighbours are asked to pause before the queue would lose a packet (`pfc`)."""
    rank: bool = False
    """Whether the packet of the least rank leaves first, instead of the earliest one (`rank` of the
    ports)."""

    @property
    def deflects(self) -> bool:
        """Whether packets may go back to P4."""
        return "deflect" in self.on_full


class GroupParameters(BaseModel):
    """Queues that share one weight of the weighted round robin between groups, in packets, or that
    are served before all others up to a share of the link."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    queues: list[Annotated[int, Field(ge=0, le=31)]]
    """Ids of the queues."""
    order: Literal["priority", "arrival"] = "priority"
    """Inside the group: strict priority, or order of arrival, as if it were one queue."""
    weight: Annotated[int, Field(gt=0, lt=2**32)] = 1
    """Packets per turn (NDP: 10 for control, 1 for data)."""
    share: Annotated[float, Field(ge=1e-6, lt=1)] | None = None
    """Share of the link within which the group is served before all groups without one, and beyond
    it after them (FastLane: 0.01 for notifications); none: by weight."""
    burst_bytes: Annotated[int, Field(ge=0, lt=2**32)] = 0
    """Bytes on the wire that a group with a share may send at once after it was silent."""
    capped: bool = False
    """Whether the share is the most that the group gets, also while the link is idle; of one queue
    without ranks."""

    @model_validator(mode="after")
    def _consistent(self) -> GroupParameters:
        if (self.share is None) != (self.burst_bytes == 0):
            raise ValueError("share and burst_bytes must be given together")
        if self.share is not None and self.weight != 1:
            raise ValueError(f"share = {self.share} and weight = {self.weight}: give one of them")
        if self.capped and (self.share is None or len(self.queues) != 1):
            raise ValueError("capped = true is for a group with a share and one queue")
        return self


class PfcParameters(BaseModel):
    """Priority flow control (IEEE 802.1Qbb) of the lossless queues, by the bytes that came in on a
    port."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    pause_bytes: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """The neighbour is asked to pause a queue when more bytes than this count (DeTail, for 8 queues
    at 1 Gbit/s: 8,192); none: the switch computes both from `ingress_bytes` and its links."""
    resume_bytes: Annotated[int, Field(ge=0, lt=2**32)] | None = None
    """It is asked to resume when no more than this count (DeTail: 4,557); given together with
    `pause_bytes`."""
    accounting: Literal["drain", "class"] = "drain"
    """Which bytes count for a queue: its own and those of the queues above, or its own."""
    response_ns: Nanoseconds = 1_024
    """Time from the last bit of a PFC frame until its receiver obeys: two quanta at 1 Gbit/s."""
    wakeup_ns: Nanoseconds = 0
    """How late a process under the wall clock may wake up; it counts in the headroom."""
    max_frame_bytes: Count = 1_530
    """Longest frame with all that it costs on the wire."""
    watchdog_ns: Nanoseconds = 1_000_000_000
    """How long a neighbour may keep a queue paused, renewals included, before this counts as a
    pause storm; 0: for ever."""
    watchdog: Literal["report", "ignore"] = "report"
    """Reaction to a pause storm: it is reported, or the port's pauses are ignored as well."""

    @model_validator(mode="after")
    def _consistent(self) -> PfcParameters:
        pause, resume = self.pause_bytes, self.resume_bytes
        if (pause is None) != (resume is None):
            raise ValueError("pause_bytes and resume_bytes must be given together")
        if pause is not None and resume is not None and resume > pause:
            raise ValueError(f"resume_bytes = {resume} is above pause_bytes = {pause}")
        return self


# A dataclass, because a model has a method `register` already.
@dataclass(frozen=True, kw_only=True, config=ConfigDict(extra="forbid"))
class ExportParameters:
    """State of all queues that the switch writes into a register of the program; the cell of a
    queue, of the first eight, is `port * 8 + queue`."""

    register: Annotated[str, Field(min_length=1)]
    """Name of the register in the program."""
    what: Literal["drain-bytes", "depth-bytes", "depth-packets"]
    """Backlog of the queue and of those of the port above it, or of the queue."""
    period_ns: Nanoseconds = 0
    """Time between two updates; 0: always exact."""


class RankParameters(BaseModel):
    """Fields of packets that queues with ranks go by, up to 32 bits each: of the program's metadata
    (`flow_hash`) or of a header (`ipv4.identification`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    field: Annotated[str, Field(min_length=1)]
    """Rank of a packet: the least leaves first, the greatest gives way."""
    flow: Annotated[str, Field(min_length=1)]
    """Number of its flow, whose packets leave in order of arrival."""


class PortParameters(BaseModel):
    """The queues of every port of the fabric, the same on all ports as in the papers, and how the
    switches use them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

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
    pipeline_delay_ns: Nanoseconds = 0
    """Time from the last bit of a frame to the ingress pipeline (DeTail: 7,284)."""
    ingress_bytes: Count | None = None
    """Bytes that came in on a port and may wait for room at the port they go to (DeTail: 131,072);
    none, like `egress_bytes`: packets go to the queues of their output port at once."""
    egress_bytes: Count | None = None
    """Bytes that the queues of a port hold together before packets wait at the ports they came in
    on (DeTail: 131,072)."""
    egress_per_queue: bool = False
    """Each queue may hold `egress_bytes` by itself, so that none takes room from another."""
    pfc: PfcParameters | None = None
    """Priority flow control of the lossless queues; none: no queue is lossless."""
    export: list[ExportParameters] = []
    """State of the queues that the program can read from its registers."""
    rank: RankParameters | None = None
    """Fields that queues with ranks order packets by; none: no queue has ranks."""

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
        if (self.ingress_bytes is None) != (self.egress_bytes is None):
            raise ValueError("ingress_bytes and egress_bytes must be given together")
        if self.egress_per_queue and self.egress_bytes is None:
            raise ValueError("egress_per_queue needs egress_bytes")
        lossless = [queue.id for queue in self.queue if queue.lossless]
        if any(number > 7 for number in lossless):
            raise ValueError(f"lossless queues {lossless}: flow control has the classes 0 to 7")
        if (self.pfc is None) != (not lossless):
            raise ValueError(f"lossless queues {lossless} and pfc must be given together")
        ranked = [queue.id for queue in self.queue if queue.rank]
        if (self.rank is None) != (not ranked):
            raise ValueError(f"queues with ranks {ranked} and rank must be given together")
        if self.pfc is not None and self.pfc.pause_bytes is None and self.ingress_bytes is None:
            raise ValueError("pfc without pause_bytes needs ingress_bytes, of which it is computed")
        return self


def traffic_manager_config(
    topology: Topology, switch: Switch, parameters: PortParameters
) -> dict[str, Any]:
    """The configuration of one switch, with the rates and delays of `topology`'s links.

    Hosts do not delay what they send, so a host-facing port delays what it receives.
    """
    profiles: dict[tuple[int, int, bool], dict[str, Any]] = {}
    ports: dict[str, str] = {}
    shared = parameters.model_dump(exclude_none=True, exclude={"pfc", "export", "rank"})
    for optional in ("group", "egress_per_queue"):
        if not shared[optional]:
            del shared[optional]
    of_switch = parameters.model_dump(exclude_none=True, include={"pfc", "export", "rank"})
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
    config = {"depth_unit": "bytes", "profile": list(profiles.values()), "ports": ports}
    return config | {key: value for key, value in of_switch.items() if value}
