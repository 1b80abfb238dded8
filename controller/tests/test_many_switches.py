"""The controller and many switches at once: what is under way is bounded, what there is no room for
is tried again, and what goes wrong is one line."""

from __future__ import annotations

import asyncio
import gc
import json
import re
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from built import BUILD, NEEDS_PROGRAM, PROGRAM
from ebb_controller import controller as module
from ebb_controller import patience
from ebb_controller.controller import PUSHES_AT_ONCE, Controller
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.program import Program
from ebb_controller.scheme import load_scheme
from ebb_controller.together import together
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.fabric_file import fabric_file
from ebb_topologies.model import Switch, from_table
from fake_switch import FakeSwitch, Faults

TOPOLOGY = from_table({"fat_tree": {"k": 4}}, "test")
PLAIN = FabricParameters()
SWITCH = BUILD / "ebb-switch"

pytestmark = [NEEDS_PROGRAM, pytest.mark.usefixtures("no_waiting")]

Fabric = dict[str, FakeSwitch]


@asynccontextmanager
async def fabric(faults: dict[str, Faults]) -> AsyncIterator[Fabric]:
    """The switches, which share `faults["all"]` where they have none of their own."""
    common = faults.get("all", Faults())
    nodes = TOPOLOGY.switches
    switches = {n.name: FakeSwitch(n.device_id, faults.get(n.name, common)) for n in nodes}
    for switch in switches.values():
        await switch.start()
    try:
        yield switches
    finally:
        await asyncio.gather(*(switch.stop() for switch in switches.values()))


@asynccontextmanager
async def managed(
    switches: Fabric, program: Program, connect_seconds: float = 10.0
) -> AsyncIterator[Controller]:
    def address(node: Switch) -> str:
        return f"127.0.0.1:{switches[node.name].port}"

    managers = TrafficManagers(TOPOLOGY, address)
    controller = Controller(
        TOPOLOGY,
        program,
        address=address,
        traffic_managers=managers,
        connect_seconds=connect_seconds,
    )
    try:
        async with controller:
            yield controller
    finally:
        await managers.close()


async def test_few_programs_are_under_way_at_once(program: Program) -> None:
    """In a restart of all switches at once, too."""
    under_way = Faults()
    async with (
        fabric({"all": under_way}) as switches,
        managed(switches, program) as controller,
    ):
        await controller.configure(PLAIN)
        assert max(under_way.pushing) == PUSHES_AT_ONCE
        assert {switch.pipelines for switch in switches.values()} == {1}
        await asyncio.gather(*(switch.restart() for switch in switches.values()))
        await asyncio.gather(*(controller.settled(name, 2) for name in switches))
        assert {switch.pipelines for switch in switches.values()} == {2}
    assert max(under_way.pushing) == PUSHES_AT_ONCE


@pytest.mark.usefixtures("own_ports")
@pytest.mark.skipif(not SWITCH.exists(), reason=f"no {SWITCH}: run `make build`")
@pytest.mark.parametrize("preloaded", [False, True])
async def test_a_process_of_many_switches_has_room_for_a_controller(
    preloaded: bool, tmp_path: Path
) -> None:
    """20 programs are four times as long as all requests that the process takes at once. One that
    it starts with, and that is too long for a request, does not travel at all."""
    content = fabric_file(TOPOLOGY, program=PROGRAM.files() if preloaded else None)
    inside = [entry | {"interfaces": {}} for entry in content["switch"]]
    file = tmp_path / "fabric.json"
    common = {"program": content["program"]} if preloaded else {}
    file.write_text(json.dumps({"switch": inside, "link": content["link"], **common}))
    length = PROGRAM.json.stat().st_size
    limit = str(length // 2 if preloaded else length + 100_000)
    command = [SWITCH, "--fabric", file, "--grpc-max-message-bytes", limit]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        try:
            managers = TrafficManagers(TOPOLOGY)
            async with Controller(TOPOLOGY, PROGRAM, traffic_managers=managers) as controller:
                changes = await controller.configure(load_scheme("detail").fabric)
            await managers.close()
            assert len(changes) == len(TOPOLOGY.switches)
        finally:
            process.terminate()


METHODS = ("SetForwardingPipelineConfig", "SetConfig", "Read", "Write")


async def test_what_there_is_no_room_for_is_tried_again(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.001)
    busy = Faults(busy=dict.fromkeys(METHODS, patience.TRIES - 1))
    async with fabric({"c0": busy}) as switches, managed(switches, program) as controller:
        changes = await controller.configure(PLAIN)
        assert not any(busy.busy.values())
        assert changes["c0"] == changes["c1"]
        assert switches["c0"].queues == switches["c1"].queues is not None


NO_ROOM = {method: Faults(busy={method: 10_000}) for method in METHODS}
LINES = [
    (
        NO_ROOM["SetForwardingPipelineConfig"],
        r"refuses \S+fabric.json: RESOURCE_EXHAUSTED: the requests of all .*; asked 6 times",
    ),
    (NO_ROOM["SetConfig"], r"SetConfig failed: RESOURCE_EXHAUSTED: the requests of all"),
    (NO_ROOM["Read"], r"its entries cannot be read: RESOURCE_EXHAUSTED the requests of all"),
    (NO_ROOM["Write"], r"cannot insert \d+ entities, .*: RESOURCE_EXHAUSTED the requests of all"),
    (
        Faults(refuse_pipeline="no extern 'warp'"),
        r"refuses \S+fabric.json: INVALID_ARGUMENT: no extern 'warp'; .*`make build`",
    ),
    (Faults(refuse_session="no device"), r"refuses a P4Runtime session: NOT_FOUND: no device; is "),
    (
        Faults(refuse=lambda _entity: "it is full"),
        r"cannot insert .*: RESOURCE_EXHAUSTED it is full",
    ),
    (None, r"cannot be reached: no P4Runtime server answers .* Is the switch process running\?"),
]


@pytest.mark.parametrize(("faults", "said"), LINES)
async def test_what_goes_wrong_is_one_line_and_leaves_nothing_behind(
    faults: Faults | None,
    said: str,
    program: Program,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On every switch at once, as when a process refuses something."""
    monkeypatch.setattr(patience, "FIRST_PAUSE_SECONDS", 0.001)
    loose: list[object] = []

    def unhandled(_loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
        # The poller of grpc.aio is one for all loops, and may have events of a loop that is closed.
        if "PollerCompletionQueue" not in about["message"]:
            loose.append(about)

    asyncio.get_running_loop().set_exception_handler(unhandled)
    before = asyncio.all_tasks()
    async with fabric({"all": faults or Faults()}) as switches:
        if faults is None:
            await asyncio.gather(*(switch.stop() for switch in switches.values()))
        seconds = 0.3 if faults is None else 10.0
        async with managed(switches, program, connect_seconds=seconds) as controller:
            with pytest.raises(ControllerError) as caught:
                await controller.configure(PLAIN)
    assert re.fullmatch(rf"switch \w+( at \S+)? ?:? ?{said}.*", str(caught.value))
    del caught, controller
    gc.collect()  # a task whose error nobody has taken says so when it goes
    await asyncio.sleep(0)
    assert loose == []
    assert {task.get_name() for task in asyncio.all_tasks() - before if not grpc_own(task)} == set()
    told = capfd.readouterr()
    assert told.out + told.err == ""


def grpc_own(task: asyncio.Task[object]) -> bool:
    """Whether gRPC keeps it for itself, not for a call."""
    return "cython" in repr(task.get_coro())


async def test_what_one_of_many_fails_with_is_raised_when_all_others_have_ended() -> None:
    ended: list[int] = []

    async def work(number: int) -> int:
        try:
            if number == 3:
                raise ControllerError("switch s3")
            await asyncio.sleep(number)
        finally:
            ended.append(number)
        return number

    with pytest.raises(ControllerError, match=r"^switch s3$"):
        await together(work(number) for number in range(1, 6))
    assert sorted(ended) == [1, 2, 3, 4, 5]
    assert await together(work(0) for _ in range(2)) == [0, 0]


async def test_a_mistake_of_ours_is_raised_and_not_tried_for_ever(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_site: object) -> list[object]:
        raise KeyError("no such port")

    monkeypatch.setattr(module, "plan", broken)
    async with fabric({}) as switches, managed(switches, program) as controller:
        words = r"^switch \w+ at \S+ cannot be configured: KeyError: 'no such port'$"
        with pytest.raises(ControllerError, match=words) as caught:
            await controller.configure(PLAIN)
    assert isinstance(caught.value.__cause__, KeyError)


async def test_a_switch_that_does_not_answer_holds_up_the_others_for_a_while_only(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "OPENED_AT_ONCE", 1)
    monkeypatch.setattr(module, "OPENING_SECONDS", 0.2)
    async with fabric({}) as switches:
        first = TOPOLOGY.switches[0].name
        await switches[first].stop()
        async with managed(switches, program) as controller:
            configuring = asyncio.create_task(controller.configure(PLAIN))
            others = [name for name in switches if name != first]
            await asyncio.gather(*(controller.settled(name, 1) for name in others))
            assert not configuring.done()
            await switches[first].start()
            assert (await configuring)[first].inserted
