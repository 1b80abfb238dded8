"""The fixture with three hosts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_hosts import Host, on_bridge, reason_to_skip


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[list[Host]]:
    """Three hosts whose daemons have been started."""
    if reason := reason_to_skip():
        pytest.skip(reason)
    with on_bridge(tmp_path) as found:
        yield found
