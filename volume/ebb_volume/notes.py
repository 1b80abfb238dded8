"""Remarks about an input of which a part could not be used."""

from __future__ import annotations

from collections.abc import Iterator

MOST = 20
"""Distinct remarks that are kept; a hostile input could cause millions."""


class Notes:
    """Lines for people, each once, in the order in which they came up."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}
        self._more = 0

    def add(self, line: str) -> None:
        """Adds a line, unless it is there or there are too many; those are counted."""
        if line in self._lines:
            return
        if len(self._lines) >= MOST:
            self._more += 1
            return
        self._lines[line] = None

    def __iter__(self) -> Iterator[str]:
        yield from self._lines
        if self._more:
            yield f"and {self._more} remarks more"

    def __len__(self) -> int:
        return len(self._lines)


class Damaged(Exception):
    """The input cannot be read further; what came before stands. The message is one line."""
