"""Scenario files: a fabric, schemes, traffic, faults and samples, all in nominal units.

Both clocks run them, the virtual one (`ebb-sim`) and the wall clock (`ebb-run`).
"""

from __future__ import annotations

from itertools import combinations
from typing import Annotated, Any, Literal, Self

from ebb_topologies.model import (
    GENERATORS,
    MAX_RATE_BPS,
    FatTreeSpec,
    LeafSpineSpec,
    LinkDefaults,
    LinkOverride,
    SingleRackSpec,
    ThreeTierSpec,
)
from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from ebb_experiments.scenario.faults import MAX_TIME_NS, Event, FaultKeys
from ebb_experiments.scenario.tenants import MAX_TENANTS, Placement, Tenant

MIN_DILATION, MAX_DILATION = 0.01, 100_000.0
MAX_ROUNDS = 1_000
ONLY = "all"
"""Name of the phase of a scenario that has only one and does not name it."""
Seed = Annotated[int, Field(ge=0, le=2**32)]


class Spec(BaseModel):
    """A table of a scenario file: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class FatTree(FatTreeSpec, LinkDefaults):
    """A fat-tree."""


class ThreeTier(ThreeTierSpec, LinkDefaults):
    """A three-tier tree."""


class LeafSpine(LeafSpineSpec, LinkDefaults):
    """A leaf-spine fabric."""


class SingleRack(SingleRackSpec, LinkDefaults):
    """Hosts at one switch."""


class Sample(Spec):
    """A time series of queue depths."""

    ports: list[str]
    """Ports of switches, as in `s1:3`; `*`, `?` and `[..]` stand for what they do in a shell."""
    queues: list[Annotated[int, Field(ge=0, le=31)]] | None = None
    """Ids of the queues; none: all that the scheme has."""
    every_ns: Annotated[int, Field(gt=0, le=MAX_TIME_NS)]
    """Nominal time between two samples, ns."""


class Override(Spec):
    """Differences from a scheme's file."""

    scheme: str | None = None
    """Name of the file, if it is not the one of the override: a scheme may run in variants."""
    label: str | None = None
    transport_of: dict[str, str] = {}
    agent: dict[str, dict[str, Any]] = {}
    fabric: dict[str, Any] = {}


class Group(Spec):
    """Receivers of one-to-many transfers. Any host may send to them; `ebb-agent send` finds the
    group by its receivers."""

    receivers: list[str]
    """Names of hosts."""
    address: str | None = None
    """Multicast address; none: the one that follows from the receivers (docs/wire-format.md)."""


class Phase(Spec):
    """Traffic that runs by itself: each phase begins and ends with a fabric that is quiet."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    """Name of the phase in rows of the results, in files and in messages. Two phases may have the
    same if no transport runs both."""
    workload: str | dict[str, Any]
    """Workload file, relative to the scenario file, or its keys (docs/workloads.md)."""
    repeat: Annotated[int, Field(ge=1, le=MAX_ROUNDS)] = 1
    """How often it is run, each time with another seed."""
    transports: Annotated[list[str], Field(min_length=1)] | None = None
    """Transports whose schemes run it, as `ebb-agent transports` names them; none: all."""
    objects: Literal["generated", "files", "kernel"] = "generated"
    """Under the wall clock. generated: the agents make the objects and check their hashes. files:
    each is a file, sent and fetched by the commands of `ebb-agent`; what has arrived is compared by
    a SHA-256 of our own. kernel: the TCP of the hosts' kernel moves them, for the transports reno,
    dctcp and hull (docs/kernel-tcp.md)."""

    event: list[Event] = []
    """Changes of the fabric in this phase, beside the events of the whole scenario."""

    def has_transport_of(self, other: Phase) -> bool:
        """Whether some transport runs both."""
        if self.transports is None or other.transports is None:
            return True
        return not set(self.transports).isdisjoint(other.transports)


class Forgery(Spec):
    """A host that sends made-up notifications of drops (docs/drop-notification.md), in virtual
    time, to each target in turn: of flows that do not exist, or of packets that it has seen."""

    host: str
    """Its name."""
    targets: Annotated[list[str], Field(min_length=1)]
    """Hosts that get them."""
    rate_hz: Annotated[float, Field(ge=0, le=1e9)]
    """Nominal rate, notifications per second. 0: none."""
    start_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """Nominal start."""
    stop_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)]
    """Nominal end."""
    dscp: Annotated[int, Field(ge=0, le=63)] = 56
    """Class of notifications."""
    overhears_after_ns: Annotated[int, Field(gt=0, le=MAX_TIME_NS)] | None = None
    """Nominal, at least the longest delay of a link: each names a packet that its target sent that
    long before, as a host on the path could; none: flows that do not exist."""


class ScenarioFile(FaultKeys, Spec):
    """A scenario file."""

    topology: str | None = None
    """Topology file, relative to the scenario file (docs/topologies.md)."""
    fat_tree: FatTree | None = None
    """Instead of a file: `{ k, rate_bps, delay_ns }`."""
    three_tier: ThreeTier | None = None
    """Instead of a file: `{ pods, edges_per_pod, aggregations_per_pod, cores, hosts_per_edge,
    rate_bps, delay_ns }`."""
    leaf_spine: LeafSpine | None = None
    """Instead of a file: `{ leaves, spines, hosts_per_leaf, rate_bps, delay_ns }`."""
    single_rack: SingleRack | None = None
    """Instead of a file: `{ hosts, rate_bps, delay_ns }`."""
    link_override: Annotated[list[LinkOverride], Field(max_length=1_000)] = []
    """Links that are slower, longer or absent from the beginning; changes during the run are
    `[[event]]`."""
    schemes: list[str]
    """Names of files in experiments/schemes, files of your own, or names in `override`."""
    override: dict[str, Override] = {}
    """Parameters that differ here, by name of the scheme: `transport_of`, `agent` and `fabric` as
    in its file."""
    workload: str | dict[str, Any] | None = None
    """The traffic, if it is all in one phase: a workload file, relative to the scenario file, or
    its keys (docs/workloads.md)."""
    placement: Placement | None = None
    """Buffers and periods of a network with tenants, which the topology does not have."""
    tenant: Annotated[list[Tenant], Field(max_length=MAX_TENANTS)] = []
    """Tenants with virtual machines (docs/silo.md), each of its copies one. Their messages are part
    of the traffic of every phase; without `workload` and `[[phase]]` they are all of it."""
    phase: Annotated[list[Phase], Field(max_length=100)] = []
    """The traffic, one phase after the other."""
    group: Annotated[list[Group], Field(max_length=1_000)] = []
    """Multicast groups beside those of the traffic, for transfers of one's own (`CLI=1`)."""
    dilation: Annotated[float, Field(ge=MIN_DILATION, le=MAX_DILATION)] | None = None
    """How many times slower than nominal everything runs. None: in virtual time, where it costs
    nothing, 10 for 1 Gbit/s and in proportion for faster links, so that v1model's microseconds stay
    fine enough; under the wall clock 50, or more if the calibration before the schemes shows that
    this machine needs it."""
    seed: Seed | Annotated[list[Seed], Field(max_length=10_000)] = 1
    """Seed of session ids and path entropy, and of a workload that has none of its own. Several:
    each scheme runs with each (only in virtual time)."""
    mtu_bytes: Annotated[int, Field(ge=576, le=9000)] = 1500
    """Longest IP packet of the hosts, bytes."""
    coding_bps: Annotated[int, Field(ge=0, le=MAX_RATE_BPS)] = 0
    """Rate at which a host codes a block of Trevi, or of SCDP where symbols were lost, bit/s, in
    virtual time; 0: instantly."""
    packet_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """Nominal processing time of a host for each packet that arrives, in virtual time."""
    packets_at_once: Annotated[int, Field(ge=1, le=65_535)] = 16
    """Packets that a host processes concurrently; of no effect without `packet_ns`."""
    forgery: Annotated[list[Forgery], Field(max_length=1_000)] = []
    """Hosts that make up notifications of drops, in virtual time."""
    content: Literal["zeros", "pattern"] = "zeros"
    """Content of the objects in virtual time; pattern: different bytes everywhere, compared at the
    receiver."""
    limit_ns: Annotated[int, Field(gt=0, le=MAX_TIME_NS)] = 1_000_000_000
    """Nominal time limit of a phase; flows that are open then count as unfinished."""
    ends_with: list[str] = []
    """Parts of the workload: a phase ends with the last of their transfers, whatever the others do.
    None: with all."""
    arrivals_every_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """Nominal period at which the bytes of every object that have arrived are recorded, in virtual
    time. 0: never."""
    volume_slot_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """Nominal; length of the time slots in which the bytes and packets are counted that leave every
    port (docs/volume-counters.md). 0: as the scheme says; most count none."""
    skip: bool = False
    """Whether rounds of a part of the workload that repeat each other are skipped, in virtual time
    (docs/simulation.md). Not with `arrivals_every_ns`, `warm_up_ns`, `[[forgery]]`, `[[tenant]]`,
    captures, or a volume that is counted."""
    warm_up_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """Nominal time from which on statistics of queues and ports count; flows and the program's
    counters cover the whole run."""
    sample: list[Sample] = []
    """Queues whose depths are sampled, in virtual time."""

    @model_validator(mode="after")
    def _one_fabric(self) -> Self:
        ways = ("topology", *GENERATORS)
        if sum(getattr(self, way) is not None for way in ways) != 1:
            raise ValueError(f"give exactly one of {', '.join(ways)}")
        return self

    @model_validator(mode="after")
    def _one_traffic(self) -> Self:
        given = (self.workload is not None) + bool(self.phase)
        if given > 1 or (given == 0 and not self.tenant):
            raise ValueError("give exactly one of workload, [[phase]], or [[tenant]] alone")
        if self.placement is not None and not self.tenant:
            raise ValueError("placement: there is no [[tenant]]")
        for one, other in combinations(self.phase, 2):
            if one.name == other.name and one.has_transport_of(other):
                raise ValueError(
                    f"two phases '{one.name}' for one transport; `repeat` runs one several times"
                )
        return self

    @model_validator(mode="after")
    def _nothing_that_skipping_falsifies(self) -> Self:
        events = [*self.event, *(event for phase in self.phase for event in phase.event)]
        beside = {
            "arrivals_every_ns": self.arrivals_every_ns,
            "volume_slot_ns": self.volume_slot_ns,
            "warm_up_ns": self.warm_up_ns,
            "[[forgery]]": self.forgery,
            "[[tenant]]": self.tenant,
            'do = "capture"': any(event.do == "capture" for event in events),
        }
        for key, given in beside.items():
            if self.skip and given:
                raise ValueError(f"skip: not with {key}, which would leave out what is skipped")
        return self

    @field_validator("tenant")
    @classmethod
    def _each_copy(cls, given: list[Tenant]) -> list[Tenant]:
        return [copy for tenant in given for copy in tenant.each]

    @property
    def phases(self) -> list[Phase]:
        """The phases, or the one that `workload` stands for."""
        if self.phase:
            return self.phase
        return [Phase(name=ONLY, workload=self.workload or {})]

    @property
    def seeds(self) -> list[int]:
        """Seeds of the runs."""
        return self.seed if isinstance(self.seed, list) else [self.seed]
