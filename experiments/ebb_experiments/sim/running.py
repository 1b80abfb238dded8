"""Runs schemes in virtual time, writes results, prints the outcome of flows."""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms.trimming import TRIMMED
from ebb_topologies import installation
from ebb_topologies.files import InputError, write
from ebb_topologies.text import printable
from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column, Table

from ebb_experiments.results import folders
from ebb_experiments.results.numbers import percentile
from ebb_experiments.results.results import Files, Results
from ebb_experiments.results.tenants import promises
from ebb_experiments.results.terminal import print_error, print_whole
from ebb_experiments.run import simulator
from ebb_experiments.run.agents import AgentError
from ebb_experiments.run.checking import check_inputs
from ebb_experiments.run.conversation import SimulatorError
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import Virtual, Watch
from ebb_experiments.scenario.architecture import check_ported
from ebb_experiments.scenario.faults import file_name
from ebb_experiments.scenario.loaded import Loaded, load_scenario
from ebb_experiments.scenario.volume import volume_slot_ns

if TYPE_CHECKING:
    from ebb_experiments.sim.pictures import Pictures

TABLE_WIDTH = 132
"""Columns that the table needs."""
REASONS = 5
"""Most reasons of failed or unfinished flows that are printed."""
EXPECTED = (InputError, ControllerError, AgentError, SimulatorError, OSError)


def main(options: argparse.Namespace) -> int:
    """Does what the arguments of `cli` say; returns the exit code."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    console = Console(highlight=False)
    console.width = max(console.width, TABLE_WIDTH)
    try:
        return run(options, console)
    except EXPECTED as error:
        print_error("ebb-sim", error)
        return 1
    except KeyboardInterrupt:
        print_error("ebb-sim", "interrupted; the results of what had ended are there")
        return 130


def run(options: argparse.Namespace, console: Console) -> int:
    """Simulates every scheme and prints the tables. Returns the exit code."""
    names = [name.strip() for name in options.schemes.split(",")] if options.schemes else None
    loaded = load_scenario(installation.scenario(options.scenario), names)
    if options.skip:
        loaded = loaded.skipping()
    if options.volume is not None:
        loaded = loaded.counting(volume_slot_ns(options.volume))
    check_inputs(Binaries(options.build).agent, [loaded])
    if options.p4 == "tna":
        check_ported(loaded)
    topology = loaded.topology
    link = topology.links[0]
    console.print(
        f"{loaded.name}: {topology.name}, {len(topology.hosts)} hosts, "
        f"{len(topology.switches)} switches, {link.rate_bps / 1e9:g} Gbit/s; "
        f"P4 on every hop, slowed by {loaded.dilation.factor:g}"
    )
    with folders.kept(options.out / loaded.name) as folder:
        failed = _all(loaded, options, folder, console)
    written = f"tables (Parquet, CSV), run.json, figures (SVG): {folder}/"
    written += " (`latest` beside it names the last run)"
    console.print(written, style="dim", soft_wrap=True)
    if failed:
        total = f"{failed.total()} flows failed or did not end before the limit"
        console.print(total, style="bold red")
        for reason, count in failed.most_common(REASONS):
            console.print(f"  {count}: {printable(reason)}", markup=False, soft_wrap=True)
    return 1 if failed else 0


def _all(
    loaded: Loaded, options: argparse.Namespace, folder: Path, console: Console
) -> Counter[str]:
    """Runs every scheme with every seed; returns how many flows did not end well, by reason."""
    table = Table(Column("scheme", no_wrap=True), box=box.SIMPLE_HEAD)
    for column in _COLUMNS:
        table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    failed: Counter[str] = Counter()
    rows: dict[str, list[str]] = {}
    told: list[str] = []
    seeds = loaded.spec.seeds
    pictures: Pictures | None = None
    commit: str | None = None
    for name in loaded.schemes:
        several = len(list(loaded.rounds(name))) > 1
        of_seeds: dict[str, list[list[str]]] = {}
        for seed in seeds:
            label = name if len(seeds) == 1 else f"{name}, seed {seed}"
            directory = folder / file_name(name)
            if label != name:
                directory /= f"seed-{seed}"
            rounds = []
            with Files(directory) as files, _Bar(console, label, loaded) as bar:
                watch = Watch(bar.step, bar.progress, beside=_get_pictures)
                if not several:
                    watch = replace(watch, completed=files.begin)
                clock = Virtual(Binaries(options.build, options.p4), options.threads, watch)
                for phase_round, results in zip(
                    loaded.rounds(name),
                    Run(loaded, name, seed, clock, directory).rounds(),
                    strict=True,
                ):
                    phase = f", {phase_round.title}" if several else ""
                    rows[label + phase] = _row(results)
                    of_seeds.setdefault(phase, []).append(rows[label + phase])
                    rounds.append(results)
                if seed == seeds[0]:
                    pictures = pictures or _pictures(loaded, folder)
                    pictures.add(name, rounds[0])
                together = Results.together(rounds)
                files.end(together)
            commit = together.run["versions"]["commit"]
            failed += together.reasons
            told += [
                f"{label}: {skip}"
                for each in rounds
                for skip in _skips(each.run.get("skipping", []))
            ]
            for kept in promises(together.rows("tenants")):
                told.append(f"{label}: {kept}")
        if len(seeds) > 1:
            for phase, found in of_seeds.items():
                rows[f"{name}, mean of {len(seeds)}{phase}"] = _mean(found)
    if pictures is not None:
        pictures.write()
    for label, cells in rows.items():
        table.add_row(label, *cells, style="bold" if ", mean of " in label else None)
    print_whole(console, table)
    for line in told:
        console.print(line, markup=False, soft_wrap=True)
    _summarise(loaded, rows, commit, folder)
    return failed


def _skips(skips: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Rounds skipped of each part of the workload, or why none were, for people."""
    for each in skips:
        if each["jumps"]:
            yield (
                f"{each['rounds']} rounds of {each['traffic']} skipped ({each['transfers']} "
                f"transfers, {each['bytes'] / 1e6:.0f} MB, {each['skipped_ns'] / 1e6:.2f} ms) in "
                f"{each['jumps']} jumps"
            )
        else:
            yield f"nothing of {each['traffic']} skipped: {each['refused']}"


def _get_pictures() -> None:
    """Imports what is needed after a run."""
    import_module("ebb_experiments.sim.pictures")
    import_module("ebb_experiments.tour.runs")


def _pictures(loaded: Loaded, folder: Path) -> Pictures:
    """Figures of a scenario, of no run yet."""
    from ebb_experiments.sim.pictures import Pictures

    return Pictures(loaded.name, folder, loaded.colours)


def _summarise(
    loaded: Loaded, rows: dict[str, list[str]], commit: str | None, folder: Path
) -> None:
    """File that `make compare` reads."""
    from ebb_experiments.tour.runs import SUMMARY, Summary

    summary = Summary(
        scenario=loaded.name,
        topology=loaded.topology.name,
        dilation=loaded.dilation.factor,
        switch="ebb-simulator",
        commit=commit,
        busy=[],
        columns=list(_COLUMNS),
        rows=rows,
    )
    write(folder / SUMMARY, summary.model_dump_json(indent=1) + "\n")


class _Bar:
    """The progress of one run, and a line for each thing that was done to the fabric."""

    def __init__(self, console: Console, label: str, loaded: Loaded) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            TextColumn("{task.fields[text]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(label, total=1.0, text="starts")
        self._console = console
        self._label = label
        self._dilation = loaded.dilation.factor
        self._limit_ns = loaded.spec.limit_ns
        self._first: float | None = None

    def __enter__(self) -> _Bar:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def step(self, text: str) -> None:
        if text[0].isdigit():
            self._console.print(f"  {self._label}  {text}", style="dim", markup=False)
        self._bar.update(self._task, text=text)

    def progress(self, at: simulator.Progress) -> None:
        # The simulator tells twice a second.
        self._first = self._first or time.monotonic() - 0.5
        seconds = time.monotonic() - self._first
        at_ns = at.at_ns / self._dilation
        transfers = at.ended + at.unfinished
        text = (
            f"{at_ns / 1e6:.2f} ms simulated, {at.ended} of {transfers} transfers, "
            f"{at.events / seconds / 1e6:.2f} M events/s"
        )
        share = max(at.ended / max(1, transfers), min(1.0, at_ns / self._limit_ns))
        self._bar.update(self._task, completed=share, text=text)


_COLUMNS = (
    "finished",
    "FCT p50 ms",
    "p99 ms",
    "max ms",
    "trims",
    "drops",
    "CE marks",
    "simul. ms",
    "k hops",
    "k hops/s",
    "trace hash",
)


def _row(results: Results) -> list[str]:
    flows = results.tables["flows"]
    fct = [ns / 1e6 for ns in flows.column("fct_ns") if ns is not None]
    about = results.run
    hops = about["packet_hops"]
    return [
        f"{len(fct)}/{len(flows)}",
        *(f"{percentile(fct, p):.3f}" for p in (50, 99, 100)),
        f"{results.total(TRIMMED.name)}",
        f"{sum(results.losses.values())}",
        f"{results.marks}",
        f"{about['simulated_ns'] / 1e6:.2f}",
        f"{hops / 1e3:.0f}",
        f"{hops / max(about['clock_seconds'], 1e-9) / 1e3:.0f}",
        about["trace_hash"],
    ]


def _mean(rows: Sequence[list[str]]) -> list[str]:
    """Means over seeds; of the flows their sums, of the hash of the trace none."""
    *columns, _hash = zip(*rows, strict=True)
    return [*(_mean_cell(cells) for cells in columns), ""]


def _mean_cell(cells: Sequence[str]) -> str:
    if "/" in cells[0]:
        parts = [map(int, cell.split("/")) for cell in cells]
        return "/".join(str(sum(part)) for part in zip(*parts, strict=True))
    decimals = len(cells[0].partition(".")[2]) or 1
    from statistics import mean

    return f"{mean(map(float, cells)):.{decimals}f}"
