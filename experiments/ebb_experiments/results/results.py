"""Results of a run as tables, in nominal units: rows, their columns, Parquet and CSV files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Self

from ebb_controller.drop_reason import named
from ebb_controller.mechanisms import summed
from ebb_topologies.files import write

from ebb_experiments.results.switches import COUNTED_TWICE
from ebb_experiments.results.tables import COLUMNS, Row, Rows

NO_LOSS = (*named("replica-to-source", "void-frame"), "link-corrupt")
"""Reasons that are counted among the drops although nothing is missing: a multicast copy that would
go back where it came from, a frame that only filled its link, and one that went on with a bit
flipped."""


@dataclass
class Results:
    """Results of one scheme with one seed, in nominal units."""

    tables: dict[str, Rows]
    """Tables by name, those of `COLUMNS` that there are."""
    run: dict[str, Any] = field(default_factory=dict)
    """Description of the run, with versions and duration: run.json."""

    def rows(self, name: str) -> list[Row]:
        """Rows of a table that is not long."""
        return list(self.tables[name])

    @classmethod
    def together(cls, rounds: Sequence[Results]) -> Results:
        """Results of a scheme in all its phases."""
        if len(rounds) == 1:
            return rounds[0]
        tables: dict[str, Rows] = {}
        for name, rows in (item for each in rounds for item in each.tables.items()):
            tables.setdefault(name, type(rows)(name)).join(rows)
        same = ("scenario", "scheme", "seed", "clock", "dilation", "parameters", "versions")
        run = {key: rounds[0].run[key] for key in same}
        run["wall_seconds"] = sum(each.run["wall_seconds"] for each in rounds)
        run["phases"] = [
            {key: value for key, value in each.run.items() if key not in same} for each in rounds
        ]
        return cls(tables, run)

    @property
    def flows(self) -> list[Row]:
        """Rows of the flows, if there are not many."""
        return self.rows("flows")

    @property
    def unfinished(self) -> int:
        """How many flows failed or did not end, and transfers came to none."""
        return sum(status != "finished" for status in self.tables["flows"].column("status"))

    @property
    def reasons(self) -> Counter[str]:
        """Why flows did not end well, and how many for each reason; numbers in it are left out."""
        flows = self.tables["flows"]
        told = zip(flows.column("status"), flows.column("reason"), strict=True)
        return Counter(
            re.sub(r"\d+", "N", reason or status) for status, reason in told if status != "finished"
        )

    def total(self, counter: str) -> int:
        """Packets of a counter, of all switches and cells."""
        rows = self.tables["counters"]
        told = zip(rows.column("counter"), rows.column("packets"), strict=True)
        return sum(packets for name, packets in told if name == counter)

    @property
    def losses(self) -> dict[str, int]:
        """Packets that were lost anywhere, by reason."""
        lost: dict[str, int] = {}
        for rows in (self.tables["drops"], self.tables["counters"]):
            for reason, packets in zip(rows.column("reason"), rows.column("packets"), strict=True):
                if reason is not None and reason not in (*NO_LOSS, *COUNTED_TWICE):
                    lost[reason] = lost.get(reason, 0) + packets
        return lost

    @property
    def marks(self) -> int:
        """How many CE marks the switches set."""
        return sum(map(self.total, summed("marks")))

    def write(self, directory: Path) -> None:
        """Writes every table, and run.json last: it says that all is there."""
        with Files(directory) as files:
            files.end(self)


RUN = "run.json"
FILES_AT_ONCE = 2
"""How many files are written beside each other: the table of delays is most of all, as Parquet and
as CSV, and Arrow writes without Python's lock."""
FILES = tuple(f"{name}.{kind}" for name in COLUMNS for kind in ("parquet", "csv"))


class Files:
    """Files of results in a folder, some written beside each other. All of them or none: they go if
    the block ends with an error; an `OSError` names the file that could not be written."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._beside = ThreadPoolExecutor(FILES_AT_ONCE)
        self._begun: dict[str, list[Future[None]]] = {}
        """Files of each table."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._beside.shutdown(cancel_futures=True)
        if kind is not None:
            clear(self._directory)

    def begin(self, tables: Mapping[str, Rows]) -> None:
        """Begins to write tables that are whole, but for those that are begun already."""
        for name, rows in tables.items():
            if name not in self._begun:
                writers = rows.writers(self._directory)
                self._begun[name] = [self._beside.submit(each) for each in writers]

    def end(self, results: Results) -> None:
        """Writes all that is not begun, and run.json when all else is there."""
        self.begin(results.tables)
        for written in chain.from_iterable(self._begun.values()):
            written.result()
        write(self._directory / RUN, json.dumps(results.run, indent=1, default=str) + "\n")


def clear(directory: Path) -> None:
    """Takes the results of an earlier run away, so that they are not taken for those of this."""
    for name in (RUN, *FILES):
        (directory / name).unlink(missing_ok=True)
