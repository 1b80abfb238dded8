"""Answers of the server: to whom, and which it refuses (docs/security.md)."""

from __future__ import annotations

import http.client
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from ebb_controller.errors import ControllerError
from ebb_dashboard import server
from ebb_dashboard.feed import MAX_PAGES, WAITING
from ebb_dashboard.orders import AnyOrder
from ebb_dashboard.serving import Serving
from ebb_topologies.files import InputError

HELLO = {"picture": {"ports": []}}


class FakeHandler:
    """Notes what it is asked for."""

    def __init__(self) -> None:
        self.orders: list[AnyOrder] = []

    async def do(self, order: AnyOrder) -> Any:
        self.orders.append(order)
        if order.do == "restart":
            raise ControllerError("the switch said \x1b[31mno\u202e")
        return {"text": "done"}


@pytest.fixture
def serving() -> Iterator[Serving]:
    with Serving(port=0) as served:
        served.handler = FakeHandler()
        yield served


def port_and_token(serving: Serving) -> tuple[int, str]:
    where, _, token = serving.address.partition("/#")
    return int(where.rpartition(":")[2]), token


def ask(
    serving: Serving,
    path: str,
    body: str | None = None,
    token: str | None = None,
    **headers: str,
) -> tuple[int, bytes, http.client.HTTPMessage]:
    port, _ = port_and_token(serving)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        named["Authorization"] = f"Bearer {token}"
    if body is not None:
        named.setdefault("Content-Type", "application/json")
    connection.request("GET" if body is None else "POST", path, body, named)
    reply = connection.getresponse()
    try:
        data = b"" if path == "/stream" and reply.status == 200 else reply.read()
    except ConnectionResetError:  # a body that is too long is refused unread, and the close resets
        assert reply.status in (400, 413)
        data = b""
    connection.close()
    return reply.status, data, reply.headers


def order(serving: Serving, table: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    _, token = port_and_token(serving)
    body = table if isinstance(table, str) else json.dumps(table)
    status, data, _ = ask(serving, "/do", body, token, **headers)
    return status, json.loads(data)


def test_it_listens_on_this_machine_only(serving: Serving) -> None:
    assert serving.address.startswith("http://127.0.0.1:")
    port, _ = port_and_token(serving)
    with socket.socket() as other:
        other.settimeout(2)
        # Any other address of this machine, a loopback one too.
        assert other.connect_ex(("127.0.0.2", port)) != 0


def test_the_page_may_run_nothing_of_others(serving: Serving) -> None:
    for path, kind in (
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
    ):
        status, data, headers = ask(serving, path)
        assert status == 200 and data
        assert headers["Content-Type"].startswith(kind)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "script-src 'self'" in policy
        assert "require-trusted-types-for 'script'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
    assert ask(serving, "/../server.py")[0] == 404


@pytest.mark.parametrize("path", ["/", "/stream", "/do"])
@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", "[", ""]
)
def test_who_asks_for_another_name_gets_nothing(serving: Serving, path: str, host: str) -> None:
    """DNS rebinding: the name of another page leads to 127.0.0.1."""
    _, token = port_and_token(serving)
    body = '{"do":"reroute"}' if path == "/do" else None
    status, _, _ = ask(serving, path, body, token, Host=host)
    assert status in (400, 403)
    assert serving.handler.orders == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("host", ["localhost:9000", "127.0.0.1:9000", "[::1]:9000", "localhost"])
def test_a_tunnel_may_lead_here(serving: Serving, host: str) -> None:
    assert ask(serving, "/", Host=host)[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://localhost:9000"])
def test_pages_of_other_origins_get_nothing(serving: Serving, origin: str) -> None:
    """Also those that another server of this machine serves."""
    assert order(serving, {"do": "reroute"}, Host="localhost:9000", Origin=origin)[0] == 403
    assert ask(serving, "/stream", Host="localhost:9000", Origin=origin)[0] == 403
    assert serving.handler.orders == []  # type: ignore[attr-defined]
    own = {"Host": "localhost:9000", "Origin": "http://localhost:9000"}
    assert order(serving, {"do": "reroute"}, **own) == (200, {"ok": {"text": "done"}})


def test_orders_need_the_token(serving: Serving) -> None:
    body = '{"do":"reroute"}'
    for token in (None, "", "wrong", "tök"):
        assert ask(serving, "/do", body, token)[0] == 401
    _, right = port_and_token(serving)
    assert ask(serving, f"/do?token={right}", body)[0] == 401
    assert serving.handler.orders == []  # type: ignore[attr-defined]
    with Serving(port=0) as other:
        assert port_and_token(other)[1] != right


def test_an_order_is_json_of_known_keys(serving: Serving) -> None:
    assert order(serving, {"do": "reroute"}, Content_Type="text/plain")[0] == 415
    for wrong in (
        "",
        "[]",
        "{",
        "1" * 3000,
        '{"do":"shell"}',
        '{"do":"reroute","x":1}',
        "[" * 4000,
    ):
        status, answer = order(serving, wrong)
        assert status == 400 and answer["error"]
    assert order(serving, {"do": "link", "link": -1})[0] == 400
    assert order(serving, {"do": "link", "link": 1, "loss": float("nan")})[0] == 400
    assert order(serving, {"do": "restart", "switch": "x" * 65})[0] == 400
    assert serving.handler.orders == []  # type: ignore[attr-defined]
    _, token = port_and_token(serving)
    assert ask(serving, "/do", " " * (server.MAX_ORDER_BYTES + 1), token)[0] in (400, 413)


def test_what_a_switch_says_is_written_so_that_nothing_obeys_it(serving: Serving) -> None:
    status, answer = order(serving, {"do": "restart", "switch": "s1"})
    assert status == 400
    assert answer["error"] == "the switch said \\x1b[31mno\\u202e"


def test_a_page_is_told_from_the_beginning(serving: Serving) -> None:
    serving.feed.publish("hello", HELLO)
    with stream(serving) as page:
        assert read_until(page, b"event: samples").startswith(b"HTTP/1.1 200")
        serving.feed.publish("line", {"text": "a\nb</script>"})
        assert b'data: {"text":"a\\nb</script>"}' in read_until(page, b"script")


def test_pages_are_counted_and_closed_ones_make_room(serving: Serving) -> None:
    serving.feed.publish("hello", HELLO)
    pages = [stream(serving) for _ in range(MAX_PAGES)]
    for page in pages:
        read_until(page, b"event: samples")
    assert ask(serving, "/stream")[0] == 503
    for page in pages:
        page.close()
    deadline = time.monotonic() + 10
    while (status := ask(serving, "/stream")[0]) == 503 and time.monotonic() < deadline:
        time.sleep(0.05)
    assert status == 200


def test_a_page_that_does_not_read_is_cut_off(serving: Serving) -> None:
    serving.feed.publish("hello", HELLO)
    with stream(serving) as page:
        read_until(page, b"event: samples")
        # More than the buffers of the kernel and what may wait.
        for _ in range(4 * WAITING):
            serving.feed.publish("line", {"text": "x" * 60_000})
        deadline = time.monotonic() + 20
        while serving.feed.pages and time.monotonic() < deadline:
            time.sleep(0.05)
        assert serving.feed.pages == 0


def test_connections_are_bounded(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 4)
    port, _ = port_and_token(serving)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    time.sleep(0.2)  # until they are accepted
    with socket.create_connection(("127.0.0.1", port), timeout=10) as one_more:
        assert one_more.recv(1) == b""
    for each in silent:
        each.close()
    time.sleep(0.2)  # until the server has seen it
    with socket.create_connection(("127.0.0.1", port), timeout=10) as later:
        later.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert later.recv(12) == b"HTTP/1.1 200"


def test_a_silent_connection_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SILENT_SECONDS", 0.2)
    with Serving(port=0) as served:
        port, _ = port_and_token(served)
        with socket.create_connection(("127.0.0.1", port), timeout=10) as slow:
            slow.sendall(b"GET / HTT")
            assert slow.recv(1) == b""


def test_a_port_that_is_taken() -> None:
    with Serving(port=0) as first:
        port, _ = port_and_token(first)
        with (
            pytest.raises(InputError, match=f"127.0.0.1:{port} cannot be listened on"),
            Serving(port),
        ):
            pass


def stream(serving: Serving) -> socket.socket:
    port, _ = port_and_token(serving)
    page = socket.create_connection(("127.0.0.1", port), timeout=10)
    page.sendall(b"GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return page


def read_until(page: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        more = page.recv(65536)
        assert more, data
        data += more
    return data
