"""Allocations per packet in steady state, counted by a global allocator."""

from __future__ import annotations

import re

from ebb_topologies.files import InputError

from ebb_experiments.bench.machine import output_of
from ebb_experiments.bench.section import Cell, Context, Section

LINE = re.compile(r"^allocations: (?P<what>.+): (?P<count>\d+) for (?P<packets>\d+) packets$")


def run(context: Context) -> Section:
    """Runs `host-agent/transport/tests/allocations.rs`, which prints what it counts."""
    command = ["cargo", "test", "--locked", "-p", "ebb-transport"]
    command += ["--test", "allocations", "--", "--nocapture", "--test-threads=1"]
    rows: list[tuple[Cell, ...]] = []
    for line in output_of(*command, folder=context.root).splitlines():
        found = LINE.search(line.partition("... ")[2] or line)
        if found:
            count, packets = int(found["count"]), int(found["packets"])
            rows.append((found["what"], count, packets, count / max(packets, 1)))
    if not rows:
        raise InputError(
            "the allocation test prints no counts any more; see its `allocations:` lines"
        )
    return Section(
        title="Allocations inside the transports in steady state",
        parameters={},
        columns=("transport", "allocations", "packets", "per packet"),
        rows=rows,
    )
