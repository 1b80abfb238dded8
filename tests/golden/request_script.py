"""A script of requests to three daemons, and the steady part of what they tell of each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from agent_hosts import Host
from ebb_agent import Agent, Flow, RequestError, Transfer, TransferError

SCHEMES = ("ndp", "scdp", "reno", "reno-ecn", "dctcp", "hull")
SECONDS = 20.0
CONTENT = bytes(range(256)) * 1000

STEADY = (
    *("role", "scheme", "name", "object_bytes", "stream_bytes", "sha256_ok", "status", "reason"),
    *("receivers", "receivers_finished", "receivers_detached"),
)
"""The keys of a record that depend on no time: no stamps, no counts of packets, no ports."""

Told = dict[str, Any]


def play(hosts: list[Host], scratch: Path) -> dict[str, Told]:
    """Plays the script. What the client, and the receiver where it is another, hears of each
    transfer, by step."""
    with contextlib.ExitStack() as stack:
        a, b, c = (stack.enter_context(host.agent()) for host in hosts)
        script = Script(a, b, c, [host.address for host in hosts], scratch)
        return {name: step() for name, step in script.steps()}


def told(transfer: Transfer) -> Told:
    try:
        flows, reason = transfer.wait(SECONDS), None
    except TransferError as error:
        flows, reason = error.flows, str(error)
    return {"failed": reason, "flows": [steady(flow) for flow in flows]}


def steady(flow: Flow) -> Told:
    """The part of a record that depends on no time; of a failed flow not even how much had come."""
    keys = (k for k in STEADY if flow.status == "finished" or k != "stream_bytes")
    return {key: flow.record[key] for key in keys if key in flow.record}


class Script:
    def __init__(self, a: Agent, b: Agent, c: Agent, addresses: list[str], scratch: Path) -> None:
        self.a, self.b, self.c = a, b, c
        self.addresses = addresses
        self.scratch = scratch

    def steps(self) -> Iterator[tuple[str, Callable[[], Told]]]:
        for scheme in SCHEMES:
            yield f"send, {scheme}", partial(self.send, scheme)
            yield f"fetch, {scheme}", partial(self.fetch, "offered", ["b"], scheme)
        yield "send to two", self.send_to_two
        yield "fetch from two", partial(self.fetch, "offered", ["b", "c"], "scdp")
        yield "fetch from two, one refuses", partial(self.fetch, "only c", ["b", "c"], "scdp")
        yield "fetch from two that refuse", partial(self.fetch, "nothing", ["b", "c"], "scdp")
        for scheme in ("ndp", "scdp", "dctcp"):
            yield f"not there, {scheme}", partial(self.fetch, "nothing", ["b"], scheme)
            yield f"refused, {scheme}", partial(self.refused, scheme)
            yield f"nobody listens, {scheme}", partial(self.nobody_listens, scheme)
            yield f"cancelled, {scheme}", partial(self.cancelled, scheme)
        yield "into a directory that has it", self.there_already
        yield "empty object", partial(self.send, "ndp", b"")
        yield "many-to-one with NDP", partial(self.not_possible, ["b", "c"])

    def address(self, letter: str) -> str:
        return self.addresses["abc".index(letter)]

    def send(self, scheme: str, content: bytes = CONTENT) -> Told:
        with self.b.listen(scheme) as listener:
            transfer = self.a.start_send(content, self.address("b"), name="sent", scheme=scheme)
            found = listener.get(SECONDS)
            found.discard()
            return {"sender": told(transfer), "receiver": told(found.transfer)}

    def send_to_two(self) -> Told:
        with self.b.listen() as at_b, self.c.listen() as at_c:
            to = [self.address("b"), self.address("c")]
            transfer = self.a.start_send(CONTENT, to, name="sent", unicast=True)
            arrived = [listener.get(SECONDS) for listener in (at_b, at_c)]
            for found in arrived:
                found.discard()
            receivers = [told(found.transfer) for found in arrived]
            return {"sender": told(transfer), "receivers": receivers}

    def fetch(self, name: str, servers: list[str], scheme: str) -> Told:
        offers = {"offered": (self.b, self.c), "only c": (self.c,)}.get(name, ())
        for agent in offers:
            agent.offer(name, CONTENT)
        into = self.scratch / "fetched"
        with into.open("wb") as file:
            hosts = [self.address(letter) for letter in servers]
            result = told(self.a.start_fetch(name, hosts, file.fileno(), scheme=scheme))
        for agent in offers:
            agent.withdraw(name)
        return {"client": result, "right": into.read_bytes() == CONTENT}

    def refused(self, scheme: str) -> Told:
        with self.b.listen(scheme) as listener:
            transfer = self.a.start_send(CONTENT, self.address("b"), name="x", scheme=scheme)
            listener.get(SECONDS).refuse("not today")
            return {"sender": told(transfer)}

    def nobody_listens(self, scheme: str) -> Told:
        return {"sender": told(self.a.start_send(b"x", self.address("c"), name="x", scheme=scheme))}

    def cancelled(self, scheme: str) -> Told:
        with self.b.listen(scheme) as listener:
            transfer = self.a.start_send(CONTENT, self.address("b"), name="x", scheme=scheme)
            found = listener.get(SECONDS)
            transfer.cancel()
            return {"sender": told(transfer), "receiver": told(found.transfer)}

    def there_already(self) -> Told:
        (self.scratch / "x").write_bytes(b"precious")
        with self.b.listen("ndp") as listener:
            transfer = self.a.start_send(CONTENT, self.address("b"), name="x", scheme="ndp")
            found = listener.get(SECONDS)
            try:
                found.save(self.scratch, SECONDS)
            except TransferError as error:
                return {"sender": told(transfer), "receiver": str(error)}
        raise AssertionError("a file was replaced")

    def not_possible(self, servers: list[str]) -> Told:
        try:
            self.fetch("offered", servers, "ndp")
        except RequestError as error:
            return {"error": error.code, "message": str(error)}
        raise AssertionError("NDP has no many-to-one flows")
