"""Statistics that switches send by themselves: that costs less than to ask all for every sample."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Protocol

from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError

INTERVAL_NS = 150_000_000
"""From one message of a switch to its next: 6.7 rounds per second, of which a busy machine may miss
a fourth before there are fewer than five."""
ROUND_SECONDS = 1.0
"""Time that a round waits for switches that have not reported yet."""
SILENT_ROUNDS = 3
"""After this many rounds without a message no round waits for a switch any more."""
RETRY_SECONDS = 0.5
"""From the end of a stream to the next try, as when the switch is restarted."""


class Managers(Protocol):
    """`ebb_controller.traffic_manager.TrafficManagers`."""

    def stream(self, name: str, interval_ns: int) -> AsyncIterator[tm.Stats]:
        """Statistics of a switch every `interval_ns` of its clock."""
        ...


class Streams:
    """The streams of statistics of some switches, read in rounds. A `Statistics`; `run` feeds it.
    Used inside one event loop."""

    def __init__(self, managers: Managers, switches: Iterable[str]) -> None:
        self._managers = managers
        self._missed = dict.fromkeys(switches, 0)
        """Consecutive rounds without a report, by switch."""
        self._why: dict[str, str] = {}
        """Reason of the end of the last stream, by switch, until it reports again."""
        self._newest: dict[str, tm.Stats] = {}
        """The newest report of each switch since the last round."""
        self._complete = asyncio.Event()

    async def run(self) -> None:
        """Reads all streams, and opens those anew that end, until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            for name in self._missed:
                group.create_task(self._follow(name))

    async def _follow(self, name: str) -> None:
        while True:
            try:
                async for stats in self._managers.stream(name, INTERVAL_NS):
                    self._take(name, stats)
            except ControllerError as error:
                self._why[name] = str(error)
            await asyncio.sleep(RETRY_SECONDS)

    def _take(self, name: str, stats: tm.Stats) -> None:
        self._newest[name] = stats
        self._why.pop(name, None)
        if all(each in self._newest for each in self._missed if not self._is_silent(each)):
            self._complete.set()

    def _is_silent(self, name: str) -> bool:
        return self._missed[name] >= SILENT_ROUNDS

    async def statistics(self) -> dict[str, tm.Stats]:
        """A round: the newest report of every switch since the last one. Waits for all but the
        silent, at most for `ROUND_SECONDS`; a switch without a report by then is left out."""
        with suppress(TimeoutError):
            async with asyncio.timeout(ROUND_SECONDS):
                await self._complete.wait()
        self._complete.clear()
        reports, self._newest = self._newest, {}
        for name, missed in self._missed.items():
            self._missed[name] = 0 if name in reports else missed + 1
        return reports

    def silent(self) -> dict[str, str]:
        """The switches that are not waited for any more, and why, in words."""
        return {
            name: self._why.get(name, f"switch {name} tells no statistics")
            for name in self._missed
            if self._is_silent(name)
        }
