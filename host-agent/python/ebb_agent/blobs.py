"""Named blobs on several hosts: docs/blob-store.md."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ebb_agent.errors import AgentError

LAST_LINES = 20
"""Last lines of the errors of a command that fails, which are shown."""


class BlobError(AgentError):
    """A blob was not stored or not read. `status`: failed, conflict, unknown or missing."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Blob:
    """An object that is stored under a name."""

    name: str
    version: int
    """1 for the first content of the name, one more for each that replaced it."""
    object_bytes: int


class Blobs:
    """The blob store whose locator is at `locator`: IP:PORT, or the path of a socket.

    Each call runs `ebb-agent blob`, which uses the daemon of this host if there is one.
    """

    def __init__(
        self, locator: str | None = None, *, scheme: str = "scdp", agent: str = "ebb-agent"
    ) -> None:
        self._locator = [] if locator is None else ["--locator", locator]
        self._transport = ["--transport", scheme]
        self._agent = agent

    def put(self, name: str, content: bytes | str | Path, *, multicast: bool = False) -> Blob:
        """Stores bytes, or the file at a path. Raises `BlobError` if it is not stored."""
        options = [*self._transport, *(["--multicast"] if multicast else [])]
        with tempfile.NamedTemporaryFile() as temporary:
            path = content
            if isinstance(content, bytes):
                temporary.write(content)
                temporary.flush()
                path = temporary.name
            (line,) = self._run("put", [*options, f"--name={name}", "--", str(path)])
        return _blob(line, "stored")

    def get(self, name: str, into: str | Path | None = None) -> bytes:
        """Reads a blob: its bytes, or no bytes if it goes into a file.

        Raises `BlobError`, with the status `missing` if there is none of that name.
        """
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "content" if into is None else Path(into)
            (line,) = self._run("get", [*self._transport, "--output", str(path), "--", name])
            _blob(line, "got")
            return path.read_bytes() if into is None else b""

    def list(self) -> Sequence[Blob]:
        """All blobs at one moment, by name."""
        return [_blob(line, None) for line in self._run("list", [])]

    def _run(self, command: str, arguments: Sequence[str]) -> Sequence[dict[str, Any]]:
        line = [self._agent, "blob", command, "--json", *self._locator, *arguments]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise BlobError("failed", "\n".join(done.stderr.splitlines()[-LAST_LINES:]))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        return [line for line in lines if line["event"] == "blob"]


def _blob(line: dict[str, Any], expected: str | None) -> Blob:
    """The blob that a line is about. Raises `BlobError` if its status is not the expected one."""
    status = line.get("status")
    if status != expected:
        reason = line.get("reason", f"{line['name']}: {status}")
        raise BlobError(str(status), str(reason))
    return Blob(line["name"], line["version"], line["bytes"])
