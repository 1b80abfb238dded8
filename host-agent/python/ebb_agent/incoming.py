"""Objects that other hosts send to this one."""

from __future__ import annotations

import io
import os
import queue
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from ebb_agent.content import Destination, Target
from ebb_agent.errors import AgentGoneError, TimedOutError
from ebb_agent.transfer import Transfer


class Daemon(Protocol):
    """The connection to the daemon (`ebb_agent.agent.Agent`), as objects and listeners use it."""

    def call(
        self, operation: str, fields: dict[str, Any], descriptor: int | None = None
    ) -> dict[str, Any]:
        """Sends a request to the daemon and returns its answer."""
        ...

    def unlisten(self, listener: Listener) -> None:
        """Ends a listener."""
        ...


@dataclass(frozen=True, slots=True)
class IncomingObject:
    """An object that has been announced: one of the methods has to be called within 30 s."""

    name: str
    object_bytes: int
    """Length of the content."""
    sha256: str
    """Hash of the content that its sender has announced, in hexadecimal digits."""
    scheme: str
    peer: str
    """Address and port of the sender."""
    local: str
    """Address and port at which it arrives."""
    transfer: Transfer = field(repr=False)
    _agent: Daemon = field(repr=False)

    def read(self, timeout: float | None = None) -> bytes:
        """Takes the object into memory and returns its content."""
        target = Target(None)
        try:
            self._accept(target.descriptor)
            self.transfer.wait(timeout)
            return target.keep() or b""
        finally:
            target.close()

    def save(
        self, into: Destination, timeout: float | None = None, *, overwrite: bool = False
    ) -> None:
        """Takes it into a file, which appears when it is complete; into a file of its name, if
        `into` is a directory, where no file is replaced without `overwrite`; or into an open file,
        pipe or socket."""
        target = Target(into)
        try:
            self._accept(target.descriptor, overwrite)
            self.transfer.wait(timeout)
            target.keep()
        finally:
            target.close()

    def open(self) -> IncomingStream:
        """Takes it as a stream, which is read at the caller's own pace."""
        reader, writer = os.pipe()
        try:
            self._accept(writer)
        except BaseException:
            os.close(reader)
            raise
        finally:
            os.close(writer)
        return IncomingStream(reader, self.transfer)

    def discard(self) -> None:
        """Receives it without keeping it; its hash is checked."""
        self._accept(None)

    def refuse(self, reason: str) -> None:
        """Tells the sender that the object is not wanted."""
        self._agent.call("refuse", {"transfer": self.transfer.number, "reason": reason})

    def _accept(self, descriptor: int | None, overwrite: bool = False) -> None:
        fields: dict[str, Any] = {"transfer": self.transfer.number}
        if overwrite:
            fields["overwrite"] = True
        self._agent.call("accept", fields, descriptor)


class IncomingStream(io.FileIO):
    """The content as it arrives. Whether it was correct is known at the end: leaving the `with`
    block, or `verify`, raises `TransferError` if it was not."""

    def __init__(self, descriptor: int, transfer: Transfer) -> None:
        super().__init__(descriptor, "r")
        self.transfer = transfer

    def verify(self, timeout: float | None = None) -> None:
        """Waits for the end of the transfer. To be called when all has been read."""
        self.transfer.wait(timeout)

    def __enter__(self) -> IncomingStream:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None or self.read(1):
            # The rest of the content is not wanted.
            self.close()
            self.transfer.cancel()
            return
        self.close()
        self.verify()


class Listener:
    """An iterator over the objects that arrive at a port."""

    def __init__(self, agent: Daemon) -> None:
        self._agent = agent
        self._objects: queue.SimpleQueue[IncomingObject | None] = queue.SimpleQueue()
        self._closed = False
        self.number = 0
        """Number of the listener, from the daemon; 0 before that has answered."""
        self.local = ""
        """Address and port where it listens, "IP:PORT"; empty before the daemon has answered."""

    def __iter__(self) -> Iterator[IncomingObject]:
        return self

    def __next__(self) -> IncomingObject:
        if self._closed:
            raise StopIteration
        return self.get()

    def get(self, timeout: float | None = None) -> IncomingObject:
        """The next object. Raises `TimedOutError` after `timeout` seconds."""
        try:
            found = self._objects.get(timeout=timeout)
        except queue.Empty:
            raise TimedOutError(f"nothing has come to {self.local} in {timeout} s") from None
        if found is None:
            # The next call fails, too.
            self._objects.put(None)
            raise AgentGoneError("the daemon has ended, or the listener was closed")
        return found

    def close(self) -> None:
        """Stops listening: objects that come from now on are refused."""
        if not self._closed:
            self._closed = True
            self._objects.put(None)
            self._agent.unlisten(self)

    def __enter__(self) -> Listener:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def put(self, found: IncomingObject | None) -> None:
        """Called by the reading thread with an object; none: there will be no other."""
        self._objects.put(found)
