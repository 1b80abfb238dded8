"""What `ebb-sim` runs: a fabric, schemes, a workload, faults and samples, all in nominal units."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from ebb_controller.scheme import SCHEMES, Scheme, known_schemes
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, load, validate
from ebb_topologies.model import (
    MAX_DELAY_NS,
    MAX_RATE_BPS,
    FatTreeSpec,
    LeafSpineSpec,
    SingleRackSpec,
    Topology,
    from_table,
    load_topology,
)
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ebb_experiments.faults import MAX_TIME_NS, FaultKeys, Step, steps

DILATION_PER_GBPS = 10.0
"""A full-size packet takes 12 us at 1 Gbit/s, so slowed by 10 it takes 120 of the microseconds in
which v1model tells the time, at any rate."""
MAX_INSTANTS = 1_000_000
"""The most instants at which queues are sampled; each is a row per queue, some 200 bytes."""
Seed = Annotated[int, Field(ge=0, le=2**32)]
SampledQueue = tuple[str, int, int]
"""switch, port, queue"""


class Spec(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class Links(Spec):
    """Keys of `[link_defaults]` of a topology file, beside those of its generator."""

    rate_bps: Annotated[int, Field(gt=0, le=MAX_RATE_BPS)] = 1_000_000_000
    """Of every link."""
    delay_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] = 10_000
    """Of every link, one way."""
    host_delay_ns: Annotated[int, Field(ge=0, le=MAX_DELAY_NS)] | None = None
    """Of links to hosts; none: as of the others."""


class FatTree(FatTreeSpec, Links):
    pass


class LeafSpine(LeafSpineSpec, Links):
    pass


class SingleRack(SingleRackSpec, Links):
    pass


class Sample(Spec):
    """A time series of queue depths."""

    ports: list[str]
    """Ports of switches, as in `s1:3`; `*`, `?` and `[..]` stand for what they do in a shell."""
    queues: list[Annotated[int, Field(ge=0, le=7)]] | None = None
    """Their ids; none: all that the scheme has."""
    every_ns: Annotated[int, Field(gt=0, le=MAX_TIME_NS)]
    """Nominal."""


class Override(Spec):
    """What differs from a scheme's file."""

    scheme: str | None = None
    """Name of the file, if it is not the one of the override: a scheme may run in variants."""
    label: str | None = None
    agent: dict[str, dict[str, Any]] = {}
    fabric: dict[str, Any] = {}


class SimScenario(FaultKeys, Spec):
    topology: str | None = None
    """Topology file, relative to the scenario file (docs/topologies.md)."""
    fat_tree: FatTree | None = None
    """Instead of a file: `{ k, rate_bps, delay_ns }`."""
    leaf_spine: LeafSpine | None = None
    """Instead of a file: `{ leaves, spines, hosts_per_leaf, rate_bps, delay_ns }`."""
    single_rack: SingleRack | None = None
    """Instead of a file: `{ hosts, rate_bps, delay_ns }`."""
    schemes: list[str]
    """Names of files in experiments/schemes, files of your own, or names in `override`."""
    override: dict[str, Override] = {}
    """By name of scheme: parameters that differ here, `agent` and `fabric` as in its file."""
    workload: str | dict[str, Any]
    """Workload file, relative to the scenario file, or its keys (docs/workloads.md)."""
    dilation: Annotated[float, Field(ge=1, le=100_000)] | None = None
    """How many times slower than nominal everything runs; it costs nothing. None: 10 for 1 Gbit/s
    and in proportion for faster links, so that v1model's microseconds stay fine enough."""
    seed: Seed | Annotated[list[Seed], Field(max_length=10_000)] = 1
    """Of session ids and path entropy, and of a workload that has none of its own. Several: each
    scheme runs with each."""
    mtu_bytes: Annotated[int, Field(ge=576, le=9000)] = 1500
    """IP packets of the hosts are not longer."""
    coding_bps: Annotated[int, Field(ge=0, le=MAX_RATE_BPS)] = 0
    """How fast a host codes a block of SCDP where symbols were lost; 0: in no time."""
    content: Literal["zeros", "pattern"] = "zeros"
    """Of the objects; pattern: different bytes everywhere, compared at the receiver."""
    limit_ns: Annotated[int, Field(gt=0, le=MAX_TIME_NS)] = 1_000_000_000
    """Nominal time after which a run is given up, flows open or not."""
    ends_with: list[str] = []
    """Parts of the workload: the run ends with the last of their transfers, whatever the others do.
    None: with all."""
    arrivals_every_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """Nominal; how often it is noted how much of every object has arrived. 0: never."""
    warm_up_ns: Annotated[int, Field(ge=0, le=MAX_TIME_NS)] = 0
    """What the switches' queues and ports count begins then; flows and the program's counters tell
    of everything."""
    sample: list[Sample] = []
    """Queues that are looked at again and again."""

    @model_validator(mode="after")
    def _one_fabric(self) -> Self:
        given = (self.topology, self.fat_tree, self.leaf_spine, self.single_rack)
        if sum(one is not None for one in given) != 1:
            raise ValueError("give exactly one of topology, fat_tree, leaf_spine, single_rack")
        return self

    @property
    def seeds(self) -> list[int]:
        return self.seed if isinstance(self.seed, list) else [self.seed]


@dataclass(frozen=True)
class Loaded:
    """A scenario with everything it names."""

    name: str
    spec: SimScenario
    topology: Topology
    schemes: dict[str, Scheme]
    workload: dict[str, Any]
    """Keys of a workload file, which names no other."""
    workload_place: str
    """What people call the file that they come from."""
    steps: list[Step]
    dilation: Dilation

    @property
    def keys_of_workload(self) -> dict[str, Any]:
        """With the rate that loads are fractions of: a default of the generator would not be slowed
        with the rest."""
        rate = min(self.topology.link(host).rate_bps for host in self.topology.hosts)
        return {"link_rate_bps": rate} | self.workload


def load_sim_scenario(path: Path, schemes: list[str] | None = None) -> Loaded:
    """`schemes`: instead of the file's. Raises `InputError` in one line."""
    spec = validate(SimScenario, load(path), str(path))
    return resolve(spec, path.stem, path.parent, schemes, where=str(path))


def resolve(
    spec: SimScenario,
    name: str,
    folder: Path,
    schemes: list[str] | None = None,
    where: str | None = None,
) -> Loaded:
    """`where`: what people call the file; none: its name."""
    topology = _topology(spec, folder)
    if spec.warm_up_ns >= spec.limit_ns:
        raise InputError(f"warm_up_ns: {spec.warm_up_ns} is not before limit_ns = {spec.limit_ns}")
    if not spec.seeds:
        raise InputError("seed: an empty list")
    names = spec.schemes if schemes is None else schemes
    if not names:
        raise InputError(f"no scheme to run; known: {', '.join(known_schemes())}")
    unused = sorted(set(spec.override) - set(names)) if schemes is None else []
    if unused:
        raise InputError(f"override.{unused[0]}: there is no such scheme in {names}")
    chosen = {each: _scheme(each, spec.override.get(each), folder) for each in names}
    for scheme in chosen.values():
        sampled_queues(spec, topology, scheme)
    _check_rows(spec)
    return Loaded(
        name=name,
        spec=spec,
        topology=topology,
        schemes=chosen,
        workload=_workload(spec.workload, folder),
        workload_place=(
            str(folder / spec.workload) if isinstance(spec.workload, str) else where or name
        ),
        steps=steps(spec, topology),
        dilation=Dilation(spec.dilation or automatic_dilation(topology)),
    )


def _check_rows(spec: SimScenario) -> None:
    """Raises `InputError` if a digit too few in a period would fill memory and disk."""
    periods = {f"sample {n}: every_ns": s.every_ns for n, s in enumerate(spec.sample, start=1)}
    for key, every_ns in (periods | {"arrivals_every_ns": spec.arrivals_every_ns}).items():
        if every_ns and spec.limit_ns / every_ns > MAX_INSTANTS:
            raise InputError(
                f"{key} = {every_ns} is {spec.limit_ns // every_ns} times until limit_ns = "
                f"{spec.limit_ns}; at most {MAX_INSTANTS}"
            )


def automatic_dilation(topology: Topology) -> float:
    fastest = max(link.rate_bps for link in topology.links)
    return DILATION_PER_GBPS * max(1.0, fastest / 1e9)


def sampled_queues(spec: SimScenario, topology: Topology, scheme: Scheme) -> list[SampledQueue]:
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


def _topology(spec: SimScenario, folder: Path) -> Topology:
    if spec.topology is not None:
        return load_topology(folder / spec.topology)
    for kind in ("fat_tree", "leaf_spine", "single_rack"):
        given = getattr(spec, kind)
        if given is not None:
            links = given.model_dump(include=set(Links.model_fields), exclude_none=True)
            generator = given.model_dump(exclude=set(Links.model_fields), exclude_none=True)
            return from_table({kind: generator, "link_defaults": links}, kind)
    raise AssertionError("SimScenario has exactly one")


def _scheme(name: str, override: Override | None, folder: Path) -> Scheme:
    file = name if override is None or override.scheme is None else override.scheme
    path = folder / file
    if path.suffix not in (".toml", ".json"):
        if file not in known_schemes():
            raise InputError(
                f"unknown scheme '{file}'; known: {', '.join(known_schemes())} "
                "(or a .toml or .json file)"
            )
        path = SCHEMES / f"{file}.toml"
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


def _workload(given: str | dict[str, Any], folder: Path) -> dict[str, Any]:
    path = folder / given if isinstance(given, str) else None
    table = given if isinstance(given, dict) else load(folder / given)
    base = folder if path is None else path.parent
    return {key: _with_files(value, base) for key, value in table.items()}


def _with_files(value: Any, folder: Path) -> Any:
    """With the points of empirical distributions in place of the `file` that has them: whoever
    runs it, on whatever machine, needs no other file."""
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
        lines = path.read_text().splitlines()
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
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
