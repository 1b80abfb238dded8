"""`ebb-sim SCENARIO`: runs schemes in virtual time and prints what became of the flows."""

from __future__ import annotations

import argparse
import csv
import json
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from pathlib import Path

from ebb_controller.reconcile import ControllerError
from ebb_controller.scheme import load_scheme
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.model import load_topology
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from ebb_experiments.agents import AgentError
from ebb_experiments.measure import Flow, percentile
from ebb_experiments.sim import simulator
from ebb_experiments.sim.run import Binaries, SimResult, run_scheme, transfers
from ebb_experiments.sim.scenario import load_sim_scenario

ROOT = Path(__file__).resolve().parents[3]
TABLE_WIDTH = 108
"""Columns that the table needs."""
EXPECTED = (InputError, ControllerError, AgentError, simulator.SimulatorError, OSError)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ebb-sim", description=__doc__)
    parser.add_argument("scenario", type=Path, help="scenario file (docs/simulation.md)")
    parser.add_argument("--schemes", help="comma-separated, instead of the scenario's")
    parser.add_argument("--threads", type=int, default=0, help="0: one per processor")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "sim", help="directory")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    options = arguments(argv)
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    try:
        return run(options, console)
    except EXPECTED as error:
        console.print(f"ebb-sim: {error}", style="bold red", markup=False, soft_wrap=True)
        return 1
    except KeyboardInterrupt:
        console.print("ebb-sim: interrupted")
        return 130


def run(options: argparse.Namespace, console: Console) -> int:
    scenario = load_sim_scenario(options.scenario)
    folder = options.scenario.parent
    topology = load_topology(folder / scenario.topology)
    names = options.schemes.split(",") if options.schemes else scenario.schemes
    schemes = {name: load_scheme(name) for name in names}
    binaries = Binaries(ROOT / "build")
    out = options.out / options.scenario.stem
    listed = transfers(binaries, topology, folder / scenario.workload, out)
    dilation = Dilation(scenario.dilation)
    console.print(
        f"{topology.name}: {len(topology.hosts)} hosts, {len(topology.switches)} switches, "
        f"{len(listed)} flows; P4 on every hop"
    )
    table = Table("scheme", *_COLUMNS)
    failed = 0
    for name, scheme in schemes.items():
        with _progress_bar(console) as bar:
            tell = _teller(bar, bar.add_task(name, total=None, ms=0.0, rate=0.0), dilation)
            result = run_scheme(
                binaries, scenario, topology, scheme, listed, out / name, options.threads, tell
            )
        _write(out / name, result)
        table.add_row(name, *_row(result, dilation))
        failed += sum(not flow.ok for flow in result.flows) + result.pause.unfinished
    console.print(table)
    console.print(f"flows and switch statistics: {out}/*/", style="dim")
    if failed:
        console.print(f"{failed} flows failed or did not end before the limit", style="bold red")
    return 1 if failed else 0


def _progress_bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[ms]:.2f} ms simulated, {task.fields[rate]:.0f}k packet-hops/s"),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )


def _teller(
    bar: Progress, task: TaskID, dilation: Dilation
) -> Callable[[simulator.Progress], None]:
    started = bar.get_time()

    def tell(at: simulator.Progress) -> None:
        seconds = max(bar.get_time() - started, 1e-9)
        rate = at.packet_hops / seconds / 1e3
        bar.update(task, ms=at.at_ns / dilation.factor / 1e6, rate=rate)

    return tell


_COLUMNS = (
    "finished",
    "FCT p50 ms",
    "p99 ms",
    "max ms",
    "simulated ms",
    "packet-hops",
    "k hops/s",
    "trace",
)


def _row(result: SimResult, dilation: Dilation) -> tuple[str, ...]:
    fct = [flow.fct_ns / 1e6 for flow in result.flows if flow.ok]
    pause = result.pause
    return (
        f"{len(fct)}/{len(result.flows) + pause.unfinished}",
        *(f"{percentile(fct, p):.3f}" for p in (50, 99, 100)),
        f"{pause.at_ns / dilation.factor / 1e6:.2f}",
        f"{pause.packet_hops}",
        f"{pause.packet_hops / max(pause.seconds, 1e-9) / 1e3:.0f}",
        result.report.trace_hash,
    )


def _write(directory: Path, result: SimResult) -> None:
    with (directory / "flows.csv").open("w", newline="") as sink:
        writer = csv.DictWriter(sink, [field.name for field in fields(Flow)])
        writer.writeheader()
        writer.writerows(asdict(flow) for flow in result.flows)
    (directory / "switches.json").write_text(json.dumps(result.report.switches, indent=1))


if __name__ == "__main__":
    sys.exit(main())
