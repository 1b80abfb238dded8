"""Tenants of a scenario: their virtual machines, where these are, and the bounds of their packets.

The placement and its calculus are the controller's (docs/silo.md). What a scheme does with the
guarantees is in its file: `[tenants]` for the hosts, `[fabric.policing]` for the switches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from ebb_controller.mechanisms.policing import Contract
from ebb_controller.scheme import Scheme
from ebb_topologies.files import InputError, validate
from ebb_topologies.model import MAX_DELAY_NS, MAX_RATE_BPS, Host, Topology
from ebb_topologies.nearest import hint
from pydantic import BaseModel, ConfigDict, Field, model_validator

if TYPE_CHECKING:  # numpy comes with the first scenario that has tenants
    from ebb_controller.placement.explain import Violation
    from ebb_controller.placement.network import Network, Request
    from ebb_controller.placement.search import Algorithm

MAX_VMS = 4_096
MAX_TENANTS = 1_000
MESSAGE_BYTES = 84
"""A message between hypervisors, on the wire."""
PACKET_OVERHEAD_BYTES = 38
"""Bytes of a packet on the wire beside it: Ethernet header, FCS, preamble, gap between frames."""
MAX_BYTES = 2**26


class Spec(BaseModel):
    """Base of the sections of tenants: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Placement(Spec):
    """Buffers and periods of a network with tenants, which the topology does not have."""

    queue_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)]
    """Room for guaranteed traffic before a link of a host, in both directions, bytes on the wire:
    at most what the scheme's queue of the guaranteed class holds."""
    uplink_queue_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] | None = None
    """Room before a link between switches; none: `queue_bytes`."""
    vms_per_host: Annotated[int, Field(ge=1, le=512)] = 8
    """Slots of each host."""
    best_effort: bool = True
    """Whether a packet of lower priority may be in service at each port."""
    batch_ns: Annotated[int, Field(gt=0, le=MAX_DELAY_NS)] = 50_000
    """Length of the batches in which interfaces get packets of pacers; at least two full frames."""
    hose_ns: Annotated[int, Field(gt=0, le=MAX_DELAY_NS)] = 1_000_000
    """Between two messages of a hypervisor to another about a VM."""
    algorithm: Literal["silo", "oktopus", "okto+", "locality"] = "silo"
    """Which constraints admission keeps, as `--algorithm` of `ebb-controller place`. Delays have a
    bound with `silo` alone."""


class Messages(Spec):
    """Traffic of a tenant's VMs."""

    pattern: Literal["all-to-one", "all-to-all", "aggregator"]
    """`all-to-one`: all but the first VM send to it, at once; `all-to-all`: each to each other, at
    once; `aggregator`: the first VM asks all others, which answer."""
    size: dict[str, Any]
    """Sizes of its messages (its answers), as in a workload."""
    arrivals: dict[str, Any]
    """When they start, as in a workload."""
    count: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """How many arrivals; none: as long as `stop_ns` says."""
    start_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] = 0
    """Nominal time of the first arrivals, ns."""
    stop_ns: Annotated[int, Field(gt=0, le=MAX_DELAY_NS)] | None = None
    """End of the arrivals, ns; none: that of the workload."""
    query_bytes: Annotated[int, Field(ge=1, le=MAX_BYTES)] = 100
    """Size of a question of an aggregator."""


class Tenant(Spec):
    """A tenant. Without a rate it has no guarantees: its packets have lower priority."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,30}$")]
    """Its VMs are NAME-1, NAME-2, .."""
    vms: Annotated[int, Field(ge=2, le=MAX_VMS)]
    """How many VMs it has."""
    copies: Annotated[int, Field(ge=1, le=MAX_TENANTS)] = 1
    """How many tenants of this kind there are; of several: NAME1, NAME2, .."""
    rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] | None = None
    """B: guaranteed rate of each VM on the wire, bit/s."""
    burst_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] | None = None
    """S: burst allowance of each VM, bytes on the wire; none: one packet."""
    peak_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] | None = None
    """Bmax: rate within a burst, bit/s; none: that of the slowest link of a host."""
    delay_ns: Annotated[int, Field(gt=0, le=MAX_DELAY_NS)] | None = None
    """d: longest delay of a conforming packet, ns; none: no guarantee of delay."""
    hosts: Annotated[int, Field(ge=1, le=16)] = 1
    """Least number of hosts that its VMs are placed on."""
    at: list[str] | None = None
    """The host of each VM, placed by hand; none: the controller places them."""
    conforms: bool = True
    """Whether its VMs are paced where the scheme paces. If not, they send as fast as they
    can, in the guaranteed class."""
    messages: list[Messages] = []
    """Traffic of its VMs."""

    @model_validator(mode="after")
    def _one_host_each(self) -> Self:
        if self.at is not None and len(self.at) != self.vms:
            raise ValueError(
                f"tenant {self.name}: at names {len(self.at)} hosts for {self.vms} VMs; give one "
                "for each VM"
            )
        return self

    @property
    def each(self) -> list[Self]:
        """The tenants that it stands for."""
        if self.copies == 1:
            return [self]
        numbers = range(1, self.copies + 1)
        return [self.model_copy(update={"name": f"{self.name}{n}", "copies": 1}) for n in numbers]

    @property
    def names(self) -> list[str]:
        """Names of its VMs."""
        return [f"{self.name}-{number}" for number in range(1, self.vms + 1)]


@dataclass(frozen=True)
class Vm:
    """A virtual machine that has been placed."""

    tenant: Tenant
    host: str


@dataclass(frozen=True)
class Tenancy:
    """The tenants of a scenario, all admitted."""

    placement: Placement
    tenants: tuple[Tenant, ...]
    network: Network
    requests: Mapping[str, Request]
    vms: Mapping[str, Vm]
    """By name."""

    @property
    def by_host(self) -> dict[str, list[str]]:
        """Names of VMs, by host."""
        found: dict[str, list[str]] = {}
        for name, vm in self.vms.items():
            found.setdefault(vm.host, []).append(name)
        return found

    def bound_ns(self, source: str, destination: str) -> tuple[int, int] | None:
        """Longest delay of a conforming packet between two VMs, with the tenants that there are
        and with any that could be admitted, ns; none: nothing bounds it."""
        from ebb_controller.placement.network import path_bound

        if self.requests[self.vms[source].tenant.name].guarantee is None:
            return None
        if self.placement.algorithm != "silo":  # queues may be longer than their buffers
            return None
        path = path_bound(self.network, self.vms[source].host, self.vms[destination].host)
        return path.bound_ns, path.capacity_ns

    def entries(self, scheme: Scheme, topology: Topology) -> dict[str, list[dict[str, Any]]]:
        """VMs as the network file of the simulator has them, by host; nominal."""
        return {
            host: [self._entry(topology.host(name), scheme) for name in names]
            for host, names in self.by_host.items()
        }

    def _entry(self, vm: Host, scheme: Scheme) -> dict[str, Any]:
        tenant = self.vms[vm.name].tenant
        guarantee = self.requests[tenant.name].guarantee
        keys: dict[str, Any] = {"name": vm.name, "ip": vm.ip}
        if guarantee is None or scheme.tenants is None or scheme.tenants.pacing == "none":
            return keys | {"dscp": 0}
        keys["dscp"] = scheme.tenants.dscp
        if not tenant.conforms:
            return keys
        paced = {"rate_bps": guarantee.rate_bps, "burst_bytes": guarantee.burst_bytes}
        paced["peak_bps"] = guarantee.peak_bps
        if scheme.tenants.pacing == "rate":
            paced["burst_bytes"] = self.network.packet_bytes
        receives = guarantee.rate_bps - _message_bps(tenant, self.placement)
        return keys | {"guarantee": paced, "receive_bps": receives}

    def hypervisor(self) -> dict[str, int]:
        """How hypervisors work, nominal."""
        longest = max(
            self.network.path_capacity_ns(level) for level in range(len(self.network.tree.tiers))
        )
        keys = {"batch_ns": self.placement.batch_ns, "hose_ns": self.placement.hose_ns}
        # It leaves its pacer within a period, or not at all.
        return keys | {"message_ns": self.placement.hose_ns + longest}

    def contracts(self) -> list[Contract]:
        """Contracts at the first hop of VMs that keep to their guarantees: packets may be late by
        as much as the interface holds, so a burst is larger by what comes in that time."""
        late_ns = self.network.capacities_ns[0]
        found = []
        for tenant in self.tenants:
            guarantee = self.requests[tenant.name].guarantee
            if guarantee is not None:
                more = [
                    -(-rate * late_ns // 8_000_000_000)
                    for rate in (guarantee.rate_bps, guarantee.peak_bps)
                ]
                found.append(
                    Contract(
                        hosts=tenant.names,
                        guarantee_bps=guarantee.rate_bps,
                        burst_bytes=guarantee.burst_bytes + more[0],
                        peak_bps=guarantee.peak_bps,
                        peak_burst_bytes=self.network.packet_bytes + more[1],
                    )
                )
        return found


def _message_bps(tenant: Tenant, placement: Placement) -> int:
    """Rate that messages of all others of a tenant may take of a VM's, bit/s: it gets their
    demands, and grants for its own."""
    return -(-2 * (tenant.vms - 1) * MESSAGE_BYTES * 8_000_000_000 // placement.hose_ns)


def settle(
    placement: Placement | None, tenants: Sequence[Tenant], topology: Topology, mtu_bytes: int
) -> Tenancy:
    """Admits all tenants, in their order. Raises `InputError` in one line for what is wrong in the
    file, and for a tenant that the network has no room for. Trials of an experiment that differ in
    their schemes alone share one placement."""
    text = "".join(tenant.model_dump_json() for tenant in tenants)
    return _settle(placement, _Asked(text, tuple(tenants)), topology, mtu_bytes)


@dataclass(frozen=True)
class _Asked:
    """Tenants, which are equal if their tables are."""

    text: str
    tenants: tuple[Tenant, ...] = field(compare=False)


@lru_cache(maxsize=8)
def _settle(
    placement: Placement | None, asked: _Asked, topology: Topology, mtu_bytes: int
) -> Tenancy:
    from ebb_controller.placement import tenants as file

    if placement is None:
        raise InputError(
            "placement.queue_bytes is missing: a topology has rates but no queue capacities; give "
            "the bytes that guaranteed traffic may fill before each link"
        )
    tenants = asked.tenants
    name, count = Counter(tenant.name for tenant in tenants).most_common(1)[0]
    if count > 1:
        raise InputError(f"two tenants are named {name}")
    keys = placement.model_dump(exclude={"hose_ns", "algorithm"}, exclude_none=True)
    packet_bytes = mtu_bytes + PACKET_OVERHEAD_BYTES
    tables = [
        each.model_dump(exclude={"at", "conforms", "copies", "messages"}, exclude_none=True)
        for each in tenants
    ]
    table = {"network": keys | {"packet_bytes": packet_bytes}, "tenant": tables}
    parsed = validate(file.TenantsFile, table, "tenants")
    network, requests = file.prepare(parsed, topology, "tenants")
    _check_times(placement, tenants, topology, packet_bytes)
    _check_hosts(tenants, topology)
    vms: dict[str, Vm] = {}
    for tenant, request in zip(tenants, requests, strict=True):
        place = _search if tenant.at is None else _place_by_hand
        hosts = place(network, tenant, request, placement.algorithm)
        vms |= {name: Vm(tenant, host) for name, host in zip(tenant.names, hosts, strict=True)}
    by_name = {request.name: request for request in requests}
    return Tenancy(placement, tenants, network, by_name, vms)


def _search(network: Network, tenant: Tenant, request: Request, algorithm: Algorithm) -> list[str]:
    """Admits a tenant where the controller places it: the host of each VM."""
    from ebb_controller.placement.explain import decide

    decision = decide(network, request, algorithm)
    if decision.hosts is None:
        raise _refusal(tenant, decision.refused)
    names = network.tree.hosts
    return [names[host] for host, count in decision.hosts.items() for _ in range(count)]


def _place_by_hand(
    network: Network, tenant: Tenant, request: Request, algorithm: Algorithm
) -> list[str]:
    """Admits a tenant whose file names the host of each VM, all of which exist."""
    from ebb_controller.placement.explain import violations

    hosts = list(tenant.at or ())
    counts = Counter(network.tree.host_number[host] for host in hosts)
    for host, wanted in counts.items():
        if wanted > network.free[host]:
            raise InputError(
                f"tenant {tenant.name}: at: {wanted} VMs on {network.tree.hosts[host]}, "
                f"which has {network.free[host]} free slots"
            )
    broken = violations(network, request, counts, algorithm) if request.guarantee else ()
    if refused := list(broken):
        raise _refusal(tenant, refused)
    network.admit(request, counts)
    return hosts


def _refusal(tenant: Tenant, refused: Sequence[Violation]) -> InputError:
    reasons = [f"{each.where}: {each.text.split('; ')[0]}" for each in refused]
    return InputError(f"tenant {tenant.name} is refused: {_few(reasons)}")


def _few(reasons: Sequence[str]) -> str:
    """A line of the constraints that failed, of each level of the tree or of each port."""
    more = f", and {len(reasons) - 3} more" if len(reasons) > 3 else ""
    return ", and ".join(reasons[:3]) + more


def _check_times(
    placement: Placement, tenants: Sequence[Tenant], topology: Topology, packet_bytes: int
) -> None:
    """Raises `InputError` for batches too short for frames, and for messages that would take too
    much of a guarantee."""
    slowest = min(topology.link(host).rate_bps for host in topology.hosts)
    least_ns = -(-2 * packet_bytes * 8_000_000_000 // slowest)
    if placement.batch_ns < least_ns:
        raise InputError(
            f"placement: batch_ns = {placement.batch_ns}: expected at least {least_ns}, two full "
            "frames on the slowest link of a host"
        )
    for tenant in tenants:
        messages = _message_bps(tenant, placement)
        if tenant.rate_bps is not None and 2 * messages > tenant.rate_bps:
            raise InputError(
                f"tenant {tenant.name}: messages about {tenant.vms} VMs every "
                f"{placement.hose_ns} ns take {messages:,} bit/s, more than half of rate_bps = "
                f"{tenant.rate_bps:,}; raise placement.hose_ns"
            )


def _check_hosts(tenants: Sequence[Tenant], topology: Topology) -> None:
    """Raises `InputError` for a host that there is not."""
    known = [host.name for host in topology.hosts]
    for tenant in tenants:
        for host in tenant.at or ():
            if host not in known:
                raise InputError(
                    f"tenant {tenant.name}: at: topology {topology.name} has no host '{host}'; "
                    f"{hint(host, known)}"
                )


def workload(tenants: Sequence[Tenant]) -> dict[str, list[dict[str, Any]]]:
    """Groups and traffic of tenants, as a workload has them."""
    groups, traffic = [], []
    for tenant in tenants:
        first, *rest = tenant.names
        ends = {"first": f"{tenant.name}-first", "rest": f"{tenant.name}-rest"}
        whole = {messages.pattern for messages in tenant.messages} == {"all-to-all"}
        if whole:
            groups.append({"name": tenant.name, "hosts": tenant.names})
        else:
            groups.append({"name": ends["first"], "hosts": [first]})
            groups.append({"name": ends["rest"], "hosts": rest})
        for number, messages in enumerate(tenant.messages):
            if messages.pattern == "all-to-all" and not whole:
                raise InputError(
                    f"tenant {tenant.name}: messages: all-to-all beside another pattern; give each "
                    "a tenant of its own"
                )
            keys = messages.model_dump(exclude={"pattern", "query_bytes"}, exclude_none=True)
            name = tenant.name if number == 0 else f"{tenant.name}-{number + 1}"
            pattern = _pattern(tenant, messages, ends)
            traffic.append(keys | {"name": name, "pattern": pattern})
    return {"group": groups, "traffic": traffic}


def _pattern(tenant: Tenant, messages: Messages, ends: Mapping[str, str]) -> dict[str, Any]:
    match messages.pattern:
        case "all-to-one":
            keys = {"senders": tenant.vms - 1, "from": ends["rest"], "to": ends["first"]}
            return {"type": "incast", **keys}
        case "all-to-all":
            return {"type": "all-to-all", "hosts": tenant.name}
        case "aggregator":
            keys = {"clients": ends["first"], "servers": ends["rest"]}
            return {
                "type": "partition-aggregate",
                "fan_out": tenant.vms - 1,
                "query_bytes": messages.query_bytes,
                "service": {"type": "fixed", "value_ns": 0},
                "serial": False,
                **keys,
            }
