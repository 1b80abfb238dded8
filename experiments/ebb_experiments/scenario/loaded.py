"""A scenario with everything it refers to: topology, schemes, workloads, steps of its faults."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from ebb_controller.mechanisms.volume_counters import Volume
from ebb_controller.multicast import MulticastGroup, check
from ebb_controller.scheme import Scheme, known_schemes, scheme_file
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, load, text_of, validate
from ebb_topologies.model import (
    GENERATORS,
    LinkDefaults,
    Topology,
    altered,
    from_table,
    load_topology,
)
from ebb_topologies.nearest import hint
from pydantic import BaseModel, Field

from ebb_experiments.scenario.faults import FaultKeys, Step, steps
from ebb_experiments.scenario.spec import Override, Phase, ScenarioFile
from ebb_experiments.scenario.tenants import Tenancy, settle
from ebb_experiments.scenario.tenants import workload as tenants_workload

DILATION_PER_GBPS = 10.0
"""Default dilation in virtual time for each Gbit/s. A full-size packet takes 12 us at 1 Gbit/s, so
it takes 120 us of the switches' clock, whose unit is 1 us in v1model, at any rate."""
MAX_INSTANTS = 1_000_000
"""Most instants at which queues are sampled; each is a row per queue, some 200 bytes."""
SEEDS_APART = 1_000
"""Distance of the seeds of a phase's rounds."""
SampledQueue = tuple[str, int, int]
"""Switch, port and queue id."""


def _old(name: str, pattern: str, size: str) -> str:
    """A phase that replaces a key of old scenarios, as text of a file."""
    return (
        f'[[phase]]\nname = "{name}"\nobjects = "files"\n[[phase.workload.traffic]]\n'
        f'name = "{name}"\npattern = {pattern}\narrivals = {{ type = "once" }}\n'
        f'size = {{ type = "fixed", bytes = {size} }}\n'
        "(all keys: docs/scenarios.md, docs/workloads.md; a whole example: "
        "experiments/scenarios/tour.toml)"
    )


OLD_KEYS = {
    "file": _old("file", '{ type = "random", from = "client", to = "server" }', "4_000_000"),
    "incast": _old("incast", '{ type = "incast", senders = 8 }', "100_000"),
    "storage": _old("write", '{ type = "storage-write", replicas = 3 }', "2_000_000"),
}
"""Keys that scenarios had before they had phases."""


@dataclass(frozen=True)
class Loaded:
    """A scenario with everything it refers to."""

    name: str
    spec: ScenarioFile
    topology: Topology
    schemes: dict[str, Scheme]
    phases: list[Traffic]
    groups: list[MulticastGroup]
    """Multicast groups of the file."""
    dilation: Dilation
    """Dilation in virtual time; runs under the wall clock replace it."""
    tenancy: Tenancy | None = None
    """Tenants, where their virtual machines are, and the bounds of their packets; none: there are
    no tenants."""

    def rounds(self, scheme: str) -> Iterator[PhaseRound]:
        """Rounds of a scheme, in order."""
        transport = self.schemes[scheme].transport
        for traffic in self.phases:
            if traffic.transports is None or transport in traffic.transports:
                for number in range(traffic.repeat):
                    yield PhaseRound(traffic, number)

    def skipping(self) -> Loaded:
        """The same with rounds skipped that repeat each other. Raises `InputError` for settings
        whose results this would falsify."""
        spec = validate(
            ScenarioFile, self.spec.model_dump(by_alias=True) | {"skip": True}, self.name
        )
        return replace(self, spec=spec)

    def counting(self, slot_ns: int) -> Loaded:
        """The same with the traffic volume of every port counted in slots of `slot_ns`, nominal.
        Raises `InputError` for slots that are too short or too many."""
        least_ns = 1e3 / self.dilation.factor
        if self.spec.skip:
            raise InputError("skip: not with a volume that is counted, which is by absolute time")
        if slot_ns < least_ns:
            raise InputError(
                f"volume_slot_ns = {slot_ns}: expected at least {least_ns:g}, which is the "
                f"microsecond of the switches' clock, as they run {self.dilation.factor:g} times "
                "slower than nominal"
            )
        if self.spec.limit_ns / slot_ns > MAX_INSTANTS:
            raise InputError(
                f"volume_slot_ns = {slot_ns} is {self.spec.limit_ns // slot_ns} slots until "
                f"limit_ns = {self.spec.limit_ns}; at most {MAX_INSTANTS}"
            )
        schemes = {
            name: scheme.model_copy(
                update={
                    "fabric": scheme.fabric.model_copy(update={"volume": Volume(slot_ns=slot_ns)})
                }
            )
            for name, scheme in self.schemes.items()
        }
        return replace(self, schemes=schemes)

    @property
    def colours(self) -> dict[str, str | None]:
        """Colours of schemes in figures, as far as their files name them."""
        return {name: scheme.colour for name, scheme in self.schemes.items()}

    @property
    def host_bps(self) -> int:
        """Rate of the slowest link of a host."""
        return _slowest_host_link(self.topology)

    @property
    def slowest_bps(self) -> int:
        """Rate of the slowest link."""
        return min(link.rate_bps for link in self.topology.links)

    @property
    def packet_ns(self) -> float:
        """Nominal time of a full-size packet on the slowest link."""
        return self.spec.mtu_bytes * 8e9 / self.slowest_bps


@dataclass(frozen=True)
class Traffic:
    """A phase with everything it refers to."""

    name: str
    workload: dict[str, Any]
    """Keys of a workload file that refers to no other file. `link_rate_bps`, of which loads are
    fractions, is always there: a default of the generator would not be slowed."""
    place: str
    """Name of the file that they come from, for messages."""
    repeat: int = 1
    transports: tuple[str, ...] | None = None
    objects: Literal["generated", "files", "kernel"] = "generated"
    steps: tuple[Step, ...] = ()
    """Faults and reactions, by time."""

    @property
    def names(self) -> list[str]:
        """Names of its parts."""
        return [str(each.get("name")) for each in self.workload.get("traffic", ())]


@dataclass(frozen=True)
class PhaseRound:
    """One repetition of a phase."""

    traffic: Traffic
    round: int
    """Number of the round, from 0."""

    @property
    def title(self) -> str:
        """Name of the round for people."""
        rounds = f" round {self.round + 1}" if self.traffic.repeat > 1 else ""
        return self.traffic.name + rounds

    @property
    def label(self) -> str:
        """Name of the round for files."""
        return self.traffic.name + (str(self.round) if self.traffic.repeat > 1 else "")

    def workload(self, seed: int) -> dict[str, Any]:
        """The workload with the seed of this round, from its own seed, or from `seed` if it has
        none."""
        keys = {"seed": seed} | self.traffic.workload
        return keys | {"seed": keys["seed"] + SEEDS_APART * self.round}


def load_scenario(
    path: Path, schemes: list[str] | None = None, topology: Topology | None = None
) -> Loaded:
    """Loads a scenario file; `schemes` and `topology` take the place of the file's. Raises
    `InputError` in one line."""
    table = load(path)
    for key in OLD_KEYS.keys() & table:
        raise InputError(f"{path}: [{key}] is a phase now; write\n{OLD_KEYS[key]}")
    spec = validate(ScenarioFile, table, str(path))
    try:
        return resolve(spec, path.stem, path.parent, schemes, where=str(path), topology=topology)
    except InputError as error:
        named = str(error).partition(": ")[0]
        if schemes is not None or Path(named).is_file():
            raise  # it is about the command line, or it names the file that it is about
        raise InputError(f"{path}: {error}") from error


def scenario(table: dict[str, Any], name: str, folder: Path = Path()) -> Loaded:
    """Loads a scenario from the keys of its file; files that it names are relative to the
    folder."""
    return resolve(validate(ScenarioFile, table, name), name, folder)


def all_at_once(name: str, pattern: dict[str, Any], size_bytes: int) -> dict[str, Any]:
    """A part of a workload: every sender of the pattern sends one object of this size, at the
    beginning."""
    return {
        "name": name,
        "pattern": pattern,
        "arrivals": {"type": "once"},
        "size": {"type": "fixed", "bytes": size_bytes},
    }


def resolve(
    spec: ScenarioFile,
    name: str,
    folder: Path,
    schemes: list[str] | None = None,
    where: str | None = None,
    topology: Topology | None = None,
) -> Loaded:
    """Loads everything that a scenario refers to. `where`: name of the file in messages; none:
    `name`. `topology` replaces that of the file."""
    topology = altered(topology or _topology(spec, folder), spec.link_override)
    if spec.warm_up_ns >= spec.limit_ns:
        raise InputError(f"warm_up_ns: {spec.warm_up_ns} is not before limit_ns = {spec.limit_ns}")
    if not spec.seeds:
        raise InputError("seed: an empty list")
    if len(set(spec.seeds)) < len(spec.seeds):
        raise InputError(f"seed: one of {list(spec.seeds)} is named twice, and would count twice")
    names = spec.schemes if schemes is None else schemes
    if not names:
        raise InputError(f"no scheme to run; known: {', '.join(known_schemes())}")
    unused = sorted(set(spec.override) - set(names)) if schemes is None else []
    if unused:
        raise InputError(f"override.{unused[0]}: there is no such scheme in {names}")
    chosen = {each: scheme_of(each, spec.override.get(each), folder) for each in names}
    tenancy = None
    if spec.tenant:
        tenancy = settle(spec.placement, spec.tenant, topology, spec.mtu_bytes)
        topology = topology.with_vms(tenancy.by_host)
        chosen = {each: _with_tenants(scheme, tenancy) for each, scheme in chosen.items()}
    for scheme in chosen.values():
        sampled_queues(spec, topology, scheme)
    _check_rows(spec)
    _check_forgeries(spec, topology)
    phases = [_traffic(spec, phase, topology, folder, where or name) for phase in spec.phases]
    _check_parts(chosen, phases)
    loaded = Loaded(
        name=name,
        spec=spec,
        topology=topology,
        schemes=chosen,
        phases=phases,
        groups=_groups(spec, topology),
        dilation=Dilation(spec.dilation or automatic_dilation(topology)),
        tenancy=tenancy,
    )
    counting = [each.label for each in chosen.values() if each.fabric.volume is not None]
    if spec.skip and counting:
        raise InputError(
            f"skip: not with scheme {counting[0]}, which counts volume by absolute time"
        )
    return loaded.counting(spec.volume_slot_ns) if spec.volume_slot_ns else loaded


def _with_tenants(scheme: Scheme, tenancy: Tenancy) -> Scheme:
    """The scheme with the contracts of tenants, if it polices. Raises `InputError` if a queue of
    the guaranteed class holds less than was promised."""
    fabric, hosts = scheme.fabric, scheme.tenants
    if hosts is not None and hosts.pacing != "none":
        ids = [each.queue for each in fabric.classes if each.dscp == hosts.dscp]
        queue = next((each for each in fabric.ports.queue if each.id in ids), None)
        if queue is None:
            raise InputError(
                f"scheme {scheme.label}: tenants.dscp = {hosts.dscp} is of no class with a queue"
            )
        promised = max(tenancy.placement.queue_bytes, tenancy.placement.uplink_queue_bytes or 0)
        rooms = [
            room
            for room in (
                queue.capacity_bytes,
                # Packets that are not full take a place each: only bytes hold what was promised.
                queue.capacity_packets and queue.capacity_packets * tenancy.network.packet_bytes,
            )
            if room is not None
        ]
        if rooms and min(rooms) < promised:
            raise InputError(
                f"placement: queue capacity of {promised} bytes, but queue {queue.id} of scheme "
                f"{scheme.label} holds {min(rooms)}"
            )
    if fabric.policing is None:
        return scheme
    contracts = [*fabric.policing.contract, *tenancy.contracts()]
    policing = fabric.policing.model_copy(update={"contract": contracts})
    policed = fabric.model_copy(update={"policing": policing})
    return scheme.model_copy(update={"fabric": policed})


def _check_rows(spec: ScenarioFile) -> None:
    """Raises `InputError` for a period so short that its samples would fill memory and disk."""
    periods = {f"sample {n}: every_ns": s.every_ns for n, s in enumerate(spec.sample, start=1)}
    for key, every_ns in (periods | {"arrivals_every_ns": spec.arrivals_every_ns}).items():
        if every_ns and spec.limit_ns / every_ns > MAX_INSTANTS:
            raise InputError(
                f"{key} = {every_ns} is {spec.limit_ns // every_ns} times until limit_ns = "
                f"{spec.limit_ns}; at most {MAX_INSTANTS}"
            )


def _check_parts(schemes: Mapping[str, Scheme], phases: list[Traffic]) -> None:
    """Raises `InputError` if a scheme has a transport for a part that no phase has, or that the
    hosts' kernel cannot run beside its own."""
    for scheme in schemes.values():
        for part in scheme.transport_of:
            those = [phase for phase in phases if part in phase.names]
            if not those:
                names = sorted({name for phase in phases for name in phase.names})
                raise InputError(
                    f"scheme {scheme.label}: transport_of.{part}: no phase has traffic of this "
                    f"name; {hint(part, names)}"
                )
            for phase in those:
                if phase.objects == "kernel":
                    raise InputError(
                        f"scheme {scheme.label}: transport_of.{part}: phase {phase.name} has "
                        'objects = "kernel", which is one transport for all'
                    )


def _check_forgeries(spec: ScenarioFile, topology: Topology) -> None:
    """Raises `InputError` for forgers that overhear packets too early: threads of the simulator may
    be as far apart in virtual time as the longest delay of a link, and only packets that are older
    are known to all of them."""
    longest_ns = max((link.delay_ns for link in topology.links), default=0)
    for forgery in spec.forgery:
        after_ns = forgery.overhears_after_ns
        if after_ns is not None and after_ns < longest_ns:
            raise InputError(
                f"forgery of {forgery.host}: overhears_after_ns is {after_ns}: expected at least "
                f"{longest_ns}, the longest delay of a link"
            )


def automatic_dilation(topology: Topology) -> float:
    """Dilation where none is given: in proportion to the fastest link."""
    fastest = max(link.rate_bps for link in topology.links)
    return DILATION_PER_GBPS * max(1.0, fastest / 1e9)


def sampled_queues(spec: ScenarioFile, topology: Topology, scheme: Scheme) -> list[SampledQueue]:
    """The queues that `[[sample]]` names, once each; all have the same period."""
    existing = [queue.id for queue in scheme.fabric.ports.queue]
    every_port = [
        (f"{switch.name}:{port}", switch.name, port)
        for switch in topology.switches
        for port in topology.neighbours[switch.name]
    ]
    found: dict[SampledQueue, None] = {}
    for index, sample in enumerate(spec.sample, start=1):
        if sample.every_ns != spec.sample[0].every_ns:
            raise InputError(
                f"sample {index}: every_ns = {sample.every_ns}, but {spec.sample[0].every_ns} in "
                "the first one: all samples of a run have one period"
            )
        # A queue that only some of the schemes have is sampled with those.
        queues = [q for q in sample.queues or existing if q in existing]
        for pattern in sample.ports:
            matching = [place for place in every_port if fnmatchcase(place[0], pattern)]
            if not matching:
                raise InputError(
                    f"sample {index}: no switch port of {topology.name} is called '{pattern}'; "
                    f"they are called as in '{every_port[0][0]}'"
                )
            found |= {(switch, p, q): None for _text, switch, p in matching for q in queues}
    return list(found)


def _topology(spec: ScenarioFile, folder: Path) -> Topology:
    if spec.topology is not None:
        return load_topology(folder / spec.topology)
    for kind in GENERATORS:
        given = getattr(spec, kind)
        if given is not None:
            links = given.model_dump(include=set(LinkDefaults.model_fields), exclude_none=True)
            generator = given.model_dump(exclude=set(LinkDefaults.model_fields), exclude_none=True)
            return _generated(kind, json.dumps({kind: generator, "link_defaults": links}))
    raise AssertionError("ScenarioFile has exactly one")


@lru_cache(maxsize=8)
def _generated(kind: str, table: str) -> Topology:
    """The topology of a generator's table (JSON), one for all trials that have it."""
    return from_table(json.loads(table), kind)


def scheme_of(name: str, override: Override | None, folder: Path) -> Scheme:
    """A scheme of a scenario, whose file is relative to the folder. Raises `InputError` for what is
    wrong in it."""
    file = name if override is None or override.scheme is None else override.scheme
    if not (folder / file).exists() and Path(file).exists():
        folder = Path()  # of the command line
    path = scheme_file(file, folder)
    table = load(path)
    where = str(path)
    if override is not None:
        table = merge(table, override.model_dump(exclude={"scheme"}, exclude_none=True))
        where = f"{path} with override.{name}"
    return validate(Scheme, table, where)


def merge(table: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """`table` with the keys of `other`, tables inside merged likewise, lists replaced."""
    both = dict(table)
    for key, value in other.items():
        old = both.get(key)
        deeper = isinstance(old, Mapping) and isinstance(value, Mapping)
        both[key] = merge(old, value) if deeper else value  # type: ignore[arg-type]
    return both


class _HostGroup(BaseModel):
    """A group of hosts of a workload."""

    hosts: list[str] = []


class _WorkloadKeys(BaseModel):
    """The keys of a workload that are checked here; its generator checks all of them."""

    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    group: list[_HostGroup] = []

    @property
    def hosts(self) -> Iterator[str]:
        """Hosts of all groups."""
        return (host for group in self.group for host in group.hosts)


def _traffic(
    spec: ScenarioFile, phase: Phase, topology: Topology, folder: Path, where: str
) -> Traffic:
    own = tenants_workload(spec.tenant) if spec.tenant else {}
    workload, place = workload_of(phase.workload, topology, folder, where, own)
    faults = FaultKeys(
        event=[*spec.event, *phase.event], controller_delay_ns=spec.controller_delay_ns
    )
    return Traffic(
        name=phase.name,
        workload=workload,
        place=place,
        repeat=phase.repeat,
        transports=None if phase.transports is None else tuple(phase.transports),
        objects=phase.objects,
        steps=tuple(steps(faults, topology)),
    )


def workload_of(
    given: str | dict[str, Any],
    topology: Topology,
    folder: Path,
    where: str,
    more: Mapping[str, list[Any]] | None = None,
) -> tuple[dict[str, Any], str]:
    """Keys of a workload, which refer to no other file, and the name of their file in messages:
    `where` if `given` are the keys. `more` is added to its lists. Raises `InputError` for a host
    that the topology does not have."""
    path = folder / given if isinstance(given, str) else None
    table = given if isinstance(given, dict) else load(folder / given)
    place = where if path is None else str(path)
    for host in validate(_WorkloadKeys, table, f"{place}: workload").hosts:
        topology.host(host)
    table = table | {key: [*table.get(key, []), *own] for key, own in (more or {}).items()}
    base = folder if path is None else path.parent
    keys = {key: _with_files(value, base) for key, value in table.items()}
    return {"link_rate_bps": _slowest_host_link(topology)} | keys, place


def _slowest_host_link(topology: Topology) -> int:
    return min(topology.link(host).rate_bps for host in topology.hosts)


def _groups(spec: ScenarioFile, topology: Topology) -> list[MulticastGroup]:
    groups = []
    for number, each in enumerate(spec.group, start=1):
        try:
            group = MulticastGroup.of(topology, number, each.receivers)
            groups.append(group if each.address is None else replace(group, address=each.address))
            check(groups, topology)
        except InputError as error:
            raise InputError(f"group {number}: {error}") from error
    return groups


def _with_files(value: Any, folder: Path) -> Any:
    """The value with the points of empirical distributions in place of their `file`, so that a run
    on another machine needs no other file."""
    if isinstance(value, Mapping):
        table = {name: _with_files(item, folder) for name, item in value.items()}
        if table.get("type") == "empirical" and "points" not in table and "file" in table:
            table["points"] = _points(folder / str(table.pop("file")))
        return table
    if isinstance(value, list):
        return [_with_files(item, folder) for item in value]
    return value


def _points(path: Path) -> list[tuple[int, float]]:
    """Lines of `bytes share`, `#` starts a comment (docs/workloads.md)."""
    try:
        lines = text_of(path).splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: expected lines of `bytes share`, e.g. `10000 0.15`") from None
    points = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        try:
            if words:
                size, share = words
                points.append((int(size), float(share)))
        except ValueError:
            raise InputError(
                f"{path}, line {number}: expected `bytes share`, e.g. `10000 0.15`"
            ) from None
    return points
