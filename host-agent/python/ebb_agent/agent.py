"""The client of a host's daemon."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ebb_agent.connection import Connection
from ebb_agent.content import Destination, Source, Target, name_of, source_descriptor
from ebb_agent.errors import AgentError, AgentGoneError
from ebb_agent.incoming import IncomingObject, Listener
from ebb_agent.record import Flow
from ebb_agent.transfer import Transfer

DEFAULT_SCHEME = "scdp"
GREETING_SECONDS = 10.0
Hosts = str | Iterable[str]


class Agent:
    """A connection to the `ebb-agent run` of this host, or to the one at `socket`.

    Methods may be called from several threads. Closing it cancels its transfers.
    """

    def __init__(self, socket: str | Path | None = None, timeout: float = GREETING_SECONDS) -> None:
        self._lock = threading.Lock()
        self._transfers: dict[int, Transfer] = {}
        self._listeners: dict[int, Listener] = {}
        self._connection = Connection(socket, self._event, self._gone, timeout)
        self.address: str = self._connection.greeting["address"]
        """Address of this host."""
        self.ports: dict[str, int] = self._connection.greeting["ports"]
        """Service ports by transport."""

    def __enter__(self) -> Agent:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection; its transfers are cancelled."""
        self._connection.close()

    def send(
        self,
        source: Source,
        to: Hosts,
        *,
        name: str | None = None,
        scheme: str = DEFAULT_SCHEME,
        priority: int = 0,
        connection: int | None = None,
        group: str | None = None,
        unicast: bool = False,
        timeout: float | None = None,
    ) -> tuple[Flow, ...]:
        """Sends a file (by its path) or bytes to one host or several ("IP" or "IP:PORT").

        `connection` is the number of a persistent connection (`tcp.connections`), by default any.
        Returns when it has arrived everywhere. Raises `RequestError` if it cannot be tried,
        `TransferError` if it failed, `TimedOutError` after `timeout` seconds.
        """
        transfer = self.start_send(
            source,
            to,
            name=name,
            scheme=scheme,
            priority=priority,
            connection=connection,
            group=group,
            unicast=unicast,
        )
        return transfer.wait(timeout)

    def start_send(
        self,
        source: Source,
        to: Hosts,
        *,
        name: str | None = None,
        scheme: str = DEFAULT_SCHEME,
        priority: int = 0,
        connection: int | None = None,
        group: str | None = None,
        unicast: bool = False,
        start_at_ns: int | None = None,
        progress: bool = False,
    ) -> Transfer:
        """As `send`, but returns when the daemon has accepted it. `start_at_ns` is a time of
        CLOCK_MONOTONIC; none: now."""
        fields: dict[str, Any] = {
            "scheme": scheme,
            "to": as_list(to),
            "name": name_of(source, name),
            "priority": priority,
            "unicast": unicast,
            "progress": progress,
        }
        if connection is not None:
            fields["connection"] = connection
        if group is not None:
            fields["group"] = group
        if start_at_ns is not None:
            fields["start_at_ns"] = start_at_ns
        with source_descriptor(source) as descriptor:
            return self._start("send", fields, descriptor)

    def fetch(
        self,
        name: str,
        hosts: Hosts,
        *,
        into: Destination | None = None,
        overwrite: bool = False,
        scheme: str = DEFAULT_SCHEME,
        priority: int = 0,
        connection: int | None = None,
        timeout: float | None = None,
    ) -> bytes | None:
        """Gets the object `name` from one host, or from several at once (scdp, trevi).

        Without `into` it comes back as bytes. With a path it is in that file when this returns; in
        a file of its name, if `into` is a directory, where no file is replaced without
        `overwrite`. An open file, pipe or socket gets the content as it arrives. Errors as for
        `send`.
        """
        target = Target(into)
        try:
            transfer = self.start_fetch(
                name,
                hosts,
                target.descriptor,
                overwrite=overwrite,
                scheme=scheme,
                priority=priority,
                connection=connection,
                answer_timeout=timeout,
            )
            transfer.wait(timeout)
            return target.keep()
        finally:
            target.close()

    def start_fetch(
        self,
        name: str,
        hosts: Hosts,
        into: int,
        *,
        overwrite: bool = False,
        scheme: str = DEFAULT_SCHEME,
        priority: int = 0,
        connection: int | None = None,
        answer_timeout: float | None = None,
        progress: bool = False,
    ) -> Transfer:
        """As `fetch`, but returns when the daemon has accepted it. `into` is the descriptor of a
        file, pipe, socket or directory; `answer_timeout` is for the first byte (default 60 s)."""
        fields: dict[str, Any] = {
            "scheme": scheme,
            "name": name,
            "from": as_list(hosts),
            "priority": priority,
            "progress": progress,
        }
        if connection is not None:
            fields["connection"] = connection
        if overwrite:
            fields["overwrite"] = True
        if answer_timeout is not None:
            fields["timeout_ms"] = max(1, int(answer_timeout * 1000))
        return self._start("fetch", fields, into)

    def listen(self, scheme: str = DEFAULT_SCHEME, port: int | None = None) -> Listener:
        """Takes objects that others send to `port`, by default the transport's service port."""
        fields: dict[str, Any] = {"scheme": scheme, "into": "ask"}
        if port is not None:
            fields["port"] = port
        listener = Listener(self)

        def known(answer: dict[str, Any]) -> None:
            listener.number, listener.local = answer["listener"], answer["local"]
            with self._lock:
                self._listeners[listener.number] = listener

        self._connection.call("listen", fields, on_answer=known)
        return listener

    def offer(self, name: str, source: Source) -> None:
        """Lets others fetch a file or bytes, until `withdraw` or the end of this connection."""
        with source_descriptor(source) as descriptor:
            self.call("offer", {"name": name}, descriptor)

    def withdraw(self, name: str) -> None:
        """Ends an `offer`: others can no longer fetch the object."""
        self.call("withdraw", {"name": name})

    def serve(self, directory: str | os.PathLike[str]) -> None:
        """Lets others fetch the regular files of a directory."""
        descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.call("serve", {}, descriptor)
        finally:
            os.close(descriptor)

    def flows(self) -> list[dict[str, Any]]:
        """The flows that are open, of all clients."""
        found: list[dict[str, Any]] = []
        after, more = 0, True
        while more:
            page = self.call("flows", {"after": after})
            found += page["flows"]
            after, more = page["last"], page["more"]
        return found

    def statistics(self) -> dict[str, Any]:
        """Counters of the daemon."""
        return self.call("statistics", {})

    def shutdown(self) -> None:
        """Ends the daemon, for all its clients."""
        self.call("shutdown", {})

    def call(
        self, operation: str, fields: dict[str, Any], descriptor: int | None = None
    ) -> dict[str, Any]:
        """Sends any request of docs/agent-api.md to the daemon and returns the answer."""
        return self._connection.call(operation, fields, descriptor)

    def unlisten(self, listener: Listener) -> None:
        """Ends a listener: the daemon refuses what arrives at its port."""
        with self._lock:
            self._listeners.pop(listener.number, None)
        # A daemon that has ended does not listen any more.
        with contextlib.suppress(AgentGoneError):
            self.call("unlisten", {"listener": listener.number})

    def _start(self, operation: str, fields: dict[str, Any], descriptor: int) -> Transfer:
        started: list[Transfer] = []

        def known(answer: dict[str, Any]) -> None:
            started.append(self._new_transfer(answer["transfer"]))

        self._connection.call(operation, fields, descriptor, on_answer=known)
        return started[0]

    def _new_transfer(self, number: int) -> Transfer:
        transfer = Transfer(number, self._cancel)
        with self._lock:
            self._transfers[number] = transfer
        return transfer

    def _cancel(self, number: int) -> None:
        # The transfer may have ended meanwhile.
        with contextlib.suppress(AgentError):
            self.call("cancel", {"transfer": number})

    def _event(self, event: dict[str, Any]) -> None:
        number = event["transfer"]
        if event["event"] == "incoming":
            with self._lock:
                listener = self._listeners.get(event["listener"])
            if listener is not None:
                keys = ("name", "object_bytes", "sha256", "scheme", "peer", "local")
                found = {key: event[key] for key in keys}
                transfer = self._new_transfer(number)
                listener.put(IncomingObject(**found, transfer=transfer, _agent=self))
            return
        with self._lock:
            if event["event"] == "end":
                known = self._transfers.pop(number, None)
            else:
                known = self._transfers.get(number)
        # A transfer that failed before it was announced, or serves others, has no `Transfer` here.
        if known is not None:
            known.handle(event)

    def _gone(self) -> None:
        with self._lock:
            transfers = list(self._transfers.values())
            listeners = list(self._listeners.values())
            self._transfers.clear()
        for transfer in transfers:
            transfer.gone()
        for listener in listeners:
            listener.put(None)


def as_list(hosts: Hosts) -> list[str]:
    """The hosts as a list, of one if a single one is given."""
    return [hosts] if isinstance(hosts, str) else list(hosts)
