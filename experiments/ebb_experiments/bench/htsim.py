"""Whole processes for the same flows: `ebb-sim`, and `htsim_ndp` of Broadcom/csg-htsim, which has
neither P4 programs nor a control plane."""

from __future__ import annotations

import csv
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ebb_controller.scheme import scheme_file
from ebb_topologies.files import InputError

from ebb_experiments.bench.section import Context, Section
from ebb_experiments.bench.simulation import DELAY_NS, MTU_BYTES, RATE_BPS

HTSIM = "htsim_ndp"
BYTES = {4: 5_000_000, 8: 2_000_000, 16: 500_000}
"""Bytes that each host sends to another one, by k."""
MOST = {4: 1.5, 8: 1.0, 16: 0.33}
"""Targets by k: time of `ebb-sim` over that of htsim."""
RUNS = 3
"""How often each is run; the median counts."""
TRIMMABLE_QUEUE = 1
"""Id of the queue in the scheme `ndp` whose packets are trimmed when it is full."""
END_US = 20_000
"""When htsim stops, in simulated us, which is long after the last flow."""

SCENARIO = """\
fat_tree = {{ k = {k}, rate_bps = {rate}, delay_ns = {delay} }}
schemes = ["ndp"]

[override.ndp.agent.ndp]
initial_window_packets = {window}

[[workload.traffic]]
name = "permutation"
pattern = {{ type = "permutation" }}
arrivals = {{ type = "once" }}
size = {{ type = "fixed", bytes = {size} }}

"""


@dataclass(frozen=True, slots=True)
class Setting:
    """Parameters of a run of either simulator."""

    name: str
    queue_packets: int
    window_packets: int


SETTINGS = (
    Setting("queue 8, window 128", 8, 128),
    Setting("htsim's defaults (15, 15)", 15, 15),
)


@dataclass(slots=True)
class Times:
    """Seconds from start to end of each process, by threads for `ebb-sim`."""

    setting: Setting
    k: int
    size: int
    ours: dict[int, list[float]] = field(default_factory=lambda: {1: [], 2: []})
    htsim: list[float] = field(default_factory=list)

    def ratios(self, threads: int) -> list[float]:
        """Ours over htsim's, of runs that followed each other."""
        return [a / b for a, b in zip(self.ours[threads], self.htsim, strict=True)]


def run(context: Context) -> Section:
    """All settings and sizes, programs in turn; without htsim only ours, and no ratios."""
    program = shutil.which(HTSIM)
    found = [
        measure(context, program, setting, k, size // (10 if context.quick else 1))
        for setting in SETTINGS
        for k, size in list(BYTES.items())[: 2 if context.quick else None]
    ]
    return Section(
        title=f"Whole processes: ebb-sim, and {HTSIM} without P4; NDP, permutation, 100 Gbit/s",
        parameters={"mtu_bytes": MTU_BYTES, "delay_ns": DELAY_NS, "runs": RUNS},
        columns=(
            "queue and window",
            "hosts",
            "bytes",
            "one thread s",
            "two threads s",
            "htsim s",
            "one: ratio",
            "two: ratio",
        ),
        names=3,
        rows=[_row(times) for times in found],
        verdicts=_verdicts(found) if program else [f"no {HTSIM} on PATH: no ratios"],
        details=[asdict(times) for times in found],
    )


def measure(context: Context, program: str | None, setting: Setting, k: int, size: int) -> Times:
    """Runs both simulators in turn; the first of ours says which host sends to which."""
    folder = context.directory / f"htsim-k{k}-{setting.queue_packets}-{setting.window_packets}"
    folder.mkdir()
    scenario = folder / "scenario.toml"
    scenario.write_text(_scenario(setting, k, size))
    times = Times(setting, k, size)
    for number in range(1 if context.quick else RUNS):
        for threads, seconds in times.ours.items():
            out = folder / f"{number}-{threads}"
            seconds.append(_ours(context, scenario, threads, out))
        if program is not None:
            matrix = folder / "matrix.cm"
            if number == 0:
                _write_matrix(matrix, out / "scenario/latest/ndp/flows.csv", k**3 // 4, size)
            times.htsim.append(_theirs(program, setting, k, matrix))
    return times


def _scenario(setting: Setting, k: int, size: int) -> str:
    queues = tomllib.loads(scheme_file("ndp").read_text())["fabric"]["ports"]["queue"]
    for queue in queues:
        if queue["id"] == TRIMMABLE_QUEUE:
            queue["capacity_packets"] = setting.queue_packets
    lines = []
    for queue in queues:
        lines.append("[[override.ndp.fabric.ports.queue]]")
        lines += [f"{key} = {json.dumps(value)}" for key, value in queue.items()]
    return SCENARIO.format(
        k=k, rate=RATE_BPS, delay=DELAY_NS, window=setting.window_packets, size=size
    ) + "\n".join(lines)


def _ours(context: Context, scenario: Path, threads: int, out: Path) -> float:
    program = Path(sys.executable).parent / "ebb-sim"
    command: list[str | Path] = [program, scenario, "--threads", str(threads)]
    return _seconds([*command, "--out", out, "--build", context.agent.parent], out.parent)[0]


def _theirs(program: str, setting: Setting, k: int, matrix: Path) -> float:
    """Seconds of a run of htsim, which also must have ended all flows."""
    hosts = k**3 // 4
    command: list[str | Path] = [program, "-nodes", str(hosts), "-mtu", str(MTU_BYTES)]
    command += ["-strat", "rand", "-linkspeed", str(RATE_BPS // 1_000_000)]
    command += ["-hop_latency", str(DELAY_NS / 1000), "-end", str(END_US), "-o", os.devnull]
    command += ["-q", str(setting.queue_packets), "-cwnd", str(setting.window_packets)]
    seconds, output = _seconds([*command, "-tm", matrix], matrix.parent)
    ended = len(set(re.findall(r"^Flow (\S+).* finished at", output, re.MULTILINE)))
    if ended != hosts:
        raise InputError(f"{HTSIM}: {ended} of {hosts} flows ended")
    return seconds


def _write_matrix(path: Path, flows: Path, hosts: int, size: int) -> None:
    """Writes the flows of our run in htsim's format; its hosts count from 0."""
    with flows.open(newline="") as file:
        pairs = [(row["source"][1:], row["destination"][1:]) for row in csv.DictReader(file)]
    lines = [f"Nodes {hosts}", f"Connections {len(pairs)}"]
    for number, (source, destination) in enumerate(pairs, 1):
        ends = f"{int(source) - 1}->{int(destination) - 1}"
        lines.append(f"{ends} id {number} start 0 size {size}")
    path.write_text("\n".join(lines) + "\n")


def _seconds(command: Sequence[str | Path], folder: Path) -> tuple[float, str]:
    """Time and output of a process that must succeed; it runs in that folder."""
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    seconds = time.monotonic() - start
    if done.returncode != 0:
        last = (done.stderr or done.stdout).strip()[-300:]
        raise InputError(f"{Path(command[0]).name} failed (exit code {done.returncode}): {last}")
    return seconds, done.stdout


def _row(times: Times) -> tuple[str | float | int | None, ...]:
    ours = [statistics.median(seconds) for seconds in times.ours.values()]
    names = (times.setting.name, times.k**3 // 4, times.size)
    if not times.htsim:
        return (*names, *ours, None, None, None)
    ratios = [statistics.median(times.ratios(threads)) for threads in times.ours]
    return (*names, *ours, statistics.median(times.htsim), *ratios)


def _verdicts(found: Sequence[Times]) -> list[str]:
    lines = []
    for times in found:
        ratio = min(statistics.median(times.ratios(threads)) for threads in times.ours)
        reached = "reached" if ratio <= MOST[times.k] else "missed"
        lines.append(
            f"{times.k**3 // 4} hosts, {times.setting.name}: {ratio:.2f} times htsim's time; the "
            f"target is {MOST[times.k]:g} at most: {reached}"
        )
    return lines
