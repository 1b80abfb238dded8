"""A Dask cluster of the user's: a scheduler and two workers, each a process in a folder of its own.

```
 ebb-experiment run --cluster ──► scheduler ──► worker "one" in one/
                                        └─────► worker "two" in two/
```
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import tomli_w
from ebb_experiments.sim.run import Binaries
from ebb_experiments.study import cli
from ebb_experiments.study.trial import BUILD, OtherInputsError, differing, inputs, parts, run_trial
from ebb_experiments.study.trials import trials
from study_tables import experiment, table

pytestmark = pytest.mark.skipif(
    not Binaries(BUILD).simulator.exists(), reason="needs build/: run `make build`"
)
PATIENCE_SECONDS = 60


@contextmanager
def dask(folder: Path, *arguments: str) -> Iterator[Path]:
    """A process of Dask; what it writes."""
    folder.mkdir()
    log = folder / "log"
    with log.open("wb") as sink:
        command = [sys.executable, "-m", "dask", *arguments]
        process = subprocess.Popen(command, cwd=folder, stdout=sink, stderr=sink)
    try:
        yield log
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_SECONDS)


def wait_for(log: Path, word: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while word not in log.read_text():
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.05)


def test_trials_run_on_the_workers_of_a_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = {"quick": {"seeds": 2, "axes": {"threshold": [30_000]}}}
    file, address = tmp_path / "small.toml", tmp_path / "scheduler.json"
    file.write_text(tomli_w.dumps(table(size=small)))
    quiet = ("--no-dashboard", "--scheduler-file", str(address))
    with ExitStack() as stack:
        start = ("scheduler", "--host", "127.0.0.1", "--port", "0", *quiet)
        stack.enter_context(dask(tmp_path / "scheduler", *start))
        logs = [
            stack.enter_context(
                dask(tmp_path / name, "worker", "--nthreads", "1", "--no-nanny", *quiet)
            )
            for name in ("one", "two")
        ]
        for log in logs:
            wait_for(log, "Registered to")
        where = json.loads(address.read_text())["address"]
        command = ["run", str(file), "--results", str(tmp_path / "res"), "--cluster", where]
        assert cli.main([*command, "--out", str(tmp_path / "report")]) == 0
    assert "4 trials, 0 of them have been run" in capsys.readouterr().out
    found = list((tmp_path / "res" / "small" / "quick").glob("*/meta.json"))
    assert len(found) == 4
    assert {json.loads(meta.read_text())["inputs"] for meta in found} == {inputs(parts())}
    # Nothing of it was left where the workers ran.
    left = {path.name for name in ("one", "two") for path in (tmp_path / name).iterdir()}
    assert left <= {"log", "dask-scratch-space"}


def test_a_worker_with_other_inputs_refuses_in_a_line() -> None:
    planned = parts() | {"ebb-simulator": "another", "ebb_experiments.sim": "another"}
    assert differing(parts()) is None
    words = "this worker has another Ebb: ebb-simulator, ebb_experiments.sim in .* differ"
    first, *_ = trials(experiment(), "x", "quick", Path())
    with pytest.raises(OtherInputsError, match=words) as refusal:
        run_trial(first, None, planned)
    assert "\n" not in str(refusal.value)


def test_a_scheduler_that_is_not_there_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("ebb_experiments.study.run.CONNECT_SECONDS", 0.2)
    file = tmp_path / "small.toml"
    file.write_text(tomli_w.dumps(table()))
    command = ["run", str(file), "--cluster", "tcp://127.0.0.1:1", "--results", str(tmp_path)]
    assert cli.main([*command, "--out", str(tmp_path)]) == 1
    assert "no Dask scheduler at tcp://127.0.0.1:1" in capsys.readouterr().out
