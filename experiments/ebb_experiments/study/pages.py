"""What a report is written to: a folder with an index, for each experiment a folder with its page,
figures, metrics as CSV and summary, and one self-contained HTML file. Pages of other experiments
that are in the folder stay; the index names the commit that each was run with."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ebb_topologies.files import load, validate
from ebb_topologies.files import write as write_file
from ebb_topologies.installation import commit, work_tree
from jinja2 import Environment, PackageLoader, select_autoescape
from pydantic import BaseModel, ConfigDict

from ebb_experiments.results.numbers import three_digits
from ebb_experiments.study.claims import Verdict
from ebb_experiments.study.eta import duration
from ebb_experiments.study.report import VERDICTS, Chapter, band, short, shown
from ebb_experiments.study.spec import known_experiments

PAGE = "README.md"
SUMMARY = "summary.json"


class Summary(BaseModel):
    """What the index says about one experiment."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    title: str
    source: str
    size: str
    verdicts: dict[Verdict, int]
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
    """What the trials were run with; one that ends in + with files that differed."""
    evaluated_at: str
    """Commit of what made metrics, claims and figures of the trials."""

    @classmethod
    def of(cls, chapter: Chapter) -> Summary:
        return cls(
            name=chapter.name,
            title=chapter.experiment.title,
            source=chapter.experiment.source,
            size=chapter.size,
            verdicts=chapter.verdicts,
            trials=len(chapter.trials),
            planned=chapter.planned,
            on_mininet=len(chapter.wall.trials),
            seeds=chapter.seeds,
            run_seconds=round(chapter.seconds, 1),
            commits=chapter.commits,
            evaluated_at=_commit(),
        )

    @property
    def some(self) -> bool:
        """Whether any trial of it has been run."""
        return bool(self.trials or self.on_mininet)


def summaries(directory: Path) -> list[Summary]:
    """Those of all pages in a folder, by name. Raises `InputError` naming a file that is none."""
    files = sorted(directory.glob(f"*/{SUMMARY}"))
    return [validate(Summary, load(file), str(file)) for file in files]


def kept(chapters: Sequence[Chapter], directory: Path) -> list[Chapter]:
    """Chapters that nothing has been run of, while the folder has a page of an earlier run."""
    earlier = {each.name for each in summaries(directory) if each.some}
    return [each for each in chapters if not each.some and each.name in earlier]


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
    index: dict[str, Any] = {
        "summaries": of_all,
        "counts": counts(each.verdicts for each in of_all),
    }
    index["heading"] = heading({each.name: each.title for each in of_all})
    written = [
        _rendered(environment, "index.md.j2", directory / PAGE, about | index | _docs(directory))
    ]
    if html:
        of_these: dict[str, Any] = {
            "chapters": chapters,
            "counts": counts(c.verdicts for c in chapters),
        }
        of_these["heading"] = heading({c.name: c.experiment.title for c in chapters})
        written.append(
            _rendered(environment, "report.html.j2", directory / "report.html", about | of_these)
        )
    return written


def heading(titles: Mapping[str, str]) -> str:
    """Of a report of experiments, by their names: the papers', one of one's own, or several."""
    if titles.keys() <= set(known_experiments()):
        return "The papers' experiments, reproduced"
    (title, *others) = titles.values()
    return f"{len(titles)} experiments" if others else title


def counts(verdicts: Iterable[dict[Verdict, int]]) -> dict[Verdict, int]:
    """How many of each there are in all."""
    rows = list(verdicts)
    return {verdict: sum(row[verdict] for row in rows) for verdict in VERDICTS}


def _write_page(chapter: Chapter, folder: Path, environment: Environment) -> None:
    folder.mkdir(exist_ok=True)
    drawn = {path for picture in chapter.pictures for path in picture.files}
    for kind in ("*.png", "*.svg", "*.csv"):
        for old in set(folder.glob(kind)) - drawn:
            old.unlink()
    if chapter.rows:
        write_file(folder / "metrics.csv", _csv(chapter))
    summary = Summary.of(chapter)
    _rendered(environment, "page.md.j2", folder / PAGE, {"c": chapter, "s": summary})
    write_file(folder / SUMMARY, summary.model_dump_json(indent=1) + "\n")


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ebb_experiments.study"),
        autoescape=select_autoescape(["html.j2"], default_for_string=False),
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "shown": shown, "band": band, "cell": _cell, "number": _published, "duration": duration,
        "in": _measured,
    }  # fmt: skip
    return environment


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
    """Commit of what evaluates; the chapters say with what their trials were run."""
    return short(commit() or "")


def _published(value: float | str) -> str:
    return value if isinstance(value, str) else three_digits(value)


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
