"""Resources of the chip that a program takes, from the logs of p4c's back end: stages, tables with
their memories, PHV containers and dependencies, as text and as a page of HTML."""

from __future__ import annotations

import html
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

UNITS = (
    ("tables", "logical_tables", "ids"),
    ("SRAMs", "rams", "srams"),
    ("TCAMs", "tcams", "tcams"),
    ("map RAMs", "map_rams", "maprams"),
    ("gateways", "gateways", "gateways"),
    ("meter ALUs", "meter_alus", "meters"),
    ("statistics ALUs", "statistic_alus", "stats"),
    ("instructions", "vliw", "instructions"),
    ("action bus bytes", "action_bus_bytes", "bytes"),
)
"""Resources of a stage: the column, and where resources.json has them."""
MEMORIES = ("rams", "tcams", "map_rams")
STYLE = (
    "body{font-family:sans-serif;margin:2em}table{border-collapse:collapse}"
    "td,th{border:1px solid #999;padding:.2em .5em;text-align:left}"
)


@dataclass(frozen=True)
class Section:
    """A table with a title."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]


def sections(folder: Path) -> list[Section]:
    """The sections that the logs in a folder tell of; none: there is no log that is known here."""
    found: list[Section] = []
    resources = _log(folder, "resources.json")
    if resources:
        stages = resources["resources"]["mau"]["mau_stages"]
        found += [_stages(stages), _tables(stages)]
    containers = _log(folder, "phv.json")
    if containers:
        found.append(_containers(containers["containers"]))
    dependencies = _dependencies(folder)
    if dependencies:
        found.append(dependencies)
    return found


def as_text(program: str, found: list[Section]) -> str:
    """The sections with aligned columns."""
    parts = [f"{program}\n"]
    for section in found:
        lines = [section.head, *section.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        parts.append(f"\n{section.title}\n")
        for line in lines:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            parts.append("  ".join(cells).rstrip() + "\n")
    return "".join(parts)


def as_html(program: str, found: list[Section]) -> str:
    """The sections as a page."""

    def line(cells: tuple[str, ...], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(each)}</{tag}>" for each in cells) + "</tr>\n"

    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{program}</title>'
        f"<style>{STYLE}</style></head><body>\n<h1>{program}</h1>\n"
    ]
    for section in found:
        parts.append(f"<h2>{html.escape(section.title)}</h2>\n<table>\n{line(section.head, 'th')}")
        parts += [line(row, "td") for row in section.rows]
        parts.append("</table>\n")
    return "".join([*parts, "</body></html>\n"])


def write(program: str, logs: Path, into: Path) -> str:
    """Writes the page of a program, and its text. Returns where the page is; raises `ValueError`
    without logs."""
    found = sections(logs)
    if not found:
        raise ValueError(f"p4c has left neither resources.json nor phv.json in {logs}")
    into.mkdir(parents=True, exist_ok=True)
    (into / f"{program}.txt").write_text(as_text(program, found))
    page = into / f"{program}.html"
    page.write_text(as_html(program, found))
    return str(page)


def _log(folder: Path, name: str) -> Json | None:
    found = sorted(folder.rglob(name))
    return json.loads(found[0].read_text()) if found else None


def _limit(unit: Json) -> int:
    """How many of a resource a stage has."""
    for name in ("size", "nAlus"):
        if name in unit:
            return int(unit[name])
    return int(unit["nRows"]) * int(unit.get("nColumns") or unit.get("nUnits") or 1)


def _stages(stages: list[Json]) -> Section:
    rows = []
    for stage in stages:
        used = (f"{len(stage[key][items])}/{_limit(stage[key])}" for _, key, items in UNITS)
        kinds = Counter(byte["byte_type"] for byte in stage["xbar_bytes"]["bytes"])
        crossbar = (
            f"{kinds[kind]}/{stage['xbar_bytes'][f'{kind}_size']}" for kind in ("exact", "ternary")
        )
        rows.append((str(stage["stage_number"]), *used, *crossbar))
    columns = (column for column, _, _ in UNITS)
    head = ("stage", *columns, "exact crossbar bytes", "ternary crossbar bytes")
    return Section("Stages: used of those that there are", head, rows)


def _tables(stages: list[Json]) -> Section:
    """Memories by the table that they are used by: a RAM of several tables counts for each."""
    places: dict[str, list[int]] = defaultdict(list)
    memories: dict[str, Counter[str]] = defaultdict(Counter)
    purposes: dict[str, set[str]] = defaultdict(set)
    for stage in stages:
        for table in stage["logical_tables"]["ids"]:
            places[table["table_name"]].append(stage["stage_number"])
        for _, key, items in UNITS:
            for unit in stage[key][items] if key in MEMORIES else []:
                for use in unit["usages"]:
                    memories[use["used_by"]][key] += 1
                    purposes[use["used_by"]].add(use["used_for"])
    rows = []
    for name in sorted(places.keys() | memories.keys(), key=lambda name: (places[name], name)):
        counts = (str(memories[name][key]) for key in MEMORIES)
        where = ", ".join(map(str, sorted(set(places[name])))) or "-"
        rows.append((name, where, *counts, ", ".join(sorted(purposes[name])) or "-"))
    head = ("table", "stages", "SRAMs", "TCAMs", "map RAMs", "for")
    return Section("Tables and their memories", head, rows)


def _containers(containers: list[Json]) -> Section:
    """Containers that hold something; fields that share bits count once."""
    used: Counter[tuple[str, int, str]] = Counter()
    bits: Counter[tuple[str, int, str]] = Counter()
    for each in containers:
        if not each["slices"]:
            continue
        kind = (each["container_type"], each["bit_width"], each["gress"])
        used[kind] += 1
        places = (of["slice_info"] for of in each["slices"])
        bits[kind] += len({bit for of in places for bit in range(of["lsb"], of["msb"] + 1)})
    rows: list[tuple[str, ...]] = [
        (kind, str(width), gress, str(count), f"{bits[kind, width, gress]}/{count * width}")
        for (kind, width, gress), count in sorted(used.items())
    ]
    return Section("PHV", ("kind", "bits", "gress", "containers", "bits in use"), rows)


def _graphs(folder: Path) -> Iterator[Json]:
    """Graphs of tables, whatever their file is called. p4c's log of events, which is none, has a
    document in each line."""
    for path in sorted(folder.rglob("*.json")):
        try:
            read = json.loads(path.read_text())
        except json.JSONDecodeError:
            continue
        if isinstance(read, dict):
            yield from read.get("graphs") or []


def _dependencies(folder: Path) -> Section | None:
    """Edges between tables that are no mere order of control; of several attempts the last of each
    gress."""
    last: dict[str, Json] = {}
    for graph in _graphs(folder):
        edges = graph.get("edges") or []
        if any("dependency" in (edge["metadata"].get("tags") or []) for edge in edges):
            last[graph["metadata"]["gress"]] = graph
    rows: list[tuple[str, ...]] = []
    for gress, graph in sorted(last.items()):
        names = {
            node["id"]: ", ".join(table["name"] for table in node["metadata"]["tables"])
            for node in graph["nodes"]
        }
        critical = _critical(graph)
        for edge in graph["edges"]:
            about = edge["metadata"]
            if about["type"] == "control":
                continue
            kind = f"{about['type']}: {about['sub_type']}"
            ends = (names.get(edge[end], edge[end]) for end in ("source", "target"))
            rows.append((gress, *ends, kind, "yes" if edge["id"] in critical else ""))
    if not rows:
        return None
    head = ("gress", "table", "needed by", "kind", "on the critical path")
    return Section("Dependencies", head, rows)


def _critical(graph: Json) -> set[str]:
    """Edges of the longest chains. The compiler's `is_critical` is said of more: of all that set
    the first stage of the table that they lead to, wherever the chain ends."""
    first_stage = {node["id"]: node["metadata"]["min_stage"] for node in graph["nodes"]}
    last = max(first_stage.values())
    chain = [node for node, stage in first_stage.items() if stage == last]
    before = defaultdict(list)
    for edge in graph["edges"]:
        if edge["metadata"].get("is_critical"):
            before[edge["target"]].append(edge)
    found = set()
    for node in chain:  # grows as it is read
        found |= {edge["id"] for edge in before[node]}
        chain += [edge["source"] for edge in before.pop(node)]
    return found
