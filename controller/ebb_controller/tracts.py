"""Multicast groups of a blob store (docs/blob-store.md): its locator says which replicas a row of
the tract locator table has, and each set of several is a group."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from ipaddress import IPv4Address
from typing import Any

from ebb_topologies.files import InputError
from ebb_topologies.model import Topology

from ebb_controller.controller import Controller
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.multicast import MAX_GROUP, MulticastGroup

LOOK_SECONDS = 2.0
"""Time between requests to the locator."""
PATIENCE_SECONDS = 2.0
"""Timeout of a request."""
MOST_BYTES = 4 << 20
"""Longest answer of a locator."""

Rows = frozenset[tuple[IPv4Address, ...]]
"""Replicas of all rows, each in ascending order; those with fewer than two have no group."""


class LocatorError(Exception):
    """The locator does not answer, or its answer is not one to the request."""


async def rows(locator: str) -> Rows:
    """Replicas of all rows of the table. `locator`: IP:PORT, or the path of a socket. Raises
    `LocatorError`."""
    answer = await ask(locator, {"ask": "status"})
    try:
        return _rows(answer)
    except ValueError as error:
        raise _locator_error(locator, error) from error


async def ask(locator: str, question: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a question (docs/blob-store.md, "Messages"). Raises `LocatorError`."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            answer = json.loads(await _exchange(locator, {"id": 1, **question}))
        if not isinstance(answer, dict):
            raise ValueError("its answer is no object")
    except (OSError, TimeoutError, ValueError, RecursionError) as error:
        raise _locator_error(locator, error) from error
    return answer


def _locator_error(locator: str, error: Exception) -> LocatorError:
    why = str(error) or "no answer"
    return LocatorError(f"locator at {locator}: {why}; it is to be `ebb-agent blob locator`")


def check_address(locator: str) -> str:
    """The address of a locator, unchanged. Raises `InputError` unless it is IP:PORT or a path."""
    host, _, port = locator.rpartition(":")
    if "/" not in locator and not (host and port.isdecimal()):
        raise InputError(
            f"'{locator}' is no address of a locator; give IP:PORT, or a path with a slash in it"
        )
    return locator


async def _exchange(locator: str, question: dict[str, Any]) -> bytes:
    """Sends a question over a connection of its own; returns the line of the answer."""
    if "/" in locator:
        reader, writer = await asyncio.open_unix_connection(locator, limit=MOST_BYTES)
    else:
        host, _, port = locator.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=MOST_BYTES)
    try:
        writer.write(json.dumps(question).encode() + b"\n")
        return await reader.readline()
    finally:
        writer.close()


def _rows(answer: Any) -> Rows:
    """The sets of replicas in an answer. Raises `ValueError` if it is no status."""
    try:
        replicas = [[IPv4Address(each) for each in row["replicas"]] for row in answer["table"]]
    except (KeyError, TypeError) as error:
        raise ValueError("its answer is no status of a blob store") from error
    return frozenset(tuple(sorted(set(row))) for row in replicas if len(set(row)) > 1)


class GroupNumbers:
    """Groups of the sets of replicas of a table, beside fixed groups: a set keeps its number while
    it is in the table."""

    def __init__(self, topology: Topology, fixed: Sequence[MulticastGroup]) -> None:
        self._hosts = {IPv4Address(host.ip): host.name for host in topology.hosts}
        self._topology = topology
        self._fixed = tuple(fixed)
        self._numbers: dict[tuple[IPv4Address, ...], int] = {}

    def groups(self, rows: Rows) -> tuple[MulticastGroup, ...]:
        """The fixed groups, and those of the rows that have no fixed one. Raises `InputError` for a
        replica that is no host of this fabric, and for more sets than there are numbers."""
        self._numbers = {row: number for row, number in self._numbers.items() if row in rows}
        taken = {group.group for group in self._fixed} | set(self._numbers.values())
        free = (number for number in range(1, MAX_GROUP + 1) if number not in taken)
        for row in sorted(rows - self._numbers.keys()):
            number = next(free, None)
            if number is None:
                raise InputError(f"the table has more sets of replicas than {MAX_GROUP}")
            self._numbers[row] = number
        fixed = {group.address for group in self._fixed}
        of_rows = (
            MulticastGroup.of(self._topology, number, self._names(row))
            for row, number in sorted(self._numbers.items())
        )
        return (*self._fixed, *(group for group in of_rows if group.address not in fixed))

    def _names(self, row: Iterable[IPv4Address]) -> list[str]:
        names = [self._hosts.get(address) for address in row]
        if None in names:
            unknown = next(a for a, name in zip(row, names, strict=True) if name is None)
            raise InputError(f"replica {unknown} of the blob store is no host of this fabric")
        return [name for name in names if name is not None]


async def follow(
    locator: str,
    numbers: GroupNumbers,
    controller: Controller,
    parameters: FabricParameters,
    say: Callable[[str], None],
) -> None:
    """Installs the groups of a blob store whenever its rows have changed, until cancelled. After an
    error, which is reported once, the groups stay as they were."""
    installed, reported = None, ""
    while True:
        problem = ""
        try:
            table = await rows(locator)
            if table != installed:
                await controller.configure(parameters, numbers.groups(table))
                installed = table
                say(f"blob store: {len(table)} sets of replicas have a multicast group")
        except (LocatorError, InputError, ControllerError) as error:
            problem = str(error)
            if problem != reported:
                say(problem)
        reported = problem
        await asyncio.sleep(LOOK_SECONDS)
