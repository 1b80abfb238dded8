"""One switch for the tests of a module; each test pushes its program anew."""

from __future__ import annotations

from collections.abc import Iterator

import p4switch
import pytest


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if not p4switch.SWITCH.exists():
        pytest.skip("no build/ebb-switch: run `make build`")
    p4switch.compile_program()
    with p4switch.running(tmp_path_factory.mktemp("switch")) as address:
        yield address
