"""Who watches `make run` from its beginning to its end, and may have schemes run again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ebb_experiments.run.wall import Wall


class Spectator:
    """Observer of `make run`; this base class ignores everything."""

    @contextmanager
    def watching(self, wall: Wall) -> Iterator[None]:
        """Entered with every fabric that is brought up, and left before it is taken down."""
        yield

    def stay(self, wall: Wall, again: Callable[[str], None]) -> None:
        """Called when all is done, with the fabric still up, which stays so until this returns or a
        signal ends it. `again` runs a scheme of the scenario once more."""
