"""Allocations per packet in steady state, counted by a global allocator."""

from __future__ import annotations

import re
import subprocess

from ebb_topologies.files import InputError

from ebb_experiments.bench.section import Cell, Context, Section

LINE = re.compile(r"^allocations: (?P<what>.+): (?P<count>\d+) for (?P<packets>\d+) packets$")


def run(context: Context) -> Section:
    """Runs `host-agent/transport/tests/allocations.rs`, which prints what it counts."""
    command = ["cargo", "test", "--locked", "-p", "ebb-transport"]
    command += ["--test", "allocations", "--", "--nocapture", "--test-threads=1"]
    done = subprocess.run(command, cwd=context.root, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"{' '.join(command)} failed: {(done.stdout + done.stderr).strip()}")
    rows: list[tuple[Cell, ...]] = []
    for line in done.stdout.splitlines():
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
