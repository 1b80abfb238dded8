"""A running `ebb-simulator`: orders go in, lines come out (docs/simulation.md)."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

Line = dict[str, Any]


class SimulatorError(Exception):
    """The simulator ended or said something unexpected; the message has its last words."""


class Conversation:
    """A process, from its start until `end`."""

    def __init__(
        self,
        binary: Path,
        network: Path,
        log: Path,
        threads: int = 0,
        places: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Starts it. `threads`: 0 as many as there are processors. `places`: names for people, by
        the names of files and options in its errors."""
        self._log = log
        self._places = places
        # The kernel kills it when the thread that started it ends, so that no run is left over.
        dies_with_us = ["setpriv", "--pdeathsig", "KILL", "--"]
        with log.open("w") as errors:
            self._process = subprocess.Popen(
                [*dies_with_us, str(binary), "--threads", str(threads), str(network)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    @property
    def pid(self) -> int:
        """Process id, for measurements of its processor time and memory."""
        return self._process.pid

    def order(self, order: Line) -> None:
        """Sends an order. Raises `SimulatorError` if it has ended."""
        stdin = self._process.stdin
        assert stdin is not None
        try:
            stdin.write(json.dumps(order) + "\n")
            stdin.flush()
        except BrokenPipeError:
            raise self.died() from None

    def lines(self) -> Iterator[Line]:
        """Its lines, until it ends. The caller knows the line that ends the answer to an order."""
        stdout = self._process.stdout
        assert stdout is not None
        for text in stdout:
            yield json.loads(text)

    def next(self, event: str) -> Line:
        """Its next line, which must be of this event. Raises `SimulatorError` if it is not."""
        for line in self.lines():
            if line.get("event") == event:
                return line
            raise SimulatorError(f"the simulator said {line} instead of `{event}`")
        raise self.died()

    def died(self) -> SimulatorError:
        """The error that says why it ended, after its last line."""
        code = self.end()
        how = f" by {signal.Signals(-code).name}" if code < 0 else ""
        words = _last_words(self._log.read_text(errors="replace"))
        for file, place in self._places.items():
            words = words.replace(file, place)
        return SimulatorError(f"the simulator ended{how}: {words}")

    def finish(self) -> None:
        """Lets it end by itself: there are no more orders."""
        stdin = self._process.stdin
        assert stdin is not None
        with suppress(BrokenPipeError):
            stdin.close()

    def end(self, patience: float = 5.0) -> int:
        """Ends it, by force after `patience` seconds; returns its exit code."""
        self.finish()
        try:
            self._process.wait(timeout=patience)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        return self._process.returncode


def _last_words(log: str) -> str:
    """The simulator's own error, or else its last three lines: the reason may not be the last."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("ebb-simulator: ")]
    return own[-1] if own else " | ".join(lines[-3:]) or "no last words"
