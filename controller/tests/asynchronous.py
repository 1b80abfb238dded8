"""Tests that are coroutines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec

P = ParamSpec("P")
SECONDS = 20.0
"""How long a test may take, on a busy machine too."""


def asynchronous(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """The test as pytest calls it: to its end, in an event loop of its own."""

    @wraps(test)
    def run(*arguments: P.args, **fixtures: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*arguments, **fixtures), SECONDS))

    return run
