"""Numbers of runs to compare; under the wall clock all that stays, `results/runs/TIME`.

A folder has the tables of each scheme (`SCHEME/*.csv`, `SCHEME/run.json`), what was printed
(`table.md`), two figures, and `summary.json`, which is written last and by which runs are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from ebb_topologies.files import InputError, load, validate, write
from ebb_topologies.installation import commit
from ebb_topologies.text import printable
from pydantic import AfterValidator, BaseModel, ConfigDict, model_validator

from ebb_experiments.results import folders
from ebb_experiments.scenario.loaded import Loaded
from ebb_experiments.tour import figures, report
from ebb_experiments.tour.summary import SchemeResult

if TYPE_CHECKING:  # simulations, which have summaries too, do without Mininet
    from ebb_experiments.tour.calibration import OverloadedSchemes

SUMMARY = "summary.json"
QUEUES, COMPLETION = "queues.svg", "completion.svg"


Line = Annotated[str, AfterValidator(printable)]
"""Text with control characters escaped, so that a terminal shows them and does not obey."""


class Summary(BaseModel):
    """Results of one run, with its settings."""

    model_config = ConfigDict(extra="forbid")

    scenario: Line
    topology: Line
    dilation: float
    switch: Line
    """Name of the switch's program."""
    commit: Line | None
    """Commit of what ran, with + if files differed from it; none: unknown."""
    busy: list[Line]
    """Schemes whose rows are not valid, because the machine had too much to do."""
    columns: list[Line]
    """Columns of the table after the scheme's name."""
    rows: dict[Line, list[Line]]
    """Cells by scheme, as they were printed."""

    @model_validator(mode="after")
    def _a_cell_for_each_column(self) -> Self:
        for scheme, cells in self.rows.items():
            if len(cells) != len(self.columns):
                counts = f"{len(cells)} cells for {len(self.columns)} columns"
                raise ValueError(f"the row of '{scheme}' has {counts}")
        return self


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of a run."""

    path: Path

    @classmethod
    def begin(cls, runs: Path) -> RunFolder:
        """A new one, which `LATEST` names from now on."""
        path = folders.begin(runs)
        folders.name_latest(path)
        return cls(path)

    def finish(
        self,
        loaded: Loaded,
        switch: str,
        results: Mapping[str, SchemeResult],
        busy: OverloadedSchemes | None,
    ) -> None:
        """Writes the table, the figures and the summary."""
        rate = loaded.slowest_bps
        write(self.path / "table.md", report.markdown(results, rate))
        looked_at = report.closely(results)
        port = f"Queue at the receiver's port, {looked_at}"
        wanted = loaded.colours
        series = {name: _depths(result, looked_at) for name, result in results.items()}
        if any(series.values()):
            write(self.path / QUEUES, figures.queues(port, series, wanted))
        times = {name: report.completion_ms(result, looked_at) for name, result in results.items()}
        text = figures.completion(f"Flow completion times, {looked_at}", times, wanted)
        write(self.path / COMPLETION, text)
        summary = Summary(
            scenario=loaded.name,
            topology=loaded.topology.name,
            dilation=loaded.dilation.factor,
            switch=switch,
            commit=commit(),
            busy=sorted(busy.names) if busy else [],
            columns=list(report.columns(results)[1:]),
            rows={name: report.row(name, results, rate)[1:] for name in results},
        )
        write(self.path / SUMMARY, summary.model_dump_json(indent=1) + "\n")


def _depths(result: SchemeResult, phase: str) -> list[tuple[float, float]]:
    """Queues of the receiver's port together, in the first round: ms and KB.
    Empty: nothing was looked at."""
    once = result.one(phase)
    return [(at / 1e6, size / 1e3) for at, size in once.depths] if once else []


def finished(runs: Path) -> list[Path]:
    """The folders of runs that have ended, the oldest first."""
    found = runs.glob(f"*/{SUMMARY}") if runs.exists() else ()
    return sorted(each.parent for each in found if not each.parent.is_symlink())


def summary_of(path: Path) -> Summary:
    """The summary in a folder. Raises `InputError`."""
    return validate(Summary, load(path / SUMMARY), str(path / SUMMARY))


def chosen(runs: Path, names: Sequence[str | None]) -> list[Path]:
    """Two runs by name or path; where none is named, the last ones. Raises `InputError`."""
    ended = finished(runs)
    left = [each for each in ended if each.name not in names]
    found: list[Path] = []
    for name in reversed(names):
        if name is None:
            if not left:
                raise InputError(
                    f"{runs}: two runs that have ended are needed, there are {len(ended)}"
                )
            found.append(left.pop())
        else:
            found.append(_named(runs, name, ended))
    return found[::-1]


def _named(runs: Path, name: str, ended: Sequence[Path]) -> Path:
    for path in (runs / name, Path(name)):
        if (path / SUMMARY).exists():
            return path.resolve()
    known = ", ".join(each.name for each in ended[-5:]) or "none"
    raise InputError(f"there is no run '{name}' that has ended; the last ones: {known}")


def settings(summary: Summary) -> dict[str, Any]:
    """Settings that should be equal in two runs, by their names for people."""
    names = ("scenario", "topology", "switch", "dilation", "commit")
    return {name: getattr(summary, name) for name in names}
