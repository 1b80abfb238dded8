"""docs/notebook/run.ipynb draws a run, whether its tables are Parquet or CSV."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from binaries import BINARIES, ROOT, needs_simulator
from ebb_experiments.results.arrow import SCHEMAS
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.scenario.loaded import all_at_once, scenario

nbclient = pytest.importorskip("nbclient", reason="needs nbclient: run `tools/setup dev`")
nbformat = pytest.importorskip("nbformat", reason="needs nbformat: run `tools/setup dev`")
pytest.importorskip("ipykernel", reason="needs ipykernel: run `tools/setup dev`")

NOTEBOOK = ROOT / "docs" / "notebook" / "run.ipynb"
PATIENCE_S = 120
FIGURES = 3
SCHEMES = ("dctcp", "ndp")
INCAST = {
    "single_rack": {"hosts": 6},
    "schemes": list(SCHEMES),
    "workload": {"traffic": [all_at_once("incast", {"type": "incast", "senders": 5}, 60_000)]},
    "sample": [{"ports": ["*:*"], "every_ns": 50_000}],
}


def simulate(run: Path, **keys: Any) -> None:
    loaded = scenario({**INCAST, **keys}, "test")
    for scheme in SCHEMES:
        Run(loaded, scheme, 1, Virtual(BINARIES, 1), run / scheme).go().write(run / scheme)


def execute(run: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The cells of the notebook after it has run on `run`."""
    monkeypatch.setenv("EBB_RUN", str(run))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    where = {"metadata": {"path": str(run)}}
    nbclient.NotebookClient(notebook, timeout=PATIENCE_S, resources=where).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cells: list[Any], kind: str) -> list[str]:
    data = [output.get("data", {}) for cell in cells for output in cell.outputs]
    return [each[kind] for each in data if kind in each]


def said(cells: list[Any]) -> str:
    return "".join(output.get("text", "") for cell in cells for output in cell.outputs)


@needs_simulator
def test_it_draws_a_run_in_parquet_and_in_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(tmp_path)
    # As `make run` leaves it.
    for name in SCHEMAS:
        (tmp_path / "dctcp" / f"{name}.parquet").unlink()
    cells = execute(tmp_path, monkeypatch)
    assert len(shown(cells, "image/png")) == FIGURES
    assert said(cells) == ""
    told = shown(cells, "text/plain")[0]
    for scheme in SCHEMES:
        flows = pl.read_csv(tmp_path / scheme / "flows.csv", infer_schema_length=None)
        took = flows["fct_ns"].quantile(0.5)
        assert took is not None
        (row,) = (line for line in told.splitlines() if f" {scheme} " in line)
        assert row.split()[1::2][1:4] == ["5", "5", f"{took / 1e6:.2f}".rstrip("0")]


@needs_simulator
def test_what_a_run_did_not_look_at_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate(tmp_path, sample=[])
    cells = execute(tmp_path, monkeypatch)
    assert "did not look at queues" in said(cells)
    assert len(shown(cells, "image/png")) == FIGURES - 1


def test_a_folder_without_a_run_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(nbclient.exceptions.CellExecutionError, match="no run that has ended"):
        execute(tmp_path, monkeypatch)


def test_it_is_kept_without_outputs() -> None:
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    assert [
        cell["id"] for cell in cells if cell.get("outputs") or cell.get("execution_count")
    ] == []
