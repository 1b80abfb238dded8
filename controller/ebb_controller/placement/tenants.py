"""The file of tenants: what the network has that the topology does not say, and who wants what."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

from ebb_topologies.files import InputError, load, validate
from ebb_topologies.model import MAX_RATE_BPS, Topology
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ebb_controller.placement.curves import Guarantee
from ebb_controller.placement.network import Network, Request
from ebb_controller.placement.tree import Multipath, of_topology

MAX_QUEUE_BYTES = 2**26
"""64 MiB: sums of amounts of data fit into 64 bits."""
MAX_VMS = 4_096
"""VMs of a tenant."""
MAX_FAULT_DOMAINS = 16
"""Hosts on which a tenant may ask to be at least."""
MAX_TENANTS = 10_000
"""Tenants of a file."""

Rate = Annotated[int, Field(gt=0, le=MAX_RATE_BPS)]
Bytes = Annotated[int, Field(gt=0, le=MAX_QUEUE_BYTES)]


class Spec(BaseModel):
    """A part of the file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class NetworkSpec(Spec):
    """Resources of every port and every host."""

    queue_bytes: Bytes
    """Room for guaranteed traffic before a link of a host, in both directions, bytes on the wire:
    it is the queue capacity, and may be less than the buffer."""
    uplink_queue_bytes: Bytes | None = None
    """Room before a link between switches, bytes; none: `queue_bytes`."""
    vms_per_host: Annotated[int, Field(ge=1, le=1_024)] = 8
    """Slots of each host (Moncaster section 5.6.2.1: 8)."""
    packet_bytes: Annotated[int, Field(ge=64, le=65_536)] = 1_500
    """Longest packet on the wire: of tenants, and of traffic of lower priority. 1,500 as in the
    thesis; with Ethernet's header, FCS, preamble and gap an MTU of 1,500 is 1,538. Rates and bursts
    of tenants count the same."""
    best_effort: bool = True
    """Whether there is traffic of lower priority: a packet of it may be in service at each port."""
    batch_ns: Annotated[int, Field(ge=0, le=1_000_000_000)] = 0
    """What the interface of a host gets at a time from pacers that fill gaps with void frames, ns
    (Moncaster section 5.5: 50 us); 0: each packet by itself."""
    multipath: Multipath = "hashed"
    """`hashed`: any of several links may get all traffic of its tier; `spread`: each its share."""


class TenantSpec(Spec):
    """A tenant. Without a rate it has no guarantees: its packets have lower priority."""

    name: Annotated[str, Field(min_length=1, max_length=60, pattern=r"^[\w.-]+$")]
    """Name of the tenant."""
    vms: Annotated[int, Field(ge=1, le=MAX_VMS)]
    """How many VMs it has."""
    rate_bps: Rate | None = None
    """B: guaranteed rate of each VM, bit/s."""
    burst_bytes: Bytes | None = None
    """S: burst allowance of each VM, bytes; none: one packet."""
    peak_bps: Rate | None = None
    """Bmax: rate within a burst, bit/s; none: that of the slowest link of a host."""
    delay_ns: Annotated[int, Field(gt=0, le=10_000_000_000)] | None = None
    """d: longest delay of a conforming packet, ns; none: no guarantee of delay."""
    hosts: Annotated[int, Field(ge=1, le=MAX_FAULT_DOMAINS)] = 1
    """Least number of hosts that its VMs are placed on, so that not all fail together."""

    @model_validator(mode="after")
    def _consistent(self) -> TenantSpec:
        if self.rate_bps is None:
            given = {"burst_bytes", "peak_bps", "delay_ns"} & self.model_fields_set
            if given:
                raise ValueError(f"tenant {self.name}: {min(given)} needs rate_bps")
        elif self.peak_bps is not None and self.peak_bps < self.rate_bps:
            raise ValueError(
                f"tenant {self.name}: peak_bps = {self.peak_bps:,} is below rate_bps = "
                f"{self.rate_bps:,}; a burst is not slower than the average"
            )
        if self.hosts > self.vms:
            raise ValueError(f"tenant {self.name}: {self.vms} VMs cannot be on {self.hosts} hosts")
        return self


class TenantsFile(Spec):
    """The whole file."""

    network: NetworkSpec
    """The network."""
    tenant: Annotated[list[TenantSpec], Field(min_length=1, max_length=MAX_TENANTS)]
    """Tenants, in the order in which they come."""

    @model_validator(mode="after")
    def _names_differ(self) -> TenantsFile:
        name, count = Counter(tenant.name for tenant in self.tenant).most_common(1)[0]
        if count > 1:
            raise ValueError(f"two tenants are named {name}")
        return self


def load_tenants(path: Path) -> TenantsFile:
    """The tenants of a file. Raises `InputError` in one line."""
    table = load(path)
    network = table.get("network", {})
    if isinstance(network, dict) and "queue_bytes" not in network:
        raise InputError(
            f"{path}: 'network.queue_bytes' is missing: a topology has rates but no queue "
            "capacities; give the bytes that guaranteed traffic may fill before each link"
        )
    return validate(TenantsFile, table, str(path))


def prepare(file: TenantsFile, topology: Topology, where: str) -> tuple[Network, list[Request]]:
    """The empty network and the requests. Raises `InputError` for what no network of these links
    could give, whoever else is there. `where`: the file of the tenants."""
    spec = file.network
    uplink = spec.uplink_queue_bytes or spec.queue_bytes
    tree = of_topology(topology, spec.queue_bytes, uplink, spec.multipath)
    least = 2 * spec.packet_bytes if spec.best_effort else spec.packet_bytes
    if min(spec.queue_bytes, uplink) < least:
        raise InputError(
            f"{where}: network: queues of {min(spec.queue_bytes, uplink)} bytes hold no packet of "
            f"{spec.packet_bytes} bytes{' beside one in service' if spec.best_effort else ''}"
        )
    network = Network(
        tree,
        spec.vms_per_host,
        spec.packet_bytes,
        blocking=spec.best_effort,
        batch_ns=spec.batch_ns,
    )
    return network, [_request(tenant, network, where) for tenant in file.tenant]


def _request(tenant: TenantSpec, network: Network, where: str) -> Request:
    if tenant.rate_bps is None:
        return Request(tenant.name, tenant.vms, None, tenant.hosts)
    link_bps = int(network.tree.tiers[0].rate_bps.min())
    faults = [
        f"{key} = {value:,} is more than the {link_bps:,} bit/s of a host's link"
        for key, value in (("rate_bps", tenant.rate_bps), ("peak_bps", tenant.peak_bps))
        if value is not None and value > link_bps
    ]
    burst = network.packet_bytes if tenant.burst_bytes is None else tenant.burst_bytes
    if burst < network.packet_bytes:
        faults.append(
            f"burst_bytes = {burst} is less than a packet of {network.packet_bytes} bytes "
            "(network.packet_bytes), which could never be sent"
        )
    least_ns = network.path_capacity_ns(0)
    apart = tenant.vms > network.vms_per_host or tenant.hosts > 1
    if tenant.delay_ns is not None and apart and tenant.delay_ns < least_ns:
        faults.append(
            f"delay_ns = {tenant.delay_ns:,} is impossible: its VMs need several hosts, and the "
            f"queue capacities and links of the shortest path between two are {least_ns:,} ns"
        )
    if faults:
        raise InputError(f"{where}: tenant {tenant.name}: {'; '.join(faults)}")
    guarantee = Guarantee(tenant.rate_bps, burst, tenant.peak_bps or link_bps, tenant.delay_ns)
    return Request(tenant.name, tenant.vms, guarantee, tenant.hosts)
