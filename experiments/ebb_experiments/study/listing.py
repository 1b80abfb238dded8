"""The command `list` of `ebb-experiment`: what there is."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from ebb_experiments.results.terminal import print_whole
from ebb_experiments.study.choices import SIZES
from ebb_experiments.study.spec import experiment_file, known_experiments, load_experiment
from ebb_experiments.study.trials import combinations


def main() -> int:
    """Prints all experiments, with how many trials each size has; returns the exit code."""
    table = Table("experiment", "what", "source", "trials quick", "full", box=None)
    for name in known_experiments():
        experiment = load_experiment(experiment_file(name))
        counts = (
            str(sum(1 for _ in combinations(experiment, name, size)))
            if size in experiment.size
            else "-"
            for size in SIZES
        )
        table.add_row(name, experiment.title, experiment.source, *counts)
    print_whole(Console(highlight=False), table)
    return 0
