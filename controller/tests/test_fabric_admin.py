"""The client and the command against a stand-in for the fabric service."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from ebb_controller import ebb_fabric_pb2 as proto
from ebb_controller import fabric_cli
from ebb_controller.errors import ControllerError
from ebb_controller.fabric_admin import End, FabricAdmin, Link, LinkState


@dataclass
class FakeFabric:
    """s1:1 - h1 and s1:2 - s2:1; knows what it was asked, and refuses what has "s9" in it."""

    requests: list[Any] = field(default_factory=list)
    state: Any = field(default_factory=lambda: proto.LinkState(up=True))

    @asynccontextmanager
    async def served(self) -> AsyncIterator[Path]:
        server = grpc.aio.server()
        handlers = {
            name: grpc.unary_unary_rpc_method_handler(
                self._answer,
                getattr(proto, f"{name}Request").FromString,
                lambda reply: bytes(reply.SerializeToString()),
            )
            for name in ("GetFabric", "SetLink", "RestartSwitch", "StartCapture", "StopCapture")
        }
        handler = grpc.method_handlers_generic_handler("ebb.fabric.v1.Fabric", handlers)
        server.add_generic_rpc_handlers((handler,))
        with tempfile.TemporaryDirectory() as directory:
            socket = Path(directory) / "fabric.sock"
            server.add_insecure_port(f"unix:{socket}")
            await server.start()
            try:
                yield socket
            finally:
                await server.stop(None)

    async def _answer(self, request: Any, context: Any) -> Any:
        self.requests.append(request)
        if "s9" in str(request):
            await context.abort(grpc.StatusCode.NOT_FOUND, 'there is no switch or host "s9"')
        name = type(request).__name__.removesuffix("Request")
        if name == "GetFabric":
            links = [self._link("s1", 1, "h1", 0), self._link("s1", 2, "s2", 1)]
            return proto.GetFabricResponse(
                switches=[proto.Switch(name="s1", grpc_address="127.0.0.1:1")],
                hosts=["h1"],
                links=links,
            )
        if name == "SetLink":
            return proto.SetLinkResponse(link=self._link("s1", 2, "s2", 1))
        if name == "StartCapture":
            in_file, out_file = f"/run/{request.name}_in", f"/run/{request.name}_out"
            return proto.StartCaptureResponse(in_file=in_file, out_file=out_file)
        return getattr(proto, f"{name}Response")()

    def _link(self, a: str, a_port: int, b: str, b_port: int) -> Any:
        return proto.Link(
            a=proto.End(node=a, port=a_port),
            b=proto.End(node=b, port=b_port),
            a_to_b=self.state,
            b_to_a=proto.LinkState(up=True),
        )


async def test_what_there_is() -> None:
    fake = FakeFabric(state=proto.LinkState(up=True, loss=0.5, rate_bps=1))
    async with fake.served() as socket, FabricAdmin(socket) as admin:
        view = await admin.fabric()
        assert (view.switches, view.hosts) == ({"s1": "127.0.0.1:1"}, ["h1"])
        faulty = LinkState(loss=0.5, rate_bps=1)
        assert view.links == [
            Link(End("s1", 1), End("h1", None), faulty, LinkState()),
            Link(End("s1", 2), End("s2", 1), faulty, LinkState()),
        ]


async def test_only_what_is_given_is_asked_for() -> None:
    fake = FakeFabric()
    async with fake.served() as socket, FabricAdmin(socket) as admin:
        await admin.set_link("s1", "s2", up=False)
        await admin.set_link("s1:2", rate_bps=0, loss=0.0, one_way=True)
        down, slow = fake.requests
        assert down == proto.SetLinkRequest(a="s1", b="s2", up=False)
        assert not down.HasField("loss")
        assert slow.one_way and not down.one_way
        assert slow.HasField("rate_bps") and slow.HasField("loss") and not slow.HasField("up")


async def test_repair_touches_what_is_broken_only() -> None:
    fake = FakeFabric()
    async with fake.served() as socket, FabricAdmin(socket) as admin:
        assert await admin.repair() == []
        assert len(fake.requests) == 1
        fake.state = proto.LinkState(up=False)
        assert [str(link.b) for link in await admin.repair()] == ["h1", "s2:1"]
        ends = [(r.a, r.b, r.up) for r in fake.requests if isinstance(r, proto.SetLinkRequest)]
        assert ends == [("s1:1", "h1", True), ("s1:2", "s2:1", True)]


async def test_captures_have_names_and_the_service_says_where_they_are() -> None:
    fake = FakeFabric()
    async with fake.served() as socket, FabricAdmin(socket) as admin:
        files = await admin.start_capture("s1", "x.pcap", toward="s2")
        assert files == ("/run/x.pcap_in", "/run/x.pcap_out")


async def test_errors_say_what_the_service_says() -> None:
    async with FakeFabric().served() as socket, FabricAdmin(socket) as admin:
        with pytest.raises(ControllerError, match='fabric: there is no switch or host "s9"'):
            await admin.restart_switch("s9")
    async with FabricAdmin(Path("/nowhere/fabric.sock")) as admin:
        with pytest.raises(ControllerError, match="no fabric answers at /nowhere/"):
            await admin.fabric()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["link", "s1", "s2", "sideways"], "state: there is no 'sideways'; known: up, down"),
        (
            ["link", "s1", "s2", "--rate", "fast"],
            "argument --rate: expected whole bit/s, not 'fast'",
        ),
        (["pcap", "s1", "s2", "s3", "x"], "name SWITCH:PORT, or SWITCH and NODE"),
        (["pcap", "s1", "s2"], "name SWITCH:PORT, or SWITCH and NODE, and then a file"),
        (["--socket", "/nowhere/sock", "links"], "no fabric answers at /nowhere/sock"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_wrong_commands_get_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fabric_cli.main(arguments) == 1
    printed = capsys.readouterr().err
    assert message in printed
    assert len(printed.splitlines()) == 1


async def test_the_command_shows_and_changes(capsys: pytest.CaptureFixture[str]) -> None:
    async def command(*arguments: str) -> int:
        return await asyncio.to_thread(fabric_cli.main, list(arguments))

    fake = FakeFabric(state=proto.LinkState(up=False))
    async with fake.served() as socket:
        at = ("--socket", str(socket))
        assert await command(*at, "links") == 0
        assert await command(*at, "link", "s1", "s2", "down", "--rate", "1e6") == 0
        assert fake.requests[-1] == proto.SetLinkRequest(
            a="s1", b="s2", up=False, rate_bps=1_000_000
        )
        assert await command(*at, "pcap", "s1", "s2", "stop") == 0
        assert fake.requests[-1] == proto.StopCaptureRequest(at="s1", toward="s2")
        assert await command(*at, "pcap", "s1:2", "a") == 0
        assert fake.requests[-1].at == "s1:2"
        assert await command(*at, "restart", "s1") == 0
    printed = capsys.readouterr().out
    assert "s1:2 - s2:1   down    up" in printed
    assert "capturing to /run/a_in and /run/a_out" in printed
    assert "s1:2 - s2:1: down (back: up)" in printed
