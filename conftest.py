"""Fixtures of several folders: tests that are coroutines, and what they want of the
machine."""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import shutil
import tempfile

import pytest
from free_ports import first_free_port

os.environ["EBB_RESULTS"] = tempfile.mkdtemp(prefix="ebb-results-")
atexit.register(shutil.rmtree, os.environ["EBB_RESULTS"], ignore_errors=True)
# Before anything is imported that asks for it: tests, and what they start, leave the results of the
# work tree as they are.

COROUTINE_SECONDS = 60.0
"""How long a test that is a coroutine may take, on a busy machine too."""


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine to its end, in an event loop of its own."""
    test = pyfuncitem.obj
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    asyncio.run(asyncio.wait_for(test(**arguments), COROUTINE_SECONDS))
    return True


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """finsy waits 10 s before it tries again a switch that failed within 2 s."""
    monkeypatch.setattr("finsy.switch._FAIL_THROTTLE_SECS", 0.1)


@pytest.fixture
def own_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Switches listen where no other fabric of this machine does."""
    port = first_free_port(200)
    monkeypatch.setattr("ebb_topologies.model.FIRST_GRPC_PORT", port)
    monkeypatch.setattr("ebb_topologies.targets.FIRST_THRIFT_PORT", port + 100)
