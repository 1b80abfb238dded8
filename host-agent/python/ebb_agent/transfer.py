"""A transfer under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ebb_agent.errors import AgentGoneError, TimedOutError, TransferError
from ebb_agent.record import Flow


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer is, in bytes of its streams (envelope and content)."""

    done_bytes: int
    total_bytes: int | None
    """Bytes of the whole transfer; none: not known yet."""


class Transfer:
    """A transfer under way: what `Agent.start_send` and `Agent.start_fetch` return, and what an
    `IncomingObject` has."""

    def __init__(self, number: int, cancel: Callable[[int], None]) -> None:
        self.number = number
        self._cancel = cancel
        self._changed = threading.Condition()
        self._flows: list[Flow] = []
        self._progress: Progress | None = None
        self._end: dict[str, Any] | None = None
        self._gone = False

    def __enter__(self) -> Transfer:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.done:
            self.cancel()

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        with self._changed:
            return self._end is not None or self._gone

    @property
    def progress(self) -> Progress | None:
        """Progress in the last message of the daemon; none before the first one, which comes
        within 0.2 s."""
        with self._changed:
            return self._progress

    def cancel(self) -> None:
        """Gives the transfer up; `wait` then raises `TransferError`. Does nothing if it has
        ended."""
        self._cancel(self.number)

    def wait(self, timeout: float | None = None) -> tuple[Flow, ...]:
        """Waits for the end; returns its flows.

        Raises `TransferError` if it failed, `TimedOutError` after `timeout` seconds: then it is
        cancelled.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._changed:
            while self._end is None and not self._gone:
                rest = None if deadline is None else deadline - time.monotonic()
                if rest is not None and rest <= 0:
                    break
                self._changed.wait(rest)
            end, gone, flows = self._end, self._gone, tuple(self._flows)
        if end is None and gone:
            raise AgentGoneError("the daemon ended before the transfer did")
        if end is None:
            self.cancel()
            raise TimedOutError(f"the transfer has not ended in {timeout} s")
        if end["status"] != "finished":
            raise TransferError(end.get("reason", "failed"), flows)
        return flows

    def handle(self, event: dict[str, Any]) -> None:
        """Called by the reading thread with an event of this transfer."""
        with self._changed:
            match event["event"]:
                case "flow":
                    self._flows.append(Flow.of(event))
                case "progress":
                    self._progress = Progress(event["done_bytes"], event["total_bytes"])
                case "end":
                    self._end = event
            self._changed.notify_all()

    def gone(self) -> None:
        """Called when the daemon has ended."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()
