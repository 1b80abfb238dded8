"""Full tables against empty ones, in the pipeline alone."""

from __future__ import annotations

import json

from ebb_experiments.bench.machine import example
from ebb_experiments.bench.section import Context, Section

MOST = 2.0
"""How much longer a packet may take with full tables than with empty ones."""


def run(context: Context) -> Section:
    """Builds and runs `switch/pipeline/examples/tables`."""
    packets = "60000" if context.quick else "600000"
    result = json.loads(example(context, "ebb-pipeline", "tables", packets))
    rows = result["rows"]
    ratios = ", ".join(f"{row['ratio']:.2f} with {row['flows']} flows" for row in rows)
    met = all(row["ratio"] <= MOST for row in rows)
    return Section(
        title="Full tables, against the same program with empty ones",
        parameters={name: result[name] for name in ("routes", "acl_entries", "members")},
        columns=("flows, met at random", "empty ns/packet", "full ns/packet", "ratio"),
        rows=[(row["flows"], row["empty_ns"], row["full_ns"], row["ratio"]) for row in rows],
        verdicts=[f"{'ok' if met else 'missed'}: at most {MOST:g} times as long: {ratios}"],
        details=result,
    )
