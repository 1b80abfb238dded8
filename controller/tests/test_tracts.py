"""Groups of a blob store: what the locator says, and which numbers its sets of replicas get."""

from __future__ import annotations

import asyncio
import json
from ipaddress import IPv4Address
from pathlib import Path

import pytest
from ebb_controller.multicast import MulticastGroup, group_address
from ebb_controller.tracts import GroupNumbers, LocatorError, Rows, check_address, rows
from ebb_topologies.files import InputError
from ebb_topologies.model import Topology, from_table

RACK = {"single_rack": {"hosts": 5}}


def topology() -> Topology:
    return from_table(RACK, "here")


def set_of(*hosts: int) -> tuple[IPv4Address, ...]:
    return tuple(sorted(IPv4Address(topology().hosts[host - 1].ip) for host in hosts))


def names(groups: tuple[MulticastGroup, ...]) -> dict[int, tuple[str, ...]]:
    return {group.group: group.members for group in groups}


def asked(folder: Path, answer: bytes) -> Rows:
    """The rows that a locator tells that gives this answer."""
    path, questions = str(folder / "locator"), []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        questions.append(json.loads(await reader.readline()))
        writer.write(answer)
        writer.close()

    async def ask() -> Rows:
        async with await asyncio.start_unix_server(serve, path):
            return await rows(path)

    told = asyncio.run(ask())
    assert questions == [{"id": 1, "ask": "status"}]
    return told


def test_rows_with_the_same_replicas_are_one_group(tmp_path: Path) -> None:
    table = [
        {"version": 3, "replicas": ["10.0.0.3", "10.0.0.2"]},
        {"version": 1, "replicas": ["10.0.0.2", "10.0.0.3"]},
        {"version": 1, "replicas": ["10.0.0.2"]},
        {"version": 1, "replicas": []},
    ]
    answer = {"id": 1, "answer": "status", "blobs": 0, "table": table}
    line = json.dumps(answer).encode() + b"\n"
    assert asked(tmp_path, line) == {(IPv4Address("10.0.0.2"), IPv4Address("10.0.0.3"))}


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]\n",
        b"{}\n",
        b"\xff\n",
        b'{"table": [{"replicas": ["x"]}]}\n',
        b"1" * 10,
        b"[" * 100_000 + b"\n",
    ],
)
def test_nonsense_is_an_error_with_the_address(tmp_path: Path, answer: bytes) -> None:
    with pytest.raises(LocatorError, match="locator at"):
        asked(tmp_path, answer)
    with pytest.raises(LocatorError, match="ebb-agent blob locator"):
        asyncio.run(rows(str(tmp_path / "nobody")))


def test_a_set_keeps_its_number_and_others_take_what_is_free() -> None:
    fixed = MulticastGroup.of(topology(), 2, ["h1", "h5"])
    numbers = GroupNumbers(topology(), [fixed])
    first = numbers.groups(frozenset({set_of(1, 2, 3), set_of(2, 3, 4)}))
    assert names(first) == {2: ("h1", "h5"), 1: ("h1", "h2", "h3"), 3: ("h2", "h3", "h4")}
    assert first[1].address == group_address(topology().hosts[n].ip for n in range(3))
    second = numbers.groups(frozenset({set_of(2, 3, 4), set_of(1, 3, 4)}))
    assert names(second) == {2: ("h1", "h5"), 1: ("h1", "h3", "h4"), 3: ("h2", "h3", "h4")}
    # The same receivers as of a group that is there: one is enough.
    assert names(numbers.groups(frozenset({set_of(1, 5)}))) == {2: ("h1", "h5")}


def test_a_replica_of_elsewhere_is_named() -> None:
    stranger = (IPv4Address("10.0.0.2"), IPv4Address("192.0.2.7"))
    with pytest.raises(InputError, match=r"192\.0\.2\.7 of the blob store is no host"):
        GroupNumbers(topology(), []).groups(frozenset({stranger}))


def test_addresses_are_those_of_the_agent() -> None:
    assert [check_address(each) for each in ("10.0.0.1:7191", "./socket")]
    for nothing in ("here", "10.0.0.1", ":7191", "host:"):
        with pytest.raises(InputError, match="IP:PORT"):
            check_address(nothing)
