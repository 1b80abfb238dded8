"""The server of the page: files, the stream of messages, orders. On this machine only."""

from __future__ import annotations

import asyncio
import json
import logging
from importlib.resources import files
from typing import Any

from ebb_controller.errors import ControllerError
from ebb_topologies.files import InputError
from ebb_topologies.mininet_links import ControlError
from ebb_topologies.text import printable
from tornado.httpserver import HTTPServer
from tornado.iostream import IOStream, StreamClosedError
from tornado.netutil import bind_sockets
from tornado.web import Application, HTTPError, RequestHandler

from ebb_dashboard.feed import Feed, TooManyPages
from ebb_dashboard.guard import LOOPBACK, PAGE_HEADERS, may_control, refused
from ebb_dashboard.orders import CommandHandler, parsed

PORT = 8850
"""TCP port unless another one is asked for."""
MAX_ORDER_BYTES = 4096
MAX_CONNECTIONS = 64
"""A connection beyond is closed at once, so that the process that serves keeps its descriptors."""
SILENT_SECONDS = 30.0
"""How long a connection may take to send a request, or be without one."""
STATIC = {
    "index.html": "text/html; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
}
"""Files of the page, and the type of each."""
REFUSALS = (ControllerError, ControlError, InputError, TimeoutError, OSError)
"""Errors with a sentence for people."""


class _Handler(RequestHandler):
    def set_default_headers(self) -> None:
        for name, value in PAGE_HEADERS.items():
            self.set_header(name, value)
        self.clear_header("Server")

    def prepare(self) -> None:
        why = refused(self.request.headers)
        if why is not None:
            raise HTTPError(403, reason=why)

    def write_error(self, status_code: int, **_: Any) -> None:
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps({"error": self._reason}))


class _File(_Handler):
    def get(self, name: str = "") -> None:
        name = name or "index.html"
        self.set_header("Content-Type", STATIC[name])
        self.finish((files("ebb_dashboard") / "static" / name).read_bytes())


class _Stream(_Handler):
    task: asyncio.Task[None] | None = None

    def initialize(self, feed: Feed) -> None:
        self.feed = feed

    async def get(self) -> None:
        self.set_header("Content-Type", "text/event-stream")
        self.task = asyncio.current_task()
        messages = self.feed.messages()
        try:
            async for text in messages:
                self.write(text)
                await self.flush()
        except TooManyPages:
            raise HTTPError(503, reason="too many pages are open") from None
        except (StreamClosedError, asyncio.CancelledError):
            pass  # the page was closed
        finally:
            await messages.aclose()

    def on_connection_close(self) -> None:
        if self.task is not None:
            self.task.cancel()


class _Orders(_Handler):
    def initialize(self, handler: CommandHandler, token: str) -> None:
        self.handler = handler
        self.token = token

    async def post(self) -> None:
        if not may_control(self.request.headers, self.token):
            raise HTTPError(401, reason="open the page with the address that was printed")
        if self.request.headers.get("Content-Type") != "application/json":
            raise HTTPError(415, reason="an order is application/json")
        try:
            order = parsed(json.loads(self.request.body))
            answer = {"ok": await self.handler.do(order)}
        except (ValueError, RecursionError) as error:
            self.set_status(400)
            answer = {"error": printable(f"no order: {error}")}
        except REFUSALS as error:
            self.set_status(400)
            answer = {"error": printable(error)}
        self.set_header("Content-Type", "application/json")
        self.finish(json.dumps(answer))


class _Bounded(HTTPServer):
    """Serves at most `MAX_CONNECTIONS` at a time and closes others at once."""

    open_connections = 0

    def handle_stream(self, stream: IOStream, address: tuple[str, int]) -> None:
        if self.open_connections >= MAX_CONNECTIONS:
            stream.close()
        else:
            self.open_connections += 1
            super().handle_stream(stream, address)

    def on_close(self, server_conn: object) -> None:
        self.open_connections -= 1
        super().on_close(server_conn)


class Server:
    """Serves a feed and a handler. Created and closed in the event loop that it runs in."""

    def __init__(self, feed: Feed, handler: CommandHandler, token: str, port: int = PORT) -> None:
        """`port` 0: any that is free. Raises `InputError` if it is taken."""
        logging.getLogger("tornado.access").setLevel(logging.CRITICAL)
        application = Application(
            [
                (r"/(|page\.js|page\.css)", _File),
                (r"/stream", _Stream, {"feed": feed}),
                (r"/do", _Orders, {"handler": handler, "token": token}),
            ]
        )
        self._server = _Bounded(
            application,
            max_body_size=MAX_ORDER_BYTES,
            max_header_size=16 * 1024,
            idle_connection_timeout=SILENT_SECONDS,
            body_timeout=SILENT_SECONDS,
        )
        try:
            sockets = bind_sockets(port, LOOPBACK[0])
        except OSError as error:
            raise InputError(
                f"{LOOPBACK[0]}:{port} cannot be listened on ({error.strerror}): give a --port"
            ) from error
        self._server.add_sockets(sockets)
        self.port: int = sockets[0].getsockname()[1]
        self.token = token

    @property
    def address(self) -> str:
        """Address for the browser. The part behind # stays in the browser."""
        return f"http://{LOOPBACK[0]}:{self.port}/#{self.token}"

    async def close(self) -> None:
        """Ends all connections."""
        self._server.stop()
        await self._server.close_all_connections()
