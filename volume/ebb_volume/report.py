"""One HTML file with everything about the series of an input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ebb_topologies.errors import InputError
from jinja2 import Environment, PackageLoader

from ebb_volume import anomalies, billing, figures, fitting, provisioning, records, text
from ebb_volume.fitting import Unfit
from ebb_volume.notes import Notes
from ebb_volume.records import Record
from ebb_volume.series import Series
from ebb_volume.text import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_FLAGS = 50
"""Flags in a table; JSON has all."""


@dataclass(frozen=True)
class Section:
    """A figure and tables."""

    heading: str
    tables: Sequence[Table]
    image: str = ""
    """As a data address; empty: none."""


@dataclass
class Chapter:
    """Report of a series, or of all."""

    title: str
    sections: list[Section] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Questions:
    """Questions about the series of an input."""

    epsilons: Sequence[float] = provisioning.EPSILONS
    slots_ns: Sequence[int] = ()
    """Other lengths of bins for which capacities are computed than that of the series."""
    interval_ns: int = billing.INTERVAL_NS
    capacity_bps: float | None = None
    rounds: int = 0
    """Rounds of bootstraps."""
    seed: int = 1


def make(series: Sequence[Series], questions: Questions, notes: Notes) -> tuple[str, Record]:
    """The HTML, and the same as a record."""
    chapters = [Chapter("All series", [Section("", [text.of_series(series)])])]
    record: Record = {"series": []}
    for each in series:
        chapter, found = _chapter(each, questions, notes)
        chapters.append(chapter)
        record["series"].append(found)
    bills = Chapter("Bill")
    _answer(bills, record, lambda: _bill(series, questions, notes))
    chapters.append(bills)
    environment = Environment(
        loader=PackageLoader("ebb_volume"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    about = f"{len(series)} series; made by ebb-volume report."
    template = environment.get_template("report.html.j2")
    return template.render(about=about, notes=list(notes), chapters=chapters), record


Answer = tuple[list[Section], Record]


def _chapter(series: Series, questions: Questions, notes: Notes) -> tuple[Chapter, Record]:
    chapter, record = Chapter(str(series.name)), records.of_series(series)
    for ask in (_law, _capacity, _unusual):
        _answer(chapter, record, lambda ask=ask: ask(series, questions, notes))  # type: ignore[misc]
    return chapter, record


def _answer(chapter: Chapter, record: Record, ask: Callable[[], Answer]) -> None:
    """Adds an answer, or why there is none."""
    try:
        sections, found = ask()
    except (Unfit, InputError) as error:
        chapter.sections.append(Section(str(error), []))
        return
    chapter.sections += sections
    record.update(found)


def _section(heading: str, figure: Figure, *tables: Table) -> Section:
    return Section(heading, tables, figures.embedded(figure))


def _law(series: Series, questions: Questions, notes: Notes) -> Answer:
    fit = fitting.fit(series, notes, questions.rounds, questions.seed)
    section = _section("Which law", figures.distribution(fit), *text.of_fit(fit))
    return [section], {"fit": records.of_fit(fit)}


def _capacity(series: Series, questions: Questions, notes: Notes) -> Answer:
    found = provisions(series, questions.slots_ns, questions.epsilons)
    least = min(questions.epsilons)
    lines = {p.method: p.capacity_bps for p in found
             if p.epsilon == least and p.slot_ns == found[0].slot_ns}  # fmt: skip
    return [
        _section(f"Capacity, epsilon {least:g}", figures.time_line(series, lines)),
        _section("Exceeded as asked for?", figures.exceedance(found),
                 text.of_provisions(series, found)),
    ], {"provision": records.of_provisions(series, found)}  # fmt: skip


def provisions(
    series: Series, slots_ns: Sequence[int], epsilons: Sequence[float], learn: float = 1.0,
    moments: bool = False, base10: bool = False,
) -> list[provisioning.Provision]:  # fmt: skip
    """For its own length of bins and for each of the others. Raises `InputError` for one that is no
    multiple, `Unfit` for one of which it has no whole bin."""
    return [
        each
        for slot_ns in sorted({series.slot_ns, *slots_ns})
        for each in provisioning.provision(
            series.joined(slot_ns) if slot_ns != series.slot_ns else series,
            epsilons, learn, moments, base10,
        )
    ]  # fmt: skip


def _unusual(series: Series, questions: Questions, notes: Notes) -> Answer:
    found = anomalies.find(series, questions.capacity_bps)
    table = text.of_anomalies(series, found)
    short = Table(table.title, table.head, table.rows[:MOST_FLAGS], table.note)
    section = _section("Unusual bins and stretches", figures.time_line(series, None, found), short)
    return [section], {"anomalies": records.of_anomalies(series, found)}


def _bill(series: Sequence[Series], questions: Questions, notes: Notes) -> Answer:
    found = billing.bills(series, questions.interval_ns, notes)
    whole = billing.whole(series, found, questions.interval_ns)
    section = _section("95th percentile", figures.percentiles(found), text.of_bills(found, whole))
    return [section], {"p95": records.of_bills(found, whole)}
