"""Common parts of the examples' controllers: a switch with the program of a folder."""

from __future__ import annotations

import ipaddress
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import finsy as fy

ADDRESS = "127.0.0.1:9559"
"""Where `ebb-switch` serves P4Runtime unless it is started otherwise."""


@asynccontextmanager
async def switch(of: str) -> AsyncIterator[fy.Switch]:
    """The switch at the address of the command line, with the program of the folder of the file
    `of`, which `ebb-p4c` has put beside it. It begins without entries."""
    folder = Path(of).resolve().parent
    if not (folder / f"{folder.name}.json").exists():
        sys.exit(f"compile {folder.name}.p4 first: examples/README.md has the command")
    address = sys.argv[1] if len(sys.argv) > 1 else ADDRESS
    options = fy.SwitchOptions(
        p4info=folder / f"{folder.name}.p4info.txtpb",
        p4blob=folder / f"{folder.name}.json",
        p4force=True,
        device_id=0,
    )
    async with fy.Switch(folder.name, address, options) as connected:
        yield connected


def ip(text: str) -> int:
    """An IPv4 address as a number."""
    return int(ipaddress.IPv4Address(text))
