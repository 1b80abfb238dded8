"""The processes that share trials run what they are sent: nobody else may talk to them."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from distributed import Client, LocalCluster
from distributed.core import connect
from ebb_experiments.study.run import _processes


def listening(own: set[int]) -> set[str]:
    """Addresses on which these processes accept connections (proc(5), /proc/net/tcp)."""
    files = set()
    for pid in own:
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(FileNotFoundError):  # closed meanwhile
                files.add(str(link.readlink()))
    found = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and f"socket:[{fields[9]}]" in files:
            packed = bytes.fromhex(fields[1].split(":")[0])[::-1]
            found.add(socket.inet_ntoa(packed))
    return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with _processes(1) as local:
        yield local


def test_only_this_machine_reaches_them(cluster: LocalCluster) -> None:
    with Client(cluster) as client:
        workers = set(client.run(os.getpid).values())
        assert client.submit(sum, [1, 2]).result() == 3
    assert listening({os.getpid(), *workers}) == {"127.0.0.1"}


def test_without_the_certificate_of_the_run_they_do_not_answer(cluster: LocalCluster) -> None:
    async def ask() -> None:
        address = cluster.scheduler_address.replace("tls://", "tcp://")
        comm = await connect(address, timeout=5)
        await comm.write({"op": "identity", "reply": True})
        await comm.read()

    with pytest.raises(OSError):
        asyncio.run(ask())
