"""The entries of a switch with a program of p4src/tna: those of its plan, in the units of the chip,
and those that only these programs need. docs/porting-tofino.md says why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from math import log2
from typing import Any

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology
from finsy import (
    P4CloneSessionEntry,
    P4MeterConfig,
    P4MeterEntry,
    P4TableAction,
    P4TableEntry,
    P4TableMatch,
)

from ebb_controller.mechanism import Entity, Table
from ebb_controller.mechanisms import MECHANISMS, FabricParameters, phantom_queue
from ebb_controller.mechanisms.adaptive_routing import DRAIN_MARKING, SLOTS, AdaptiveRouting
from ebb_controller.mechanisms.drop_notification import (
    DROP_NOTIFICATION,
    NOTIFICATION_CLASS,
    NOTIFICATION_SHARE,
)
from ebb_controller.mechanisms.ecn_threshold import ECN_THRESHOLD
from ebb_controller.mechanisms.mlfq import MLFQ_DEMOTION, MLFQ_LEVEL
from ebb_controller.mechanisms.phantom_queue import DRAIN_WINDOW_US, PHANTOM_QUEUE
from ebb_controller.mechanisms.policing import POLICING
from ebb_controller.mechanisms.trimming import Trimming
from ebb_controller.mechanisms.void_frames import VOID_FRAMES
from ebb_controller.mechanisms.volume_counters import VOLUME
from ebb_controller.plan import INSERT_ORDER, plan
from ebb_controller.site import Site

PHANTOM_DRAIN = Table("phantom_drain", ("set_drained",))
PICK = Table("pick", tuple(f"take{slot}" for slot in range(SLOTS)))
QUEUE_OF_PORT = Table("queue_of_port", ("set_queue_index",))
OCCUPIED_BYTES = "occupied_bytes"
"""The meter of occupancy.p4."""

TRIM_SESSION = 1
"""The mirror session that cuts packets (TRIM_SESSION of p4src/tna/include/deflection.p4)."""
DEFLECTED_BYTES = 5
"""Bytes of the header `deflected_t` (p4src/tna/include/headers.p4) in front of its copies."""
RECIRCULATION_PORT = 68
"""Its port, in the first pipe; the one of another pipe is 128 times its number above."""
RECIRCULATION_PORT_2 = 6
"""The same of Tofino 2."""
QUEUES = 8
"""Queues of a port that P4 distinguishes."""

Added = P4TableEntry | P4CloneSessionEntry | P4MeterEntry


class Chip(Enum):
    """Unit of queue depths of a chip: bytes of a cell of its packet buffer."""

    TOFINO = 80
    TOFINO_2 = 176


@dataclass(frozen=True)
class Composition:
    """A program of p4src/tna."""

    name: str
    """Name of its file, without `.p4`."""
    chip: Chip
    """The oldest chip that it is for."""
    without: frozenset[str]
    """Tables of the plan that it does not have."""


_ADAPTIVE = frozenset(
    {"adaptive_thresholds", "acceptable", "adaptive_next_hop", "drain_marking", "queue_accounting"}
)
_TRIMMING = frozenset({"trimming", "return_to_sender", "occupancy_limit"})
_NOTIFICATION = frozenset({DROP_NOTIFICATION.name})
_PHANTOM = frozenset({PHANTOM_QUEUE.name})
_MLFQ = frozenset({MLFQ_LEVEL.name, MLFQ_DEMOTION.name})
_FULL = frozenset({VOID_FRAMES.name, POLICING.name, VOLUME.name})

COMPOSITIONS = (
    Composition("fabric_marking", Chip.TOFINO, _ADAPTIVE | _TRIMMING | _NOTIFICATION | _FULL),
    Composition("fabric_trimming", Chip.TOFINO, _ADAPTIVE | _PHANTOM | _NOTIFICATION | _FULL),
    Composition("fabric_notification", Chip.TOFINO, _ADAPTIVE | _PHANTOM | _TRIMMING | _FULL),
    Composition(
        "fabric_adaptive",
        Chip.TOFINO_2,
        _TRIMMING | _NOTIFICATION | _PHANTOM | _MLFQ | _FULL | {"queue_accounting"},
    ),
    Composition(
        "fabric_tenants", Chip.TOFINO, _ADAPTIVE | _TRIMMING | _NOTIFICATION | _PHANTOM | _MLFQ
    ),
)


NEEDLESS = frozenset({NOTIFICATION_CLASS.name, NOTIFICATION_SHARE.name, DRAIN_MARKING.name})
"""Tables whose entries no program needs: none drops packets for what the first lets pass, traffic
managers have shares, and what the last marks egress does by the depth of the queue (`_marking`)."""
REPLACED = frozenset({VOLUME.name})
"""Tables whose actions have other arguments here: `added` makes their entries."""
ABSENT = frozenset(
    table.name for mechanism in MECHANISMS if not mechanism.ported for table in mechanism.tables
)
"""Tables of mechanisms that are not ported."""


def composition_for(plan: Iterable[Entity]) -> Composition:
    """The first program that has every table of a plan. Raises `ValueError` where there is none."""
    names = {entity.table_id for entity in plan if isinstance(entity, P4TableEntry)}
    for composition in COMPOSITIONS:
        if not names & (composition.without | ABSENT):
            return composition
    missing = "; ".join(
        f"{c.name} lacks {', '.join(sorted(names & (c.without | ABSENT)))}" for c in COMPOSITIONS
    )
    raise ValueError(f"no program of p4src/tna has all tables of this switch: {missing}")


def composition_of(topology: Topology, *parameters: FabricParameters) -> Composition:
    """The first program that has what these parameters need on every switch of a topology. Raises
    `InputError` where there is none."""
    for each in parameters:
        if each.trimming is not None and each.trimming.trigger != "deflect":
            raise InputError(
                f'trimming.trigger = "{each.trimming.trigger}": on Tofino the traffic manager '
                'notices what does not fit; expected "deflect"'
            )
        if each.ports.rank is not None:
            raise InputError("ports.rank: ranks are in a field that programs of p4src/tna lack")
    sites = (Site(topology, node, each) for each in parameters for node in topology.switches)
    try:
        return composition_for(entity for site in sites for entity in plan(site))
    except ValueError as error:
        raise InputError(str(error)) from error


def requirements(site: Site[FabricParameters], chip: Chip) -> list[Entity]:
    """The entities of one switch of ours with a program for a chip, in the order of `plan`."""
    queue_ids: dict[tuple[int, int], tuple[int, int]] = {}
    if chip is Chip.TOFINO_2:
        cells = [(port.number, queue) for port in site.ports for queue in range(QUEUES)]
        # The numbers that the ghost thread of our switch gets (docs/tofino-lab.md).
        queue_ids = {(port, queue): (0, port * QUEUES + queue) for port, queue in cells}
    made = [*translated(plan(site), chip), *added(site, queue_ids)]
    entities = [each for each in made if not isinstance(each, P4MeterEntry)]
    return sorted(entities, key=lambda each: INSERT_ORDER.index(type(each)))


RECIRCULATION_LINKS = 10
"""Rate of the recirculation port in links of the switch: 100 Gbit/s beside ports of 10."""


def traffic_manager(config: Mapping[str, Any], chip: Chip) -> dict[str, Any]:
    """The configuration of a traffic manager as programs for a chip need it: with the port that
    leads back to ingress, whose queues are unlimited, and without state in registers."""
    fastest = max(profile["rate_bps"] for profile in config["profile"])
    recirculation = {
        "name": "recirculation",
        "rate_bps": RECIRCULATION_LINKS * fastest,
        "queue": [{"id": queue} for queue in range(QUEUES)],
    }
    port = RECIRCULATION_PORT if chip is Chip.TOFINO else RECIRCULATION_PORT_2
    return {key: value for key, value in config.items() if key != "export"} | {
        "profile": [*config["profile"], recirculation],
        "ports": config["ports"] | {str(port): recirculation["name"]},
    }


# -- the plan, in the units of the chip ------------------------------------------------------------


def translated(plan: Iterable[Entity], chip: Chip) -> Iterator[Entity]:
    """A plan with depths in bytes: depths in cells, and ranges of 32 bits as ternary keys."""
    for entity in plan:
        if not isinstance(entity, P4TableEntry):
            yield entity
        elif entity.table_id in NEEDLESS | REPLACED:
            continue
        elif entity.table_id in _DEPTHS:
            yield replace(entity, action=_in_cells(entity, chip))
        elif entity.table_id == MLFQ_DEMOTION.name:
            yield from _as_prefixes(entity)
        else:
            yield entity


_DEPTHS = {table.name for each in MECHANISMS for table in each.tables if table.depths}


def _in_cells(entity: P4TableEntry, chip: Chip) -> P4TableAction:
    assert isinstance(entity.action, P4TableAction)
    arguments = {name: value // chip.value for name, value in entity.action.args.items()}
    return P4TableAction(entity.action.name, **arguments)


def _as_prefixes(entity: P4TableEntry) -> Iterator[P4TableEntry]:
    assert entity.match is not None
    ((name, (low, high)),) = entity.match.items()
    for value, mask in prefixes(low, high):
        yield replace(entity, match=P4TableMatch({name: (value, mask)}))


def prefixes(low: int, high: int, bits: int = 32) -> Iterator[tuple[int, int]]:
    """The fewest prefixes, as value and mask, that make up the numbers from `low` to `high`."""
    while low <= high:
        size = low & -low or 1 << bits
        while size > high - low + 1:
            size >>= 1
        yield low, (1 << bits) - size
        low += size


# -- what only these programs need -----------------------------------------------------------------


def added(
    site: Site[FabricParameters], queue_ids: Mapping[tuple[int, int], tuple[int, int]]
) -> Iterator[Added]:
    """Requirements of a switch besides its plan. `queue_ids`: pipe and queue number that the
    traffic
    manager of Tofino 2 has for a port and queue; empty: no program for Tofino 2."""
    yield from _phantom_drain(site)
    yield from _trimming(site)
    yield from _volume(site)
    if site.parameters.adaptive_routing is not None:
        yield from pick()
        yield from _marking(site, site.parameters.adaptive_routing)
        for (port, queue), (pipe, number) in queue_ids.items():
            yield QUEUE_OF_PORT.entry(
                {"pipe": pipe, "qid": number}, queue_index=port * QUEUES + queue
            )


TICK_BITS = 16
"""The clock of `volume_counters.p4` ticks once in 2^16 ns."""
MOST_SLOT_BITS = 28
"""At 100 Gbit/s the bytes of a slot of 2^28 ns are 32 bits."""


def slot_bits(slot_ns: int) -> int:
    """The power of two in ns that is nearest to the length of a slot, by their ratio. Raises
    `InputError` for one that the program cannot count."""
    bits = round(log2(slot_ns))
    if not TICK_BITS <= bits <= MOST_SLOT_BITS:
        raise InputError(
            f"volume.slot_ns = {slot_ns} by the slowed clock of the switch: "
            f"slots on Tofino last 2^{TICK_BITS} to 2^{MOST_SLOT_BITS} ns; expected "
            f"{1 << TICK_BITS}..{1 << MOST_SLOT_BITS}"
        )
    return bits


def slot_masks(bits: int) -> P4TableEntry:
    """The masks of the clock for slots of 2^bits ns."""
    odd = 1 << (bits - TICK_BITS)
    return VOLUME.default(slot_mask=2**32 - odd, bank_mask=odd)


def _volume(site: Site[FabricParameters]) -> Iterator[P4TableEntry]:
    if site.parameters.volume is not None:
        yield slot_masks(slot_bits(site.parameters.volume.slot_ns))


MANTISSA_BITS = 6
"""Bits of a time that count after the first one: an interval is 2^-6 of the power below it."""
MOST_DRAINED = 2**31 - 1
"""Bytes of the longest intervals: the program's numbers have a sign."""


def intervals() -> Iterator[tuple[int, int, int]]:
    """Intervals of `phantom_drain` in ns: first, mask, length. They make up all of 32 bits."""
    exact = 2 << MANTISSA_BITS
    for time in range(exact):
        yield time, 2**32 - 1, 1
    length = 2
    while exact < 2**32:
        for first in range(exact, 2 * exact, length):
            yield first, 2**32 - length, length
        exact, length = 2 * exact, 2 * length


def drained_bytes(drain_bytes_per_65536_us: int, first: int, length: int) -> int:
    """Bytes that drain until the middle of an interval."""
    twice_the_middle = 2 * first + length - 1
    divisor = 2 * DRAIN_WINDOW_US * 1000
    return min(
        (drain_bytes_per_65536_us * twice_the_middle + divisor // 2) // divisor, MOST_DRAINED
    )


def _phantom_drain(site: Site[FabricParameters]) -> Iterator[P4TableEntry]:
    rates: set[int] = set()
    for entry in phantom_queue.entries(site):
        assert isinstance(entry.action, P4TableAction)
        rates.add(entry.action.args["drain_bytes_per_65536_us"])
    for rate in sorted(rates):
        yield from phantom_drain(rate)


def phantom_drain(rate: int) -> Iterator[P4TableEntry]:
    """Entries for the bytes that drain in each interval of time, at `rate` bytes per 2^16 us."""
    for first, mask, length in intervals():
        yield PHANTOM_DRAIN.entry(
            {"drain_bytes_per_65536_us": rate, "elapsed_ns": (first, mask)},
            priority=1,
            bytes=drained_bytes(rate, first, length),
        )


def trim_session(size: int) -> P4CloneSessionEntry:
    """The mirror session that cuts packets to `size` bytes and takes them back to ingress.

    Its length counts the header that egress puts in front of the copy.
    """
    return P4CloneSessionEntry(
        TRIM_SESSION,
        class_of_service=QUEUES - 1,
        packet_length_bytes=size + DEFLECTED_BYTES,
        replicas=[RECIRCULATION_PORT],
    )


def _trimming(site: Site[FabricParameters]) -> Iterator[Added]:
    trimming = site.parameters.trimming
    if trimming is None and site.parameters.drop_notification is None:
        return
    yield trim_session((trimming or Trimming()).size)
    if trimming is not None and trimming.trigger == "occupancy":
        limit = trimming.occupancy_limit_bytes
        for port in site.ports:
            yield occupancy_meter(port.number, port.rate_bps, limit)


def occupancy_meter(port: int, rate_bps: int, limit_bytes: int) -> P4MeterEntry:
    """The meter of a port that refuses what a queue of `limit_bytes` would."""
    rate = rate_bps // 8
    config = P4MeterConfig(cir=rate, cburst=limit_bytes, pir=rate, pburst=limit_bytes)
    return P4MeterEntry(OCCUPIED_BYTES, index=port, config=config)


DRAWS = 256
"""Values of the random number of `pick`."""


def shares(slots: int) -> Iterator[tuple[int, int, int]]:
    """Slot, first and last of the random numbers that choose it, for a set of slots as bits."""
    members = [slot for slot in range(SLOTS) if slots >> slot & 1]
    for place, slot in enumerate(members):
        yield slot, -(-DRAWS * place // len(members)), -(-DRAWS * (place + 1) // len(members)) - 1


def _marking(site: Site[FabricParameters], adaptive: AdaptiveRouting) -> Iterator[P4TableEntry]:
    """Adaptive routing's marks as step marking of all ports: by the depth of the packet's own
    queue, and in every class whose packets are ECN-capable."""
    if adaptive.marking_queues:
        depth = adaptive.marking_bytes // Chip.TOFINO_2.value
        for port in site.ports:
            yield ECN_THRESHOLD.entry({"egress_port": port.number}, depth=depth)


def pick() -> Iterator[P4TableEntry]:
    """Which of a set of slots each random number chooses."""
    for slots in range(1, 2**SLOTS):
        for slot, first, last in shares(slots):
            match: dict[str, Any] = {"slots": slots}
            if (first, last) != (0, DRAWS - 1):  # all: the field is left out (P4Runtime, 9.1.1)
                match["draw"] = (first, last)
            yield PICK.entry_for(match, P4TableAction(PICK.actions[slot]), priority=1)
