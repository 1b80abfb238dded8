"""Messages to pages: one stream for all, which each page gets from the beginning."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator

from ebb_dashboard.story import Data, Story

WAITING = 256
"""Most messages that wait for a page; one that is further behind has to connect again."""
MAX_PAGES = 16
"""Pages that are served at a time."""


class TooManyPages(Exception):
    """No more pages can be served."""


class Feed:
    """Stream of messages, in one event loop; `publish` may be called in any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._story = Story()
        self._pages: set[asyncio.Queue[bytes | None]] = set()

    @property
    def pages(self) -> int:
        """Pages that are served."""
        return len(self._pages)

    def publish(self, event: str, data: Data) -> None:
        """Sends a message to all pages, and to later ones if they need it."""
        self._loop.call_soon_threadsafe(self._send, event, data)

    def _send(self, event: str, data: Data) -> None:
        self._story.add(event, data)
        text = encoded(event, data)
        for page in list(self._pages):
            if page.qsize() >= WAITING:
                self._pages.discard(page)
                while not page.empty():
                    page.get_nowait()
                page.put_nowait(None)
            else:
                page.put_nowait(text)

    async def messages(self) -> AsyncGenerator[bytes, None]:
        """All messages for a page, as events of a stream; ends if it is too far behind."""
        if len(self._pages) >= MAX_PAGES:
            raise TooManyPages
        page: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._pages.add(page)
        try:
            for event, data in list(self._story.beginning()):
                yield encoded(event, data)
            while (text := await page.get()) is not None:
                yield text
        finally:
            self._pages.discard(page)


def encoded(event: str, data: Data) -> bytes:
    """A message as server-sent events have it (WHATWG HTML, section 9.2.6): JSON has no line
    breaks."""
    return f"event: {event}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n".encode()
