"""`adaptive_routing.p4` and `queue_state.p4`: DeTail's adaptive load balancing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.traffic_class import WithClasses
from ebb_controller.parameters import Parameters, QueueId
from ebb_controller.prefixes import routes
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

ADAPTIVE_THRESHOLDS = Table("adaptive_thresholds", ("set_adaptive_thresholds",), depths=True)
ACCEPTABLE = Table("acceptable", ("set_acceptable",))
ADAPTIVE_NEXT_HOP = Table("adaptive_next_hop", ("set_adaptive_next_hop",))
DRAIN_MARKING = Table("drain_marking", ("set_drain_marking",))
QUEUE_ACCOUNTING = Table("queue_accounting", ("account_queue",))

TOOK_MOST_FAVOURED = Counter("took_most_favoured", "most\nfavoured")
TOOK_FAVOURED = Counter("took_favoured", "favoured")
TOOK_ANY = Counter("took_any", "any\nport")
DRAIN_MARKED = Counter("drain_marked", "drain\nmarks", sum="marks")

QUEUE_DRAIN = "queue_drain"
"""The register of drain bytes, which the traffic manager writes, see `[[export]]` in
docs/architecture.md."""
SLOTS = 8
"""Ports among which a switch can choose for one destination; of more of them, it uses this many."""

Bytes = Annotated[int, Field(ge=0, lt=2**32)]


class AdaptiveRouting(Parameters):
    """Adaptive load balancing and marking by drain bytes, for classes with `spray = "adaptive"`."""

    most_favoured_bytes: Bytes = 16_384
    """Drain bytes below which a port is taken before all others (DeTail: 16 KB)."""
    favoured_bytes: Bytes = 65_536
    """Drain bytes below which a port is taken where none is most favoured (DeTail: 64 KB)."""
    marking_bytes: Bytes = 65_536
    """Drain bytes of the chosen port above which packets of `marking_queues` get CE (DeTail: 64
    KB)."""
    marking_queues: list[QueueId] = [0]
    """Queues of the classes that are marked, which are those that may be slowed down; empty: none
    is."""
    queue_state: Literal["target", "program"] = "target"
    """Who writes the register of drain bytes: the traffic manager, or the program itself."""

    @model_validator(mode="after")
    def _thresholds_increase(self) -> AdaptiveRouting:
        if self.most_favoured_bytes > self.favoured_bytes:
            raise ValueError(
                f"most_favoured_bytes = {self.most_favoured_bytes} must not be above "
                f"favoured_bytes = {self.favoured_bytes}"
            )
        if len(set(self.marking_queues)) != len(self.marking_queues):
            raise ValueError(f"marking_queues names a queue twice: {self.marking_queues}")
        return self


class WithAdaptiveRouting(WithClasses):
    """The part of `FabricParameters` that this mechanism reads; classes say who uses it."""

    adaptive_routing: AdaptiveRouting | None = None
    """Adaptive load balancing; none: off."""

    def without_export(self) -> Self:
        """The parameters for a target whose traffic manager writes no register (BMv2): the program
        counts for itself."""
        if self.adaptive_routing is None:
            return self
        own = self.adaptive_routing.model_copy(update={"queue_state": "program"})
        return self.model_copy(update={"adaptive_routing": own})

    @model_validator(mode="after")
    def _adaptive_routing_fits(self) -> WithAdaptiveRouting:
        if self.adaptive_routing is not None:
            for queue in self.adaptive_routing.marking_queues:
                self.need_queue("adaptive_routing.marking_queues", queue)
            return self
        for traffic_class in self.classes:
            if traffic_class.spray == "adaptive":
                raise ValueError(
                    f'class of dscp {traffic_class.dscp}: spray = "adaptive" needs '
                    "[fabric.adaptive_routing]"
                )
        return self


def entries(site: Site[WithAdaptiveRouting]) -> Iterator[P4TableEntry]:
    """The thresholds, the addresses of each port, the queues that mark, the ports on a shortest
    path to each host, rack or pod that has several; where the program counts for itself (BMv2) all
    ports."""
    adaptive = site.parameters.adaptive_routing
    if adaptive is None:
        return
    yield ADAPTIVE_THRESHOLDS.default(
        most_favoured_bytes=adaptive.most_favoured_bytes, favoured_bytes=adaptive.favoured_bytes
    )
    for port in site.ports:
        yield ADAPTIVE_NEXT_HOP.entry(
            {"egress_port": port.number}, src_mac=port.mac, dst_mac=port.peer_mac
        )
    for queue in adaptive.marking_queues:
        yield DRAIN_MARKING.entry({"queue": queue}, threshold_bytes=adaptive.marking_bytes)
    yield from _acceptable(site)
    if adaptive.queue_state == "program":
        for port in site.ports:
            yield QUEUE_ACCOUNTING.entry({"egress_port": port.number})


def _acceptable(site: Site[WithAdaptiveRouting]) -> Iterator[P4TableEntry]:
    """Hosts that one port leads to are left to `route`: there is nothing to choose."""
    too_many = False
    for prefix, ports in routes(site.topology, site.switch.name):
        if 1 < len(ports) <= SLOTS:
            yield _shared(site, prefix, ports)
        too_many |= len(ports) > SLOTS
    if not too_many:
        return
    for number, host in enumerate(site.topology.hosts):
        every = tuple(site.topology.next_hops(site.switch.name, host.name))
        if len(every) > SLOTS:
            # Other ones for the next host, so that all ports are used.
            first = number % len(every)
            yield _shared(site, f"{host.ip}/32", (every[first:] + every[:first])[:SLOTS])


def _shared(site: Site[WithAdaptiveRouting], prefix: str, ports: tuple[int, ...]) -> P4TableEntry:
    """The entry of a destination. Many switches have the same; it is made, and encoded, once."""
    key = ("acceptable", prefix, ports)
    if key not in site.topology.derived:
        site.topology.derived[key] = acceptable(prefix, *ports)
    entry: P4TableEntry = site.topology.derived[key]
    return entry


def acceptable(prefix: str, *ports: int, slots: int | None = None) -> P4TableEntry:
    """The entry of a destination; `slots`: which of the ports are acceptable, the lowest bit for
    the first; none: all."""
    chosen = (1 << len(ports)) - 1 if slots is None else slots
    padded = {f"port{i}": port for i, port in enumerate((*ports, *(0,) * (SLOTS - len(ports))))}
    return ACCEPTABLE.entry({"dst": prefix}, slots=chosen, **padded)


MECHANISM = Mechanism(
    "adaptive_routing",
    entries,
    (ADAPTIVE_THRESHOLDS, ACCEPTABLE, ADAPTIVE_NEXT_HOP, DRAIN_MARKING, QUEUE_ACCOUNTING),
    (TOOK_MOST_FAVOURED, TOOK_FAVOURED, TOOK_ANY, DRAIN_MARKED),
)
