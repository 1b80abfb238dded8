"""Calls that a switch has no room for now: made again, after growing pauses, for a while."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
from finsy import GRPCStatusCode, P4ClientError

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
"""Time before a call is made again; each further time it is twice as long."""
TRIES = 6
"""How often a call is made; with the pauses between that is 3 s."""


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Result of a call. Raises what it raised last if that lasts, and at once what no time
    mends."""
    for attempt in range(TRIES - 1):
        try:
            return await call()
        except (P4ClientError, grpc.aio.AioRpcError) as error:
            if not _may_pass(error):
                raise
        await asyncio.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
    return await call()


def _may_pass(error: P4ClientError | grpc.aio.AioRpcError) -> bool:
    """Whether the switch has no room for the request now (RESOURCE_EXHAUSTED), or is away for a
    moment (UNAVAILABLE). An update that a table has no room for is another matter: its request as
    a whole is UNKNOWN, with a code per update (P4Runtime section 12.3)."""
    if isinstance(error, P4ClientError):
        return error.code in (GRPCStatusCode.RESOURCE_EXHAUSTED, GRPCStatusCode.UNAVAILABLE)
    return error.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE)
