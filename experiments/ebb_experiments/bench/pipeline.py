"""The pipeline of a switch alone, without I/O: time and allocations per packet."""

from __future__ import annotations

import json
from typing import Any

from ebb_experiments.bench.machine import example
from ebb_experiments.bench.section import Context, Section

PACKETS = 600_000


def run(context: Context) -> Section:
    """Builds and runs `switch/pipeline/examples/native.rs`."""
    packets = PACKETS // 10 if context.quick else PACKETS
    printed = example(context, "ebb-pipeline", "native", str(packets))
    runs: list[dict[str, Any]] = [json.loads(line) for line in printed.splitlines()]
    quickest = {(r["program"], r["executor"]): r["quickest_batch_ns"] for r in runs}
    ratios = {
        program: quickest[program, "interpreted"] / quickest[program, "native"]
        for program in dict.fromkeys(r["program"] for r in runs)
    }
    allocations = sum(r["allocations"] for r in runs)
    return Section(
        title="The pipeline alone: parser, ingress, egress, deparser, one processor",
        parameters={"packets": packets},
        columns=(
            "program",
            "executor",
            "ns/packet",
            "ingress",
            "egress",
            "quickest 60",
            "allocations/packet",
            "load ms",
        ),
        names=2,
        rows=[
            (
                r["program"],
                r["executor"],
                r["ingress_ns"] + r["egress_ns"],
                r["ingress_ns"],
                r["egress_ns"],
                r["quickest_batch_ns"],
                r["allocations"] / max(r["counted_packets"], 1),
                r["load_ms"],
            )
            for r in runs
        ],
        verdicts=[
            *(
                f"{program}: native code is {ratio:.1f} times as fast as the interpreter "
                "(quickest batches)"
                for program, ratio in ratios.items()
            ),
            f"{allocations} allocations in steady state; the target is none: "
            + ("reached" if allocations == 0 else "missed"),
        ],
        details=runs,
    )
