"""Scenario and scheme files, in nominal units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from ebb_controller.multicast import MulticastGroup, check
from ebb_controller.scheme import Scheme, known_schemes, load_scheme
from ebb_topologies.files import InputError, load, validate
from ebb_topologies.model import Host, Topology, load_topology
from pydantic import BaseModel, ConfigDict, Field

from ebb_experiments.faults import MAX_TIME_NS, FaultKeys, Step, steps

__all__ = ["Scenario", "ScenarioFile", "Scheme", "known_schemes", "load_scenario", "load_scheme"]


MIN_DILATION, MAX_DILATION = 0.01, 10_000.0
MAX_BYTES = 1_000_000_000
MAX_HOSTS = 1_000
"""That take part in one transfer: each is a process."""
MAX_ROUNDS = 1_000


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class FileTransfer(Part):
    """One file between the first and the last host: across pods in a fat-tree."""

    bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = 4_000_000
    """Size of the file."""


class Incast(Part):
    """Synchronised senders to one receiver that a background flow already loads."""

    senders: Annotated[int, Field(gt=0, le=MAX_HOSTS)] = 8
    """Hosts that start at the same instant."""
    bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = 100_000
    """Object of each sender."""
    rounds: Annotated[int, Field(gt=0, le=MAX_ROUNDS)] = 3
    """How often it is repeated, with other seeds."""
    background_bytes: Annotated[int, Field(ge=0, le=MAX_BYTES)] = 2_000_000
    """Object of the background flow; 0: none."""
    background_lead_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 8_000_000
    """How long before the incast the background flow starts."""


class Storage(Part):
    """An object written to several replicas at once, and read back from all of them at once.

    Only for the receiver-driven schemes: SCDP by one multicast session and one session with several
    senders, NDP by a flow to each replica and a part of the object from each.
    """

    replicas: Annotated[int, Field(ge=2, le=15)] = 3
    """Hosts that hold the object, in different pods as far as there are."""
    bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = 2_000_000
    """Size of the object."""
    incast_senders: Annotated[int, Field(ge=0, le=MAX_HOSTS)] = 4
    """Hosts that meanwhile send to the first replica; 0: none."""
    incast_bytes: Annotated[int, Field(gt=0, le=MAX_BYTES)] = 100_000
    """Object of each of them."""
    incast_lead_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 2_000_000
    """How long before the incast the write starts."""


class Group(Part):
    """Receivers of one-to-many transfers. Any host may send to them; `ebb-agent send` finds the
    group by its receivers."""

    receivers: list[str]
    """Names of hosts."""
    address: str | None = None
    """Multicast address; none: the one that follows from the receivers (docs/wire-format.md)."""


class ScenarioFile(Part, FaultKeys):
    topology: str
    """Topology file, relative to the scenario file (docs/topologies.md)."""
    schemes: list[str]
    """Names of files in experiments/schemes, or files of your own."""
    dilation: Annotated[float, Field(ge=MIN_DILATION, le=MAX_DILATION)] | None = None
    """How many times slower than nominal everything runs; 50: 1 Gbit/s at 20 Mbit/s. None: 50, or
    as much more as this machine needs, which a short incast before the schemes tells."""
    seed: Annotated[int, Field(ge=0, le=2**32)] = 1
    """Of file contents and generated objects."""
    mtu_bytes: Annotated[int, Field(ge=256, le=9000)] = 1500
    """IP packets of the agents are not longer."""
    file: FileTransfer = FileTransfer()
    """One file from the first to the last host."""
    incast: Incast = Incast()
    """Synchronised senders to one receiver."""
    storage: Storage | None = None
    """An object written to several replicas and read from them; none: not run."""
    group: Annotated[list[Group], Field(max_length=1_000)] = []
    """Multicast groups beside the one of `storage`, for transfers of one's own (`CLI=1`)."""


class Scenario(Part):
    """A scenario with everything it names loaded."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True)

    spec: ScenarioFile
    topology: Topology
    schemes: dict[str, Scheme]
    groups: list[MulticastGroup]
    """`group` of the file, and the replicas of `storage` last."""
    faults: list[Step] = []
    """Of every phase, by nominal time."""


def load_scenario(
    path: Path,
    *,
    topology: Topology | None = None,
    schemes: list[str] | None = None,
    dilation: float | None = None,
) -> Scenario:
    """The scenario of a file, with what the command line overrides."""
    spec = validate(ScenarioFile, load(path), str(path))
    if dilation is not None:
        if not MIN_DILATION <= dilation <= MAX_DILATION:
            raise InputError(
                f"DILATION must be a number from {MIN_DILATION:g} to {MAX_DILATION:g}, "
                f"not {dilation:g}"
            )
        spec = spec.model_copy(update={"dilation": dilation})
    if schemes is not None:
        spec = spec.model_copy(update={"schemes": schemes})
    if not spec.schemes:
        raise InputError(f"no scheme to run; known: {', '.join(known_schemes())}")
    chosen = topology or load_topology(path.parent / spec.topology)
    needed = spec.incast.senders + 2
    if len(chosen.hosts) < needed:
        raise InputError(
            f"topology {chosen.name} has {len(chosen.hosts)} hosts; an incast of "
            f"{spec.incast.senders} senders with a background flow needs {needed}"
        )
    loaded = {name: load_scheme(name) for name in spec.schemes}
    return Scenario(
        spec=spec,
        topology=chosen,
        schemes=loaded,
        groups=_groups(spec, chosen),
        faults=steps(spec, chosen),
    )


@dataclass(frozen=True, slots=True)
class StorageRoles:
    """Who does what in `storage`: the replicas spread over the hosts, and so over the pods."""

    client: Host
    replicas: list[Host]
    incast: list[Host]
    """They send to the first replica."""

    @classmethod
    def of(cls, topology: Topology, storage: Storage) -> StorageRoles:
        hosts = topology.hosts
        client = hosts[0]
        count = storage.replicas + 1
        replicas = [hosts[len(hosts) * number // count] for number in range(1, count)]
        others = [host for host in hosts if host is not client and host not in replicas]
        step = max(1, len(others) // max(1, storage.incast_senders))
        chosen = others[::step][: storage.incast_senders]
        chosen += [h for h in others if h not in chosen][: storage.incast_senders - len(chosen)]
        return cls(client, replicas, chosen)


def _groups(spec: ScenarioFile, topology: Topology) -> list[MulticastGroup]:
    sets = [(group.receivers, group.address) for group in spec.group]
    if spec.storage is not None:
        needed = 1 + spec.storage.replicas + spec.storage.incast_senders
        if len(topology.hosts) < needed:
            raise InputError(
                f"topology {topology.name} has {len(topology.hosts)} hosts; storage with "
                f"{spec.storage.replicas} replicas and {spec.storage.incast_senders} other senders "
                f"needs {needed}"
            )
        replicas = StorageRoles.of(topology, spec.storage).replicas
        sets.append(([host.name for host in replicas], None))
    groups = []
    for number, (receivers, address) in enumerate(sets, start=1):
        group = MulticastGroup.of(topology, number, receivers)
        groups.append(replace(group, address=address) if address is not None else group)
    check(groups, topology)
    return groups
