"""Retries of calls that a switch cannot answer at the moment, after growing pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import grpc
from finsy import GRPCStatusCode, P4ClientError

T = TypeVar("T")

FIRST_PAUSE_SECONDS = 0.1
"""Pause before the first retry; each further one is twice as long."""
TRIES = 6
"""Most attempts; the pauses between them are 3 s together."""


async def patiently(call: Callable[[], Awaitable[T]]) -> T:
    """Result of a call, retried after errors that may be temporary. Raises any other error at once,
    and that of the last attempt."""
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
