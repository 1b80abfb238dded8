"""The example does what it says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
from ebb_volume import synthetic, tables

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "volume.py"


def test_the_example_tells_what_it_needs() -> None:
    for words, told in (
        ([], "python volume.py capture.pcap"),
        (["none"], "volume.py: none: cannot"),
    ):
        done = subprocess.run([sys.executable, EXAMPLE, *words], capture_output=True, text=True)
        assert done.returncode == 1
        assert told in done.stderr
        assert "Traceback" not in done.stderr


def test_the_example_names_law_and_capacities(tmp_path: Path) -> None:
    values = synthetic.lognormal(4_000, 1e6, 0.45, np.random.default_rng(1))
    tables.write([synthetic.series(values, "uplink")], tmp_path / "bins.csv")
    done = subprocess.run(
        [sys.executable, EXAMPLE, tmp_path / "bins.csv"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    first, *methods = done.stdout.splitlines()
    assert first.startswith("uplink: 4000 bins, ")
    assert first.endswith("; log-normal")
    assert [line.split()[0] for line in methods] == [
        "meent", "normal", "log-normal", "Weibull", "rule", "observed",
    ]  # fmt: skip
