"""Names of parts of the workload and of nodes in metrics. One that nothing has would leave a metric
without a value in every trial."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology
from ebb_topologies.nearest import hint

from ebb_experiments.scenario.loaded import Loaded
from ebb_experiments.study.metric_spec import Metric


def check_metrics(metrics: Mapping[str, Metric], scenarios: Iterable[Loaded], where: str) -> None:
    """Raises `InputError` if a metric names what no scenario has; `where` is the file."""
    parts: set[str] = set()
    nodes: set[str] = set()
    switches: set[str] = set()
    topologies: dict[int, Topology] = {}
    for loaded in scenarios:
        parts.update(name for phase in loaded.phases for name in phase.names)
        topologies[id(loaded.topology)] = loaded.topology
    for topology in topologies.values():
        nodes.update(host.name for host in (*topology.hosts, *topology.members))
        switches.update(switch.name for switch in topology.switches)
    if not switches:
        return
    nodes |= switches
    for name, metric in metrics.items():
        for key, named in _names(metric, ("traffic", "while_")):
            if not any(fnmatchcase(part, named) for part in parts):
                raise _unknown(f"{where}: metric.{name}.{key}: no traffic is called", named, parts)
        for key, named in _names(metric, ("peer", "destination")):
            if named not in nodes:
                raise _unknown(f"{where}: metric.{name}.{key}: there is no node", named, nodes)
        for key, prefix in _names(metric, ("switches",)):
            if not any(switch.startswith(prefix) for switch in switches):
                what = f"{where}: metric.{name}.{key}: no switch has a name that begins with"
                raise _unknown(what, prefix, switches)


def _names(metric: Metric, keys: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Keys, as the file has them, with each name that one says."""
    for key in keys:
        said: Any = getattr(metric, key, None)
        for name in [said] if isinstance(said, str) else said or ():
            yield key.rstrip("_"), name


def _unknown(what: str, name: str, known: set[str]) -> InputError:
    return InputError(f"{what} '{name}'; {hint(name, sorted(known))}")
