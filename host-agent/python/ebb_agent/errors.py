"""Errors of the client. Messages are those of the daemon, fit to be printed: they may quote
peers."""

from __future__ import annotations

from ebb_agent.printable import printable
from ebb_agent.record import Flow


class AgentError(Exception):
    """Every error of this package."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message))


class AgentGoneError(AgentError):
    """No daemon answers, or it has ended."""


class RequestError(AgentError):
    """The daemon refuses a request: nothing was tried."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        """Kind of error: `bad-request`, `unknown`, `in-use`, `too-many`, `not-possible`, `io` or
        `bad-version`."""


class TransferError(AgentError):
    """A transfer failed."""

    def __init__(self, message: str, flows: tuple[Flow, ...] = ()) -> None:
        super().__init__(message)
        self.flows = flows
        """The flows of the transfer that have ended, good ones too."""


class TimedOutError(AgentError, TimeoutError):
    """A transfer took longer than the caller allows, and was cancelled."""
