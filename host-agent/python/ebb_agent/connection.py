"""Messages to and from the daemon: SOCK_SEQPACKET, JSON, descriptors by SCM_RIGHTS."""

from __future__ import annotations

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ebb_agent.errors import AgentGoneError, RequestError, TimedOutError

VERSION = 1
MAX_MESSAGE_BYTES = 64 << 10
ABSTRACT_NAME = "\0ebb-agent"
UNREADABLE = 0
"""The `id` of an answer to a request that the daemon could not read."""
Message = dict[str, Any]


class Connection:
    """Requests from any thread; a thread of its own reads and hands out answers and events."""

    def __init__(
        self,
        path: str | Path | None,
        on_event: Callable[[Message], None],
        on_gone: Callable[[], None],
        timeout: float,
    ) -> None:
        self._on_event = on_event
        self._on_gone = on_gone
        self._lock = threading.Lock()
        self._last_id = 0
        self._waiting: dict[
            int, tuple[queue.SimpleQueue[Message | None], Callable[[Message], None] | None]
        ] = {}
        """By id of a request without an answer: the queue for the answer, in which None stands for
        the end of the connection, and `on_answer` of `call`."""
        self._gone = False
        address = ABSTRACT_NAME if path is None else str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(address)
        except OSError as error:
            self._socket.close()
            shown = "@ebb-agent" if path is None else address
            raise AgentGoneError(
                f"no ebb-agent answers at {shown} ({error.strerror}); start one: ebb-agent run"
            ) from error
        self._reader = threading.Thread(target=self._read, name="ebb-agent", daemon=True)
        self._reader.start()
        try:
            self.greeting = self.call("hello", {"version": VERSION}, timeout=timeout)
        except BaseException:
            self.close()
            raise

    def call(
        self,
        operation: str,
        fields: Message,
        descriptor: int | None = None,
        timeout: float | None = None,
        on_answer: Callable[[Message], None] | None = None,
    ) -> Message:
        """Sends a request and waits for the answer. `on_answer` is called, by the reading thread,
        before any event that came after the answer."""
        answer: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        with self._lock:
            if self._gone:
                raise AgentGoneError("the daemon has ended")
            self._last_id += 1
            number = self._last_id
            text = _encoded({"id": number, "op": operation, **fields})
            self._waiting[number] = (answer, on_answer)
            try:
                if descriptor is None:
                    self._socket.send(text)
                else:
                    socket.send_fds(self._socket, [text], [descriptor])
            except OSError as error:
                del self._waiting[number]
                raise AgentGoneError(f"the daemon has ended ({error.strerror})") from error
        try:
            found = answer.get(timeout=timeout)
        except queue.Empty:
            with self._lock:
                self._waiting.pop(number, None)
            raise TimedOutError(f"no answer to `{operation}` in {timeout} s") from None
        if found is None:
            raise AgentGoneError("the daemon has ended")
        if "error" in found:
            raise RequestError(found["error"]["code"], found["error"]["message"])
        return dict(found["ok"])

    def close(self) -> None:
        """Ends the connection, and with it its transfers, listeners and offers."""
        with self._lock:
            self._gone = True
        # The daemon may have closed it before.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._reader:
            self._reader.join()
        self._socket.close()

    def _read(self) -> None:
        # In any case, waiting requests end with the connection.
        try:
            # A message that cannot be understood counts as the end of the connection.
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                while text := self._socket.recv(MAX_MESSAGE_BYTES):
                    self._take(json.loads(text))
        finally:
            with self._lock:
                self._gone = True
                waiting = list(self._waiting.values())
                self._waiting.clear()
            for answer, _ in waiting:
                answer.put(None)
            self._on_gone()

    def _take(self, message: Message) -> None:
        """Gives an answer to its request, and an event to the handler."""
        if "event" in message:
            self._on_event(message)
            return
        with self._lock:
            number = message["id"]
            if number == UNREADABLE:
                # It belongs to the oldest request: such answers come in the order of requests.
                number = min(self._waiting, default=number)
            answer, on_answer = self._waiting.pop(number, (None, None))
        if on_answer is not None and "ok" in message:
            on_answer(message["ok"])
        if answer is not None:
            answer.put(message)


def _encoded(request: Message) -> bytes:
    """A request as it is sent. Raises `RequestError` if the daemon could not read it."""
    for key, value in request.items():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and not _is_unicode(text):
                # `os.listdir` returns surrogates for bytes of names that are no UTF-8.
                raise RequestError(
                    "bad-request",
                    f"{key} {text!a} is no Unicode text, as names of objects are",
                )
    text = json.dumps(request).encode()
    if len(text) > MAX_MESSAGE_BYTES:
        raise RequestError("bad-request", f"a request of {len(text)} bytes is too long")
    return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
