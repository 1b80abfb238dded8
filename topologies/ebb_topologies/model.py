"""The topology: hosts, switches and links, in nominal units.

A topology file (TOML) either names a generator or lists the nodes:

    [fat_tree]                      [[switch]]
    k = 4                           name = "s1"
                                    [[host]]
    [link_defaults]                 name = "h1"
    rate_bps = 1_000_000_000        [[link]]
    delay_ns = 10_000               ends = ["h1", "s1"]

Both give the same `Topology`: every name, port, address and MAC is decided here, once, so that
Mininet, the controller and the simulator cannot disagree about one.
"""

from __future__ import annotations

import ipaddress
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from ebb_topologies.files import InputError, load, validate
from ebb_topologies.wired import Wired

MAX_INTERFACE_NAME = 15
"""Characters that Linux allows in the name of an interface; ours are "{node}-eth{port}"."""
NAME = re.compile(r"[a-z][a-z0-9]{0,8}")
"""Names of nodes, which leave room for "-eth510" in that of an interface."""
FIRST_GRPC_PORT = 9559
"""TCP port of the first switch, that of P4Runtime (9559 at IANA); the others follow."""
MAX_RATE_BPS = 10_000_000_000_000
"""10 Tbit/s."""
MAX_DELAY_NS = 10_000_000_000
"""10 s."""
MAX_NODES = 50_000
"""Switches, or hosts: their TCP ports and MAC addresses allow no more."""

GENERATORS = ("fat_tree", "three_tier", "leaf_spine", "single_rack")
"""Tables of a topology file that stand for all its nodes and links."""

FIRST_VM = ipaddress.IPv4Address("100.64.0.0")
"""Below the addresses of virtual machines."""
VMS_PER_RACK = 512
"""Addresses of virtual machines that a rack has, the first of them unused."""

Port = Annotated[int, Field(ge=1, le=510)]
"""Number of a port; 511 is the drop port of v1model, 0 is no port."""


class Spec(BaseModel):
    """A part of a topology file. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class LinkDefaults(Spec):
    """Rates and delays of links that name none."""

    rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] = 1_000_000_000
    """Rate of every link that names none, bit/s (SCDP section IV: 1 Gbit/s)."""
    delay_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] = 10_000
    """Propagation delay of every link that names none, ns (SCDP section IV: 10 us)."""
    host_delay_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] | None = None
    """Propagation delay of links to hosts, which may stand for time in the hosts too, ns; none:
    `delay_ns`."""


class TierRates(Spec):
    """Rates of links between tiers of switches; links to hosts have that of `link_defaults`."""

    aggregation_rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] | None = None
    """Rate of links between edge and aggregation switches, bit/s; none: that of `link_defaults`."""
    core_rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] | None = None
    """Rate of links between aggregation and core switches, bit/s; none: that of `link_defaults`."""


class FatTreeSpec(TierRates):
    """A k-ary fat-tree (Al-Fares et al., SIGCOMM 2008)."""

    k: Annotated[int, Field(ge=2, le=32)] = 4
    """Ports per switch; even. k^3/4 hosts, 5k^2/4 switches."""
    hosts_per_edge: Annotated[int, Field(ge=1, le=31)] | None = None
    """Hosts per edge switch; none: k/2. With more, the edge's other ports lead up, to this many
    aggregation switches per pod, and the edge is oversubscribed (HULL section 6.3: k = 8 with 6
    hosts, 3:1)."""

    @model_validator(mode="after")
    def _possible(self) -> FatTreeSpec:
        if self.k % 2:
            raise ValueError(f"k must be even, not {self.k}")
        if self.hosts_per_edge is not None and self.hosts_per_edge >= self.k:
            raise ValueError(f"hosts_per_edge = {self.hosts_per_edge} leaves no port of k upwards")
        return self

    @property
    def hosts(self) -> int:
        """Hosts per edge switch."""
        return self.hosts_per_edge or self.k // 2


class ThreeTierSpec(TierRates):
    """Pods of edge and aggregation switches, all linked with each other, and cores above them: the
    default is the network of DeTail (Zats, UC Berkeley 2014, section 5.4.3), oversubscribed 2:1 at
    the edge and 2:1 at the aggregation."""

    pods: Annotated[int, Field(ge=1, le=64)] = 4
    """Groups of edge and aggregation switches."""
    edges_per_pod: Annotated[int, Field(ge=1, le=64)] = 4
    """Edge switches of each pod, those with hosts."""
    aggregations_per_pod: Annotated[int, Field(ge=1, le=64)] = 4
    """Aggregation switches of each pod, each with a link to every edge switch of it."""
    cores: Annotated[int, Field(ge=1, le=1024)] = 8
    """Core switches. Each has a link to one aggregation switch of every pod, and these have the
    same number of them each."""
    hosts_per_edge: Annotated[int, Field(ge=1, le=250)] = 8
    """Hosts of each edge switch."""

    @model_validator(mode="after")
    def _possible(self) -> ThreeTierSpec:
        if self.cores % self.aggregations_per_pod:
            raise ValueError(
                f"cores = {self.cores} must be a multiple of aggregations_per_pod = "
                f"{self.aggregations_per_pod}, which share them"
            )
        return self


class LeafSpineSpec(Spec):
    """Two tiers of switches, each of one with a link to each of the other."""

    leaves: Annotated[int, Field(ge=1, le=64)] = 4
    """Switches with hosts."""
    spines: Annotated[int, Field(ge=1, le=64)] = 2
    """Switches above, each with a link to every leaf."""
    hosts_per_leaf: Annotated[int, Field(ge=1, le=250)] = 4
    """Hosts of each leaf."""


class SingleRackSpec(Spec):
    """One switch."""

    hosts: Annotated[int, Field(ge=1, le=250)] = 4
    """How many hosts the only switch has."""


class HostSpec(Spec):
    """A host of a list."""

    name: str
    """Name of the node, as `NAME` has it."""
    ip: str | None = None
    """IPv4 address; none: the next of 10.0.0.2 and up. Its gateway is .1 of its /24."""


class SwitchSpec(Spec):
    """A switch of a list."""

    name: str
    """Name of the node, as `NAME` has it."""


class LinkSpec(Spec):
    """A link of a list."""

    ends: tuple[str, str]
    """Names of the two nodes."""
    ports: tuple[Port, Port] | None = None
    """Ports at these ends; none: the lowest free ones."""
    rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] | None = None
    """Rate, bit/s; none: that of `link_defaults`."""
    delay_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] | None = None
    """Propagation delay, ns; none: that of `link_defaults`."""


class LinkOverride(Spec):
    """A link that is not as the rest of the file says: slower, longer, or not there."""

    ends: tuple[str, str]
    """Names of the two nodes; of several links between them all change."""
    rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] | None = None
    """Rate, bit/s; none: as it was."""
    delay_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] | None = None
    """Propagation delay, ns; none: as it was."""
    absent: bool = False
    """Whether there is no such link; the ports of all others keep their numbers."""

    @model_validator(mode="after")
    def _changes_something(self) -> LinkOverride:
        if self.absent == ((self.rate_bps, self.delay_ns) != (None, None)):
            raise ValueError("give rate_bps or delay_ns, or else absent = true")
        return self


class TopologySpec(Spec):
    """Keys of a topology file."""

    name: str | None = None
    """Name of the topology in messages and results; none: what the generator or the file says."""
    link_defaults: LinkDefaults = LinkDefaults()
    """Rates and delays of links that name none."""
    fat_tree: FatTreeSpec | None = None
    """The generator of fat-trees; none: another one, or the lists."""
    three_tier: ThreeTierSpec | None = None
    """The generator of pods with cores in other numbers than a fat-tree has; none: another one, or
    the lists."""
    leaf_spine: LeafSpineSpec | None = None
    """The generator of leaf-spines; none: another one, or the lists."""
    single_rack: SingleRackSpec | None = None
    """The generator of a single switch; none: another one, or the lists."""
    host: list[HostSpec] = []
    """Hosts, in their order; empty with a generator."""
    switch: list[SwitchSpec] = []
    """Switches, whose device ids are in this order; empty with a generator."""
    link: list[LinkSpec] = []
    """Links, in their order; empty with a generator."""
    link_override: list[LinkOverride] = []
    """Links that differ from what the generator or the list says."""

    @model_validator(mode="after")
    def _one_kind(self) -> TopologySpec:
        generators = [g for g in GENERATORS if getattr(self, g)]
        explicit = bool(self.host or self.switch or self.link)
        if len(generators) + explicit != 1:
            raise ValueError(
                f"give exactly one of {', '.join(f'[{name}]' for name in GENERATORS)}, "
                "or the lists [[switch]], [[host]], [[link]]"
            )
        return self


@dataclass(frozen=True, slots=True)
class Host:
    """A host: it has one link, a /32 address and a gateway."""

    name: str
    """Name of the node and of its namespace."""
    ip: str
    """IPv4 address."""
    mac: str
    """MAC address of its interface."""
    gateway_ip: str
    """Address of the gateway, for which the switch answers ARP."""
    gateway_mac: str
    """MAC address of the switch port that it hangs on."""
    machine: str | None = None
    """Host whose link a virtual machine uses; none: it is a machine itself."""


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch."""

    name: str
    """Name of the node."""
    device_id: int
    """P4Runtime device id, from 1 in the order of the topology."""

    @property
    def grpc_port(self) -> int:
        """TCP port of its P4Runtime service."""
        return FIRST_GRPC_PORT + self.device_id - 1

    def port_mac(self, port: int) -> str:
        """MAC address of one of its ports."""
        return f"02:01:{self.device_id >> 8:02x}:{self.device_id & 255:02x}:00:{port:02x}"


@dataclass(frozen=True, slots=True, order=True)
class Endpoint:
    """An end of a link."""

    node: str
    """Name of the node."""
    port: int
    """Port of the node, from 1."""

    @property
    def interface(self) -> str:
        """Name of the network interface there, if it is one."""
        return f"{self.node}-eth{self.port}"


LinkEnds = tuple[Endpoint, Endpoint]
"""Identity of a link, whatever its rate: its ends, in the order of the topology."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link, alike in both directions."""

    a: Endpoint
    """The end that the topology names first."""
    b: Endpoint
    """The other end."""
    rate_bps: int
    """Rate of each direction, bit/s."""
    delay_ns: int
    """Propagation delay of each direction, ns."""

    @property
    def ends(self) -> LinkEnds:
        """Both ends, which identify it."""
        return self.a, self.b


@dataclass(frozen=True)
class Topology:
    """Hosts, switches and links, checked: names unique, ports unique, everything reachable."""

    name: str
    """Name in messages and results."""
    hosts: tuple[Host, ...]
    """Hosts, in the order of the file or the generator."""
    switches: tuple[Switch, ...]
    """Switches, by device id."""
    links: tuple[Link, ...]
    """Links, in the order of the file or the generator; two nodes may have several."""
    down: frozenset[LinkEnds] = frozenset()
    """Links that no path uses, see `without`; they stay part of the topology."""
    vms: tuple[Host, ...] = ()
    """Virtual machines, see `with_vms`; they are no nodes."""

    @property
    def endpoints(self) -> tuple[Host, ...]:
        """All that has an address: hosts, then virtual machines."""
        return (*self.hosts, *self.vms)

    @property
    def members(self) -> tuple[Host, ...]:
        """Those who take part in traffic: hosts, of one with virtual machines these."""
        machines = {vm.machine for vm in self.vms}
        return (*(host for host in self.hosts if host.name not in machines), *self.vms)

    @property
    def nodes(self) -> tuple[Host | Switch, ...]:
        """Hosts, then switches."""
        return (*self.hosts, *self.switches)

    @cached_property
    def neighbours(self) -> dict[str, dict[int, tuple[Endpoint, Link]]]:
        """node -> port -> (the endpoint at the other side, the link)."""
        table: dict[str, dict[int, tuple[Endpoint, Link]]] = {node.name: {} for node in self.nodes}
        for link in self.links:
            table[link.a.node][link.a.port] = (link.b, link)
            table[link.b.node][link.b.port] = (link.a, link)
        return {node: dict(sorted(ports.items())) for node, ports in table.items()}

    @cached_property
    def inner_links(self) -> tuple[Link, ...]:
        """The links between switches."""
        return tuple(
            link for link in self.links if not any(self.is_host(end.node) for end in link.ends)
        )

    @cached_property
    def _by_name(self) -> dict[str, Host | Switch]:
        return {node.name: node for node in (*self.nodes, *self.vms)}

    def host(self, name: str) -> Host:
        """The host, or virtual machine, of this name. Raises `InputError` if there is none."""
        node = self._by_name.get(name)
        if not isinstance(node, Host):
            raise InputError(f"topology {self.name} has no host '{name}'")
        return node

    def switch(self, name: str) -> Switch:
        """The switch of this name. Raises `InputError` if there is none."""
        node = self._by_name.get(name)
        if not isinstance(node, Switch):
            raise InputError(f"topology {self.name} has no switch '{name}'")
        return node

    def is_host(self, name: str) -> bool:
        """Whether the node of this name is a host."""
        return isinstance(self._by_name[name], Host)

    def place(self, end: Endpoint) -> str:
        """An end of a link as the fabric service calls it: "s1:3", or the name of a host."""
        return end.node if self.is_host(end.node) else f"{end.node}:{end.port}"

    def attachment(self, host: Host) -> Endpoint:
        """The switch port that a host hangs on."""
        ((far, _link),) = self.neighbours[host.machine or host.name].values()
        return far

    def with_vms(self, names: Mapping[str, Sequence[str]]) -> Topology:
        """The same with virtual machines of these names, by host. Their addresses are of 100.64/10
        (RFC 6598), two /24 to a rack. Raises `InputError` if a rack has more of them."""
        racks: dict[str, int] = {}
        for host in self.hosts:
            racks.setdefault(self.attachment(host).node, len(racks))
        used = dict.fromkeys(racks, 0)
        vms = []
        for host in self.hosts:
            rack = self.attachment(host).node
            for name in names.get(host.name, ()):
                used[rack] += 1
                if used[rack] >= VMS_PER_RACK:
                    raise InputError(
                        f"topology {self.name}: more than {VMS_PER_RACK - 1} VMs at {rack}"
                    )
                ip = str(FIRST_VM + VMS_PER_RACK * racks[rack] + used[rack])
                vms.append(replace(host, name=name, ip=ip, machine=host.name))
        return replace(self, vms=tuple(vms))

    def without(self, down: frozenset[LinkEnds]) -> Topology:
        """The same nodes, ports and links, but paths avoid some links: nodes may be cut off."""
        unknown = down - {link.ends for link in self.links}
        if unknown:
            a, b = min(unknown)
            raise InputError(
                f"topology {self.name} has no link {a.node}:{a.port} - {b.node}:{b.port}"
            )
        return replace(self, down=down)

    def link(self, host: Host) -> Link:
        """The link of a host."""
        ((_far, link),) = self.neighbours[host.machine or host.name].values()
        return link

    @cached_property
    def derived(self) -> dict[object, Any]:
        """A memory for what others compute from this topology, by a key of theirs."""
        return {}

    @cached_property
    def _host_names(self) -> frozenset[str]:
        return frozenset(host.name for host in self.hosts)

    @cached_property
    def _distances(self) -> dict[str, dict[str, int]]:
        return {}

    @cached_property
    def _next_hops(self) -> dict[str, dict[str, tuple[int, ...]]]:
        return {}

    @cached_property
    def _up(self) -> dict[str, tuple[tuple[int, str], ...]]:
        """Ports whose links are up, and the nodes at their other ends, by node."""
        up: dict[str, tuple[tuple[int, str], ...]] = {}
        for node, ports in self.neighbours.items():
            usable = ((port, end) for port, end in ports.items() if end[1].ends not in self.down)
            up[node] = tuple((port, far.node) for port, (far, _link) in usable)
        return up

    @cached_property
    def _switchboard(self) -> dict[str, Wired]:
        """The switches by name."""
        bits = {switch.name: 1 << number for number, switch in enumerate(self.switches)}
        return {
            name: Wired(bit, tuple((p, bits[far]) for p, far in self._up[name] if far in bits))
            for name, bit in bits.items()
        }

    def distances(self, target: str) -> Mapping[str, int]:
        """Hops to `target` from every node that has a path to it, over switches only."""
        if target not in self._distances:
            self._distances[target] = self._search(target)
        return self._distances[target]

    def _search(self, target: str) -> dict[str, int]:
        hosts, distance = self._host_names, {target: 0}
        queue = deque([target])
        while queue:
            node = queue.popleft()
            further = distance[node] + 1
            for _port, far in self._up[node]:
                if far not in distance:
                    distance[far] = further
                    if far not in hosts:
                        queue.append(far)
        return distance

    def next_hops(self, switch: str, target: str) -> Sequence[int]:
        """Ports of `switch` on a shortest path to `target`; none: there is no path.

        In a fat-tree or leaf-spine whose links are all up the shortest paths are exactly the
        up/down paths: up to any common ancestor, then down.
        """
        node = self._by_name[target]
        if isinstance(node, Host):
            # All hosts of a switch are behind the same paths.
            ((last, link),) = self.neighbours[node.machine or target].values()
            if link.ends in self.down:
                return ()
            if last.node == switch:
                return (last.port,)
            target = last.node
        return self.ports_towards(target).get(switch, ())

    def ports_towards(self, switch: str) -> Mapping[str, tuple[int, ...]]:
        """Ports on shortest paths to a switch, of every other switch that has one."""
        if switch not in self._next_hops:
            self._next_hops[switch] = self._towards(switch)
        return self._next_hops[switch]

    def _towards(self, target: str) -> dict[str, tuple[int, ...]]:
        """Searches in breadth; all that a switch asks is which of its neighbours are one hop
        nearer."""
        found: dict[str, tuple[int, ...]] = {}
        level, rest = self._switchboard[target].bit, dict(self._switchboard)
        del rest[target]
        while level:
            reached, further = 0, {}
            for name, switch in rest.items():
                if nearer := switch.beside & level:
                    found[name] = switch.ports_to(nearer)
                    reached |= switch.bit
                else:
                    further[name] = switch
            level, rest = reached, further
        return found


def load_topology(path: Path) -> Topology:
    """The topology of a file. Raises `InputError` for what is wrong in it."""
    return _built(load(path), str(path), path.stem)


def from_table(table: dict[str, Any], where: str) -> Topology:
    """A topology given inline, in another file."""
    return _built(table, where, "inline")


def _built(table: dict[str, Any], where: str, default_name: str) -> Topology:
    spec = validate(TopologySpec, table, where)
    try:
        return build(spec, default_name)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error


def build(spec: TopologySpec, default_name: str = "topology") -> Topology:
    """Expands the generator, or checks the lists, and names everything."""
    draft = _Draft(spec)
    if spec.fat_tree:
        _fat_tree(draft, spec.fat_tree)
        default_name = f"fat-tree-k{spec.fat_tree.k}"
        if spec.fat_tree.hosts != spec.fat_tree.k // 2:
            default_name += f"-{spec.fat_tree.hosts}"
    elif spec.three_tier:
        _three_tier(draft, spec.three_tier)
        default_name = "three-tier"
    elif spec.leaf_spine:
        _leaf_spine(draft, spec.leaf_spine)
        default_name = "leaf-spine"
    elif spec.single_rack:
        _single_rack(draft, spec.single_rack)
        default_name = "single-rack"
    else:
        _explicit(draft, spec)
    return altered(draft.finish(spec.name or default_name), spec.link_override)


def altered(topology: Topology, overrides: Sequence[LinkOverride]) -> Topology:
    """The topology with some links slower, longer or absent. Raises `InputError` for a link that
    there is not, and if nodes are cut off."""
    links = list(topology.links)
    for override in overrides:
        ends = set(override.ends)
        if not any({end.node for end in link.ends} == ends for link in links):
            raise InputError(
                f"topology {topology.name} has no link {' - '.join(override.ends)}, which "
                "link_override names"
            )
        links = [
            new
            for link in links
            for new in (_altered(link, override) if {e.node for e in link.ends} == ends else [link])
        ]
    if overrides:
        topology = replace(topology, links=tuple(links))
        _check_connected(topology)
    return topology


def _altered(link: Link, override: LinkOverride) -> list[Link]:
    if override.absent:
        return []
    rate_bps = link.rate_bps if override.rate_bps is None else override.rate_bps
    delay_ns = link.delay_ns if override.delay_ns is None else override.delay_ns
    return [replace(link, rate_bps=rate_bps, delay_ns=delay_ns)]


class _Draft:
    """Collects nodes and links, gives out ports, and refuses what is wrong."""

    def __init__(self, spec: TopologySpec) -> None:
        self.defaults = spec.link_defaults
        self.host_ips: dict[str, str] = {}
        self.owners: dict[str, str] = {}
        """Host by address."""
        self.far_ends: dict[str, list[Endpoint]] = {}
        """Far ends of its links, by host."""
        self.gateways: dict[str, str] = {}
        self.switches: list[str] = []
        self.links: list[Link] = []
        self.used: dict[str, set[int]] = {}

    def add_switch(self, name: str) -> None:
        """Adds a switch, whose device id is one above that of the last."""
        self._add(name)
        self.switches.append(name)

    def add_host(self, name: str, ip: str, gateway: str) -> None:
        """Adds a host with its address and that of its gateway."""
        self._add(name)
        other = self.owners.setdefault(ip, name)
        if other != name:
            raise InputError(f"hosts '{other}' and '{name}' have the same address {ip}")
        self.host_ips[name] = ip
        self.far_ends[name] = []
        self.gateways[name] = gateway

    def _add(self, name: str) -> None:
        if not NAME.fullmatch(name):
            raise InputError(
                f"node name '{name}' must be a lower-case letter and up to 8 letters or digits "
                f"(interface names are limited to {MAX_INTERFACE_NAME} characters)"
            )
        if name in self.used:
            raise InputError(f"two nodes are named '{name}'")
        self.used[name] = set()

    def connect(
        self,
        a: str,
        b: str,
        ports: tuple[Port, Port] | None = None,
        rate_bps: int | None = None,
        delay_ns: int | None = None,
    ) -> None:
        """Adds a link. `ports`: at `a` and `b`, none: the lowest free ones; rate in bit/s and delay
        in ns, none: those of `link_defaults`."""
        for node in (a, b):
            if node not in self.used:
                raise InputError(f"link {a} - {b}: there is no node '{node}'")
        if a == b:
            raise InputError(f"link {a} - {b} joins a node to itself")
        for node in (a, b):
            if self.far_ends.get(node):
                raise InputError(f"host '{node}' has more than one link; it needs exactly one")
        wanted = ports or (None, None)
        ends = [Endpoint(n, self._take(n, p)) for n, p in zip((a, b), wanted, strict=True)]
        for near, far in (ends, reversed(ends)):
            if near.node in self.far_ends:
                self.far_ends[near.node].append(far)
        default_delay_ns = self.defaults.delay_ns
        if self.defaults.host_delay_ns is not None and self.host_ips.keys() & {a, b}:
            default_delay_ns = self.defaults.host_delay_ns
        self.links.append(
            Link(
                ends[0],
                ends[1],
                self.defaults.rate_bps if rate_bps is None else rate_bps,
                default_delay_ns if delay_ns is None else delay_ns,
            )
        )

    def _take(self, node: str, port: int | None) -> int:
        used = self.used[node]
        if port is None:
            port = next(p for p in range(1, 512) if p not in used)
        if port in used:
            raise InputError(f"port {port} of '{node}' is used by two links")
        if not 1 <= port <= 510:
            raise InputError(f"port {port} of '{node}' is outside 1..510 (511 is the drop port)")
        used.add(port)
        return port

    def finish(self, name: str) -> Topology:
        """The topology of this name, if everything is reachable."""
        for what, nodes in (("switches", self.switches), ("hosts", self.host_ips)):
            if len(nodes) > MAX_NODES:
                raise InputError(
                    f"topology {name} has {len(nodes)} {what}; at most {MAX_NODES}, which is what "
                    "their TCP ports and MAC addresses allow"
                )
        switches = tuple(Switch(n, i) for i, n in enumerate(self.switches, start=1))
        by_name = {s.name: s for s in switches}
        hosts = []
        for index, (host, ip) in enumerate(self.host_ips.items(), start=1):
            far = self._only_neighbour(host)
            if far.node not in by_name:
                raise InputError(f"host '{host}' must hang on a switch, not on '{far.node}'")
            gateway_mac = by_name[far.node].port_mac(far.port)
            mac = f"02:00:00:00:{index >> 8:02x}:{index & 255:02x}"
            hosts.append(Host(host, ip, mac, self.gateways[host], gateway_mac))
        topology = Topology(name, tuple(hosts), switches, tuple(self.links))
        _check_connected(topology)
        return topology

    def _only_neighbour(self, host: str) -> Endpoint:
        far = self.far_ends[host]
        if not far:
            raise InputError(f"host '{host}' has no link; it needs exactly one")
        return far[0]


def _check_connected(topology: Topology) -> None:
    if not topology.hosts or not topology.switches:
        raise InputError(f"topology {topology.name} needs at least one host and one switch")
    reached = topology.distances(topology.hosts[0].name)
    lost = [node.name for node in topology.nodes if node.name not in reached]
    if lost:
        raise InputError(
            f"topology {topology.name}: no path from '{topology.hosts[0].name}' to "
            + ", ".join(lost)
        )


def _fat_tree(draft: _Draft, spec: FatTreeSpec) -> None:
    """k pods of k/2 edge and k/2 aggregation switches, or as many aggregation switches as an edge
    has ports left."""
    half = spec.k // 2
    up_ports = spec.k - spec.hosts
    _three_tier(
        draft,
        ThreeTierSpec(
            pods=spec.k,
            edges_per_pod=half,
            aggregations_per_pod=up_ports,
            cores=up_ports * half,
            hosts_per_edge=spec.hosts,
            aggregation_rate_bps=spec.aggregation_rate_bps,
            core_rate_bps=spec.core_rate_bps,
        ),
    )


def _three_tier(draft: _Draft, spec: ThreeTierSpec) -> None:
    for pod in range(spec.pods):
        for edge in range(spec.edges_per_pod):
            draft.add_switch(f"p{pod}e{edge}")
    for pod in range(spec.pods):
        for aggregation in range(spec.aggregations_per_pod):
            draft.add_switch(f"p{pod}a{aggregation}")
    for core in range(spec.cores):
        draft.add_switch(f"c{core}")
    shared = spec.cores // spec.aggregations_per_pod
    number = 0
    for pod in range(spec.pods):
        for edge in range(spec.edges_per_pod):
            for index in range(spec.hosts_per_edge):
                number += 1
                draft.add_host(f"h{number}", f"10.{pod}.{edge}.{index + 2}", f"10.{pod}.{edge}.1")
                draft.connect(f"h{number}", f"p{pod}e{edge}")
            for aggregation in range(spec.aggregations_per_pod):
                ends = (f"p{pod}e{edge}", f"p{pod}a{aggregation}")
                draft.connect(*ends, rate_bps=spec.aggregation_rate_bps)
        for aggregation in range(spec.aggregations_per_pod):
            for core in range(aggregation * shared, (aggregation + 1) * shared):
                draft.connect(f"p{pod}a{aggregation}", f"c{core}", rate_bps=spec.core_rate_bps)


def _leaf_spine(draft: _Draft, spec: LeafSpineSpec) -> None:
    for leaf in range(spec.leaves):
        draft.add_switch(f"l{leaf}")
    for spine in range(spec.spines):
        draft.add_switch(f"s{spine}")
    number = 0
    for leaf in range(spec.leaves):
        for index in range(spec.hosts_per_leaf):
            number += 1
            draft.add_host(f"h{number}", f"10.0.{leaf}.{index + 2}", f"10.0.{leaf}.1")
            draft.connect(f"h{number}", f"l{leaf}")
        for spine in range(spec.spines):
            draft.connect(f"l{leaf}", f"s{spine}")


def _single_rack(draft: _Draft, spec: SingleRackSpec) -> None:
    draft.add_switch("s1")
    for index in range(spec.hosts):
        draft.add_host(f"h{index + 1}", f"10.0.0.{index + 2}", "10.0.0.1")
        draft.connect(f"h{index + 1}", "s1")


def _explicit(draft: _Draft, spec: TopologySpec) -> None:
    for switch in spec.switch:
        draft.add_switch(switch.name)
    for index, host in enumerate(spec.host):
        ip = host.ip or f"10.0.{index // 250}.{index % 250 + 2}"
        try:
            address = ipaddress.IPv4Address(ip)
        except ValueError as error:
            raise InputError(f"host '{host.name}': '{ip}' is not an IPv4 address") from error
        gateway = str(ipaddress.IPv4Network(f"{address}/24", strict=False).network_address + 1)
        if gateway == ip:
            raise InputError(f"host '{host.name}': {ip} is the gateway's address of its /24")
        draft.add_host(host.name, ip, gateway)
    for link in spec.link:
        draft.connect(*link.ends, link.ports, link.rate_bps, link.delay_ns)
