"""`ebb-ctl` against the real switch: a transcript of commands, and what is no single command."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import finsy as fy
import pytest
from ebb_controller.ctl import cli, client, completion, packets
from ebb_controller.ctl.stream import SwitchError
from finsy.proto import p4r
from p4switch import CPU_PORT, DEVICE_ID, FIXTURE, JSON, P4INFO, PATIENCE_S, frame, running

TRANSCRIPT = Path(__file__).parent / "ctl.txt"
RECORD = "EBB_UPDATE_GOLDEN"
"""Writes the transcript anew; read the diff."""


def ctl(address: str, line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and all that a command prints."""
    words = ["--addr", address, "--device-id", str(DEVICE_ID), *shlex.split(line)]
    capsys.readouterr()
    code = cli.main(words)
    printed = capsys.readouterr()
    return code, printed.out + printed.err


def test_the_transcript(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [line for line in TRANSCRIPT.read_text().splitlines() if line.startswith("$ ")]
    told = []
    for command in commands:
        line = command.removeprefix("$ ").replace("FIXTURE", str(FIXTURE))
        code, printed = ctl(address, line, capsys)
        assert (code == 0) == ("ebb-ctl: " not in printed), f"{command}: {code}\n{printed}"
        told.append(f"{command}\n{printed.replace(address, 'ADDRESS')}")
    if os.environ.get(RECORD):
        TRANSCRIPT.write_text("".join(told))
    assert "".join(told) == TRANSCRIPT.read_text()


@pytest.fixture
def program(address: str, capsys: pytest.CaptureFixture[str]) -> str:
    """A switch that has just got its program."""
    assert ctl(address, f"program push {JSON} {P4INFO}", capsys) == (0, "")
    return address


def test_a_program_without_a_p4info_is_told_from_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, JSON) as address:
        code, printed = ctl(address, "table list", capsys)
        assert code == 1
        assert "reports no P4Info" in printed and "was started without one" in printed, printed
        assert ctl(address, f"program push {JSON} {P4INFO}", capsys) == (0, "")
        code, printed = ctl(address, "table list", capsys)
        assert code == 0 and "bridge" in printed


def test_lines_are_done_one_by_one_until_one_fails(
    program: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = "# a comment\n\ntable add bridge 1 do forward 1\nhelp\ntable dump bridge\nfoo\ninfo\n"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    code, printed = ctl(program, "", capsys)
    assert code == 1
    assert "bridge  dst=00:00:00:00:00:01  forward(port=1)" in printed
    assert "usage: ebb-ctl" in printed
    assert "ebb-ctl: line 6: COMMAND: there is no 'foo'; known: info, program" in printed
    assert "p4runtime" not in printed


def test_what_may_come_next_is_known(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    def next_words(*words: str) -> list[str]:
        given = [completion.WORD, "-a", program, "-d", str(DEVICE_ID), *words]
        capsys.readouterr()
        assert cli.main(given) == 0
        return capsys.readouterr().out.splitlines()

    assert "table " in next_words("")
    assert next_words("table", "d") == ["dump ", "delete "]
    assert next_words("table", "add", "b") == ["bridge "]
    assert next_words("table", "add", "acl", "") == [
        "src=",
        "ttl=",
        "protocol=",
        "priority=",
        "do ",
    ]
    assert next_words("table", "add", "acl", "src=1", "p") == ["protocol=", "priority="]
    assert next_words("table", "add", "bridge", "1", "do", "f") == ["forward "]
    assert next_words("table", "add", "bridge", "1", "do", "forward", "") == ["port="]
    assert next_words("table", "add", "route", "1", "do", "m") == ["member="]
    assert next_words("counter", "read", "") == ["port_in ", "route_hits "]
    assert next_words("counter", "read", "port_in", "") == []
    assert next_words("packet", "out", "00", "egress_port=1", "") == ["padding="]
    assert next_words("digest", "watch", "") == ["learned_t "]
    assert "--json " in next_words("--")
    assert next_words("packet", "in", "--p") == ["--packets "]
    assert next_words("table", "list", "--") == ["--help "]
    assert cli.main([completion.WORD, "-a", "127.0.0.1:1", "table", "dump", ""]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_the_script_of_a_shell_asks_us(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["completion", shell]) == 0
    assert f"ebb-ctl {completion.WORD}" in capsys.readouterr().out


def test_bash_completes_with_it(program: str) -> None:
    """Offers of the function for `ebb-ctl -a .. table add br`, with a command of that name."""
    line = ["ebb-ctl", "-a", program, "-d", str(DEVICE_ID), "table", "add", "br"]
    command = f'ebb-ctl() {{ {shlex.quote(sys.executable)} -m ebb_controller.ctl.cli "$@"; }}'
    words = f"COMP_WORDS=({' '.join(line)}); COMP_CWORD={len(line) - 1}"
    asked = f'{command}\n{completion.script("bash")}\n{words}; _ebb_ctl; echo "${{COMPREPLY[@]}}."'
    done = subprocess.run(
        ["bash", "-c", asked], capture_output=True, text=True, timeout=PATIENCE_S, check=True
    )
    assert done.stdout == "bridge .\n"


def test_text_for_people_has_a_line_per_packet_and_digest() -> None:
    packet = {"metadata": {"ingress_port": "2"}, "bytes": 2, "payload": "00ff"}
    assert packets.packet_line(packet) == "ingress_port=2 2 bytes: 00ff"
    digest = {"digest": "learned_t", "list": 1, "data": {"port": "2"}}
    assert packets.digest_line(digest) == "learned_t: port=2"


def test_a_packet_that_the_switch_refuses_is_an_error(program: str) -> None:
    found = client.Client(client.Place(program, DEVICE_ID))
    wrong = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x"))
    with (
        pytest.raises(SwitchError, match=r"INVALID_ARGUMENT.*metadata 'egress_port'"),
        found.stream("packet out") as channel,
    ):
        channel.send(wrong)
    found.close()


async def send(address: str, payload: bytes) -> None:
    """A packet-out, which comes in at the CPU port and leaves at port 1."""
    options = fy.SwitchOptions(p4info=P4INFO, p4blob=JSON, device_id=DEVICE_ID)
    async with fy.Switch("s1", address, options) as switch:
        await switch.write(fy.P4PacketOut(payload, egress_port=1, padding=0))


def test_a_primary_stays_the_primary(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Entries are written under its election id."""

    async def beside_a_controller() -> tuple[int, str]:
        options = fy.SwitchOptions(p4info=P4INFO, p4blob=JSON, device_id=DEVICE_ID)
        async with fy.Switch("s1", program, options) as switch:
            line = "table add bridge 9 do forward 1"
            told = await asyncio.to_thread(ctl, program, line, capsys)
            assert switch.is_primary
            found = [e async for e in switch.read(fy.P4TableEntry("bridge"))]
            assert [entry["dst"] for entry in found] == [9]
            return told

    assert asyncio.run(beside_a_controller()) == (0, "")


def test_a_trace_tells_what_happens_to_a_packet(program: str) -> None:
    command = [sys.executable, "-m", "ebb_controller.ctl.cli", "-a", program, "-d", str(DEVICE_ID)]
    tracing = subprocess.Popen(
        [*command, "--json", "trace", str(CPU_PORT), "--packets", "1"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert asyncio.run(_until_traced(program, tracing))
        printed, _ = tracing.communicate(timeout=PATIENCE_S)
    finally:
        tracing.kill()
        tracing.wait()
    events = [event for line in printed.splitlines() for event in json.loads(line)["events"]]
    assert any("state from_cpu" in event for event in events), printed
    assert any(re.search("port 1", event) for event in events), printed


async def _until_traced(address: str, tracing: subprocess.Popen[str]) -> bool:
    """Sends packets until the trace ends: it may not have begun when the first one comes."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while tracing.poll() is None and asyncio.get_running_loop().time() < deadline:
        await send(address, frame(1))
        await asyncio.sleep(0.05)
    return tracing.poll() == 0


def listened(
    address: str, command: str, payload: bytes, capsys: pytest.CaptureFixture[str]
) -> list[Any]:
    """Output of a command as JSON until it ends, while packets come in at port 2."""
    line = [sys.executable, "-m", "ebb_controller.ctl.cli", "-a", address, "-d", str(DEVICE_ID)]
    with subprocess.Popen(
        [*line, "--json", *command.split()], stdout=subprocess.PIPE, text=True
    ) as listener:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while listener.poll() is None and time.monotonic() < deadline:
                out = f"packet out {payload.hex()} egress_port=1 padding=0"
                assert ctl(address, out, capsys) == (0, "")
                time.sleep(0.02)
            printed, _ = listener.communicate(timeout=PATIENCE_S)
        finally:
            listener.kill()
    assert listener.returncode == 0
    return [json.loads(text) for text in printed.splitlines()]


def test_packets_come_in_as_a_controller_gets_them(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctl(program, "table add bridge 1 do to_cpu", capsys) == (0, "")
    sent = frame(1)
    wanted = {
        "metadata": {"ingress_port": "2", "padding": "0"},
        "bytes": len(sent),
        "payload": sent.hex(),
    }
    assert listened(program, "packet in --packets 2", sent, capsys) == [wanted, wanted]


def test_digests_are_asked_for_and_told(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    told = listened(program, "digest watch --count 2", frame(1, src=0xAA), capsys)
    assert [row["data"] for row in told] == [{"mac": "00:00:00:00:00:aa", "port": "2"}] * 2
    assert told[0]["digest"] == "learned_t" and told[0]["list"] < told[1]["list"]

    async def configured() -> list[Any]:
        options = fy.SwitchOptions(p4info=P4INFO, p4blob=JSON, device_id=DEVICE_ID)
        async with fy.Switch("s1", program, options) as switch:
            return [entry async for entry in switch.read(fy.P4DigestEntry())]

    assert asyncio.run(configured()) == []


def test_a_controller_has_its_packets_beside_ours(
    program: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def beside_a_controller() -> None:
        options = fy.SwitchOptions(p4info=P4INFO, p4blob=JSON, device_id=DEVICE_ID)
        async with fy.Switch("s1", program, options) as switch:
            line = "table add bridge 1 do to_cpu"
            assert await asyncio.to_thread(ctl, program, line, capsys) == (0, "")
            packets = switch.read_packets()
            received = asyncio.create_task(anext(packets))
            await asyncio.sleep(0)
            command = "packet in --packets 1"
            rows = await asyncio.to_thread(listened, program, command, frame(1), capsys)
            assert [row["payload"] for row in rows] == [frame(1).hex()]
            assert switch.is_primary
            assert (await asyncio.wait_for(received, PATIENCE_S)).payload == frame(1)

    asyncio.run(beside_a_controller())


def test_the_later_one_of_two_listeners_has_the_packets(program: str) -> None:
    place = client.Place(program, DEVICE_ID)
    first, second = client.Client(place), client.Client(place)
    with (
        pytest.raises(SwitchError, match="another ebb-ctl has taken over"),
        first.stream("packet in") as listener,
        second.stream("packet in"),
    ):
        next(listener.updates())
    first.close()
    second.close()


def test_it_starts_without_what_only_controllers_need() -> None:
    script = "import sys, ebb_controller.ctl.cli; print('pydantic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == "False\n"


def test_text_of_a_switch_does_not_reach_a_terminal_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise SwitchError("no \x1b[2J")

    monkeypatch.setattr(client.Client, "version", refused)
    assert cli.main(["info"]) == 1
    assert "\x1b" not in capsys.readouterr().err
    monkeypatch.setattr(client.Client, "queue_config", lambda _: "no \x1b[2J")
    assert cli.main(["queue", "config"]) == 0
    assert capsys.readouterr().out == "no \\x1b[2J\n"


def test_names_that_a_shell_would_obey_complete_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Completions are put into the line of the shell."""
    names = ["bridge", "$(reboot)", "a;b", "`c`", "\x1b[2J", "d e", "MyIngress.acl[0]"]
    monkeypatch.setattr(cli, "_next", lambda *_: names)
    assert cli.candidates(None, ["table", "dump"], "") == ["bridge ", "MyIngress.acl[0] "]


def test_the_page_names_every_command() -> None:
    """And none that is not there."""
    text = (Path(__file__).parents[4] / "docs" / "ebb-ctl.md").read_text()
    _, _, text = text.partition("## Commands")
    spans = [span.split() for span in re.findall(r"`([^`]+)`", text)]
    named = {(noun, verb if verb in cli.COMMANDS[noun] else "") for noun, verb in
             (((*span, "")[:2]) for span in spans) if noun in cli.COMMANDS}  # fmt: skip
    known = {(noun, verb) for noun, verbs in cli.COMMANDS.items() for verb in verbs}
    assert named == known


def test_nobody_answers(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert cli.main(["-a", "127.0.0.1:1", "info"]) == 1
    assert "no P4Runtime server answers at 127.0.0.1:1" in capsys.readouterr().err
    assert cli.main(["-s", "s1", "--socket", str(tmp_path / "none"), "info"]) == 1
    assert "no fabric answers at" in capsys.readouterr().err
