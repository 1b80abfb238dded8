"""Objects with several replicas, and how far each is: those that a run writes, and those of a blob
store."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any

from ebb_controller.tracts import LocatorError, ask
from ebb_experiments.results.tables import Row
from ebb_topologies.text import printable

MAX_OBJECTS = 64
"""Most objects that a message lists; the others are only counted."""
WRITE = "send-one-to-many"
"""Kind of the transfers that make replicas (docs/workloads.md)."""


@dataclass(frozen=True, slots=True)
class Replica:
    """A copy of an object at a host."""

    host: str
    """Name of the host, or its address where no name is known."""
    state: str
    """`whole`, `part` (under way, or some of it), `none` (to begin), `lost` (failed, or silent)."""
    note: str = ""
    """When it was complete, how much there is, or what went wrong."""

    def as_json(self) -> dict[str, str]:
        """As the page gets it (docs/dashboard.md, `objects`)."""
        return {"host": self.host, "state": self.state, "note": printable(self.note)}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object and its replicas."""

    name: str
    """The words that people know it by."""
    bytes: int
    """Its length."""
    replicas: tuple[Replica, ...]
    """By host."""
    note: str = ""
    """How safe it is, where that is known."""

    def as_json(self) -> dict[str, Any]:
        """As the page gets it (docs/dashboard.md, `objects`)."""
        replicas = [replica.as_json() for replica in self.replicas]
        head = {"name": printable(self.name), "bytes": self.bytes, "note": printable(self.note)}
        return head | {"replicas": replicas}


def objects_message(objects: Sequence[StoredObject], **about: Any) -> dict[str, Any]:
    """The keys of `objects`. `about`: `scheme` and `phase`, or `servers` of a store."""
    head: dict[str, Any] = {"scheme": None, "phase": None, "servers": []}
    return {
        **(head | about),
        "objects": [each.as_json() for each in objects[:MAX_OBJECTS]],
        "more": max(0, len(objects) - MAX_OBJECTS),
    }


def written(
    rows: Iterable[Row], schedule: Iterable[Mapping[str, Any]] = (), at_ns: float = 0
) -> list[StoredObject]:
    """Objects that a phase writes to several hosts, from its flows so far.

    `schedule`: its transfers, so that those are known of which no flow has ended; `at_ns`: the time
    since the phase began, as slowed as theirs.
    """
    replicas: dict[int, dict[str, Replica]] = {}
    names: dict[int, tuple[str, int]] = {}
    for line in schedule:
        if line["kind"] == WRITE:
            names[line["id"]] = (f"{line['traffic']} {line['id']}", line["bytes"])
            state = "part" if line["start_ns"] <= at_ns else "none"
            hosts = line["destinations"]
            replicas[line["id"]] = {host: Replica(host, state) for host in hosts}
    for row in rows:
        if row["kind"] == WRITE and row["destination"] is not None:
            names[row["transfer"]] = (f"{row['traffic']} {row['transfer']}", row["bytes"])
            found = replicas.setdefault(row["transfer"], {})
            found[row["destination"]] = _of_row(row)
    return [
        StoredObject(*names[number], tuple(of for _, of in sorted(found.items())))
        for number, found in sorted(replicas.items())
    ]


def _of_row(row: Row) -> Replica:
    match row["status"]:
        case "finished":
            return Replica(row["destination"], "whole", f"after {row['fct_ns'] / 1e6:.3g} ms")
        case "unfinished":
            return Replica(row["destination"], "part", row["reason"] or "")
    return Replica(row["destination"], "lost", row["reason"] or row["status"])


class BlobStore:
    """A blob store as its locator knows it (docs/blob-store.md)."""

    def __init__(self, locator: str) -> None:
        """`locator`: IP:PORT or the path of a socket."""
        self._locator = locator

    async def sample(self, hosts: Mapping[str, str]) -> dict[str, Any]:
        """Keys of `objects`. `hosts`: names by address. Raises `LocatorError`."""
        status = await self._ask("status", {"ask": "status"})
        page = await self._ask("page", {"ask": "list", "after": None})
        objects: list[StoredObject] = []
        try:
            listed = page["blobs"]
            alive = {each["address"]: each["alive"] for each in status["servers"]}
            for each in listed[:MAX_OBJECTS]:
                found = await ask(self._locator, {"ask": "lookup", "name": each["name"]})
                if found.get("answer") == "found":  # it may have been replaced meanwhile
                    objects.append(_of_blob(each["name"], found["blob"], alive, hosts))
            servers = [_server(each, hosts) for each in status["servers"]]
            more = status["blobs"] - len(objects)
        except KeyError as error:
            raise LocatorError(f"locator at {self._locator}: its answer lacks {error}") from error
        except (TypeError, ValueError, OverflowError) as error:
            raise LocatorError(
                f"locator at {self._locator}: its answer is none: {error}"
            ) from error
        return objects_message(objects, servers=[each.as_json() for each in servers]) | {
            "more": more
        }

    async def _ask(self, answer: str, question: Mapping[str, Any]) -> dict[str, Any]:
        found = await ask(self._locator, question)
        if found.get("answer") != answer:
            reason = found.get("reason", f"no '{answer}'")
            raise LocatorError(f"locator at {self._locator}: {reason}")
        return found


def _of_blob(
    name: str, blob: Mapping[str, Any], alive: Mapping[str, bool], hosts: Mapping[str, str]
) -> StoredObject:
    tracts = blob["tracts"]
    holders = sorted({IPv4Address(each) for tract in tracts for each in tract["holders"]})
    replicas = []
    for holder in map(str, holders):
        held = sum(holder in tract["holders"] for tract in tracts)
        there = alive.get(holder, False)
        # Tracts of a blob are of different rows, so that a server may well hold only some.
        note = f"{held} of {len(tracts)} tracts"
        replicas.append(Replica(hosts.get(holder, holder), "whole" if there else "lost", note))
    copies = [sum(alive.get(each, False) for each in tract["holders"]) for tract in tracts]
    least = f"live copies of each tract: {min(copies)} or more" if copies else "empty"
    bytes_ = sum(tract["bytes"] for tract in tracts)
    return StoredObject(f"{name}, version {blob['version']}", bytes_, tuple(replicas), least)


def _server(server: Mapping[str, Any], hosts: Mapping[str, str]) -> Replica:
    """A server, as a replica of the whole store."""
    address = server["address"]
    notes = [f"{server['rows']} rows"]
    if server["free_bytes"] is not None:
        notes.append(f"{server['free_bytes'] / 1e9:.3g} GB free")
    if (repair := server["repair"]) is not None:
        did = "repaired" if repair["done"] else "repairs"
        notes.append(f"{did}: {repair['checked']} checked, {repair['copied']} copied")
    if not server["alive"]:
        return Replica(hosts.get(address, address), "lost", ", ".join(notes))
    return Replica(hosts.get(address, address), "whole", ", ".join(notes))
