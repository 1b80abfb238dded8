"""A P4Runtime session for a controller of many switches: finsy's, with these differences.

* A limited number of programs is pushed at once, and a push that a switch has no room for is tried
  again.
* The reason of a failure goes to those who wait for the session; finsy only logs it, with a
  traceback.
* gNMI is not used, so a switch keeps no subscription for us.
* Properties that all switches of a process share are read from the first one.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from finsy import GRPCStatusCode, P4ClientError, P4RuntimeVersion, SwitchOptions
from finsy.p4schema import P4Schema

from ebb_controller.channel import ChannelSwitch
from ebb_controller.patience import patiently

T = TypeVar("T")

logging.getLogger("finsy").addHandler(logging.NullHandler())  # Not on stderr unless asked for.


class SessionFailed(Exception):
    """A task of the session failed, which was reported; finsy connects again."""

    code = GRPCStatusCode.UNAVAILABLE
    """That of a lost connection, which finsy does not log as a failure."""


@dataclass
class OneProcess:
    """State shared by the sessions with the switches of one process, which run the same server."""

    version: P4RuntimeVersion | None = None
    """Version of P4Runtime that they implement; none: no switch has reported it yet."""
    has_program: bool | None = None
    """Whether they have started with the program; none: no switch has reported it yet."""
    first: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the first switch is asked for its program; the others wait for the answer."""


class Session(ChannelSwitch):  # type: ignore[misc]  # final only for those who read types
    """A session with one switch, which runs one program."""

    def __init__(
        self,
        name: str,
        address: str,
        options: SwitchOptions,
        schema: P4Schema,
        *,
        pushes: asyncio.Semaphore,
        on_failure: Callable[[BaseException], None],
        process: OneProcess | None = None,
        fresh: bool = False,
    ) -> None:
        """`schema`: of the program. `pushes`: limits the sessions that push a program at a time.
        `on_failure` gets the reason when the session fails, but for a lost connection. `process`:
        of the switch and others; none: it is not known to be shared. `fresh`: the switch has just
        started, so at first it runs the program of the others of its process."""
        super().__init__(name, address, options)
        # The version in it is that of the switch, all else is shared.
        self._p4schema = copy.copy(schema)
        self._pushes = pushes
        self._on_failure = on_failure
        self._process = process or OneProcess()
        self._fresh = fresh

    def create_task(
        self, coro: Coroutine[Any, Any, T], *, background: bool = False, name: str | None = None
    ) -> asyncio.Task[T]:
        """finsy's own, but a failure is reported."""
        title = name or getattr(coro, "__qualname__", None)
        task = super().create_task(self._reporting(coro), background=background, name=title)
        # The coroutine of a task that is cancelled before it has begun was never awaited.
        task.add_done_callback(lambda _task: coro.close())
        return task

    async def _reporting(self, coro: Coroutine[Any, Any, T]) -> T:
        """Runs a task of the session, and reports its failure unless the connection was lost."""
        try:
            return await coro
        except Exception as error:
            if not isinstance(error, P4ClientError) or error.code != GRPCStatusCode.UNAVAILABLE:
                self._on_failure(error)
            raise SessionFailed(str(error)) from error

    async def _set_pipeline(self) -> None:
        """Pushes the program unless the switch says, by its cookie, that it has it. Of switches
        that have just started in one process only the first is asked."""
        fresh, self._fresh = self._fresh, False  # It may have lost it when it connects again.
        if fresh and await self._started_with_program():
            return
        push = super()._set_pipeline
        async with self._pushes:
            await patiently(push)

    async def _started_with_program(self) -> bool:
        """Whether the switches of the process run the program. The first one gets it if not."""
        async with self._process.first:
            if self._process.has_program is None:
                await patiently(super()._set_pipeline)
                # False by now if it had to be pushed.
                self._process.has_program = self._process.has_program is None
        return self._process.has_program

    async def _set_pipeline_config_request(self, **request: Any) -> Any:
        self._process.has_program = False
        return await super()._set_pipeline_config_request(**request)

    async def _fetch_capabilities(self) -> None:
        """Fetches the version of P4Runtime unless another switch of the process has reported it."""
        if self._process.version is None:
            await super()._fetch_capabilities()  # type: ignore[no-untyped-call]
            self._process.version = self._p4schema.p4runtime_version
        self._p4schema.set_p4runtime_version(self._process.version)

    async def _start_gnmi(self) -> None:
        """Does not read the ports over gNMI: the topology has them."""
