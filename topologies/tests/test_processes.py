"""Child processes: what a crashed run left is found and ended, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ebb_topologies.files import InputError
from ebb_topologies.processes import (
    PID_FILE,
    ProcessDied,
    ProcessTable,
    claim,
    end_leftovers,
    interrupted_by_all,
    uninterrupted,
)
from ebb_topologies.run_state import LOCK_FILE, made_state_folder, state_folder
from probes import runs, start_time

SLEEP = ["sleep", "60"]


@pytest.fixture
def bystander() -> Iterator[subprocess.Popen[bytes]]:
    """A process that is none of ours."""
    process = subprocess.Popen(SLEEP)
    yield process
    process.kill()
    process.wait()


def test_a_stopped_table_leaves_nothing(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    processes = [table.spawn(name, SLEEP) for name in ("a", "b")]
    assert all(process.running for process in processes)
    table.stop()
    assert not any(process.running for process in processes)
    assert not state_folder(tmp_path).exists()


def test_one_that_ignores_sigterm_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebb_topologies.processes.STOP_SECONDS", 0.2)
    table = ProcessTable(tmp_path)
    deaf = table.spawn("deaf", ["sh", "-c", "trap '' TERM; echo set; while :; do sleep 0.05; done"])
    while "set" not in deaf.last_words():
        time.sleep(0.01)
    table.stop()
    assert deaf.popen.returncode == -signal.SIGKILL


def test_leftovers_of_a_killed_run_are_ended(tmp_path: Path) -> None:
    """A run of its own, killed with SIGKILL: its children live on until the next run."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from ebb_topologies.processes import ProcessTable, claim\n"
        "lock = claim(Path(sys.argv[1]))\n"
        "table = ProcessTable(Path(sys.argv[1]))\n"
        "for name in ('x', 'y'): print(table.spawn(name, ['sleep', '60']).popen.pid)\n"
        "print('ready', flush=True); time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout is not None
        pids = [int(run.stdout.readline()) for _ in range(2)]
        assert run.stdout.readline() == "ready\n"
        with pytest.raises(InputError, match=rf"another run is under way .* \(process {run.pid}\)"):
            end_leftovers(tmp_path)
        run.kill()
    assert all(runs(pid) for pid in pids)
    assert end_leftovers(tmp_path) == ["x", "y"]
    assert not any(runs(pid) for pid in pids)
    assert end_leftovers(tmp_path) == []


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Whoever runs the tests in the background has SIGINT ignored, and Python with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_a_signal_waits_until_the_work_is_done() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), uninterrupted():
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        done.append("work")
    assert done == ["work"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_whoever_is_ended_takes_down_what_it_started(
    tmp_path: Path, number: signal.Signals
) -> None:
    # Tests under nohup ignore SIGHUP, and what they start would, too.
    command = ["env", "--default-signal", sys.executable, "-c", ENDED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        child = int(run.stdout.readline())
        run.send_signal(number)
        assert run.stdout.read() == "interrupted\n"
    assert not runs(child)


ENDED = """
import sys, time
from pathlib import Path
from ebb_topologies.processes import ProcessTable, interrupted_by_all
interrupted_by_all()
table = ProcessTable(Path(sys.argv[1]))
try:
    print(table.spawn("child", ["sleep", "60"]).popen.pid, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    table.stop()
    print("interrupted")
"""


@pytest.mark.usefixtures("interruptible")
def test_signals_that_are_ignored_stay_so() -> None:
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    try:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        interrupted_by_all()
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def test_what_a_process_has_started_ends_with_it(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    shell = table.spawn("shell", ["sh", "-c", "sleep 60 & echo $!; wait"])
    while not shell.log.read_text().endswith("\n"):
        time.sleep(0.01)
    child = int(shell.log.read_text())
    assert runs(child)
    table.stop()
    deadline = time.monotonic() + 2
    while runs(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not runs(child)


def test_a_recycled_pid_is_spared(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    (made_state_folder(tmp_path) / PID_FILE).write_text(f"{bystander.pid} 12345 switch\n")
    assert end_leftovers(tmp_path) == []
    assert bystander.poll() is None


def test_one_that_leads_no_group_is_none_of_ours(
    tmp_path: Path, bystander: subprocess.Popen[bytes]
) -> None:
    """Whatever the list says: a child of this process is in the group of this process."""
    pid_file = made_state_folder(tmp_path) / PID_FILE
    pid_file.write_text(f"{bystander.pid} {start_time(bystander.pid)} switch\n")
    assert end_leftovers(tmp_path) == []
    assert bystander.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="another user's process needs root")
def test_one_of_another_user_is_none_of_ours(tmp_path: Path) -> None:
    with subprocess.Popen(SLEEP, user=65534, start_new_session=True) as other:
        pid_file = made_state_folder(tmp_path) / PID_FILE
        pid_file.write_text(f"{other.pid} {start_time(other.pid)} switch\n")
        assert end_leftovers(tmp_path) == []
        assert other.poll() is None
        other.kill()


def test_a_torn_list_is_no_obstacle(tmp_path: Path, bystander: subprocess.Popen[bytes]) -> None:
    pid_file = made_state_folder(tmp_path) / PID_FILE
    pid_file.write_text(f"garbage\n{bystander.pid} 0 s1\n{bystander.pid}")
    assert end_leftovers(tmp_path) == []
    assert bystander.poll() is None


def test_only_one_run_per_directory(tmp_path: Path) -> None:
    with claim(tmp_path):
        assert (state_folder(tmp_path) / LOCK_FILE).read_text() == f"{os.getpid()}\n"
        with pytest.raises(InputError, match=f"process {os.getpid()}"):
            claim(tmp_path)
    claim(tmp_path).close()
    assert not state_folder(tmp_path).exists()


def test_a_run_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"folder \S+: (Not a directory|File exists)"):
        claim(tmp_path / "file" / "run")


def test_the_end_of_the_log_is_in_the_message(tmp_path: Path) -> None:
    table = ProcessTable(tmp_path)
    process = table.spawn("s1", ["sh", "-c", "echo 'port 3: no such interface' >&2; exit 4"])
    process.popen.wait()
    assert str(process.died()) == (
        "s1 ended with exit code 4: port 3: no such interface "
        f"(log: {tmp_path / 'logs' / 's1.log'})"
    )
    table.stop()


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ProcessDied, match="s1: cannot start /no/such: No such file"):
        ProcessTable(tmp_path).spawn("s1", ["/no/such"])


def test_a_process_asks_for_the_files_that_it_needs_and_no_more_than_it_may() -> None:
    code = """
import resource
from ebb_topologies.processes import allow_files
resource.setrlimit(resource.RLIMIT_NOFILE, (100, 400))
for count in (50, 300, 1000):
    allow_files(count)
    print(*resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:3] == ["100 400", "300 400", "400 400"]
