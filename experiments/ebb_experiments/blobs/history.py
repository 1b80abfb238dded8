"""Whether a history of puts, gets and lists is linearizable: the rules of
`host-agent/blob/tests/history.rs`, for processes.

Wing and Gong, *Testing and Verifying Concurrent Objects* (1993), with the memory of Lowe, *Testing
for linearizability* (2017): an order is not tried on from a state and operations seen before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

INFINITY = float("inf")
Version = tuple[str, int]
"""Which put wrote the content of a blob, and its version."""
State = tuple[tuple[str, Version], ...]
"""Contents of all blobs, by name."""


@dataclass(frozen=True)
class Operation:
    """An operation of a client, as it saw it, and when."""

    did: Literal["put", "may-put", "lost", "get", "list"]
    """`may-put`: a put of which it is not known whether it took effect; `lost`: another writer was
    faster."""
    began: float
    ended: float
    """Infinite: it may take effect at any later time."""
    name: str = ""
    """Name of the blob; empty for a list."""
    content: str = ""
    """Which put wrote it; empty: of `get`, nothing was there."""
    version: int = 0
    """Version of that content; of `may-put` unknown."""
    listed: tuple[tuple[str, int], ...] = ()
    """Names and versions that a list showed, by name."""


def step(state: State, operation: Operation) -> State | None:
    """The state after the operation; none if it cannot have done that."""
    blobs = dict(state)
    content, version = blobs.get(operation.name, ("", 0))
    match operation.did:
        case "put" | "may-put":
            if operation.did == "put" and operation.version != version + 1:
                return None
            blobs[operation.name] = operation.content, version + 1
            return tuple(sorted(blobs.items()))
        case "lost":
            return state
        case "get":
            return state if (operation.content, operation.version) == (content, version) else None
        case "list":
            seen = tuple((name, version) for name, (_, version) in state)
            return state if seen == operation.listed else None


def linearize(history: Sequence[Operation]) -> list[int] | None:
    """An order in which the operations can have taken effect, by their numbers; none: there is
    none."""
    seen: set[tuple[frozenset[int], State]] = set()
    order: list[int] = []

    def search(left: frozenset[int], state: State) -> bool:
        # A put that may never have taken effect need not be put anywhere.
        due = [n for n in left if history[n].did != "may-put"]
        if not due:
            return True
        if (left, state) in seen:
            return False
        seen.add((left, state))
        first_end = min(history[n].ended for n in due)
        for number in sorted(n for n in left if history[n].began <= first_end):
            after = step(state, history[number])
            if after is not None:
                order.append(number)
                if search(left - {number}, after):
                    return True
                order.pop()
        return False

    return order if search(frozenset(range(len(history))), ()) else None


def unfounded_conflicts(history: Sequence[Operation]) -> list[Operation]:
    """Puts that were refused because another one was faster, though no other overlaps with them."""

    def rival(lost: Operation, other: Operation) -> bool:
        writes = other.did in ("put", "may-put") and other.name == lost.name
        return writes and other.began <= lost.ended and lost.began <= other.ended

    lost = (each for each in history if each.did == "lost")
    return [each for each in lost if not any(rival(each, other) for other in history)]
