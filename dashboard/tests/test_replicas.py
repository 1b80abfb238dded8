"""Replicas of what a run writes, and of the blobs of a store."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ebb_controller.tracts import LocatorError
from ebb_dashboard.replicas import MAX_OBJECTS, BlobStore, objects_message, written
from support import ROOT

AGENT = ROOT / "build" / "ebb-agent"
HOSTS = {"10.0.0.2": "h1", "10.0.0.3": "h2", "10.0.0.4": "h3"}


def row(transfer: int, host: str | None, status: str, **more: Any) -> dict[str, Any]:
    head = {
        "transfer": transfer,
        "traffic": "write",
        "kind": "send-one-to-many",
        "bytes": 2_000_000,
    }
    head |= {"fct_ns": None, "reason": None}
    return head | {"destination": host, "status": status} | more


def states(objects: Any) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(each.name, [(of.host, of.state) for of in each.replicas]) for each in objects]


def test_replicas_of_a_run_that_goes_on() -> None:
    line = {"kind": "send-one-to-many", "traffic": "write", "bytes": 2_000_000}
    schedule = [
        line | {"id": 3, "start_ns": 500, "destinations": ["h5", "h9"]},
        line | {"id": 4, "start_ns": 900, "destinations": ["h2", "h3"]},
        line | {"id": 5, "kind": "send-one-to-one", "start_ns": 0, "destinations": ["h2"]},
    ]
    rows = [
        row(3, "h9", "finished", fct_ns=12_500_000.0),
        row(5, "h2", "finished", kind="send-one-to-one"),
    ]
    objects = written(rows, schedule, at_ns=600)
    assert states(objects) == [
        ("write 3", [("h5", "part"), ("h9", "whole")]),
        ("write 4", [("h2", "none"), ("h3", "none")]),
    ]
    assert objects[0].replicas[1].note == "after 12.5 ms"


def test_replicas_of_a_run_that_has_ended() -> None:
    rows = [
        row(1, "h1", "finished", fct_ns=1e6),
        row(1, "h2", "failed", reason="receiver: it was \x1b behind"),
        row(1, "h3", "unfinished", reason="7 of 9 bytes have arrived"),
        row(2, None, "failed"),
    ]
    (one,) = objects_message(written(rows), scheme="trevi", phase="p")["objects"]
    assert [(each["host"], each["state"]) for each in one["replicas"]] == [
        *(("h1", "whole"), ("h2", "lost"), ("h3", "part")),
    ]
    # Text of others has no control characters.
    assert one["replicas"][1]["note"] == "receiver: it was \\x1b behind"


def test_no_more_are_told_than_the_page_shows() -> None:
    every = objects_message(
        written(row(n, "h1", "finished", fct_ns=1e6) for n in range(MAX_OBJECTS + 5))
    )
    assert (len(every["objects"]), every["more"]) == (MAX_OBJECTS, 5)


def server(address: str, alive: bool, **repair: Any) -> dict[str, Any]:
    return {
        "address": address,
        "alive": alive,
        "rows": 20,
        "free_bytes": 5_000_000_000 if alive else None,
        "repair": repair or None,
    }


STATUS = {
    "answer": "status",
    "blobs": 1,
    "servers": [
        server("10.0.0.2", True, done=True, checked=9, copied=2),
        server("10.0.0.3", False),
        server("10.0.0.9", True),
    ],
}
PAGE = {"answer": "page", "blobs": [{"name": "a", "version": 2, "bytes": 12}], "more": False}
FOUND = {
    "answer": "found",
    "blob": {
        "version": 2,
        "tracts": [
            {"bytes": 8, "holders": ["10.0.0.2", "10.0.0.3"]},
            {"bytes": 4, "holders": ["10.0.0.2", "10.0.0.9"]},
        ],
    },
}


AT_NO_ADDRESS = {"version": 2, "tracts": [{"bytes": 8, "holders": ["h1"]}]}
ENDLESS = server("10.0.0.2", True) | {"free_bytes": 10**400}


def looked(folder: Path, answers: dict[str, Any]) -> dict[str, Any]:
    """Keys that are told of the store of a locator with these answers."""
    path = str(folder / "locator")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = json.loads(await reader.readline())
        answer = {"id": question["id"]} | answers[question["ask"]]
        writer.write(json.dumps(answer).encode() + b"\n")
        writer.close()

    async def look() -> dict[str, Any]:
        async with await asyncio.start_unix_server(serve, path):
            return await BlobStore(path).sample(HOSTS)

    return asyncio.run(look())


def test_replicas_of_a_store(tmp_path: Path) -> None:
    found = looked(tmp_path, {"status": STATUS, "list": PAGE, "lookup": FOUND})
    (blob,) = found["objects"]
    assert (blob["name"], blob["bytes"]) == ("a, version 2", 12)
    assert blob["note"] == "live copies of each tract: 1 or more"
    assert [tuple(each.values()) for each in blob["replicas"]] == [
        ("h1", "whole", "2 of 2 tracts"),
        ("h2", "lost", "1 of 2 tracts"),
        # No host of this fabric, as far as its routes tell.
        ("10.0.0.9", "whole", "1 of 2 tracts"),
    ]
    assert [tuple(each.values()) for each in found["servers"]] == [
        ("h1", "whole", "20 rows, 5 GB free, repaired: 9 checked, 2 copied"),
        ("h2", "lost", "20 rows"),
        ("10.0.0.9", "whole", "20 rows, 5 GB free"),
    ]
    assert (found["scheme"], found["more"]) == (None, 0)


@pytest.mark.parametrize(
    "answers",
    [
        {"status": {"answer": "refused", "reason": "no"}},
        {"status": STATUS | {"servers": None}, "list": PAGE, "lookup": FOUND},
        {"status": STATUS, "list": PAGE | {"blobs": [1]}, "lookup": FOUND},
        {"status": STATUS, "list": PAGE, "lookup": {"answer": "found"}},
        {"status": STATUS, "list": {"answer": "page"}, "lookup": FOUND},
        {"status": STATUS | {"blobs": None}, "list": PAGE, "lookup": FOUND},
        {"status": STATUS, "list": PAGE, "lookup": FOUND | {"blob": AT_NO_ADDRESS}},
        {"status": STATUS | {"servers": [ENDLESS]}, "list": PAGE, "lookup": FOUND},
    ],
)
def test_nonsense_of_a_locator_is_an_error(tmp_path: Path, answers: dict[str, Any]) -> None:
    with pytest.raises(LocatorError, match="locator at"):
        looked(tmp_path, answers)


@pytest.mark.skipif(not AGENT.exists(), reason="needs build/ebb-agent: run `make build`")
def test_the_store_of_a_real_locator(tmp_path: Path) -> None:
    socket = tmp_path / "locator.sock"
    command = [str(AGENT), "blob", "locator", "--database", str(tmp_path / "store.redb")]
    command += ["--listen", str(socket), "--copies", "2", "--dead-after", "2"]
    command += [word for address in HOSTS for word in ("--server", address)]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 20
        while not socket.exists():
            assert process.poll() is None and time.monotonic() < deadline, (
                tmp_path / "log"
            ).read_text()
            time.sleep(0.05)
        found = asyncio.run(BlobStore(str(socket)).sample(HOSTS))
    finally:
        process.terminate()
        process.wait(20)
    assert (found["objects"], found["more"]) == ([], 0)
    assert [each["host"] for each in found["servers"]] == ["h1", "h2", "h3"]
