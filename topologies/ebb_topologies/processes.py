"""Child processes of a run: started in order, stopped in order, found again after a crash.

Every process is written into the state of the run (`run_state`) with its start time, so that the
next run can end what a killed run left behind, and only that: a recycled pid has another start
time. A lock keeps a second run from taking a live one for a dead one; the kernel lets go of it
however a run ends.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from ebb_topologies.own_folder import own_folder
from ebb_topologies.run_state import Claim, made_state_folder, state_folder

PID_FILE = "pids"
"""Processes of a run, in its state: pid, start time (see `start_time`) and name a line."""
STOP_SECONDS = 3.0
"""How long a process may take to end after SIGTERM before it gets SIGKILL."""


ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Ctrl-C, `kill`, and a terminal that was closed."""


def interrupted_by_all() -> None:
    """Every signal that asks for the end raises KeyboardInterrupt, as Ctrl-C does: whoever is ended
    takes down what it has started. Those that are ignored, as under nohup, stay so."""
    for number in ENDING_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)


def allow_files(count: int) -> None:
    """Lets this process, and those that it starts, have this many files and connections open, as
    far as the system permits: many systems allow 1024 to who does not ask."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Lets signals wait until the end of the block: a process is either started and known or not
    started at all, and what is being taken down is taken down to the end.

    Handlers are Python's, so that a child started meanwhile does not inherit a blocked signal.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are handled in the main thread only
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda arrived, _frame: waiting.append(arrived))
        for number in ENDING_SIGNALS
        if signal.getsignal(number) not in (signal.SIG_IGN, None)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[0])


class ProcessDied(Exception):
    """A process ended before it was ready, with the reason it gave."""


@dataclass
class Process:
    """A child process."""

    name: str
    """Name in messages and of its log."""
    popen: subprocess.Popen[bytes]
    """The process itself, the leader of a group of its own."""
    log: Path
    """File of what it prints to stderr, and to stdout unless that goes elsewhere."""

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.popen.poll() is None

    def last_words(self, lines: int = 6) -> str:
        """The end of its log, for an error message."""
        with contextlib.suppress(OSError):
            text = self.log.read_text(errors="replace").strip().splitlines()
            return " | ".join(line.strip() for line in text[-lines:]) or "it printed nothing"
        return "it left no log"

    def died(self) -> ProcessDied:
        """An error that says how it ended, and what it printed last."""
        code = self.popen.returncode
        how = (
            f"was ended by {signal.Signals(-code).name}"
            if code < 0
            else f"ended with exit code {code}"
        )
        return ProcessDied(f"{self.name} {how}: {self.last_words()} (log: {self.log})")


@dataclass
class ProcessTable:
    """The processes of one run directory."""

    run_dir: Path
    """Directory of the logs, by which the state with `PID_FILE` is found, too."""
    processes: list[Process] = field(default_factory=list)
    """Those that were started and not stopped, in the order of their start."""

    def spawn(
        self,
        name: str,
        command: Sequence[str],
        log: Path | None = None,
        stdout: IO[bytes] | None = None,
    ) -> Process:
        """Starts `command` in a session of its own, so that Ctrl-C reaches us first.

        stderr goes to the log; stdout too, unless the caller wants it elsewhere.
        """
        log = log or self.run_dir / "logs" / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with uninterrupted(), log.open("wb") as sink:
            try:
                popen = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    stdout=stdout or sink,
                    stderr=sink,
                    start_new_session=True,
                )
            except OSError as error:
                raise ProcessDied(f"{name}: cannot start {command[0]}: {error.strerror}") from error
            process = Process(name, popen, log)
            self.processes.append(process)
            with (made_state_folder(self.run_dir) / PID_FILE).open("a") as file:
                file.write(f"{popen.pid} {start_time(popen.pid)} {name}\n")
        return process

    def stop(self, processes: Sequence[Process] | None = None) -> None:
        """SIGTERM to all and what they have started, then SIGKILL to those that do not go."""
        chosen = list(self.processes if processes is None else processes)
        for process in chosen:
            if process.running:
                _signal_group(process.popen.pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_SECONDS
        for process in chosen:
            try:
                process.popen.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                _signal_group(process.popen.pid, signal.SIGKILL)
                process.popen.wait()
        self.processes = [p for p in self.processes if p not in chosen]
        if not self.processes:
            folder = state_folder(self.run_dir)
            (folder / PID_FILE).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty, or not there
                folder.rmdir()


def claim(run_dir: Path) -> Claim:
    """Makes a run directory ours until what is returned is closed, or until we die. Raises
    `InputError`."""
    return Claim(own_folder(run_dir))


def end_leftovers(run_dir: Path) -> list[str]:
    """Ends what a crashed run of the same directory left running; returns the names.

    Raises `InputError` if that run has not crashed at all.
    """
    with claim(run_dir):
        return end_recorded(run_dir)


def end_recorded(run_dir: Path) -> list[str]:
    """Ends every process in the list of a run directory that is ours."""
    pid_file = state_folder(run_dir) / PID_FILE
    if not pid_file.exists():
        return []
    ended = []
    for line in pid_file.read_text().splitlines():
        try:
            pid_text, start_text, name = line.split(" ", 2)
            pid, start = int(pid_text), int(start_text)
        except ValueError:
            continue  # the run died while it wrote this line
        if _is_ours(pid, start):
            _signal_group(pid, signal.SIGKILL)
            ended.append((pid, start, name))
    deadline = time.monotonic() + STOP_SECONDS
    while any(start_time(pid) == start for pid, start, _ in ended):
        # Until they are gone their ports and interfaces are in use.
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    pid_file.unlink()
    return [name for _, _, name in ended]


def _is_ours(pid: int, start: int) -> bool:
    """Whether a process runs that was started then, by this user, as the leader of a group."""
    if not start or start_time(pid) != start:
        return False
    try:
        return Path(f"/proc/{pid}").stat().st_uid == os.geteuid() and os.getpgid(pid) == pid
    except OSError:  # it has just ended
        return False


def _signal_group(leader: int, number: signal.Signals) -> None:
    """Every process of ours leads a group of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(leader, number)


def start_time(pid: int) -> int:
    """Clock ticks after boot at which `pid` was started; 0 if it does not run (any more).

    proc(5): fields 3 and 22 of /proc/PID/stat; the command in field 2 may contain spaces.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    fields = stat.rpartition(")")[2].split()
    return 0 if fields[0] in "ZX" else int(fields[19])
