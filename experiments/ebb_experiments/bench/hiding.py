"""Whether decoding and encoding hide behind the transfer: 1 % of trims against none (SCDP)."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

from ebb_experiments.bench.hosts import Transfer, TwoHosts
from ebb_experiments.bench.section import Context, Section

OBJECT_BYTES = 50_000_000
TRIM = 0.01
TARGET_PERCENT = 5.0
REPEATS = 5
NIC_RATE_BPS = 500_000_000
"""Leaves both agents room beside their work: the question is whether a decoder holds them up."""
WINDOW_PACKETS = 128


def parameters(trim: float, seed: int) -> dict[str, dict[str, Any]]:
    """The sender's link trims: the switch between the two, so to speak."""
    return {
        "nic": {"rate_bps": NIC_RATE_BPS, "catch_up_packets": 16},
        "scdp": {"initial_window_packets": WINDOW_PACKETS, "rto_ns": 50_000_000},
        "faults": {"seed": seed, "leaving": {"trim": trim}},
    }


def run(context: Context) -> Section:
    """Pairs of runs, one right after the other; the ratio is the median of theirs."""
    repeats = 2 if context.quick else REPEATS
    pairs: list[tuple[Transfer, Transfer]] = []
    with TwoHosts(context) as hosts:
        for seed in range(repeats):
            without = hosts.transfer("scdp", OBJECT_BYTES, parameters(0.0, seed))
            trimmed = hosts.transfer("scdp", OBJECT_BYTES, parameters(TRIM, seed))
            pairs.append((without, trimmed))
    longer = [100 * (trimmed.seconds / without.seconds - 1) for without, trimmed in pairs]
    rows = [
        (
            f"{number}",
            without.seconds * 1e3,
            trimmed.seconds * 1e3,
            percent,
            int(trimmed.received["trimmed"]),
            int(trimmed.received["decodes"]),
            float(trimmed.received["decode_ns"]) / 1e6,
        )
        for number, ((without, trimmed), percent) in enumerate(zip(pairs, longer, strict=True), 1)
    ]
    found = median(longer)
    return Section(
        title="Decoding hidden: completion of one SCDP object with trims and without",
        parameters={"object_bytes": OBJECT_BYTES, "trim": TRIM, **parameters(TRIM, 0)},
        columns=(
            "run",
            "none ms",
            "trims ms",
            "longer %",
            "trims",
            "decodes",
            "decode CPU ms",
        ),
        rows=rows,
        verdicts=[
            f"longer by {found:.1f} % (median); the target is {TARGET_PERCENT:.0f} %: "
            + ("reached" if found <= TARGET_PERCENT else "missed")
        ],
        details=[(asdict(without), asdict(trimmed)) for without, trimmed in pairs],
    )
