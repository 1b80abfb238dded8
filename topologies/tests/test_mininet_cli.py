"""Commands of the prompt that need no network."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from ebb_topologies.mininet_cli import FabricCLI, PromptContext
from ebb_topologies.mininet_links import ControlError
from mininet.log import lg

RESULT = "20261123081502,10.0.0.2,48000,10.0.3.3,5001,1,0.0-5.1,11665408,18300000\n"


class FakeFabric:
    """Hosts whose commands say what they are told to."""

    def __init__(self, prompt: PromptContext, said: Sequence[str] = ()) -> None:
        self.prompt_context = prompt
        self.left = list(said)
        self.ran: list[tuple[str, ...]] = []
        self.stopped: list[Any] = []
        self.processes = SimpleNamespace(stop=self.stopped.extend)

    def spawn_on(self, host: str, name: str, command: Sequence[str], stdout: Any = None) -> Any:
        self.ran.append((host, *command))
        return name

    def run_on(self, host: str, command: Sequence[str], timeout: float) -> tuple[int, str]:
        self.ran.append((host, *command))
        return 0, self.left.pop(0)


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    """Text that is printed at the prompt."""
    stream, handler = io.StringIO(), lg.handlers[0]
    before = handler.setStream(stream)
    yield stream
    handler.setStream(before)


class FakeNet(dict[str, Any]):
    @property
    def hosts(self) -> list[Any]:
        return list(self.values())


def ask(fabric: Any, *lines: str) -> None:
    net = FakeNet(
        (name, SimpleNamespace(name=name, IP=lambda name=name: f"10.0.0.{name[1:]}"))
        for name in ("h1", "h2", "h16")
    )
    cli = FabricCLI.__new__(FabricCLI)
    cli.mn, cli.fabric, cli.locals = net, fabric, {}
    lg.setLogLevel("output")
    for line in lines:
        cli.onecmd(line)


def test_iperf_tells_nominal_units_and_ends_its_server(said: io.StringIO) -> None:
    fabric = FakeFabric(
        PromptContext(dilation=50), ["connect failed: Connection refused\n", RESULT]
    )
    ask(fabric, "iperf h1 h2 3")
    assert said.getvalue() == "h1 to h2: 915 Mbit/s (18.3 Mbit/s on the wire, 50 times slower)\n"
    assert fabric.ran[0] == ("h2", "iperf", "-s", "-p", "5001")
    assert fabric.ran[1][:4] == ("h1", "iperf", "-c", "10.0.0.2")
    assert fabric.ran[1][fabric.ran[1].index("-t") + 1] == "3"
    assert fabric.stopped == ["iperf-h2"]


def test_iperf_without_names_takes_the_first_and_the_last_host(said: io.StringIO) -> None:
    fabric = FakeFabric(PromptContext(), [RESULT])
    ask(fabric, "iperf")
    assert said.getvalue() == "h1 to h16: 18 Mbit/s\n"


def test_iperf_that_does_not_work_says_why_and_ends(said: io.StringIO) -> None:
    fabric = FakeFabric(PromptContext(), ["connect failed: No route to host\n"] * 9)
    ask(fabric, "iperf h1 h2", "iperf h1", "iperf h1 h9", "iperf h1 h2 soon")
    first, *others = said.getvalue().splitlines()
    assert first == "iperf: connect failed: No route to host"
    assert fabric.stopped == ["iperf-h2"]
    usage = "usage: iperf [HOST HOST [SECONDS]]"
    assert others == [usage, "iperf: there is no host h9", usage]


def test_iperfudp_says_what_to_type_instead(said: io.StringIO) -> None:
    fabric = FakeFabric(PromptContext(dilation=50))
    ask(fabric, "iperfudp", "iperfudp 10M h1 h2")
    first, second = said.getvalue().splitlines()
    assert first == second
    assert "`h16 iperf -s -u &`, then `h1 iperf -c h16 -u -b RATE`" in first
    assert "50 times" in first
    assert fabric.ran == []


def test_a_capture_wants_a_name_and_not_only_a_link(said: io.StringIO) -> None:
    ask(FakeFabric(PromptContext()), "pcap p0e0 p0a0")
    assert said.getvalue().startswith("usage: pcap SWITCH NODE NAME|stop")


def test_a_scheme_is_loaded_by_its_name(said: io.StringIO) -> None:
    def load(name: str) -> str:
        if name != "ndp":
            raise ControlError(f"unknown scheme '{name}'")
        return "NDP is loaded"

    ask(FakeFabric(PromptContext(load_scheme=load)), "scheme ndp", "scheme nd\x1bp", "scheme")
    ask(FakeFabric(PromptContext()), "scheme ndp")
    assert said.getvalue().splitlines() == [
        "NDP is loaded",
        r"unknown scheme 'nd\x1bp'",
        "usage: scheme NAME, as ndp, or the file of one",
        "no controller",
    ]


class FakeLink:
    def __init__(self, name: str, status: str) -> None:
        self.name, self.state = name, status

    def __str__(self) -> str:
        return self.name

    def status(self) -> str:
        return self.state


def test_links_that_are_not_well_are_seen(said: io.StringIO) -> None:
    links = [
        FakeLink("a<->b", "(OK OK)"),
        FakeLink("a<->c", "(down OK)"),
        FakeLink("b<->c", "(OK OK)"),
    ]
    cli = FabricCLI.__new__(FabricCLI)
    cli.mn, cli.locals = SimpleNamespace(links=links), {}
    lg.setLogLevel("output")
    cli.onecmd("links")
    last = "2 of 3 links are OK (`links all` has each)\n"
    assert said.getvalue() == f"a<->c (down OK)\n{last}"
    cli.onecmd("links all")
    listed = "a<->c (down OK)\na<->b (OK OK)\nb<->c (OK OK)\n"
    assert said.getvalue().endswith(f"{last}{listed}{last}")
