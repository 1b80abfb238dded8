"""How far the reading is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from ebb_volume.sources import Watch

LINE_SECONDS = 60.0
"""Between lines where there is no terminal."""


@contextmanager
def shown(console: Console) -> Iterator[Watch]:
    """On a terminal a bar with the time that is left, elsewhere a line a minute."""
    bar = Progress(
        TextColumn("{task.description}"), BarColumn(bar_width=20), DownloadColumn(),
        TransferSpeedColumn(), TimeRemainingColumn(), console=console, transient=True,
        disable=not console.is_terminal,
    )  # fmt: skip
    tasks: dict[Path, object] = {}
    begun = printed = time.monotonic()

    def watch(path: Path, read: int, of: int | None) -> None:
        nonlocal printed
        if path not in tasks:
            tasks[path] = bar.add_task(escape(path.name), total=of)
        bar.update(tasks[path], completed=read, total=of)  # type: ignore[arg-type]
        now = time.monotonic()
        if not console.is_terminal and now - printed > LINE_SECONDS:
            printed = now
            left = f", {(now - begun) * (of - read) / read:.0f} s to go" if of and read else ""
            console.print(f"{path}: {read / 1e6:.0f} MB read{left}", markup=False, soft_wrap=True)

    with bar:
        yield watch
