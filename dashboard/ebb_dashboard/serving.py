"""The server beside a run: a feed, a handler that can be replaced, a thread with an event loop."""

from __future__ import annotations

import asyncio
from typing import Any, Self

from ebb_experiments.run.loop import LoopThread

from ebb_dashboard.feed import Feed
from ebb_dashboard.guard import new_token
from ebb_dashboard.orders import AnyOrder, CommandHandler, NoFabric
from ebb_dashboard.server import PORT, Server


class Serving:
    """Serves for as long as the block lasts. Orders go to `handler`, in the loop of the server."""

    def __init__(self, port: int = PORT) -> None:
        self.handler: CommandHandler = NoFabric()
        self._port = port
        self._loop = LoopThread()

    def __enter__(self) -> Self:
        self._loop.__enter__()
        try:
            self.feed, self._server = self._loop.run(self._start())
        except BaseException:
            self._loop.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._server.close())
        self._loop.__exit__()

    @property
    def address(self) -> str:
        """Address for the browser."""
        return self._server.address

    async def do(self, order: AnyOrder) -> Any:
        """Passes an order to the handler."""
        return await self.handler.do(order)

    async def _start(self) -> tuple[Feed, Server]:
        feed = Feed(asyncio.get_running_loop())
        return feed, Server(feed, self, new_token(), self._port)


class HandlerInLoop:
    """A handler whose orders are carried out in another loop."""

    def __init__(self, handler: CommandHandler, loop: LoopThread) -> None:
        self._handler = handler
        self._loop = loop

    async def do(self, order: AnyOrder) -> Any:
        """Carries an order out there."""
        return await asyncio.wrap_future(self._loop.start(self._handler.do(order)))
