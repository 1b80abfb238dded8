"""How fast one flow of each scheme is over one veth, and what it costs."""

from __future__ import annotations

from dataclasses import asdict
from statistics import median
from typing import Any

from ebb_experiments.bench.hosts import Transfer, TwoHosts
from ebb_experiments.bench.section import Context, Section

SCHEMES = ("ndp", "scdp", "reno", "dctcp", "hull")
TARGET_MBPS = 1000.0
TARGET_SCHEMES = ("ndp", "scdp")
AIM_MBPS = {
    1500: {"ndp": 3000.0, "scdp": 4000.0},
    9000: {"ndp": 10_000.0, "scdp": 10_000.0},
}
"""More than the target, by MTU."""
OBJECT_BYTES = 200_000_000
REPEATS = 3

WINDOW_PACKETS = 128
"""Initial window of the receiver-driven schemes: about 1.5 ms at 1 Gbit/s, which covers the latency
of two processes that wake each other."""
IP_AND_TCP_BYTES = 40
"""Headers of a segment without options."""
PACKETS_PER_S = 833_000
"""Rate of the NIC: 10 Gbit/s of 1500 bytes, more than two processes reach. No limit at all would
take away the pacing of pulls."""
PARAMETERS: dict[str, dict[str, Any]] = {
    # Waking a process for each packet costs both ends more than the packet.
    "engine": {"coalesce_microseconds": 50},
    "ndp": {"initial_window_packets": WINDOW_PACKETS, "rto_ns": 50_000_000},
    "scdp": {"initial_window_packets": WINDOW_PACKETS, "rto_ns": 50_000_000},
}


def parameters_at(mtu_bytes: int) -> dict[str, dict[str, Any]]:
    """Parameters of agents with packets of this length."""
    nic = {
        "rate_bps": PACKETS_PER_S * mtu_bytes * 8,
        "mtu_bytes": mtu_bytes,
        "catch_up_packets": 64,
    }
    return PARAMETERS | {"nic": nic, "tcp": {"mss_bytes": mtu_bytes - IP_AND_TCP_BYTES}}


def run(context: Context) -> Section:
    """Runs the schemes a few times in turn; the medians count."""
    repeats = 1 if context.quick else REPEATS
    transfers: dict[str, list[Transfer]] = {scheme: [] for scheme in SCHEMES}
    parameters = parameters_at(context.mtu_bytes)
    with TwoHosts(context) as hosts:
        for _ in range(repeats):
            for scheme in SCHEMES:
                transfer = hosts.transfer(scheme, OBJECT_BYTES, parameters)
                transfers[scheme].append(transfer)
    medians = {s: median(t.goodput_mbps for t in done) for s, done in transfers.items()}
    rows = []
    for scheme, done in transfers.items():
        costs = [transfer.cpu_s_per_gb for transfer in done]
        rows.append(
            (
                scheme,
                medians[scheme],
                max(transfer.goodput_mbps for transfer in done),
                median(sender for sender, _ in costs),
                median(receiver for _, receiver in costs),
                median(float(transfer.sent["retransmitted"]) for transfer in done),
            )
        )
    aims = AIM_MBPS.get(context.mtu_bytes, {})
    verdicts = [_verdict(scheme, medians[scheme], aims.get(scheme)) for scheme in TARGET_SCHEMES]
    return Section(
        title=f"Goodput over one veth, both agents on this machine (median of {repeats})",
        parameters={"object_bytes": OBJECT_BYTES, **parameters},
        columns=(
            "scheme",
            "goodput Mbit/s",
            "best",
            "sender CPU s/GB",
            "receiver CPU s/GB",
            "retransmitted",
        ),
        rows=rows,
        verdicts=verdicts,
        details={s: [asdict(transfer) for transfer in done] for s, done in transfers.items()},
    )


def _verdict(scheme: str, mbps: float, aim_mbps: float | None) -> str:
    goals = [("target", TARGET_MBPS)] + ([("aim", aim_mbps)] if aim_mbps is not None else [])
    reached = [
        f"the {name} is {goal:.0f}: " + ("reached" if mbps >= goal else "missed")
        for name, goal in goals
    ]
    return f"{scheme}: {mbps:.0f} Mbit/s; " + "; ".join(reached)
