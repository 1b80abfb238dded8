"""The same traffic on v1model and on the programs for Tofino: the table of docs/tofino-lab.md.

    python -m ebb_experiments.sim.architectures [--write] [--scenarios ..] [--schemes ..]

Runs every scheme in virtual time on both. `--write` replaces the table in the page.
"""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ebb_controller.mechanisms.drop_notification import NOTIFIED
from ebb_controller.mechanisms.trimming import TRIMMED
from ebb_topologies import installation
from ebb_topologies.arguments import Parser

from ebb_experiments.results.numbers import percentile
from ebb_experiments.results.results import Results
from ebb_experiments.results.terminal import print_error
from ebb_experiments.run.run import Binaries, Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.architecture import ARCHITECTURES, check_ported
from ebb_experiments.scenario.loaded import load_scenario
from ebb_experiments.sim.running import EXPECTED

PAGE = "docs/tofino-lab.md"
BEGIN = "<!-- made by `python -m ebb_experiments.sim.architectures --write` -->\n"
END = "<!-- /made -->\n"
SCENARIOS = ("sim/incast", "sim/permutation")
SCHEMES = ("dctcp", "hull", "ndp", "ndp-return", "scdp", "fastlane", "detail")
COLUMNS = (
    "scenario",
    "scheme",
    "P4",
    "finished",
    "FCT p50 ms",
    "p99 ms",
    "CE marks",
    "trims",
    "notifications",
    "drops",
)


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Options of the command."""
    parser = Parser(prog="architectures", description=__doc__)
    parser.add_argument("--write", action="store_true", help=f"replace the table in {PAGE}")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="comma-separated")
    parser.add_argument("--schemes", default=",".join(SCHEMES), help="comma-separated")
    return parser.parse_args(argv)


def rows(scenarios: Sequence[str], schemes: Sequence[str]) -> Iterator[list[str]]:
    """A row for each scenario, scheme and architecture."""
    for name in scenarios:
        loaded = load_scenario(installation.scenario(Path(name)), list(schemes))
        check_ported(loaded)
        for scheme in loaded.schemes:
            for architecture in ARCHITECTURES:
                clock = Virtual(Binaries(installation.programs(), architecture), threads=1)
                with tempfile.TemporaryDirectory(prefix="ebb-architectures-") as folder:
                    results = Run(loaded, scheme, 1, clock, Path(folder)).go()
                yield [name, scheme, architecture, *_cells(results)]


def _cells(results: Results) -> list[str]:
    flows = results.tables["flows"]
    fct = [ns / 1e6 for ns in flows.column("fct_ns") if ns is not None]
    return [
        f"{len(fct)}/{len(flows)}",
        *(f"{percentile(fct, p):.3f}" for p in (50, 99)),
        f"{results.marks}",
        *(f"{results.total(counter.name)}" for counter in (TRIMMED, NOTIFIED)),
        f"{sum(results.losses.values())}",
    ]


def line(cells: Sequence[str]) -> str:
    """A row of a table in Markdown."""
    return "| " + " | ".join(cells) + " |"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table row by row, and writes it if that is asked for; returns the exit code."""
    logging.getLogger("finsy").setLevel(logging.CRITICAL + 1)
    table = [line(COLUMNS), line(["---", "---", "---", *["--:"] * (len(COLUMNS) - 3)])]
    try:
        options = arguments(argv)
        print("\n".join(table), flush=True)
        for cells in rows(options.scenarios.split(","), options.schemes.split(",")):
            table.append(line(cells))
            print(table[-1], flush=True)
    except EXPECTED as error:
        print_error("architectures", error)
        return 1
    if options.write:
        page = Path(PAGE)
        before, _, rest = page.read_text().partition(BEGIN)
        _, _, after = rest.partition(END)
        page.write_text(before + BEGIN + "\n".join(table) + "\n" + END + after)
    return 0


if __name__ == "__main__":
    sys.exit(main())
