"""Overlap of SCDP's coding with the transfer: an object with 1 % of trims against none."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

from ebb_experiments.bench.hosts import Transfer, TwoHosts
from ebb_experiments.bench.section import Context, Section

OBJECT_BYTES = 50_000_000
TRIM = 0.01
TARGET_PERCENT = 5.0
REPEATS = 7
RATES_BPS = (500_000_000, 1_000_000_000)
"""Rates of the NIC. The first leaves both agents room beside their work on two processors, the
second hardly any."""
WINDOW_PACKETS = 128
CATCH_UP_PACKETS = 64
"""As in `goodput`: lateness of an engine that its NIC makes up for, 0.77 ms at 1 Gbit/s. A
process that has a core to itself needs none of it; on two cores the coders take their turns."""


def parameters(rate_bps: int, trim: float, seed: int) -> dict[str, dict[str, Any]]:
    """Parameters of an agent whose own link trims, in place of a switch between the two."""
    return {
        "engine": {"spin_microseconds": 50},
        "nic": {"rate_bps": rate_bps, "catch_up_packets": CATCH_UP_PACKETS},
        "scdp": {"initial_window_packets": WINDOW_PACKETS, "rto_ns": 50_000_000},
        "faults": {"seed": seed, "leaving": {"trim": trim}},
    }


def run(context: Context) -> Section:
    """Makes pairs of runs, one right after the other; the median of their ratios counts."""
    repeats = 2 if context.quick else REPEATS
    pairs: list[tuple[int, Transfer, Transfer]] = []
    with TwoHosts(context) as hosts:
        for rate_bps in RATES_BPS:
            for seed in range(repeats):
                without = hosts.transfer("scdp", OBJECT_BYTES, parameters(rate_bps, 0.0, seed))
                trimmed = hosts.transfer("scdp", OBJECT_BYTES, parameters(rate_bps, TRIM, seed))
                pairs.append((rate_bps, without, trimmed))
    rows = [
        (
            f"{rate_bps // 1_000_000}",
            without.seconds * 1e3,
            trimmed.seconds * 1e3,
            _longer(without, trimmed),
            int(trimmed.received["trimmed"]),
            int(trimmed.received["decodes"]),
            float(trimmed.received["decode_ns"]) / 1e6,
            int(trimmed.sent["encodes"]),
            float(trimmed.sent["encode_ns"]) / 1e6,
        )
        for rate_bps, without, trimmed in pairs
    ]
    verdicts = []
    for rate_bps in RATES_BPS:
        found = median(_longer(w, t) for rate, w, t in pairs if rate == rate_bps)
        reached = "reached" if found <= TARGET_PERCENT else "missed"
        verdicts.append(
            f"{rate_bps // 1_000_000} Mbit/s: longer by {found:.1f} % (median); "
            f"the target is {TARGET_PERCENT:.0f} %: {reached}"
        )
    return Section(
        title="Codec overlap: completion of one SCDP object with trims and without",
        parameters={
            "object_bytes": OBJECT_BYTES,
            "trim": TRIM,
            **parameters(RATES_BPS[0], TRIM, 0),
        },
        columns=(
            "NIC Mbit/s",
            "none ms",
            "trims ms",
            "longer %",
            "trims",
            "decodes",
            "decode CPU ms",
            "encodes",
            "encode CPU ms",
        ),
        rows=rows,
        verdicts=verdicts,
        details=[(asdict(without), asdict(trimmed)) for _, without, trimmed in pairs],
    )


def _longer(without: Transfer, trimmed: Transfer) -> float:
    """How much longer a transfer with trims took, in percent."""
    return 100 * (trimmed.seconds / without.seconds - 1)
