"""The controller against P4Runtime servers that misbehave."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from built import NEEDS_PROGRAM, p4info
from ebb_controller.controller import Controller, Event
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.ecn_threshold import StepMarking
from ebb_controller.mechanisms.phantom_queue import PhantomQueue
from ebb_controller.multicast import MulticastGroup
from ebb_controller.program import Program
from ebb_controller.reconcile import Change
from ebb_controller.traffic_manager import TrafficManagers
from ebb_topologies.files import InputError
from ebb_topologies.model import Switch, from_table
from ebb_topologies.traffic_manager import PfcParameters, PortParameters, QueueParameters
from fake_switch import FakeSwitch, Faults
from finsy.proto import p4i, p4r
from google.protobuf import text_format

TOPOLOGY = from_table({"leaf_spine": {"leaves": 2, "spines": 1, "hosts_per_leaf": 2}}, "test")
DCTCP = FabricParameters(step_marking=StepMarking())
HULL = FabricParameters(phantom_queue=PhantomQueue())
PLAIN = FabricParameters()

pytestmark = [NEEDS_PROGRAM, pytest.mark.usefixtures("no_waiting")]

Fabric = dict[str, FakeSwitch]


@pytest.mark.parametrize("damage", [b"", b"tables { pre", b"\x7fELF\xd0\xd0", b"[" * 100_000])
@pytest.mark.parametrize("which", ["p4info", "json"])
def test_damaged_programs_are_named(program: Program, which: str, damage: bytes) -> None:
    path: Path = getattr(program, which)
    path.write_bytes(damage)
    with pytest.raises(ControllerError, match=f"{path.name} is damaged"):
        program.check()


@asynccontextmanager
async def fabric(**faults: Faults) -> AsyncIterator[Fabric]:
    switches = {
        node.name: FakeSwitch(node.device_id, faults.get(node.name, Faults()))
        for node in TOPOLOGY.switches
    }
    for switch in switches.values():
        await switch.start()
    try:
        yield switches
    finally:
        for switch in switches.values():
            await switch.stop()


def address(switches: Fabric, node: Switch) -> str:
    return f"127.0.0.1:{switches[node.name].port}"


def controller(switches: Fabric, program: Program, **options: Any) -> Controller:
    return Controller(
        TOPOLOGY,
        program,
        address=lambda node: address(switches, node),
        **{"connect_seconds": 5.0, **options},
    )


def table_id(name: str) -> int:
    """Number of a table of the program."""
    (found,) = (t.preamble.id for t in p4info().tables if t.preamble.alias == name)
    return int(found)


def entry_of(table: str) -> Callable[[p4r.Entity], bool]:
    """Whether an entity is an entry of a table, at port 1 if the table has ports."""

    wanted = table_id(table)

    def matches(entity: p4r.Entity) -> bool:
        entry = entity.table_entry
        return entry.table_id == wanted and (
            not entry.match or entry.match[0].exact.value == b"\x01"
        )

    return matches


async def message(work: Awaitable[Any]) -> str:
    with pytest.raises(ControllerError) as caught:
        await work
    return str(caught.value)


# -- what goes well ---------------------------------------------------------------------------


async def test_the_plan_is_installed_and_only_differences_are_written(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as fabric_controller:
        changes = await fabric_controller.configure(PLAIN)
        # l0: 3 ports, 3 groups (2 hosts, up), 3 routes (2 hosts, the other rack), a class, an ARP
        # entry; and the seed.
        assert changes["l0"] == Change(inserted=12, modified=0, deleted=0)
        assert switches["l0"].pipelines == 1
        for switch in switches.values():
            switch.writes.clear()

        assert (await fabric_controller.configure(PLAIN))["l0"] == Change()
        assert (await fabric_controller.configure(DCTCP))["l0"] == Change(inserted=3)
        assert (await fabric_controller.configure(HULL))["l0"] == Change(3, 0, 3)
        other_drain = FabricParameters(phantom_queue=PhantomQueue(drain_fraction=0.9))
        assert (await fabric_controller.configure(other_drain))["l0"] == Change(modified=3)
        operations = [operation for operation, _ in switches["l0"].writes]
        assert operations == [
            *["INSERT"] * 3,
            *["INSERT"] * 3,
            *["DELETE"] * 3,
            *["MODIFY"] * 3,
        ]


async def test_multicast_comes_and_goes(program: Program) -> None:
    group = MulticastGroup("239.0.0.1", 1, ("h1", "h2", "h3"))
    async with fabric() as switches, controller(switches, program) as fabric_controller:
        await fabric_controller.configure(PLAIN)
        assert (await fabric_controller.configure(PLAIN, [group]))["s0"] == Change(inserted=3)
        assert (await fabric_controller.configure(PLAIN))["s0"] == Change(deleted=3)
        for wrong, why in (
            (MulticastGroup("10.0.0.1", 1, ("h1",)), "not an IPv4 multicast address"),
            (MulticastGroup("239.0.0.1", 1, ("h9",)), "has no host 'h9'"),
            (MulticastGroup("239.0.0.1", 0, ("h1",)), "outside 1..65535"),
            (MulticastGroup("239.0.0.1", 1, ()), "has no members"),
        ):
            with pytest.raises(InputError, match=why):
                await fabric_controller.configure(PLAIN, [wrong])
        with pytest.raises(InputError, match="two multicast groups have the address"):
            await fabric_controller.configure(PLAIN, [group, replace(group, group=2)])


async def test_a_second_run_takes_over_what_the_first_left(program: Program) -> None:
    async with fabric() as switches:
        async with controller(switches, program) as first:
            await first.configure(DCTCP)
        async with controller(switches, program) as second:
            assert (await second.configure(DCTCP))["l0"] == Change()
        assert switches["l0"].pipelines == 1


async def test_a_restarted_switch_gets_everything_again(program: Program) -> None:
    events: list[Event] = []
    async with (
        fabric() as switches,
        controller(switches, program, on_event=events.append) as fabric_controller,
    ):
        await fabric_controller.configure(DCTCP)
        before = dict(switches["l1"].entities)
        await switches["l1"].restart()
        await fabric_controller.settled("l1", 2)
        assert switches["l1"].entities == before
        assert switches["l1"].pipelines == 2
        assert fabric_controller.installs("l0") == 1
        told = [event.kind for event in events if event.switch == "l1"]
        assert told == ["connected", "installed", "lost", "connected", "installed"]


async def test_a_switch_that_comes_late_is_waited_for(program: Program) -> None:
    async with fabric() as switches:
        late = switches["s0"]
        await late.stop()
        async with controller(switches, program) as fabric_controller:
            configuring = asyncio.create_task(fabric_controller.configure(PLAIN))
            await asyncio.sleep(0.3)
            assert not configuring.done()
            await late.start()
            assert (await configuring)["s0"].total > 0


async def test_counters_come_in_order(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as fabric_controller:
        await fabric_controller.configure(PLAIN)
        counters = await fabric_controller.counters("trimmed", "dropped")
        assert counters["l1"]["dropped"] == [(0, 0), (10, 1000), (20, 2000)]
        # By port: those with a link, up to three, and no other.
        by_port = [(0, 0), (10, 1000), (20, 2000), (30, 3000)]
        assert counters["l1"]["trimmed"] == by_port
        assert counters["s0"]["trimmed"] == by_port[:3]
        assert "no counter no_such" in await message(fabric_controller.counters("no_such"))
        await switches["l1"].stop()
        while fabric_controller._managed["l1"].connected:
            await asyncio.sleep(0.01)
        assert await message(fabric_controller.counters("dropped")) == (
            "switch l1 is not connected"
        )


async def test_queues_come_with_the_tables_and_come_back_too(program: Program) -> None:
    async with fabric() as switches:
        managers = TrafficManagers(TOPOLOGY, lambda node: address(switches, node))
        async with controller(switches, program, traffic_managers=managers) as queued:
            two = PortParameters(queue=[QueueParameters(id=0), QueueParameters(id=7)])
            await queued.configure(FabricParameters(ports=two))
            held = switches["l1"].queues
            assert held is not None
            assert [queue["id"] for queue in held["profile"][0]["queue"]] == [0, 7]
            await switches["l1"].restart()
            await queued.settled("l1", 2)
            assert switches["l1"].queues == held

            queue = (await managers.statistics())["l1"].ports[0].queues[0]
            assert (queue.max_depth_bytes, queue.ecn_ce.packets) == (4500, 5)
            assert [(d.reason, d.count.packets) for d in queue.drops] == [("tail-drop", 3)]

            switches["s0"].faults = Faults(refuse_queues="queue 7 twice")
            text = await message(queued.configure(PLAIN))
            assert text.startswith("switch s0 at 127.0.0.1:")
            assert text.endswith("SetConfig failed: INVALID_ARGUMENT: queue 7 twice")
        await managers.close()


async def test_a_fresh_process_gets_only_what_it_did_not_start_with(program: Program) -> None:
    two = PortParameters(queue=[QueueParameters(id=0), QueueParameters(id=7)])
    async with fabric() as switches:
        managers = TrafficManagers(TOPOLOGY, lambda node: address(switches, node))
        options = {"traffic_managers": managers, "fresh": two}
        for switch in switches.values():
            switch.config = program.schema.get_pipeline_config()
        async with controller(switches, program, **options) as fresh:
            await fresh.configure(FabricParameters(ports=two))
            assert [switch.queues for switch in switches.values()] == [None] * 3
            assert sum(switch.programs_told for switch in switches.values()) == 1
            asked = switches["l1"].programs_told
            # Whoever restarts has nothing any more; the version of the process is known.
            told = sum(switch.versions_told for switch in switches.values())
            await switches["l1"].restart()
            await fresh.settled("l1", 2)
            assert switches["l1"].queues is not None
            assert switches["l1"].programs_told == asked + 1
            assert sum(switch.versions_told for switch in switches.values()) == told
            await fresh.configure(PLAIN)
            assert None not in [switch.queues for switch in switches.values()]
        await managers.close()


async def test_a_fresh_process_with_other_queues_than_wanted_gets_them(program: Program) -> None:
    async with fabric() as switches:
        managers = TrafficManagers(TOPOLOGY, lambda node: address(switches, node))
        other = PortParameters(queue=[QueueParameters(id=0), QueueParameters(id=7)])
        options = {"traffic_managers": managers, "fresh": other}
        async with controller(switches, program, **options) as fresh:
            await fresh.configure(PLAIN)
            assert None not in [switch.queues for switch in switches.values()]
        await managers.close()


async def test_a_switch_has_one_connection_for_sessions_and_queues(program: Program) -> None:
    async with fabric() as switches:
        managers = TrafficManagers(TOPOLOGY, lambda node: address(switches, node))
        async with controller(switches, program, traffic_managers=managers) as queued:
            await queued.configure(PLAIN)
            await managers.statistics()
            assert [len(switch.peers) for switch in switches.values()] == [1, 1, 1]
        await managers.close()


# -- what goes wrong --------------------------------------------------------------------------


async def test_a_refused_entry_is_named_with_its_cause(program: Program) -> None:
    marked = entry_of("ecn_threshold")
    faults = Faults(refuse=lambda entity: "table is full" if marked(entity) else None)
    async with fabric(l1=faults) as switches, controller(switches, program) as broken:
        assert await message(broken.configure(DCTCP)) == (
            "switch l1: cannot insert table ecn_threshold [egress_port=0x1] -> "
            "set_ecn_threshold(depth=0x7530): RESOURCE_EXHAUSTED table is full"
        )
        # Entries that the switch refuses no more are installed by the next call.
        switches["l1"].faults = Faults()
        assert (await broken.configure(DCTCP))["l1"] == Change(inserted=1)


async def test_an_entry_that_was_lost_is_seen_in_the_read_back(program: Program) -> None:
    faults = Faults(lose=entry_of("phantom_queue"))
    async with fabric(s0=faults) as switches, controller(switches, program) as broken:
        text = await message(broken.configure(HULL))
        assert text.startswith("switch s0: table phantom_queue [egress_port=0x1] -> ")
        assert text.endswith("was accepted but does not read back")


async def test_another_action_is_seen_in_the_read_back(program: Program) -> None:
    marked = entry_of("ecn_threshold")

    def alter(entity: p4r.Entity) -> None:
        if marked(entity):
            entity.table_entry.action.action.params[0].value = b"\x01"

    faults = Faults(alter=alter)
    async with fabric(s0=faults) as switches, controller(switches, program) as broken:
        text = await message(broken.configure(DCTCP))
        assert "set_ecn_threshold(depth=0x7530) reads back as" in text
        assert text.endswith("set_ecn_threshold(depth=0x1)")


async def test_an_entry_that_does_not_go_is_seen(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as broken:
        await broken.configure(DCTCP)
        switches["s0"].faults = Faults(lose=entry_of("ecn_threshold"))
        text = await message(broken.configure(PLAIN))
        assert text.startswith("switch s0: table ecn_threshold [egress_port=0x1]")
        assert text.endswith("is there but not in the plan")


async def test_padding_and_order_make_no_difference(program: Program) -> None:
    """Some servers pad byte strings to the width of the field, or sort as they like."""

    def alter(entity: p4r.Entity) -> None:
        for parameter in entity.table_entry.action.action.params:
            parameter.value = b"\x00" + parameter.value
        members = list(entity.action_profile_group.members)
        if members:
            del entity.action_profile_group.members[:]
            entity.action_profile_group.members.extend(reversed(members))

    async with (
        fabric(l0=Faults(alter=alter)) as switches,
        controller(switches, program) as fabric_controller,
    ):
        await fabric_controller.configure(DCTCP)
        assert (await fabric_controller.configure(DCTCP))["l0"] == Change()


async def test_an_unreachable_switch_is_named(program: Program) -> None:
    async with fabric() as switches:
        await switches["s0"].stop()
        async with controller(switches, program, connect_seconds=0.3) as alone:
            assert await message(alone.configure(PLAIN)) == (
                "switch s0 cannot be reached: no P4Runtime server answers at "
                f"127.0.0.1:{switches['s0'].port} after 0.3 s. Is the switch process running?"
            )


async def test_a_refused_program_is_told_at_once(program: Program) -> None:
    faults = Faults(refuse_pipeline="unknown extern 'warp'")
    async with fabric(l1=faults) as switches, controller(switches, program) as broken:
        text = await message(broken.configure(PLAIN))
        assert text.startswith(f"switch l1 at 127.0.0.1:{switches['l1'].port} refuses ")
        assert "fabric.json: INVALID_ARGUMENT: unknown extern 'warp'; `make build` " in text


async def test_a_refused_session_is_told_at_once(program: Program) -> None:
    faults = Faults(refuse_session="no device 2 here")
    async with fabric(l1=faults) as switches, controller(switches, program) as broken:
        text = await message(broken.configure(PLAIN))
        assert re.fullmatch(
            r"switch l1 at \S+ refuses a P4Runtime session: NOT_FOUND: no device 2 here; is it .*",
            text,
        )


async def test_another_primary_is_named(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as first:
        await first.configure(PLAIN)
        async with controller(switches, program) as second:
            text = await message(second.configure(DCTCP))
        assert "another controller is primary (election id 10, ours 9); stop it first" in text
        assert (await first.configure(DCTCP))["l0"] == Change(inserted=3)


async def test_a_program_with_another_key_is_told(program: Program) -> None:
    other = p4i.P4Info()
    other.CopyFrom(p4info())
    (marking,) = (t for t in other.tables if t.preamble.alias == "ecn_threshold")
    marking.match_fields[0].name = "port"
    program.p4info.write_text(text_format.MessageToString(other))
    async with fabric() as switches, controller(switches, program) as broken:
        text = await message(broken.configure(DCTCP))
        assert "does not fit the P4 program" in text
        assert "ecn_threshold" in text


def test_a_missing_program_is_told(tmp_path: Path) -> None:
    with pytest.raises(ControllerError, match="is not there: run `make build`"):
        Controller(TOPOLOGY, Program(tmp_path / "p4info", tmp_path / "json"))
    of_tofino = Program.of_tofino(tmp_path, TOPOLOGY, DCTCP)
    with pytest.raises(ControllerError, match="is not there: run `make build P4=tna`"):
        Controller(TOPOLOGY, of_tofino)


async def test_a_switch_that_dies_while_it_is_configured_is_waited_for(program: Program) -> None:
    """The call neither hangs nor fails: the switch comes back and gets the plan."""

    async with fabric() as switches, controller(switches, program) as fabric_controller:
        await fabric_controller.configure(PLAIN)
        restarting = asyncio.create_task(switches["l1"].restart())
        while fabric_controller._managed["l1"].connected:
            await asyncio.sleep(0.005)
        changes = await fabric_controller.configure(DCTCP)
        await restarting
        assert changes["l1"].inserted > 3
        assert changes["l0"] == Change(inserted=3)


# -- links that are down ----------------------------------------------------------------------


def routes(switch: FakeSwitch) -> dict[bytes, int]:
    """Number of the group that the route of an address names, by address."""
    return {
        entity.table_entry.match[0].lpm.value: entity.table_entry.action.action_profile_group_id
        for entity in switch.entities.values()
        if entity.table_entry.table_id == table_id("ipv4_route")
    }


async def test_rerouting_changes_what_must_and_comes_back_to_what_was(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as fabric_controller:
        await fabric_controller.configure(PLAIN)
        before = {name: dict(switch.entities) for name, switch in switches.items()}
        (cut,) = (link.ends for link in TOPOLOGY.links if link.ends[0].node == "h1")
        changes = await fabric_controller.reroute(frozenset([cut]))
        assert len(routes(switches["l1"])) == len(TOPOLOGY.hosts) - 1
        # l1 has a route to the other host of l0 instead of its rack, and the group stays; l0 loses
        # that of h1.
        assert changes["l1"] == Change(inserted=1, deleted=1)
        assert changes["l0"] == Change(deleted=2)
        rerouted = {name: dict(switch.entities) for name, switch in switches.items()}
        await fabric_controller.configure(DCTCP)
        await fabric_controller.configure(PLAIN)
        again = {name: dict(switch.entities) for name, switch in switches.items()}
        assert again == rerouted, "another plan avoids what this one does"
        await fabric_controller.reroute(frozenset())
        assert {name: dict(switch.entities) for name, switch in switches.items()} == before
        await fabric_controller.configure(PLAIN, down=frozenset([cut]))
        await fabric_controller.configure(PLAIN, down=frozenset())
        assert {name: dict(switch.entities) for name, switch in switches.items()} == before


async def test_a_new_group_is_there_before_an_entry_names_it(program: Program) -> None:
    two_spines = from_table({"leaf_spine": {"leaves": 2, "spines": 2}}, "test")
    everyone = {s.name: await FakeSwitch(s.device_id).start() for s in two_spines.switches}
    leaf = everyone["l0"]
    async with Controller(
        two_spines, program, address=lambda node: address(everyone, node)
    ) as fabric_controller:
        await fabric_controller.configure(PLAIN)
        leaf.writes.clear()
        (cut,) = (x.ends for x in two_spines.links if {e.node for e in x.ends} == {"l0", "s1"})
        await fabric_controller.reroute(frozenset([cut]))
        # The group of both uplinks goes when the route to l1's rack uses that of the other one.
        operations = [operation for operation, _ in leaf.writes]
        assert operations == ["INSERT", "MODIFY", "DELETE"]
    for switch in everyone.values():
        await switch.stop()


async def test_a_switch_is_left_alone_until_the_controller_comes_back(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as fabric_controller:
        await fabric_controller.configure(DCTCP)
        before = dict(switches["l1"].entities)
        await fabric_controller.leave("l1")
        await switches["l1"].restart()
        assert "l1" not in await fabric_controller.configure(DCTCP)
        await asyncio.sleep(0.3)
        assert not switches["l1"].entities
        change = await fabric_controller.come_back("l1")
        assert change.inserted > 0
        assert switches["l1"].entities == before


async def test_a_link_that_is_not_there_cannot_be_down(program: Program) -> None:
    async with fabric() as switches, controller(switches, program) as fabric_controller:
        (cut,) = (link.ends for link in TOPOLOGY.links if link.ends[0].node == "h1")
        wrong = (cut[1], cut[1])
        with pytest.raises(InputError, match="no link l0:1 - l0:1"):
            await fabric_controller.configure(PLAIN, down=frozenset([wrong]))
        with pytest.raises(InputError, match="nothing to route again"):
            await fabric_controller.reroute(frozenset())


async def test_lossless_queues_are_refused_where_paths_go_round(program: Program) -> None:
    """When the last link of a ring comes back too: then the routes stay as they were."""
    names = [f"s{i}" for i in range(4)]
    table = {
        "switch": [{"name": name} for name in names],
        "host": [{"name": f"h{i}"} for i in range(4)],
        "link": [
            *({"ends": pair} for pair in zip(names, [*names[1:], "s0"], strict=True)),
            *({"ends": [f"h{i}", name]} for i, name in enumerate(names)),
        ],
    }
    ring = from_table(table, "ring")
    queue = QueueParameters(id=0, lossless=True)
    pfc = PfcParameters(pause_bytes=8_192, resume_bytes=4_557)
    lossless = FabricParameters(ports=PortParameters(queue=[queue], pfc=pfc))
    everyone = {s.name: await FakeSwitch(s.device_id).start() for s in ring.switches}
    async with Controller(
        ring, program, address=lambda node: address(everyone, node)
    ) as fabric_controller:
        with pytest.raises(InputError, match="lead round s0:1 -> s1:2 -> s2:2 -> s3:2 -> s0:1, so"):
            await fabric_controller.configure(lossless)
        assert not any(switch.entities for switch in everyone.values())
        await fabric_controller.configure(lossless, down=frozenset({ring.links[0].ends}))
        before = {name: dict(switch.entities) for name, switch in everyone.items()}
        with pytest.raises(InputError, match=r"lossless queues \(0\) could wait for each other"):
            await fabric_controller.reroute(frozenset())
        assert {name: dict(switch.entities) for name, switch in everyone.items()} == before
        await fabric_controller.configure(PLAIN)
    for switch in everyone.values():
        await switch.stop()
