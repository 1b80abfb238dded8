"""Operations of clients and faults of a run, from a seed."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Literal

REPLICAS = ("h1", "h5", "h9", "h13")
"""Hosts with a replica server, one in each pod."""
CLIENTS = ("h2", "h6", "h10")
NAMES = ("a", "b")
OPERATIONS = 5
"""Operations of a client, one after the other."""
SIZES = (3_000, 60_000, 300_000, 9_000_000)
"""Bytes of a content; the last has two tracts."""
SIZE_WEIGHTS = (3, 3, 3, 1)
"""Relative frequencies of the sizes."""
WINDOW_SECONDS = 8.0
"""Time in which faults begin."""

Kind = Literal[
    "kill-replica", "cut-off", "loss", "kill-locator", "restart-switch", "kill-client", "damage"
]
KINDS: tuple[Kind, ...] = (
    "kill-replica", "cut-off", "loss", "kill-locator", "restart-switch", "kill-client", "damage",
)  # fmt: skip
WEIGHTS = (4, 3, 2, 2, 1, 2, 1)
"""Relative frequencies of the kinds."""


@dataclass(frozen=True)
class ClientOperation:
    """An operation of a client."""

    what: Literal["put", "get", "list"]
    after_seconds: float
    """How long the client waits before it."""
    name: str = ""
    size_bytes: int = 0
    multicast: bool = False


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong for a while."""

    kind: Kind
    at_seconds: float
    for_seconds: float
    host: str
    """The replica it happens to, or the client."""


@dataclass(frozen=True)
class Plan:
    """A run."""

    seed: int
    scheme: str
    operations: dict[str, list[ClientOperation]]
    """By host of the client."""
    faults: list[Fault]
    """By time. At most one at a time on a host."""


def plan(seed: int) -> Plan:
    """The run of a seed: even ones over SCDP, odd ones over Trevi."""
    random = Random(seed)
    operations = {client: [_operation(random) for _ in range(OPERATIONS)] for client in CLIENTS}
    return Plan(seed, "trevi" if seed % 2 else "scdp", operations, _faults(random))


def _operation(random: Random) -> ClientOperation:
    what = random.choices(("put", "get", "list"), (5, 4, 1))[0]
    after = random.uniform(0, 1.5)
    name = random.choice(NAMES)
    if what == "put":
        size = random.choices(SIZES, SIZE_WEIGHTS)[0]
        return ClientOperation(
            "put", after, name, size + random.randrange(1000), random.random() < 0.7
        )
    return ClientOperation("get", after, name) if what == "get" else ClientOperation("list", after)


def _faults(random: Random) -> list[Fault]:
    faults: list[Fault] = []
    for _ in range(random.randint(2, 5)):
        kind = random.choices(KINDS, WEIGHTS)[0]
        host = random.choice(CLIENTS if kind == "kill-client" else REPLICAS)
        fault = Fault(kind, random.uniform(0.5, WINDOW_SECONDS), random.uniform(1, 4), host)
        if not any(_conflict(fault, other) for other in faults):
            faults.append(fault)
    return sorted(faults, key=lambda fault: fault.at_seconds)


def _conflict(a: Fault, b: Fault) -> bool:
    """Whether two faults are on one host or of one kind, and less than a second lies between."""
    together = a.at_seconds <= b.at_seconds + b.for_seconds + 1
    together &= b.at_seconds <= a.at_seconds + a.for_seconds + 1
    return together and (a.host == b.host or a.kind == b.kind)
