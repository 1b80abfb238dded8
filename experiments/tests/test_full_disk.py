"""A disk that is full while results are written: the path is told, and nothing partial stays."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from ebb_experiments.results.arrow import SCHEMAS, Batches
from ebb_experiments.results.results import Files, Results
from ebb_experiments.study.store import Store
from ebb_experiments.study.trials import Trial, trials
from study_tables import experiment

HERE = Path(__file__).parent


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of files that do not fit: half of them is written."""
    names: list[str] = []
    write_bytes = Path.write_bytes

    def limited(path: Path, content: bytes) -> int:
        if any(name in path.name for name in names):
            write_bytes(path, content[: len(content) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(path, content)

    monkeypatch.setattr(Path, "write_bytes", limited)
    return names


def trial() -> Trial:
    return trials(experiment(), "x", "quick", HERE)[0]


FILES = {"flows.parquet": b"PAR1", "ports.parquet": b"PAR1", "meta.json": b'{"wall_seconds": 1}'}


@pytest.mark.parametrize("name", FILES)
def test_a_trial_is_stored_whole_or_not_at_all(tmp_path: Path, full: list[str], name: str) -> None:
    store = Store(tmp_path)
    full.append(name)
    with pytest.raises(OSError, match="No space left") as caught:
        store.write(trial(), "id", FILES)
    assert caught.value.filename == str(store.path(trial(), "id") / name)
    assert not store.has(trial(), "id")
    assert list(tmp_path.rglob("*.*")) == []
    full.clear()
    store.write(trial(), "id", FILES)
    assert store.has(trial(), "id")


def test_a_stored_trial_outlives_a_failed_attempt_to_replace_it(
    tmp_path: Path, full: list[str]
) -> None:
    store = Store(tmp_path)
    store.write(trial(), "id", FILES)
    full.append("ports")
    with pytest.raises(OSError, match="No space left"):
        store.write(trial(), "id", FILES)
    assert {path.name for path in store.path(trial(), "id").iterdir()} == set(FILES)


@pytest.mark.parametrize("name", ["run.json", "ports.parquet", "flows.csv"])
def test_results_are_written_whole_or_not_at_all(
    tmp_path: Path, full: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def limited(table: pa.Table, path: Path, real: Any) -> None:
        path.write_bytes(b"half")
        real(table, path)

    for module, function in (("parquet", "write_table"), ("csv", "write_csv")):
        real = getattr(getattr(pa, module), function)
        monkeypatch.setattr(
            f"pyarrow.{module}.{function}", lambda t, p, real=real: limited(t, p, real)
        )
    results = Results({name: Batches(name) for name in ("flows", "ports")}, {})
    full.append(name)
    with pytest.raises(OSError, match="No space left") as caught:
        results.write(tmp_path / "out")
    assert caught.value.filename == str(tmp_path / "out" / name)
    assert list((tmp_path / "out").iterdir()) == []
    full.clear()
    results.write(tmp_path / "out")
    assert len(list((tmp_path / "out").iterdir())) == 5


def test_files_that_were_begun_go_with_a_run_that_fails(tmp_path: Path) -> None:
    flows = {"flows": Batches("flows", [{"seed": 1}])}
    with pytest.raises(ValueError, match="of the run"), Files(tmp_path) as files:
        files.begin(flows)
        raise ValueError("of the run")
    assert list(tmp_path.iterdir()) == []
    with Files(tmp_path) as files:
        files.begin(flows)
        files.end(Results(flows | {"ports": Batches("ports")}, {}))
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"flows.csv", "flows.parquet", "ports.csv", "ports.parquet", "run.json"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("flows.parquet", b"PAR1 and no end"),
        ("flows.parquet", b""),
        ("meta.json", b'{"wall_seconds": '),
        ("meta.json", b"[]"),
        ("meta.json", b"\xff"),
    ],
)
def test_a_stored_result_that_was_cut_short_is_named(
    tmp_path: Path, name: str, content: bytes
) -> None:
    store = Store(tmp_path)
    table = pa.BufferOutputStream()
    pa.parquet.write_table(SCHEMAS["flows"].empty_table(), table)
    whole = {"flows.parquet": table.getvalue().to_pybytes(), "meta.json": b'{"wall_seconds": 1}'}
    store.write(trial(), "id", whole)
    assert store.damage(trial(), "id") is None
    store.write(trial(), "id", whole | {name: content})
    damage = store.damage(trial(), "id")
    assert damage is not None
    assert damage.startswith(str(store.path(trial(), "id") / name))
    assert "\n" not in damage


@pytest.mark.parametrize("command", ["ebb-ctl", "ebb-sim", "ebb-lab", "ebb-experiment"])
def test_help_on_a_full_disk_is_a_line(command: str) -> None:
    with Path("/dev/full").open("w") as full:
        said = subprocess.run(
            [Path(sys.executable).parent / command, "--help"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert said.returncode == 1
    assert said.stderr == f"{command}: [Errno 28] No space left on device\n"
