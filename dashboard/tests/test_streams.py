"""Statistics of switches in rounds, from streams that a test holds in its hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError
from ebb_dashboard import streams
from ebb_dashboard.streams import SILENT_ROUNDS, Streams

Word = tm.Stats | ControllerError


class Managers:
    """A stream for each switch, of what the test puts in; an error ends it."""

    def __init__(self, names: Sequence[str]) -> None:
        self.words: dict[str, asyncio.Queue[Word]] = {name: asyncio.Queue() for name in names}
        self.opened: list[str] = []

    async def stream(self, name: str, interval_ns: int) -> AsyncIterator[tm.Stats]:
        assert interval_ns == streams.INTERVAL_NS
        self.opened.append(name)
        while True:
            word = await self.words[name].get()
            if isinstance(word, ControllerError):
                raise word
            yield word

    def say(self, name: str, time_ns: int) -> None:
        self.words[name].put_nowait(tm.Stats(time_ns=time_ns))


@asynccontextmanager
async def followed(names: Sequence[str]) -> AsyncIterator[tuple[Managers, Streams]]:
    managers = Managers(names)
    found = Streams(managers, names)
    following = asyncio.create_task(found.run())
    try:
        yield managers, found
    finally:
        following.cancel()


async def times(found: Streams) -> dict[str, int]:
    return {name: stats.time_ns for name, stats in (await found.statistics()).items()}


async def test_a_round_has_the_newest_of_every_switch() -> None:
    async with followed(["s1", "s2"]) as (managers, found):
        round_ = asyncio.create_task(times(found))
        managers.say("s1", 1)
        managers.say("s1", 2)
        await asyncio.sleep(0.05)
        assert not round_.done()
        managers.say("s2", 7)
        assert await round_ == {"s1": 2, "s2": 7}
        assert found.silent() == {}


async def test_a_switch_that_is_silent_is_told_and_not_waited_for_until_it_speaks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "ROUND_SECONDS", 0.1)
    monkeypatch.setattr(streams, "RETRY_SECONDS", 0.0)
    async with followed(["s1", "s2"]) as (managers, found):
        managers.words["s2"].put_nowait(ControllerError("switch s2 at ..: gone"))
        for number in range(SILENT_ROUNDS):
            assert found.silent() == {}
            managers.say("s1", number)
            assert await times(found) == {"s1": number}
        assert found.silent() == {"s2": "switch s2 at ..: gone"}
        monkeypatch.setattr(streams, "ROUND_SECONDS", 60.0)
        managers.say("s1", 10)
        assert await times(found) == {"s1": 10}
        # Its stream was opened again.
        assert managers.opened == ["s1", "s2", "s2"]
        managers.say("s2", 11)
        managers.say("s1", 11)
        assert await times(found) == {"s1": 11, "s2": 11}
        assert found.silent() == {}


async def test_without_a_word_of_anybody_rounds_do_not_spin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "ROUND_SECONDS", 0.02)
    async with followed(["s1"]) as (_, found):
        began = asyncio.get_running_loop().time()
        for _round in range(SILENT_ROUNDS + 2):
            assert await times(found) == {}
        assert asyncio.get_running_loop().time() - began >= 0.02 * (SILENT_ROUNDS + 1)
        assert found.silent() == {"s1": "switch s1 tells no statistics"}
