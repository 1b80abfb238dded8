"""From an experiment to its trials: pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError, validate
from ebb_topologies.nearest import hint

from ebb_experiments.scenario.loaded import Loaded, resolve
from ebb_experiments.scenario.spec import ScenarioFile
from ebb_experiments.study.choices import Fabric, Scalar
from ebb_experiments.study.spec import Experiment, Size
from ebb_experiments.tenants.model import DataCentre, fingerprint

OF_SCHEME = ("agent", "fabric")
"""First parts of paths that lead into the scheme's parameters."""


@dataclass(frozen=True)
class Trial:
    """One scheme with one seed at one point of every axis."""

    experiment: str
    size: str
    scheme: str
    seed: int
    labels: dict[str, Scalar]
    """Points by axis; axes that the scheme does not vary along are not there."""
    loaded: Loaded | DataCentre
    """The whole scenario of the trial, or at flow level the data centre."""
    fabric: Fabric = "virtual"
    code: str = ""
    """Fingerprint of what simulates it at flow level, which needs no other inputs."""

    @property
    def scenario(self) -> Loaded:
        """The scenario of a trial with packets."""
        assert isinstance(self.loaded, Loaded)
        return self.loaded

    def id(self, inputs: str) -> str:
        """Name of the trial, the same for the same content and inputs on any machine; readable at
        the front."""
        content = self._of_tenants() if isinstance(self.loaded, DataCentre) else self._of(inputs)
        text = json.dumps(content, sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:12]
        return f"{self.name.replace(' ', '-').replace('/', '-')}-{digest}"

    def _of_tenants(self) -> dict[str, Any]:
        assert isinstance(self.loaded, DataCentre)
        return {"tenants": self.loaded.model_dump(mode="json"), "seed": self.seed} | {
            "inputs": self.code,
            "fabric": self.fabric,
        }

    def _of(self, inputs: str) -> dict[str, Any]:
        """Content of a trial with packets."""
        loaded = self.scenario
        spec = loaded.spec.model_dump(mode="json", exclude={"workload", "phase", "topology"})
        content: dict[str, Any] = {
            "spec": spec,
            "phases": [asdict(replace(phase, steps=())) for phase in loaded.phases],
            "events": [each.model_dump(include={"event"}) for each in loaded.spec.phases],
            "schemes": {name: scheme.model_dump(mode="json", exclude={"colour"})
                        for name, scheme in loaded.schemes.items()},
            "network": repr((loaded.topology.hosts, loaded.topology.switches,
                             loaded.topology.links)),
            "inputs": inputs,
        }  # fmt: skip
        if self.fabric == "mininet":
            content |= {"fabric": self.fabric, "dilation": loaded.dilation.factor}
        return content

    @property
    def name(self) -> str:
        """Scheme, points and seed of the trial."""
        points = (f"{axis}={point}" for axis, point in self.labels.items())
        return " ".join((self.scheme, *points, f"seed={self.seed}"))


def combinations(
    experiment: Experiment, name: str, size: str
) -> Iterator[tuple[int, str, dict[str, Scalar]]]:
    """Seed, scheme and points of each trial; seeds are outermost, so that after a while everything
    has been seen once."""
    if size not in experiment.size:
        raise InputError(f"{name} has no size '{size}'; it has {', '.join(experiment.size)}")
    chosen: Size = experiment.size[size]
    seeds = chosen.seeds if isinstance(chosen.seeds, list) else range(1, chosen.seeds + 1)
    for seed in seeds:
        for scheme in experiment.schemes(size):
            for labels in points(experiment, size, scheme):
                yield seed, scheme, labels


def trials(experiment: Experiment, name: str, size: str, folder: Path) -> list[Trial]:
    """All trials, each with its whole scenario."""
    return [
        _trial(experiment, name, size, scheme, seed, labels, folder)
        for seed, scheme, labels in combinations(experiment, name, size)
    ]


def on_mininet(experiment: Experiment, planned: Sequence[Trial]) -> list[Trial]:
    """The same trials under the wall clock, as slow as the experiment's file says."""
    dilation = Dilation(experiment.mininet.dilation)
    return [
        replace(trial, fabric="mininet", loaded=replace(trial.loaded, dilation=dilation))
        if isinstance(trial.loaded, Loaded)
        else replace(trial, fabric="mininet")
        for trial in planned
    ]


def points(experiment: Experiment, size: str, scheme: str) -> Iterator[dict[str, Scalar]]:
    """Combinations of the points of the axes that a scheme has."""
    axes = [a for a in experiment.axis if a.only is None or scheme in a.only]
    for combination in product(*(experiment.points(axis, size) for axis in axes)):
        yield {axis.name: point for axis, point in zip(axes, combination, strict=True)}


def _trial(
    experiment: Experiment,
    name: str,
    size: str,
    scheme: str,
    seed: int,
    labels: dict[str, Scalar],
    folder: Path,
) -> Trial:
    variant = experiment.scheme[scheme]
    if experiment.tenants:
        return _of_tenants(experiment, name, size, scheme, seed, labels)
    override = variant.model_dump(exclude={"look", "set"}, exclude_none=True)
    table = deepcopy(experiment.scenario) | {"schemes": [scheme], "seed": seed}
    table["override"] = {scheme: deepcopy(override)}
    for setting in _settings(experiment, name, size, scheme, labels):
        for path, value in setting.items():
            begin = ("override", scheme) if path.split(".")[0] in OF_SCHEME else ()
            put(table, [*begin, *path.split(".")], value, f"{name}: {path}")
    where = f"{name}, {scheme}"
    loaded = resolve(validate(ScenarioFile, table, where), name, folder, where=where)
    return Trial(name, size, scheme, seed, labels, loaded)


def _of_tenants(
    experiment: Experiment,
    name: str,
    size: str,
    scheme: str,
    seed: int,
    labels: dict[str, Scalar],
) -> Trial:
    table = deepcopy(experiment.tenants)
    for setting in _settings(experiment, name, size, scheme, labels):
        for path, value in setting.items():
            put(table, path.split("."), value, f"{name}: {path}")
    loaded = validate(DataCentre, table, f"{name}, {scheme}")
    return Trial(name, size, scheme, seed, labels, loaded, code=fingerprint())


def _settings(
    experiment: Experiment, name: str, size: str, scheme: str, labels: dict[str, Scalar]
) -> list[dict[str, Any]]:
    """Settings of a trial, later ones last."""
    settings = [experiment.set, experiment.size[size].set]  # type: ignore[index]
    settings.append(experiment.scheme[scheme].set)
    for axis in experiment.axis:
        if axis.name in labels:
            if axis.cases and labels[axis.name] not in axis.cases:
                raise InputError(f"{name}: axis {axis.name} has no case '{labels[axis.name]}'")
            settings.append(axis.settings(labels[axis.name]))
    return settings


def put(table: Any, path: list[str], value: Any, where: str) -> None:
    """Sets what the path leads to; entries of lists of tables go by their `name` or number."""
    here = table
    for part in path[:-1]:
        if isinstance(here, list):
            here = _entry(here, part, where)
        elif isinstance(here, dict):
            here = here.setdefault(part, {})
        else:
            raise InputError(f"{where}: there is nothing below '{part}'")
    last = path[-1]
    if isinstance(here, list):
        index = here.index(_entry(here, last, where))
        here[index] = deepcopy(value)
    elif isinstance(here, dict):
        here[last] = deepcopy(value)
    else:
        raise InputError(f"{where}: there is nothing to set below '{path[-2]}'")


def _entry(entries: list[Any], part: str, where: str) -> Any:
    if part.isdigit() and int(part) < len(entries):
        return entries[int(part)]
    for entry in entries:
        if isinstance(entry, dict) and str(entry.get("name", entry.get("id"))) == part:
            return entry
    names = [str(e.get("name", e.get("id", i))) for i, e in enumerate(entries)]
    raise InputError(f"{where}: no entry '{part}'; {hint(part, names)}")
