"""Results of a run that has ended, as the page shows them: nothing but the tables is needed."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ebb_experiments.results import folders
from ebb_experiments.results.results import RUN, Results
from ebb_experiments.results.tables import Row, Rows, read_rows
from ebb_topologies.files import InputError, load
from ebb_topologies.text import printable

from ebb_dashboard.feed import Feed
from ebb_dashboard.orders import AnyOrder, Queues, Tables, Volume
from ebb_dashboard.picture import Picture, Place, Wire
from ebb_dashboard.replicas import objects_message, written
from ebb_dashboard.summary import by_phase, curves, summary
from ebb_dashboard.volume import LinkVolumes

DEPTH = 4
"""Folders below the one that is given in which results are looked for."""
MAX_SCHEMES = 40
READ = ("flows", "ports", "queues", "drops", "counters", "tenants")
"""Tables that are kept. Those that may be long are read as they come."""


@dataclass(frozen=True)
class Ended:
    """Results of a scheme."""

    name: str
    label: str
    directory: Path
    results: Results

    @cached_property
    def picture(self) -> Picture:
        """The topology that it ran on."""
        return picture(self.results.run.get("scenario", ""), self.results.rows("ports"))


class Finished:
    """The results below a folder. A `CommandHandler`, for questions only."""

    def __init__(self, directory: Path) -> None:
        """Takes the last run of a folder with several. Raises `InputError` if there are none."""
        directory = folders.run_in(directory)
        files = sorted(
            file for depth in range(DEPTH) for file in directory.glob("*/" * depth + RUN)
        )[:MAX_SCHEMES]
        if not files:
            raise InputError(
                f"{directory}: there are no results of a run in it ({RUN}); those of `make run` "
                "are in results/runs, those of `make sim` in results/sim/SCENARIO"
            )
        self.directory = directory
        found = [_ended(file.parent) for file in files]
        newest = found[max(range(len(files)), key=lambda index: files[index].stat().st_mtime)]
        self.picture = newest.picture
        self.schemes = [each for each in found if each.picture == newest.picture]
        self.left_out = [each for each in found if each.picture != newest.picture]
        """Schemes of an earlier run on another topology, whose results are there still."""

    @cached_property
    def volumes(self) -> LinkVolumes:
        """Volume that left the ports, where it was counted."""
        volumes = LinkVolumes()
        for ended in self.schemes:
            head = {"scheme": ended.name}
            volumes.add(row | head for row in read_rows(ended.directory, "volume"))
        return volumes

    def publish(self, feed: Feed) -> None:
        """Tells all there is."""
        first = self.schemes[0].results.run
        feed.publish(
            "hello",
            {
                "version": 2,
                "title": printable(first.get("scenario", self.directory.name)),
                "clock": "finished",
                "dilation": first.get("dilation", 1),
                "picture": self.picture.as_json(),
                "schemes": [{"name": e.name, "label": e.label} for e in self.schemes],
                "controls": ["queues", "switch", "volume"],
            },
        )
        for ended in self.schemes:
            for phase, curve in curves(read_rows(ended.directory, "samples")).items():
                head = {"scheme": ended.name, "phase": phase}
                feed.publish("curve", head | {"t_ns": curve.t_ns, "bytes": curve.bytes})
            for phase, results in by_phase(ended.results):
                feed.publish("result", summary(ended.name, phase, results, self.picture.ports))
                if objects := written(results.flows):
                    feed.publish(
                        "objects", objects_message(objects, scheme=ended.name, phase=phase)
                    )
        if self.left_out:
            names = ", ".join(ended.name for ended in self.left_out)
            feed.publish("line", {"text": f"left out, of another topology: {names}"})

    async def do(self, order: AnyOrder) -> Any:
        """Answers from the tables."""
        match order:
            case Queues():
                link = self.picture.link(order.link)
                return {
                    "ports": [
                        {"place": str(place), "to": str(far), "queues": list(self._queues(place))}
                        for place, far in ((link.a, link.b), (link.b, link.a))
                        if place.port is not None
                    ]
                }
            case Volume():
                return self.volumes.of(self.picture.link(order.link))
            case Tables():
                cells = [
                    {
                        "name": f"{ended.name}: {row['counter']}",
                        "index": row["port"] if row["reason"] is None else row["reason"],
                        "packets": row["packets"],
                        "bytes": row["bytes"],
                    }
                    for ended in self.schemes
                    for row in ended.results.tables["counters"]
                    if row["switch"] == order.switch
                ]
                nothing = {"name": "groups and members", "entries": [], "more": 0}
                return {"tables": [], "others": nothing, "counters": cells}
        raise InputError("the run has ended: only its results can be looked at")

    def _queues(self, place: Place) -> Iterator[dict[str, Any]]:
        for ended in self.schemes:
            for row in ended.results.tables["queues"]:
                if (row["switch"], row["port"]) == (place.node, place.port) and _used(row):
                    yield _queue(ended, row)


def _used(row: Row) -> bool:
    return bool(row["enqueued_packets"] or row["dropped_packets"])


def _queue(ended: Ended, row: Row) -> dict[str, Any]:
    return {
        "queue": f"{ended.name} {row['phase']} {row['round']}: {row['queue']}",
        "depth_bytes": row["depth_bytes"],
        "max_depth_bytes": row["max_depth_bytes"],
        "average_delay_ns": row["average_delay_ns"],
        "max_delay_ns": row["max_delay_ns"],
        "sent": row["transmitted_packets"],
        "marked": row["ecn_ce_packets"],
        "refused": row["deflected_packets"],
        "dropped": (row["dropped_packets"] or 0) + (row["egress_dropped_packets"] or 0),
        "pauses": None,
    }


def _ended(directory: Path) -> Ended:
    run = load(directory / RUN, finite=False)
    try:
        tables = {name: Rows(name, read_rows(directory, name)) for name in READ}
        name = run["scheme"] if run.get("seed", 1) == 1 else f"{run['scheme']}, {run['seed']}"
        label = run["parameters"]["scheme"]["label"]
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(f"{directory}: its results cannot be read: {error!r}") from error
    return Ended(printable(name), printable(label), directory, Results(tables, run))


def picture(name: str, ports: list[Row]) -> Picture:
    """The picture, from a table of ports: each names the node at the other end."""
    rates = {(row["switch"], row["port"]): row["rate_bps"] for row in ports}
    peers = {(row["switch"], row["port"]): row["peer"] for row in ports if row["peer"]}
    switches = list(dict.fromkeys(switch for switch, _port in peers))
    hosts = list(dict.fromkeys(peer for peer in peers.values() if peer not in set(switches)))
    links = []
    waiting: dict[tuple[str, str], list[Place]] = {}
    for (switch, port), peer in peers.items():
        here, rate = Place(switch, port), rates[switch, port]
        if peer in hosts:
            links.append(Wire(Place(peer, None), here, rate))
        elif waiting.get((peer, switch)):
            # Ports in the same order belong together if two switches have several links.
            links.append(Wire(waiting[peer, switch].pop(0), here, rate))
        else:
            waiting.setdefault((switch, peer), []).append(here)
    return Picture(name, hosts, switches, links)
