"""RaptorQ on one processor, as SCDP uses it."""

from __future__ import annotations

import json

from ebb_experiments.bench.machine import example
from ebb_experiments.bench.section import Context, Section


def run(context: Context) -> Section:
    """Builds and runs `host-agent/transport/examples/codec_speed.rs`."""
    seconds = "0.2" if context.quick else "0.7"
    result = json.loads(example(context, "ebb-transport", "codec_speed", seconds))
    return Section(
        title="RaptorQ on one processor",
        parameters={"symbol_bytes": result["symbol_bytes"], "overhead": result["overhead"]},
        columns=(
            "symbols per block (K)",
            "missing",
            "decode MB/s",
            "decode us/block",
            "encoder us/block",
            "repair us/symbol",
        ),
        names=2,
        rows=[
            (
                row["block_symbols"],
                row["missing"],
                row["decode_mb_per_s"],
                row["decode_us"],
                row["encoder_us"],
                row["repair_symbol_us"],
            )
            for row in result["rows"]
        ],
        details=result,
    )
