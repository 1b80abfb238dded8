"""Files of a report: a folder with an index, for each experiment a folder with its page,
figures, metrics as CSV and summary, and one self-contained HTML file. Pages of other experiments
that are in the folder stay; the index names the commit that each was run with."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ebb_topologies.files import InputError, load, validate
from ebb_topologies.files import write as write_file
from ebb_topologies.installation import commit, work_tree
from jinja2 import Environment, PackageLoader, select_autoescape
from pydantic import BaseModel, ConfigDict

from ebb_experiments.study import history
from ebb_experiments.study.archive import ARCHIVE, Archive, pack, unpack
from ebb_experiments.study.check import Check
from ebb_experiments.study.eta import duration
from ebb_experiments.study.grades import GRADES, Grade
from ebb_experiments.study.papers import ClaimRow, Record, causes, records
from ebb_experiments.study.report import Chapter, band, published, short, shown
from ebb_experiments.study.spec import Experiment, known_experiments

PAGE = "README.md"
SUMMARY = "summary.json"
INDEX = {"index.md.j2": PAGE, "causes.md.j2": "causes.md", "bands.md.j2": "bands.md"}
"""Templates of the pages about all experiments, the first page first."""


class Summary(BaseModel):
    """Row of the index about one experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    source: str
    size: str
    claims: list[ClaimRow]
    trials: int
    """In virtual time, that have been run."""
    planned: int
    """In virtual time."""
    on_mininet: int
    """Trials that have been run there and are valid."""
    seeds: list[int]
    run_seconds: float
    """Real time of the trials in virtual time, added up."""
    commits: list[str]
    """Versions that the trials were run with; one that ends in + with files that differed."""
    evaluated_at: str
    """Commit of what made metrics, claims and figures of the trials."""
    check: Check | None = None
    """Outcome of trials that were run again since; none: that has not been tried."""

    @classmethod
    def of(cls, chapter: Chapter, check: Check | None = None) -> Summary:
        """The summary of a chapter."""
        return cls(
            check=check,
            name=chapter.name,
            title=chapter.experiment.title,
            source=chapter.experiment.source,
            size=chapter.size,
            claims=[ClaimRow.of(row) for row in chapter.checked],
            trials=len(chapter.rows),
            planned=chapter.planned,
            on_mininet=len(chapter.wall.rows),
            seeds=chapter.seeds,
            run_seconds=round(chapter.seconds, 1),
            commits=chapter.commits,
            evaluated_at=_commit(),
        )

    @property
    def some(self) -> bool:
        """Whether any trial of it has been run."""
        return bool(self.trials or self.on_mininet)

    @property
    def grades(self) -> dict[Grade, int]:
        """Grades of the paper's own claims, if it has some."""
        own = [row for row in self.claims if row.kind == "published"] or self.claims
        return {grade: sum(row.grade == grade for row in own) for grade in GRADES}

    @property
    def more(self) -> tuple[int, int, float] | None:
        """Published claims that more trials would decide: how many with at most four times as many
        seeds as were run, how many seeds these are, and the time of all trials with so many, in s.
        None: no claim."""
        most = 4 * len(self.seeds)
        every = (row.enough for row in self.claims if row.kind == "published")
        counts = [count for count in every if count is not None and count <= most]
        if not counts:
            return None
        return len(counts), max(counts), self.run_seconds / len(self.seeds) * max(counts)

    @property
    def age(self) -> history.Age | None:
        """Age of the trials; none: unknown."""
        if self.name not in known_experiments():
            return None
        return history.age(self.commits, self.name, self.seeds, self.check)

    @property
    def stale(self) -> bool:
        """Whether trials are there whose inputs have changed since."""
        return self.some and (age := self.age) is not None and age.stale


def summaries(directory: Path) -> list[Summary]:
    """Those of all pages in a folder, by name. Raises `InputError` naming a file that is none."""
    files = sorted(directory.glob(f"*/{SUMMARY}"))
    return [validate(Summary, load(file), str(file)) for file in files]


def kept(chapters: Sequence[Chapter], directory: Path) -> list[Chapter]:
    """Chapters that nothing has been run of, while the folder has a page of an earlier run."""
    earlier = {each.name for each in summaries(directory) if each.some}
    return [each for each in chapters if not each.some and each.name in earlier]


def archived(folder: Path, experiment: Experiment, size: str) -> Archive | None:
    """Inputs of the page of an earlier run; none: there is none of this size."""
    path = folder / ARCHIVE
    found = unpack(path, experiment.metric) if path.exists() else None
    return found if found is not None and found.size == size else None


def stale_experiments() -> list[str]:
    """The papers' whose committed results are not of today's programs, or that have none."""
    root = work_tree()
    if root is None:
        raise InputError("there is no repository to ask which results are stale")
    found = {each.name: each for each in summaries(root / "docs" / "results")}
    return [name for name in known_experiments() if name not in found or found[name].stale]


def write(
    chapters: Sequence[Chapter], directory: Path, command: str, *, html: bool = True
) -> list[Path]:
    """Pages of the chapters, but of those that are `kept`, the index of all pages in the folder,
    and maybe report.html, of the chapters alone. What an earlier report left of a page that is
    written is taken away. Returns the index and report.html."""
    directory.mkdir(parents=True, exist_ok=True)
    environment = _environment()
    stay = kept(chapters, directory)
    for chapter in chapters:
        if chapter not in stay:
            _write_page(chapter, directory / chapter.name, environment)
    of_all = summaries(directory)
    about: dict[str, Any] = {"command": command, "commit": _commit()}
    rows = {each.name: each.claims for each in of_all}
    index: dict[str, Any] = {
        "summaries": of_all,
        "heading": heading({each.name: each.title for each in of_all}),
        "records": records(rows, [each.name for each in of_all if each.stale]),
        "causes": causes(rows),
        "cheapest": cheapest(of_all),
        "changes": history.changes(repository) if (repository := history.git()) else [],
    }
    written = [
        _rendered(environment, template, directory / page, about | index | _docs(directory))
        for template, page in INDEX.items()
    ][:1]
    if html:
        of_these = {c.name: [ClaimRow.of(row) for row in c.checked] for c in chapters}
        made = {
            "chapters": chapters,
            "heading": heading({c.name: c.experiment.title for c in chapters}),
            "records": records(of_these),
        }
        written.append(
            _rendered(environment, "report.html.j2", directory / "report.html", about | made)
        )
    return written


def cheapest(of_all: Sequence[Summary]) -> list[Summary]:
    """Experiments with undecided claims that more trials would decide, those first that take the
    least time for a claim."""
    costs = [(more[2] / more[0], each) for each in of_all if (more := each.more) is not None]
    return [each for _cost, each in sorted(costs, key=lambda one: one[0])]


def heading(titles: Mapping[str, str]) -> str:
    """Title of a report of experiments by their names: the papers', one of one's own, several."""
    if titles.keys() <= set(known_experiments()):
        return "The papers' experiments, reproduced"
    (title, *others) = titles.values()
    return f"{len(titles)} experiments" if others else title


def keep_check(folder: Path, found: Check) -> None:
    """Writes what trials gave that were run again into the summary of their page."""
    file = folder / SUMMARY
    summary = validate(Summary, load(file), str(file))
    _write_summary(summary.model_copy(update={"check": found}), folder)


def _write_summary(summary: Summary, folder: Path) -> None:
    write_file(folder / SUMMARY, summary.model_dump_json(indent=1) + "\n")


def _kept_check(chapter: Chapter, folder: Path) -> Check | None:
    """The check of a page, as long as it has the same trials."""
    file = folder / SUMMARY
    if not file.exists():
        return None
    earlier = validate(Summary, load(file), str(file))
    same = earlier.commits == chapter.commits and earlier.seeds == chapter.seeds
    return earlier.check if same and earlier.size == chapter.size else None


def _write_page(chapter: Chapter, folder: Path, environment: Environment) -> None:
    folder.mkdir(exist_ok=True)
    pictures = [*chapter.pictures, *([chapter.overview] if chapter.overview else [])]
    drawn = {path for picture in pictures for path in picture.files}
    for kind in ("*.png", "*.svg", "*.csv"):
        for old in set(folder.glob(kind)) - drawn:
            old.unlink()
    if chapter.rows:
        write_file(folder / "metrics.csv", _csv(chapter))
    if chapter.some:
        (folder / ARCHIVE).write_bytes(pack(chapter.archive, chapter.experiment.metric))
    summary = Summary.of(chapter, _kept_check(chapter, folder))
    _rendered(environment, "page.md.j2", folder / PAGE, {"c": chapter, "s": summary})
    _write_summary(summary, folder)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ebb_experiments.study"),
        autoescape=select_autoescape(["html.j2"], default_for_string=False),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": shown, "band": band, "cell": _cell, "number": published, "duration": duration,
        "in": _measured, "percent": _percent,
    }  # fmt: skip
    environment.globals |= {"grades": GRADES, "totals": _totals, "numeric": _numeric}
    return environment


def _totals(of: Mapping[str, Record]) -> list[int]:
    """The last line of the table of grades."""
    grades: tuple[Grade, ...] = (
        "within 25 %", "within a factor of 2", "direction", "not reproduced", "undecided", "not run"
    )  # fmt: skip
    rows = [
        [r.kinds["published"], *(r.count()[grade] for grade in grades), r.of_stale,
         r.kinds["variant"], r.kinds["ours"]]
        for r in of.values()
    ]  # fmt: skip
    return [sum(column) for column in zip(*rows, strict=True)]


def _numeric(of: Mapping[str, Record]) -> str:
    """How many of the published rows with a number come near it, as a sentence."""
    counts = sum((record.numeric for record in of.values()), Counter[Grade]())
    total, near = counts.total(), counts["within 25 %"] + counts["within a factor of 2"]
    if not total:
        return ""
    return (
        f"For {total} published rows the paper has a number: {near} of them "
        f"({100 * near / total:.0f} %) are within a factor of 2 or better, "
        f"{counts['undecided']} are undecided."
    )


def _percent(share: float | None) -> str:
    """Rounded down, so that 100 % are all."""
    return "" if share is None else f"{int(share * 10_000) / 100:g} %"


def _rendered(environment: Environment, template: str, path: Path, values: dict[str, Any]) -> Path:
    write_file(path, environment.get_template(template).render(values))
    return path


def _measured(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit and text else text


def _docs(directory: Path) -> dict[str, str]:
    """Where the page about experiments is, seen from a folder of this Ebb."""
    root = work_tree()
    if root is None or not directory.resolve().is_relative_to(root):
        return {"docs": "experiments.md"}
    return {"docs": os.path.relpath(root / "docs" / "experiments.md", directory.resolve())}


def _commit() -> str:
    """Commit of what evaluates, with + if files differ other than those that are made here; the
    chapters say with what their trials were run."""
    repository = history.git()
    made_only = repository is not None and not repository.dirty
    return short((commit() or "").rstrip("+") if made_only else commit() or "")


def _cell(text: str) -> str:
    """Text that fits into a cell of a Markdown table."""
    return " ".join(text.split()).replace("|", "\\|")


def _csv(chapter: Chapter) -> str:
    axes = [axis.name for axis in chapter.experiment.axis]
    metrics = list(chapter.experiment.metric)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["scheme", "seed", *axes, *metrics])
    for each in chapter.rows:
        labels = [each["labels"].get(axis, "") for axis in axes]
        writer.writerow([each["scheme"], each["seed"], *labels, *(each[m] for m in metrics)])
    return text.getvalue()
