"""Commands of `ebb-experiment`: run experiments, report on them, check them."""

from __future__ import annotations

import argparse
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from ebb_topologies.files import InputError
from ebb_topologies.installation import commit, programs
from ebb_topologies.own_folder import own_folder
from rich.console import Console
from rich.table import Table

from ebb_experiments.results.terminal import print_whole
from ebb_experiments.run.checking import check_inputs
from ebb_experiments.run.run import Binaries
from ebb_experiments.scenario.loaded import Loaded
from ebb_experiments.study import history, mininet, pages, report
from ebb_experiments.study.archive import Archive
from ebb_experiments.study.check import Check, Pair, RepeatedTrial, choose, differences
from ebb_experiments.study.choices import SIZES, Scalar
from ebb_experiments.study.claims import Checked, check_expressions
from ebb_experiments.study.eta import duration
from ebb_experiments.study.grades import GRADES, Grade
from ebb_experiments.study.references import check_metrics
from ebb_experiments.study.run import Plan, cluster, plan, run
from ebb_experiments.study.spec import (
    Axis,
    Experiment,
    experiment_file,
    known_experiments,
    load_experiment,
)
from ebb_experiments.study.store import Store
from ebb_experiments.study.trial import inputs, parts
from ebb_experiments.study.trials import Trial, on_mininet, trials

QUICK = (
    "The quick size runs shorter and with fewer seeds than the papers; some claims hold only at "
    "the full size, whose grades are in docs/results."
)

STYLES: dict[Grade, str] = dict(
    zip(GRADES, ("green", "green", "green", "yellow", "red", "dim"), strict=True)
)


def main(options: argparse.Namespace) -> int:
    """Does what the arguments of `cli` say; returns the exit code."""
    logging.basicConfig(level=logging.ERROR, format="%(message)s")
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    console = Console(highlight=False)
    return {"run": _run, "report": _report, "check": _check}[options.command](options, console)


def _load(name: str, settings: Sequence[tuple[str, Scalar]] = ()) -> tuple[Experiment, Path]:
    path = experiment_file(name)
    experiment = load_experiment(path)
    check_expressions(experiment, str(path))
    more = [Axis.of_one(*setting) for setting in settings]
    return experiment.model_copy(update={"axis": [*experiment.axis, *more]}), path


def _names(options: argparse.Namespace) -> list[str]:
    if getattr(options, "stale", False):
        return pages.stale_experiments()
    return options.names or known_experiments()


def _run(options: argparse.Namespace, console: Console) -> int:
    store, build = Store(own_folder(options.results)), options.build and options.build.resolve()
    expected = parts(build, options.fabric)
    planned: list[Trial] = []
    refused = 0
    for name in _names(options):
        experiment, path = _load(name, options.set)
        of_it = trials(experiment, path.stem, options.size, path.parent)
        with_packets = (each.loaded for each in of_it if isinstance(each.loaded, Loaded))
        check_metrics(experiment.metric, with_packets, str(path))
        if options.fabric == "mininet":
            of_it = on_mininet(experiment, of_it)
            why = next(filter(None, map(mininet.unfit, of_it)), None)
            if why is not None:
                refused += 1
                console.print(f"{path.stem} is not run on Mininet: {why}", soft_wrap=True)
                continue
        planned += of_it
    what = plan(planned, store, inputs(expected))
    again = mininet.invalid(what.stored, store)
    missing = [*what.missing, *again]
    loaded = (trial.loaded for _id, trial in missing)
    check_inputs(
        Binaries(build or programs()).agent, [each for each in loaded if isinstance(each, Loaded)]
    )
    _print_damage(what, console, "its trial is run again")
    told = f"{len(what.trials)} trials, {len(what.stored)} of them have been run"
    busy = f"; {len(again)} of these again, because the machine was too busy" if again else ""
    console.print(told + busy, soft_wrap=True)
    failed = 0
    if missing and options.fabric == "mininet":
        failed = mininet.run(missing, store, build, inputs(expected), console)
    elif missing:
        with cluster(options.cluster, options.workers) as client:
            failed = run(missing, store, client, build, expected, console)
    _write(options, console, options.size)
    return 1 if failed or (refused and options.names) else 0


def _report(options: argparse.Namespace, console: Console) -> int:
    if not options.results.exists():
        told = f"{options.results} does not exist: pages are made of the archives in {options.out}"
        console.print(told, soft_wrap=True, markup=False)
    elif not options.results.is_dir():
        raise InputError(f"{options.results}: expected the folder of the results of `run`")
    _write(options, console, options.size)
    return 0


def _check(options: argparse.Namespace, console: Console) -> int:
    """Runs the shortest archived trials of each page again; the page says whether they are as they
    were."""
    made_by, out = commit() or "", options.out
    repository = history.git()
    if repository is not None and repository.keeps(out) and repository.dirty:
        raise InputError(f"{repository.dirty[0]} differs from the commit; commit first")
    expected = parts(options.build and options.build.resolve())
    with TemporaryDirectory(prefix="ebb-check-") as folder:
        store = Store(Path(folder))
        pages_of = [page for name in _names(options) if (page := _archived(name, out, store))]
        chosen = [choose(page.archive.virtual, page.planned, options.seconds) for page in pages_of]
        missing = [
            (trial.id(inputs(expected)), trial) for pairs, _left in chosen for _row, trial in pairs
        ]
        if missing:
            with cluster(options.cluster, options.workers) as client:
                run(missing, store, client, options.build, expected, console)
        chapters = []
        for page, (pairs, left_out) in zip(pages_of, chosen, strict=True):
            again = [page.again(pair, store, inputs(expected)) for pair in pairs]
            found = Check(commit=made_by, trials=again, left_out=left_out)
            pages.keep_check(out / page.make.name, found)
            chapters.append(page.make.of_archive(len(page.planned), page.archive))
            console.print(f"{page.make.name} {found.text}", markup=False, soft_wrap=True)
    pages.write(chapters, out, "make results", html=False)
    return 0


@dataclass(frozen=True)
class _Page:
    """A page that was made from an archive of full size."""

    make: report.Maker
    planned: list[Trial]
    archive: Archive

    def again(self, pair: Pair, store: Store, of_inputs: str) -> RepeatedTrial:
        """Outcome of a trial that was run again, beside the archive's."""
        archived, trial = pair
        if not store.has(trial, trial.id(of_inputs)):
            return RepeatedTrial(trial=trial.name, differs=["it failed"])
        tables = store.read(trial, trial.id(of_inputs))
        now = self.make.row(trial, tables, first=False)
        lacking = self.archive.lacking
        return RepeatedTrial(
            trial=trial.name,
            differs=differences(archived, now, self.make.experiment.metric, lacking),
        )


def _archived(name: str, out: Path, store: Store) -> _Page | None:
    """The page of an experiment; none: nothing of full size has been run of it."""
    experiment, path = _load(name)
    archive = pages.archived(out / path.stem, experiment, "full")
    if archive is None or not archive.virtual:
        return None
    make = report.Maker(experiment, path.stem, "full", store, out, ("png",))
    return _Page(make, trials(experiment, path.stem, "full", path.parent), archive)


def check_clean(chapter: report.Chapter, out: Path) -> None:
    """Raises `InputError` if a page that git keeps would have results that no commit has."""
    repository = history.git()
    if not chapter.some or repository is None or not repository.keeps(out):
        return
    dirty = [each for each in chapter.commits if each.endswith("+")]
    if dirty or repository.dirty:
        what = (
            f"trials ran in a tree that differed from {dirty[0].rstrip('+')}; commit, run it again"
            if dirty
            else f"{repository.dirty[0]} differs from the commit; commit first"
        )
        raise InputError(f"{chapter.name} is not written to {out}: {what}, or name another --out")


def _write(options: argparse.Namespace, console: Console, size: str | None) -> None:
    store, build = Store(options.results), options.build and options.build.resolve()
    own_folder(options.out)
    virtual, wall = inputs(parts(build)), inputs(parts(build, "mininet"))
    kinds = ("png",) if options.markdown else ("svg", "png")
    chapters = []
    for name in _names(options):
        experiment, path = _load(name, options.set)
        sizes = [size] if size else [s for s in reversed(SIZES) if s in experiment.size]
        for each in sizes:
            planned = trials(experiment, path.stem, each, path.parent)
            here = plan(planned, store, virtual)
            there = plan(on_mininet(experiment, planned), store, wall)
            if here.some or there.some or each == sizes[-1]:
                make = report.Maker(experiment, path.stem, each, store, options.out, kinds)
                for each_plan in (here, there):
                    _print_damage(each_plan, console, "its trial counts as not run")
                archived = pages.archived(options.out / path.stem, experiment, each)
                if not (here.some or there.some) and archived is not None:
                    chapters.append(make.of_archive(len(here.trials), archived))
                else:
                    made = make.archive(here.stored, there.stored)
                    if options.keep and archived is not None:
                        made = made.with_kept(archived, planned)
                    chapters.append(make.of_archive(len(here.trials), made))
                    check_clean(chapters[-1], options.out)
                break
    for chapter in pages.kept(chapters, options.out):
        console.print(
            f"{chapter.name}, {chapter.size}: no trial is stored, its page of an earlier run stays"
        )
    written = pages.write(chapters, options.out, _command(options), html=not options.markdown)
    if options.names:
        for chapter in chapters:
            if chapter.rows:
                _print_verdicts(chapter.name, chapter.checked, console)
    print_whole(console, _summary(chapters))
    if any(chapter.size == "quick" and chapter.rows for chapter in chapters):
        console.print(QUICK, style="dim", soft_wrap=True)
    if not options.names:
        console.print("each claim: in the report, or name an experiment", style="dim")
    for path in written:
        console.print(f"report: {path}", soft_wrap=True, markup=False)


def _print_damage(what: Plan, console: Console, so: str) -> None:
    for why in what.damaged:
        console.print(
            f"damaged result, {so}: {why}", style="yellow", markup=False, soft_wrap=True
        )  # fmt: skip


def _command(options: argparse.Namespace) -> str:
    """The command that makes the report again, without what is only of this machine."""
    if options.markdown and options.size == "full" and not options.set:
        return "make results"
    names = [Path(name).name for name in options.names]
    size = ["--size", options.size] if options.size else []
    settings = [f"--set {Axis.of_one(*setting).by_hand}" for setting in options.set]
    return " ".join(["ebb-experiment", options.command, *names, *size, *settings])


def _summary(chapters: Sequence[report.Chapter]) -> Table:
    table = Table("claims", box=None, show_footer=True)
    for grade, style in STYLES.items():
        count = str(sum(chapter.grades[grade] for chapter in chapters))
        table.add_column(grade, count, style=style, footer_style=style, justify="right")
    run, planned = (
        sum(len(chapter.rows) for chapter in chapters),
        sum(chapter.planned for chapter in chapters),
    )
    table.add_column("trials", f"{run}/{planned}", justify="right")
    table.add_column("run time", duration(sum(c.seconds for c in chapters)), justify="right")
    for chapter in chapters:
        table.add_row(
            f"{chapter.name}, {chapter.size}",
            *(str(chapter.grades[grade]) for grade in STYLES),
            f"{len(chapter.rows)}/{chapter.planned}",
            duration(chapter.seconds) if chapter.rows else "",
        )
    return table


def _print_verdicts(name: str, checked: list[Checked], console: Console) -> None:
    table = Table(name, "paper", "ours", "band", "", box=None)
    for row in checked:
        table.add_row(
            row.text,
            f"{row.published} {row.unit}",
            "" if row.ours is None else f"{report.shown(row.ours)} {row.unit}",
            report.band(row.band),
            row.grade,
            style=STYLES[row.grade],
        )
    print_whole(console, table)
