"""The client against a daemon that says what the test wants."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ebb_agent import Agent, AgentGoneError, RequestError, TimedOutError, TransferError

SECONDS = 5.0
GREETING = {"version": 1, "pid": 1, "interface": "e", "address": "10.0.0.2", "ports": {"ndp": 7000}}
Request = dict[str, Any]


class FakeDaemon:
    """Answers each request with what `script` returns for it: a list of messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.requests: list[Request] = []
        self.contents: list[bytes] = []
        self.script: Callable[[Request, int | None], list[dict[str, Any]]] = lambda *_: []
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(str(path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        with client:
            while True:
                text, descriptors, _, _ = socket.recv_fds(client, 1 << 16, 4)
                if not text:
                    return
                request = json.loads(text)
                if request["op"] == "hello":
                    answers = [{"id": request["id"], "ok": GREETING}]
                else:
                    self.requests.append(request)
                    descriptor = descriptors[0] if descriptors else None
                    answers = self.script(request, descriptor)
                for descriptor in descriptors:
                    os.close(descriptor)
                for answer in answers:
                    if answer.get("hang up"):
                        return
                    # The client may have closed meanwhile.
                    with contextlib.suppress(BrokenPipeError):
                        client.send(answer.get("raw", json.dumps(answer)).encode())

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[FakeDaemon]:
    fake = FakeDaemon(tmp_path / "fake.sock")
    yield fake
    fake.close()


def end(transfer: int, reason: str | None = None) -> dict[str, Any]:
    ending = {"status": "finished"} if reason is None else {"status": "failed", "reason": reason}
    return {"event": "end", "transfer": transfer, **ending}


def flow(transfer: int) -> dict[str, Any]:
    return {
        "event": "flow",
        "transfer": transfer,
        "role": "sender",
        "scheme": "ndp",
        "local": "10.0.0.2:61000",
        "peer": "10.0.0.3:7000",
        "name": "x",
        "object_bytes": 5,
        "stream_bytes": 52,
        "duration_ns": 1000,
        "sha256_ok": None,
        "status": "finished",
        "packets_sent": 1,
    }


def soon(call: Callable[[], Any]) -> Any:
    """Result or exception of a call which might wait for ever."""
    found: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def run() -> None:
        try:
            found.put((call(), None))
        except BaseException as error:
            found.put((None, error))

    threading.Thread(target=run, daemon=True).start()
    result, error = found.get(timeout=SECONDS)
    if error is not None:
        raise error
    return result


def test_nobody_is_there(tmp_path: Path) -> None:
    with pytest.raises(AgentGoneError, match="ebb-agent run"):
        Agent(tmp_path / "nothing.sock")


def test_text_of_a_peer_does_not_reach_a_terminal_as_it_is(daemon: FakeDaemon) -> None:
    # Title of the window, lines, C1, direction of writing.
    text = "no `\x1b]0;owned\x07\r\n\x9b2J\u202ex` here"
    shown = "no `\\u{1b}]0;owned\\u{7}\\u{d}\\u{a}\\u{9b}2J\\u{202e}x` here"

    def script(request: Request, _: int | None) -> list[dict[str, Any]]:
        if request["op"] == "offer":
            return [{"id": request["id"], "error": {"code": "in-use", "message": text}}]
        ended = flow(3) | {"name": text, "reason": text}
        return [{"id": request["id"], "ok": {"transfer": 3}}, ended, end(3, text)]

    daemon.script = script
    with Agent(daemon.path) as agent:
        with pytest.raises(TransferError) as failed:
            agent.send(b"bytes", "10.0.0.3", name="x", timeout=SECONDS)
        with pytest.raises(RequestError) as refused:
            agent.offer("x", b"bytes")
    assert str(failed.value) == str(refused.value) == shown
    (found,) = failed.value.flows
    # As data it is what it was; shown it is not.
    assert found.name == text
    assert repr(found).isprintable()


def test_bytes_go_as_a_descriptor(daemon: FakeDaemon) -> None:
    seen = []

    def script(request: Request, descriptor: int | None) -> list[dict[str, Any]]:
        assert descriptor is not None
        seen.append(os.pread(descriptor, 100, 0))
        # The end may come with the answer: nothing of it is lost.
        return [{"id": request["id"], "ok": {"transfer": 3}}, flow(3), end(3)]

    daemon.script = script
    with Agent(daemon.path) as agent:
        (found,) = agent.send(b"bytes", "10.0.0.3", name="x", scheme="ndp", timeout=SECONDS)
        assert (found.peer, found.duration_ns, found.reason) == ("10.0.0.3:7000", 1000, None)
        assert found.record["packets_sent"] == 1
        with pytest.raises(ValueError, match="name="):
            agent.send(b"bytes", "10.0.0.3")
    assert seen == [b"bytes"]
    assert daemon.requests[0]["to"] == ["10.0.0.3"]


def test_a_refusal_has_code_and_sentence(daemon: FakeDaemon) -> None:
    error = {"code": "in-use", "message": "another client listens on port 7000 for ndp"}
    daemon.script = lambda request, _: [{"id": request["id"], "error": error}]
    with Agent(daemon.path) as agent, pytest.raises(RequestError, match="7000") as raised:
        agent.listen("ndp")
    assert raised.value.code == "in-use"


def test_a_failed_fetch_leaves_nothing(daemon: FakeDaemon, tmp_path: Path) -> None:
    def script(request: Request, descriptor: int | None) -> list[dict[str, Any]]:
        assert descriptor is not None
        os.write(descriptor, b"half")
        return [{"id": request["id"], "ok": {"transfer": 1}}, end(1, "the server died")]

    daemon.script = script
    with Agent(daemon.path) as agent, pytest.raises(TransferError, match="the server died"):
        agent.fetch("x", "10.0.0.3", into=tmp_path / "x", timeout=SECONDS)
    assert [path.name for path in tmp_path.iterdir()] == ["fake.sock"]


def test_a_name_that_is_no_text_is_refused_at_once(daemon: FakeDaemon, tmp_path: Path) -> None:
    bad = os.fsdecode(b"\xff")
    (tmp_path / bad).write_bytes(b"x")
    daemon.script = lambda request, _: [{"id": request["id"], "ok": {"transfer": 1}}, end(1)]
    with Agent(daemon.path) as agent:
        with pytest.raises(RequestError, match=r"name '\\udcff' is no Unicode text") as raised:
            soon(lambda: agent.send(tmp_path / bad, "10.0.0.3"))
        with pytest.raises(RequestError, match="no Unicode text"):
            soon(lambda: agent.fetch(bad, "10.0.0.3"))
        with pytest.raises(RequestError, match=r"from .* is no Unicode text"):
            soon(lambda: agent.fetch("x", ["10.0.0.3", bad]))
        assert daemon.requests == []
        agent.send(tmp_path / bad, "10.0.0.3", name="good", timeout=SECONDS)
    assert raised.value.code == "bad-request"


def test_what_the_daemon_cannot_read_fails_the_call(daemon: FakeDaemon) -> None:
    error = {"code": "bad-request", "message": "expected value at line 1 column 1"}
    daemon.script = lambda _request, _descriptor: [{"id": 0, "error": error}]
    with Agent(daemon.path) as agent:
        with pytest.raises(RequestError, match="expected value"):
            soon(agent.statistics)
        # An answer that nobody waits for harms nobody.
        daemon.script = lambda request, _: [
            {"id": request["id"], "ok": {"a": 1}},
            {"id": 0, "error": error},
        ]
        for _ in range(2):
            assert soon(agent.statistics) == {"a": 1}
            time.sleep(0.2)  # until the error is read: it is for whoever waits then


@pytest.mark.parametrize("said", ["no JSON", "[]", '{"ok": {}}', '{"event": "end"}'])
def test_what_the_client_cannot_read_ends_the_connection(daemon: FakeDaemon, said: str) -> None:
    daemon.script = lambda _request, _descriptor: [{"raw": said}]
    with Agent(daemon.path) as agent:
        for _ in range(2):
            with pytest.raises(AgentGoneError):
                soon(agent.statistics)


def test_too_long_is_cancelled(daemon: FakeDaemon) -> None:
    daemon.script = lambda request, _: [
        {"id": request["id"], "ok": {"transfer": 1} if request["op"] == "send" else {}}
    ]
    with Agent(daemon.path) as agent:
        with pytest.raises(TimedOutError, match=r"0\.05 s"):
            agent.send(b"x", "10.0.0.3", name="x", timeout=0.05)
        assert [request["op"] for request in daemon.requests] == ["send", "cancel"]


def test_leaving_a_transfer_cancels_it(daemon: FakeDaemon) -> None:
    daemon.script = lambda request, _: [
        {"id": request["id"], "ok": {"transfer": 1} if request["op"] == "send" else {}}
    ]
    with Agent(daemon.path) as agent:
        with agent.start_send(b"x", "10.0.0.3", name="x") as transfer:
            assert transfer.progress is None
        assert daemon.requests[-1]["op"] == "cancel"


def test_everybody_hears_when_the_daemon_dies(daemon: FakeDaemon) -> None:
    def script(request: Request, _: int | None) -> list[dict[str, Any]]:
        match request["op"]:
            case "send":
                return [{"id": request["id"], "ok": {"transfer": 1}}]
            case "listen":
                return [{"id": request["id"], "ok": {"listener": 2, "local": "10.0.0.2:7000"}}]
        return [{"hang up": True}]

    daemon.script = script
    with Agent(daemon.path) as agent:
        transfer = agent.start_send(b"x", "10.0.0.3", name="x")
        listener = agent.listen()
        with pytest.raises(AgentGoneError):
            agent.statistics()
        with pytest.raises(AgentGoneError, match="before the transfer"):
            transfer.wait(SECONDS)
        for _ in range(2):
            with pytest.raises(AgentGoneError):
                listener.get(SECONDS)
        with pytest.raises(AgentGoneError):
            agent.flows()


def test_pages_of_flows_are_put_together(daemon: FakeDaemon) -> None:
    pages = {0: ([1, 2], 2, True), 2: ([3], 3, False)}

    def script(request: Request, _: int | None) -> list[dict[str, Any]]:
        numbers, last, more = pages[request["after"]]
        flows = [{"transfer": number} for number in numbers]
        return [{"id": request["id"], "ok": {"flows": flows, "last": last, "more": more}}]

    daemon.script = script
    with Agent(daemon.path) as agent:
        assert [found["transfer"] for found in agent.flows()] == [1, 2, 3]


def test_an_announced_object_is_taken_or_refused(daemon: FakeDaemon) -> None:
    def incoming(transfer: int) -> dict[str, Any]:
        return {
            "event": "incoming",
            "transfer": transfer,
            "listener": 2,
            "scheme": "ndp",
            "local": "10.0.0.2:7000",
            "peer": "10.0.0.3:61000",
            "name": f"n{transfer}",
            "object_bytes": 4,
            "sha256": "00",
        }

    def script(request: Request, descriptor: int | None) -> list[dict[str, Any]]:
        ok = {"id": request["id"], "ok": {}}
        match request["op"]:
            case "listen":
                known = {"listener": 2, "local": "10.0.0.2:7000"}
                # One that failed before it was announced is nobody's.
                return [{**ok, "ok": known}, end(9, "x"), incoming(3), incoming(4)]
            case "accept":
                assert descriptor is not None
                os.write(descriptor, b"data")
                return [ok, end(request["transfer"])]
        return [ok]

    daemon.script = script
    with Agent(daemon.path) as agent:
        with agent.listen("ndp") as listener:
            first, second = listener.get(SECONDS), listener.get(SECONDS)
            assert (first.name, second.name) == ("n3", "n4")
            assert first.read(SECONDS) == b"data"
            second.refuse("no")
        assert [request["op"] for request in daemon.requests] == [
            "listen",
            "accept",
            "refuse",
            "unlisten",
        ]
        with pytest.raises(StopIteration):
            next(listener)
