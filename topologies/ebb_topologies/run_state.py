"""State of a run while it lasts, and after it was killed: its lock, its processes, its
interfaces and its socket.

It is not beside the results: what it names is ended and deleted by whoever runs next, so it lies
where nobody else can write, and goes with the machine's next start, when it means nothing any more.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from ebb_topologies.errors import InputError
from ebb_topologies.installation import results

OF_ROOT = Path("/run/ebb")
"""Folder for the runs of root. Another user's is in `XDG_RUNTIME_DIR`, or else among the temporary
files."""
LOCK_FILE = "lock"
"""Locked while a run uses the folder; its content is the pid of that run."""
FABRIC_SOCKET = "fabric.sock"
"""Name of the socket where the process of a fabric serves its links and captures
(`ebb.fabric.v1`)."""
RINGS = "rings"
"""Folder of the sockets where agents get the rings that they share with the process of a fabric:
one for each interface, by its name."""
DIGITS = 16
"""Length of the hash that names the folder of a run: no two runs of a machine share one."""
ATTEMPTS = 100
"""How often a lock is tried that another run removes meanwhile."""


def state_folder(run_dir: Path) -> Path:
    """Where the state of the run of a directory is, made or not."""
    name = hashlib.sha256(os.fsencode(run_dir.resolve())).hexdigest()[:DIGITS]
    return _base() / name


def usual_socket() -> Path:
    """The socket at which the fabric of `make run` is served."""
    return state_folder(results() / "run") / FABRIC_SOCKET


def made_state_folder(run_dir: Path) -> Path:
    """The same, for this user only. Raises `InputError` if it belongs to another user."""
    machine_folder()
    return _made(state_folder(run_dir))


def machine_folder() -> Path:
    """Where the folders of all runs are, and what is known of runs that concerns the machine."""
    return _made(_base())


def _made(folder: Path) -> Path:
    try:
        folder.mkdir(0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}; runs keep their state there") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise InputError(
            f"{folder} is not a folder of this user alone (mode 0700), as the state of runs "
            "needs it: remove it"
        )
    return folder


def _base() -> Path:
    if os.geteuid() == 0:
        return OF_ROOT
    given = os.environ.get("XDG_RUNTIME_DIR")
    if given and Path(given).is_dir():
        return Path(given) / "ebb"
    return Path(tempfile.gettempdir()) / f"ebb-{os.geteuid()}"


class Claim:
    """A run directory that is ours until this is closed, or until we die."""

    def __init__(self, run_dir: Path) -> None:
        """Raises `InputError` if another run has it."""
        for _ in range(ATTEMPTS):
            self.folder = made_state_folder(run_dir)
            with suppress(FileNotFoundError):
                self._file = self._open(run_dir)
                if self._is_there():
                    break
                os.close(self._file)
        else:
            raise InputError(f"{self.folder}: another run takes its state away again and again")
        os.truncate(self._file, 0)
        os.write(self._file, f"{os.getpid()}\n".encode())

    def _open(self, run_dir: Path) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(self.folder / LOCK_FILE, flags, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(file, 64).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise InputError(
                f"another run is under way in {run_dir} (process {owner}): "
                "wait for its end, or end it with Ctrl-C"
            ) from error
        return file

    def _is_there(self) -> bool:
        """Whether what we have locked is what others will find."""
        with suppress(FileNotFoundError):
            return os.path.samestat(os.fstat(self._file), (self.folder / LOCK_FILE).lstat())
        return False

    def close(self) -> None:
        """Others may have it. What was written down of processes and interfaces stays."""
        (self.folder / LOCK_FILE).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            self.folder.rmdir()
        os.close(self._file)

    def __enter__(self) -> Claim:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
