"""The form of an experiment file (docs/experiments.md)."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from ebb_topologies.files import InputError, load, validate
from ebb_topologies.installation import data
from ebb_topologies.nearest import hint
from pydantic import Field, PrivateAttr, model_validator

from ebb_experiments.scenario.loaded import scheme_of
from ebb_experiments.scenario.spec import Override, Spec
from ebb_experiments.study.choices import Scalar
from ebb_experiments.study.grades import Range
from ebb_experiments.study.metric_spec import Flows, Jobs, Metric, Rates, Samples
from ebb_experiments.study.plot_style import PLOT_STYLES, PlotStyle, new_style

PAPERS = data() / "experiments" / "papers"
MAX_SEEDS = 10_000
Kind = Literal["published", "variant", "ours"]
"""Whose claim it is: the paper's, the same under another reading of what it leaves open, or
ours."""
KINDS: tuple[Kind, ...] = get_args(Kind)


class Variant(Override):
    """A scheme of the experiment: an override of a scheme's file, and how it is drawn."""

    look: str | None = None
    """Row of `plot_style.py`; none: the one of the scheme's name, or else label and colour of its
    file."""
    set: dict[str, Any] = {}
    """Paths of the scenario that differ with it, as in `axis.set`."""


class Axis(Spec):
    """Something that is varied."""

    name: str
    label: str
    """Name at the axis of a figure, without the unit."""
    unit: str = ""
    set: str | list[str] = []
    """Paths that take the value: `workload.traffic.NAME.arrivals.load`, `fabric.phantom_queue
    .drain_fraction` or `agent.SECTION.KEY` of the running scheme."""
    values: list[Scalar] = []
    cases: dict[str, dict[str, Any]] = {}
    """Points by name, each with the paths that differ; instead of `set` and `values`."""
    only: list[str] | None = None
    """Schemes that vary along the axis; the others run once and have no point of it."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if bool(self.values) == bool(self.cases) or bool(self.values) != bool(self.set):
            raise ValueError("an axis has either `set` and `values`, or `cases`")
        return self

    @property
    def paths(self) -> list[str]:
        """Keys that the axis sets."""
        return [self.set] if isinstance(self.set, str) else self.set

    @property
    def points(self) -> list[Scalar]:
        """Points of the axis in the file."""
        return list(self.values or self.cases)

    @classmethod
    def of_one(cls, path: str, value: Scalar) -> Self:
        """Axis of `--set PATH=VALUE`: a path with one point. It wins over all that the
        file says, and trials, tables and figures name it."""
        return cls(name=path, label=path, set=path, values=[value])

    @property
    def by_hand(self) -> str | None:
        """`PATH=VALUE`, if the axis comes from `--set`."""
        if self.name != self.set or len(self.values) != 1:
            return None
        [value] = self.values
        return f"{self.name}={str(value).lower() if isinstance(value, bool) else value}"

    def settings(self, point: Scalar) -> dict[str, Any]:
        """Keys and values of a point."""
        return dict(self.cases[str(point)]) if self.cases else dict.fromkeys(self.paths, point)


class Size(Spec):
    """A size of an experiment: its trials."""

    seeds: Annotated[int, Field(ge=1, le=MAX_SEEDS)] | list[int]
    """How many, from 1 on, or which ones: a trial each."""
    axes: dict[str, list[Scalar]] = {}
    """Other points than an axis has in general, by name of the axis."""
    set: dict[str, Any] = {}
    """Paths that differ at this size."""
    schemes: list[str] | None = None
    """Schemes that run at this size; none: all."""
    reduced: str | None = None
    """Reductions from the paper; shown with every claim."""

    @model_validator(mode="after")
    def _each_seed_once(self) -> Self:
        listed = self.seeds if isinstance(self.seeds, list) else []
        twice = next((seed for seed in listed if listed.count(seed) > 1), None)
        if twice is not None:
            raise ValueError(f"seed {twice} is in `seeds` more than once: a trial counts once")
        return self


class OnMininet(Spec):
    """Settings of `--fabric mininet`."""

    dilation: Annotated[float, Field(ge=1, le=10_000)] = 100
    """How many times slower than nominal, so that this machine keeps up."""


class Published(Spec):
    """A number of the paper, drawn as a hollow diamond where ours is to be compared with it."""

    scheme: str
    value: float
    """In the unit of the figure's metric."""
    x: Scalar | None = None
    """Point of the figure's `x`, where it has one."""
    panel: Scalar | None = None
    """Point of the figure's `panels`; none: in every panel."""
    share: Annotated[float, Field(ge=0, le=1)] | None = None
    """Share of values that are not larger, in a `cdf`."""


class Figure(Spec):
    """A figure of an experiment."""

    name: str
    """Name of the figure's file."""
    title: str
    kind: Literal["line", "bars", "cdf", "rank", "box", "time"]
    metric: str
    """`line`, `bars`: its value over the trials; `cdf`, `rank`, `box`: what it is computed from,
    of all seeds together; `time`: one of kind `samples` or `rates`."""
    x: str | None = None
    """Axis of `line`, `bars` and `box`."""
    panels: str | None = None
    """Axis with a panel for each of its points."""
    curves: str | None = None
    """Axis with a line for each of its points, beside the scheme."""
    at: dict[str, Scalar] = {}
    """Points of other axes; none: all points of these together."""
    log: Literal["", "x", "y", "xy"] = ""
    label: str | None = None
    """Label of the values, without the unit; none: the metric's."""
    most: float | None = None
    """Where the axis of the values ends, as at the rate of a link; intervals are cut there."""
    schemes: list[str] | None = None
    published: list[Published] = []
    """The paper's numbers, in figures of kind `line`, `bars` and `cdf`."""
    note: str = ""

    def of_samples(self, *, first: bool) -> bool:
        """Whether it draws the flows or jobs of a trial, or, of the `first` seed, values over
        time."""
        return self.kind in ("cdf", "rank", "box") or (first and self.kind == "time")

    def unfit(self, metric: Metric) -> str | None:
        """Why it cannot draw the metric; none: it can."""
        if self.of_samples(first=False):
            fits, needed = isinstance(metric, Flows | Jobs), "one of flows or jobs"
        elif self.kind == "time":
            fits, needed = isinstance(metric, Samples | Rates), "`samples` or `rates`"
        else:
            fits, needed = not isinstance(metric, Samples | Rates), "one that is a number"
        return None if fits else f"kind {self.kind} draws {needed}, which `{metric.of}` is not"

    @model_validator(mode="after")
    def _lines_have_an_axis(self) -> Self:
        if self.kind == "line" and self.x is None:
            raise ValueError("a figure of kind line needs `x`, the name of an axis")
        return self

    @model_validator(mode="after")
    def _published_have_a_place(self) -> Self:
        if self.published and self.kind not in ("line", "bars", "cdf"):
            raise ValueError(f"published: a figure of kind {self.kind} has no place for them")
        for one in self.published:
            if (one.share is None) == (self.kind == "cdf"):
                raise ValueError("published: `share` is needed in a cdf, and only there")
            if (one.x is None) != (self.x is None):
                raise ValueError("published: `x` is needed where the figure has one")
        return self


class Claim(Spec):
    """A claim of the paper with the band that counts as reproduced."""

    text: str
    """`{AXIS}` stands for the point of `each`."""
    expression: str
    """Metrics as functions of a scheme and of points of the axes:
    `fct("tcp", load=0.4) / fct("hull", load=0.4)`; numbers, + - * /, min(), max(), on_mininet()."""
    published: float | str | list[float | str]
    """The paper's number, or its words; with `each` one for each point."""
    band: tuple[float | None, float | None] | list[tuple[float | None, float | None]]
    """Values that count as reproduced: from, to; with `each` maybe one band for each point."""
    each: dict[str, list[Scalar]] = {}
    """One axis with points: a row for each; the expression knows the point by the axis' name."""
    unit: str = ""
    source: str = ""
    """Section, table or figure; none: the experiment's."""
    kind: Kind | None = None
    """None: the experiment's."""
    numbers: Range | list[Range] | None = None
    """The paper's numbers, from and to, where `published` has words."""
    rounding: Annotated[float, Field(ge=0)] = 0
    """How far the paper's number may be off because of its last digit."""
    neutral: float | None = None
    """Value of no effect; none: what the expression itself says (`Expression.meaning`)."""
    headline: str | None = None
    """Name on the first page, if the paper is known for it."""
    deviations: list[str] = []
    reason: str | None = None
    """Cause of a difference from the paper, once it has been found."""
    tested_by: str | None = None
    """File, from the root of the repository, that a command runs to test the cause."""
    unexplained: bool = False
    """Whether `reason` only says what was seen and tried."""

    @model_validator(mode="after")
    def _lists_match(self) -> Self:
        if len(self.each) > 1:
            raise ValueError("`each` has one axis")
        rows = len(self.points)
        for key in ("published", "band", "numbers"):
            value = getattr(self, key)
            if isinstance(value, list) and len(value) != rows:
                raise ValueError(f"{key} has {len(value)} entries for {rows} rows")
        for row in range(rows):
            low, high = self.band_at(row)
            if low is not None and high is not None and low > high:
                raise ValueError(f"a band goes from the lesser number, not from {low} to {high}")
        return self

    @property
    def points(self) -> list[dict[str, Scalar]]:
        """The point of `each` of every row."""
        if not self.each:
            return [{}]
        ((axis, points),) = self.each.items()
        return [{axis: point} for point in points]

    def published_at(self, index: int) -> float | str:
        """The paper's value of one of the claim's points."""
        return self.published[index] if isinstance(self.published, list) else self.published

    def band_at(self, index: int) -> tuple[float | None, float | None]:
        """The band of one of the claim's points; none: open on that side."""
        return self.band[index] if isinstance(self.band, list) else self.band

    def paper_at(self, index: int) -> Range | None:
        """The paper's numbers of a row; none: it has only words."""
        if self.numbers is not None:
            return self.numbers[index] if isinstance(self.numbers, list) else self.numbers
        published = self.published_at(index)
        if isinstance(published, str):
            return None
        return published - self.rounding, published + self.rounding

    @property
    def cause_status(self) -> str:
        """How sure the cause of a difference is."""
        if self.tested_by is not None:
            return f"tested by {self.tested_by}"
        return "unknown" if self.reason is None or self.unexplained else "seen"


class Experiment(Spec):
    """An experiment file."""

    title: str
    source: str
    about: str = ""
    scenario: dict[str, Any] = {}
    """Keys of a scenario in virtual time, but schemes, override and seed (docs/simulation.md)."""
    tenants: dict[str, Any] = {}
    """Instead of a scenario: a data centre and the tenants that come, at flow level
    (docs/silo.md)."""
    set: dict[str, Any] = {}
    """Paths that differ from the scenario with all schemes, as in `axis.set`."""
    scheme: dict[str, Variant]
    """Schemes in the order of figures and tables."""
    axis: list[Axis] = []
    size: dict[Literal["quick", "full"], Size]
    mininet: OnMininet = OnMininet()
    metric: dict[str, Metric]
    figure: list[Figure] = []
    claim: list[Claim] = []
    kind: Kind = "published"
    """Kind of claims that do not say their own."""
    deviations: list[str] = []
    """Deviations from the paper at any size; shown with every claim."""
    _own: dict[str, PlotStyle] = PrivateAttr(default_factory=dict[str, PlotStyle])
    """Styles of schemes that have no row in `plot_style.py`."""

    @model_validator(mode="after")
    def _names_exist(self) -> Self:
        if bool(self.scenario) == bool(self.tenants):
            raise ValueError("give either [scenario] or [tenants]")
        axes = {axis.name: axis for axis in self.axis}
        for size, spec in self.size.items():
            _known(f"size.{size}.axes", spec.axes, axes)
            _known(f"size.{size}.schemes", spec.schemes, self.scheme)
        for axis in self.axis:
            _known(f"axis {axis.name}: only", axis.only, self.scheme)
        for figure in self.figure:
            _known(f"figure {figure.name}: metric", [figure.metric], self.metric)
            named = [name for name in (figure.x, figure.panels, figure.curves) if name]
            _known(f"figure {figure.name}: axis", [*named, *figure.at], axes)
            if (why := figure.unfit(self.metric[figure.metric])) is not None:
                raise ValueError(f"figure {figure.name}: metric {figure.metric}: {why}")
            for axis_name, point in figure.at.items():
                _known(
                    f"figure {figure.name}: at.{axis_name}", [point], self.every_point(axis_name)
                )
            _known(f"figure {figure.name}: schemes", figure.schemes, self.scheme)
            told = [one.scheme for one in figure.published]
            _known(f"figure {figure.name}: published", told, self.scheme)
        for claim in self.claim:
            _known(f"claim '{claim.text}': each", claim.each, axes)
        for name, scheme in self.scheme.items():
            _known(f"scheme.{name}: look", [scheme.look] if scheme.look else [], PLOT_STYLES)
        return self

    def with_own_styles(self, folder: Path) -> Self:
        """The same with a style for each scheme that has no row in `plot_style.py`, by its file;
        files are relative to the folder. Raises `InputError` for what is wrong in one."""
        rows = {name: each.look or name for name, each in self.scheme.items()}
        others = [PLOT_STYLES[row] for row in rows.values() if row in PLOT_STYLES]
        for name in (name for name, row in rows.items() if row not in PLOT_STYLES):
            label, colour = name, None
            if not self.tenants:
                override = self.scheme[name].model_dump(exclude={"look", "set"})
                found = scheme_of(name, Override(**override), folder)
                label, colour = found.label, found.colour
            self._own[name] = new_style(name, label, colour, others)
            others.append(self._own[name])
        return self

    @property
    def by_hand(self) -> list[str]:
        """Settings that `--set` adds to the file, each as `PATH=VALUE`."""
        return [axis.by_hand for axis in self.axis if axis.by_hand]

    def style(self, scheme: str) -> PlotStyle:
        """Style of a scheme in figures; its name in the file wins over that of the style."""
        of_it = self.scheme[scheme]
        style = self._own.get(scheme) or PLOT_STYLES[of_it.look or scheme]
        return replace(style, label=of_it.label or style.label)

    def points(self, axis: Axis, size: str) -> list[Scalar]:
        """Points of an axis in a size."""
        return self.size[size].axes.get(axis.name, axis.points)  # type: ignore[index]

    def every_point(self, name: str) -> list[Scalar]:
        """Points that an axis has in the file or in a size."""
        (axis,) = (each for each in self.axis if each.name == name)
        of_sizes = (each.axes.get(name, []) for each in self.size.values())
        return [*axis.points, *chain.from_iterable(of_sizes)]

    def schemes(self, size: str) -> list[str]:
        """Schemes of a size."""
        return self.size[size].schemes or list(self.scheme)  # type: ignore[index]


def _known(where: str, names: Any, known: Any) -> None:
    for name in names or ():
        if name not in known:
            raise ValueError(f"{where}: there is no '{name}'; {hint(str(name), map(str, known))}")


def known_experiments() -> list[str]:
    """Names of the experiments that come with Ebb."""
    return sorted(path.stem for path in PAPERS.glob("*.toml"))


def experiment_file(name: str) -> Path:
    """Path of an experiment, by its name in experiments/papers, or of a file of one's own."""
    path = Path(name)
    if path.suffix == ".toml":
        return path
    if name not in known_experiments():
        raise InputError(
            f"unknown experiment '{name}'; {hint(name, known_experiments())} (or name a .toml file)"
        )
    return PAPERS / f"{name}.toml"


def load_experiment(path: Path) -> Experiment:
    """Loads an experiment file. Raises `InputError` in one line."""
    # The band of a claim may have no end.
    return validate(Experiment, load(path, finite=False), str(path)).with_own_styles(path.parent)
