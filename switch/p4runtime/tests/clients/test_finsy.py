"""P4Runtime as finsy speaks it, against the real switch: every entity, the stream, and the rules.

What finsy has no word for is sent as messages of its raw client.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import finsy as fy
import pytest
from finsy.p4client import P4Client, P4ClientError
from finsy.p4entity import P4BackupReplica, P4Replica, P4ValueSetMember
from finsy.p4schema import P4ConfigResponseType
from finsy.proto import p4r
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message
from p4switch import CPU_PORT, DEVICE_ID, JSON, P4INFO, PATIENCE_S, frame, ipv4

CODE = fy.GRPCStatusCode
T = TypeVar("T")


def options(**more: Any) -> fy.SwitchOptions:
    return fy.SwitchOptions(p4info=P4INFO, p4blob=JSON, device_id=DEVICE_ID, **more)


@asynccontextmanager
async def primary(address: str, **more: Any) -> AsyncIterator[fy.Switch]:
    """A controller that has just pushed the program: the switch has no state of an earlier test."""
    async with fy.Switch("s1", address, options(p4force=True, **more)) as switch:
        yield switch


def raw(switch: fy.Switch) -> P4Client:
    client = switch._p4client
    assert client is not None
    return client


async def read(switch: fy.Switch, wanted: Any) -> list[Any]:
    found: AsyncIterator[Any] = switch.read(wanted)  # type: ignore[assignment]
    return [entity async for entity in found]


async def read_raw(switch: fy.Switch, entity: p4r.Entity) -> list[p4r.Entity]:
    request = p4r.ReadRequest(device_id=DEVICE_ID, entities=[entity])
    return [e async for reply in raw(switch).request_iter(request) for e in reply.entities]


async def refused(write: Coroutine[Any, Any, Any]) -> tuple[CODE, str]:
    """Code and message of the only error."""
    with pytest.raises(P4ClientError) as caught:
        await write
    error = caught.value
    if not error.details:
        return error.code, error.message
    assert error.code == CODE.UNKNOWN
    (detail,) = error.details.values()
    return detail.canonical_code, detail.message


async def first(stream: AsyncIterator[T]) -> T:
    return await asyncio.wait_for(anext(stream), PATIENCE_S)


async def until(condition: Callable[[], Coroutine[Any, Any, bool]], problem: str) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while not await condition():
        assert asyncio.get_running_loop().time() < deadline, problem
        await asyncio.sleep(0.01)


def bridge(dst: int, action: str = "forward", **params: int) -> fy.P4TableEntry:
    action_ = fy.P4TableAction(action, **(params or {"port": 3}))
    return fy.P4TableEntry("bridge", match=fy.P4TableMatch(dst=dst), action=action_)


def to_cpu(dst: int) -> fy.P4TableEntry:
    match = fy.P4TableMatch(dst=dst)
    return fy.P4TableEntry("bridge", match=match, action=fy.P4TableAction("to_cpu"))


def out(payload: bytes) -> fy.P4PacketOut:
    """It comes in again at port 2."""
    return fy.P4PacketOut(payload, egress_port=1, padding=0)


async def test_the_second_controller_is_a_backup_and_takes_over(address: str) -> None:
    """finsy chooses another election id by itself, if it understands why the first was refused."""
    # Seconds: how long finsy waits before it tries again.
    backup = fy.Switch("backup", address, options())
    events: list[bool] = []
    backup.ee.add_listener(fy.SwitchEvent.BECOME_PRIMARY, lambda _: events.append(True))
    async with fy.Switch("first", address, options(p4force=True)) as main:
        assert main.is_primary and main.election_id == 10
        await backup.__aenter__()
        assert not backup.is_primary
        assert (backup.election_id, backup.primary_id) == (9, 10)
        code, message = await refused(backup.insert([bridge(1)]))
        assert code == CODE.PERMISSION_DENIED
        assert "election_id 9 is not the primary" in message
        # Reading is for everyone.
        assert await read(backup, fy.P4TableEntry("bridge")) == []
    try:

        async def promoted() -> bool:
            return backup.is_primary

        await until(promoted, "the backup is not promoted")
        await backup.insert([bridge(1)])
    finally:
        await backup.__aexit__(None, None, None)


def role_config(**values: Any) -> Message:
    """`stratum.P4RoleConfig`, of which no Python package has the descriptor."""
    fields = [("exclusive_p4_ids", 1, 13, 3), ("shared_p4_ids", 2, 13, 3)]
    fields += [("receives_packet_ins", 4, 8, 1), ("can_push_pipeline", 5, 8, 1)]
    file = descriptor_pb2.FileDescriptorProto(name="role.proto", package="stratum", syntax="proto3")
    message = file.message_type.add(name="P4RoleConfig")
    for name, number, kind, label in fields:
        field = message.field.add(name=name, number=number)
        field.type, field.label = kind, label
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    kind_ = pool.FindMessageTypeByName("stratum.P4RoleConfig")
    config: Message = message_factory.GetMessageClass(kind_)(**values)
    return config


async def test_roles_have_primaries_and_objects_of_their_own(address: str) -> None:
    async with primary(address) as main:
        ids = main.p4info
        own = role_config(exclusive_p4_ids=[ids.tables["bridge"].id])
        role = fy.SwitchOptions(device_id=DEVICE_ID, role_name="l2", role_config=own)
        async with fy.Switch("l2", address, role) as other:
            assert main.is_primary and other.is_primary
            await other.insert([bridge(1)])
            entry = fy.P4TableEntry("source", match=fy.P4TableMatch(src=1))
            entry.action = fy.P4TableAction("permit")
            code, _ = await refused(other.insert([entry]))
            assert code == CODE.PERMISSION_DENIED
            code, _ = await refused(main.insert([bridge(2)]))
            assert code == CODE.PERMISSION_DENIED
            await main.insert([entry])
            # Each reads its own.
            assert await read(other, fy.P4TableEntry()) == [bridge(1)]
            push = other._set_pipeline_config_request(config=main.p4info.get_pipeline_config())
            assert (await refused(push))[0] == CODE.PERMISSION_DENIED


async def test_the_config_is_there_with_its_cookie_until_another_is(address: str) -> None:
    async with primary(address) as switch:
        await switch.insert([bridge(1)])
        cookie = switch.p4info.p4cookie
        both = P4ConfigResponseType.ALL
        reply = await switch._get_pipeline_config_request(response_type=both)
        assert reply.config.cookie.cookie == cookie
        assert reply.config.p4_device_config == JSON.read_bytes()
        assert switch.p4info.has_p4info(reply.config.p4info)
        await switch._set_pipeline()  # type: ignore[no-untyped-call]  # again: p4force
        assert await read(switch, fy.P4TableEntry("bridge")) == []
        await switch.insert([bridge(1)])
        reconcile = fy.P4ConfigAction.RECONCILE_AND_COMMIT
        config = switch.p4info.get_pipeline_config()
        await switch._set_pipeline_config_request(action=reconcile, config=config)
        assert await read(switch, fy.P4TableEntry("bridge")) == [bridge(1)]
    # Whoever comes with the same program finds it by its cookie.
    async with fy.Switch("again", address, options()) as switch:
        assert await read(switch, fy.P4TableEntry("bridge")) == [bridge(1)]


async def test_a_push_that_fails_loses_no_packet(address: str) -> None:
    """All packets of a steady stream come back, with what the switch had counted and installed."""
    async with primary(address) as switch:
        await switch.insert([to_cpu(7)])
        packets = switch.read_packets(queue_size=100_000)
        config = switch.p4info.get_pipeline_config()
        config.p4_device_config = b'{"program": "cut'
        mismatch = switch.p4info.get_pipeline_config()
        mismatch.p4info.tables[0].preamble.name = "MyIngress.nowhere"
        sent, stop = 0, asyncio.Event()

        async def traffic() -> None:
            nonlocal sent
            while not stop.is_set():
                payload = frame(7, payload=sent.to_bytes(4, "big"))
                await switch.write([out(payload)])
                sent += 1
                await asyncio.sleep(0.0005)

        async def pushes() -> None:
            for action in fy.P4ConfigAction:
                if action in (fy.P4ConfigAction.UNSPECIFIED, fy.P4ConfigAction.COMMIT):
                    continue
                for broken in (config, mismatch):
                    push = switch._set_pipeline_config_request(action=action, config=broken)
                    assert (await refused(push))[0] == CODE.INVALID_ARGUMENT
            verify = fy.P4ConfigAction.VERIFY
            good = switch.p4info.get_pipeline_config()
            await switch._set_pipeline_config_request(action=verify, config=good)
            stop.set()

        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        await asyncio.gather(traffic(), pushes())
        numbers = [await receiving]
        numbers += [await first(packets) for _ in range(sent - 1)]
        received = [int.from_bytes(p.payload[14:18], "big") for p in numbers]
        assert received == list(range(sent)), "in order, none missing"
        (counter,) = await read(switch, fy.P4CounterEntry("port_in", index=2))
        assert counter.packet_count == sent
        assert await read(switch, fy.P4TableEntry("bridge")) == [to_cpu(7)]


async def test_entries_of_all_match_kinds_with_wildcard_reads(address: str) -> None:
    async with primary(address) as switch:
        drop = fy.P4TableAction("drop")
        acl = [
            fy.P4TableEntry("acl", match=match, priority=priority, action=drop)
            for match, priority in (
                (None, 1),
                (fy.P4TableMatch(src=(0x0A000000, 0xFF000000)), 20),
                (fy.P4TableMatch(src=(0x0A000001, 0xFFFFFFFF), ttl=(1, 9), protocol=6), 30),
            )
        ]
        await switch.insert([*acl, bridge(1), bridge(2, port=4)])
        by_priority = sorted(await read(switch, fy.P4TableEntry("acl")), key=lambda e: e.priority)
        assert by_priority == acl
        # All tables: also the five entries that the program has, of which three are const.
        everything = await read(switch, fy.P4TableEntry())
        assert len(everything) == 10
        const = [e.table_id for e in everything if e.is_const]
        assert sorted(const) == ["preset", "well_known", "well_known"]
        # One entry, one priority, and what there is not.
        assert await read(switch, fy.P4TableEntry("bridge", match=bridge(2).match)) == [
            bridge(2, port=4)
        ]
        assert await read(switch, fy.P4TableEntry("acl", priority=20)) == [acl[1]]
        assert await read(switch, fy.P4TableEntry("bridge", match=bridge(3).match)) == []
        noted = bridge(2, port=5)
        noted.metadata = b"mine"
        await switch.modify([noted])
        assert await read(switch, fy.P4TableEntry("bridge", match=noted.match)) == [noted]
        await switch.delete([acl[0], bridge(1)])
        assert len(await read(switch, fy.P4TableEntry())) == 8
        code, message = await refused(switch.insert([noted]))
        assert code == CODE.ALREADY_EXISTS and "MyIngress.bridge" in message
        code, _ = await refused(switch.delete([bridge(1)]))
        assert code == CODE.NOT_FOUND


async def test_the_highest_priority_wins(address: str) -> None:
    async with primary(address) as switch:
        packets = switch.read_packets()
        low = fy.P4TableEntry("acl", priority=1, action=fy.P4TableAction("drop"))
        high = fy.P4TableEntry(
            "acl",
            match=fy.P4TableMatch(src=(0x0A000001, 0xFFFFFFFF)),
            priority=2,
            action=fy.P4TableAction("to_cpu"),
        )
        # The ACL comes before the route, which has nothing to say here.
        await switch.insert([low, high])
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        for src in (0x0A000002, 0x0A000001):
            await switch.write([out(frame(1, ether_type=0x0800, payload=ipv4(src, 1)))])
        packet = await receiving
        assert packet.payload[26:30] == (0x0A000001).to_bytes(4, "big")


async def test_default_entries_are_read_changed_and_reset(address: str) -> None:
    async with primary(address) as switch:
        default = fy.P4TableEntry("bridge", is_default_action=True)
        (of_program,) = await read(switch, default)
        assert of_program.action == fy.P4TableAction("drop")
        changed = fy.P4TableEntry(
            "bridge", is_default_action=True, action=fy.P4TableAction("forward", port=5)
        )
        await switch.modify([changed])
        assert await read(switch, default) == [changed]
        await switch.modify([default])
        assert await read(switch, default) == [of_program]
        constant = fy.P4TableEntry(
            "source", is_default_action=True, action=fy.P4TableAction("permit")
        )
        assert (await refused(switch.modify([constant])))[0] == CODE.PERMISSION_DENIED


async def test_counters_count_are_set_and_are_read_by_wildcard(address: str) -> None:
    async with primary(address) as switch:
        packets = switch.read_packets()
        data = fy.P4CounterData(byte_count=900, packet_count=9)
        await switch.modify([fy.P4CounterEntry("port_in", index=3, data=data)])
        cells = await read(switch, fy.P4CounterEntry("port_in"))
        assert len(cells) == 8 and cells[3].data == data and cells[2].packet_count == 0
        await switch.insert([to_cpu(1)])
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        await switch.write([out(frame(1))])
        await receiving
        (cell,) = await read(switch, fy.P4CounterEntry("port_in", index=2))
        assert (cell.packet_count, cell.byte_count) == (1, 60)
        # Every counter of the program.
        assert len(await read(switch, fy.P4CounterEntry())) == 8
        code, message = await refused(
            switch.modify([fy.P4CounterEntry("port_in", index=8, data=data)])
        )
        assert code == CODE.OUT_OF_RANGE and "MyIngress.port_in" in message


async def test_direct_counters_count_entries_and_misses(address: str) -> None:
    async with primary(address) as switch:
        member = fy.P4ActionProfileMember(
            "ecmp", member_id=1, action=fy.P4TableAction("set_next_hop", port=CPU_PORT, mac=5)
        )
        route = fy.P4TableEntry(
            "route",
            match=fy.P4TableMatch(dst=(0x0A000000, 8)),
            action=fy.P4IndirectAction(member_id=1),
        )
        await switch.insert([member])
        await switch.insert([route])
        packets = switch.read_packets()
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        for dst in (0x0B000001, 0x0A000001):  # a miss, then a hit
            await switch.write([out(frame(1, ether_type=0x0800, payload=ipv4(1, dst)))])
        packet = await receiving
        assert packet.payload[:6] == (5).to_bytes(6, "big")
        of_entry = fy.P4DirectCounterEntry("route_hits", table_entry=route)
        (hits,) = await read(switch, of_entry)
        assert hits.packet_count == 1
        asked = fy.P4TableEntry("route", counter_data=fy.P4CounterData())
        (entry,) = await read(switch, asked)
        assert entry.counter_data.packet_count == 1
        default = fy.P4TableEntry("route", is_default_action=True)
        (misses,) = await read(switch, fy.P4DirectCounterEntry("route_hits", table_entry=default))
        assert misses.packet_count == 1
        of_entry.data = fy.P4CounterData(packet_count=70)
        await switch.modify([of_entry])
        (hits,) = await read(switch, of_entry)
        assert hits.packet_count == 70


async def test_meters_are_configured_and_count_by_colour(address: str) -> None:
    async with primary(address) as switch:
        config = fy.P4MeterConfig(cir=1, cburst=60, pir=2, pburst=120)
        await switch.modify([fy.P4MeterEntry("port_meter", index=2, config=config)])
        cells = await read(switch, fy.P4MeterEntry("port_meter"))
        assert [cell.config for cell in cells] == [None, None, config, None]
        await switch.insert([to_cpu(1)])
        packets = switch.read_packets()
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        await switch.write([out(frame(1)) for _ in range(20)])
        await receiving
        for _ in range(19):
            await first(packets)
        zero = fy.P4CounterData()
        asked = fy.P4MeterCounterData(green=zero, yellow=zero, red=zero)
        (cell,) = await read(switch, fy.P4MeterEntry("port_meter", index=2, counter_data=asked))
        counts = cell.counter_data
        packets_of = [c.packet_count for c in (counts.green, counts.yellow, counts.red)]
        # Bursts of 60 and 120 bytes, for packets of 60; a token or two comes in a second.
        assert packets_of == [1, 1, 18]
        await switch.modify([fy.P4MeterEntry("port_meter", index=2)])
        (cell,) = await read(switch, fy.P4MeterEntry("port_meter", index=2))
        assert cell.config is None

        limited = fy.P4TableEntry(
            "acl",
            match=fy.P4TableMatch(ttl=(1, 9)),
            priority=1,
            action=fy.P4TableAction("meter_it"),
            meter_config=config,
        )
        await switch.insert([limited])
        assert await read(switch, limited) == [limited]
        key = fy.P4TableEntry("acl", match=limited.match, priority=1)
        (direct,) = await read(switch, fy.P4DirectMeterEntry(table_entry=key))
        assert direct.config == config
        await switch.modify([fy.P4DirectMeterEntry(table_entry=key)])
        (direct,) = await read(switch, fy.P4DirectMeterEntry(table_entry=key))
        assert direct.config is None


async def test_registers_are_read_and_written(address: str) -> None:
    async with primary(address) as switch:
        await switch.modify([fy.P4RegisterEntry("last_seen", index=1, data=0x01020304)])
        cells = await read(switch, fy.P4RegisterEntry("last_seen"))
        assert [cell.data for cell in cells] == [0, 0x01020304, 0, 0]
        await switch.write([out(frame(1))])

        async def counted() -> bool:
            (cell,) = await read(switch, fy.P4RegisterEntry("last_seen", index=0))
            # The packet passes twice: from the CPU and at port 2.
            return bool(cell.data == 2)

        await until(counted, "the program does not count in its register")
        code, message = await refused(
            switch.modify([fy.P4RegisterEntry("last_seen", index=4, data=1)])
        )
        assert code == CODE.OUT_OF_RANGE and "MyIngress.last_seen" in message


def next_hop(port: int) -> fy.P4TableAction:
    return fy.P4TableAction("set_next_hop", port=port, mac=port)


def route(dst: int, action: fy.P4IndirectAction) -> fy.P4TableEntry:
    return fy.P4TableEntry("route", match=fy.P4TableMatch(dst=(dst, 32)), action=action)


async def test_members_and_groups_of_action_profiles(address: str) -> None:
    async with primary(address) as switch:
        members = [
            fy.P4ActionProfileMember("ecmp", member_id=n, action=next_hop(n)) for n in (1, 2)
        ]
        group = fy.P4ActionProfileGroup(
            "ecmp",
            group_id=1,
            max_size=8,
            members=[fy.P4Member(1, weight=1), fy.P4Member(2, weight=(3, 2))],
        )
        await switch.insert([*members, group, route(1, fy.P4IndirectAction(group_id=1))])
        assert await read(switch, fy.P4ActionProfileMember()) == members
        assert await read(switch, fy.P4ActionProfileMember("ecmp", member_id=2)) == members[1:]
        assert await read(switch, fy.P4ActionProfileGroup()) == [group]
        assert await read(switch, fy.P4TableEntry("route")) == [
            route(1, fy.P4IndirectAction(group_id=1))
        ]
        code, message = await refused(switch.delete([members[0]]))
        assert code == CODE.FAILED_PRECONDITION and "MyIngress.ecmp" in message
        group.members = [fy.P4Member(2, weight=1)]
        await switch.modify([group])
        await switch.delete([members[0]])
        code, _ = await refused(switch.delete([group]))
        assert code == CODE.FAILED_PRECONDITION
        await switch.delete([route(1, fy.P4IndirectAction(group_id=1)), group, members[1]])
        assert await read(switch, [fy.P4ActionProfileMember(), fy.P4ActionProfileGroup()]) == []
        missing = fy.P4ActionProfileGroup("ecmp", group_id=2, members=[fy.P4Member(9, weight=1)])
        assert (await refused(switch.insert([missing])))[0] == CODE.NOT_FOUND


async def test_one_shot_sets_come_back_as_they_were_written(address: str) -> None:
    async with primary(address) as switch:
        entry = route(1, fy.P4IndirectAction([(1, next_hop(1)), ((2, 3), next_hop(2))]))
        await switch.insert([entry])
        assert await read(switch, fy.P4TableEntry("route")) == [entry]
        assert await read(switch, fy.P4ActionProfileGroup()) == []
        entry.action = fy.P4IndirectAction([(1, next_hop(3))])
        await switch.modify([entry])
        assert await read(switch, fy.P4TableEntry("route")) == [entry]
        await switch.delete([entry])


async def test_multicast_groups_and_clone_sessions_make_copies(address: str) -> None:
    async with primary(address) as switch:
        flood = fy.P4MulticastGroupEntry(
            1,
            replicas=tuple(P4Replica(CPU_PORT, instance=n) for n in (1, 2, 3)),
            metadata=b"mine",
        )
        session = fy.P4CloneSessionEntry(
            5,
            replicas=(P4Replica(CPU_PORT, instance=1),),
            class_of_service=0,
            packet_length_bytes=20,
        )
        await switch.insert([flood, session])
        assert await read(switch, fy.P4MulticastGroupEntry()) == [flood]
        assert await read(switch, fy.P4MulticastGroupEntry(1)) == [flood]
        assert await read(switch, fy.P4CloneSessionEntry()) == [session]
        await switch.insert([bridge(1, "multicast", group=1), bridge(2, "mirror", port=7)])
        packets = switch.read_packets()
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        await switch.write([out(frame(1)), out(frame(2))])
        copies = [await receiving, await first(packets), await first(packets)]
        assert [len(copy.payload) for copy in copies] == [60] * 3
        mirrored = await first(packets)
        # 20 bytes leave the switch: the header for the controller and 18 of the frame.
        assert mirrored.payload == frame(2)[:18]
        # As on BMv2, metadata that the clone does not preserve is zero.
        assert mirrored["ingress_port"] == 0
        flood.replicas = (P4Replica(3, backup_replicas=[P4BackupReplica(4)]),)
        await switch.modify([flood])
        assert await read(switch, fy.P4MulticastGroupEntry(1)) == [flood]
        await switch.delete([flood, session])
        assert await read(switch, [fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry()]) == []
        twice = fy.P4MulticastGroupEntry(2, replicas=[P4Replica(1), P4Replica(1)])
        assert (await refused(switch.insert([twice])))[0] == CODE.INVALID_ARGUMENT


async def test_digests_are_listed_and_acknowledged(address: str) -> None:
    async with primary(address) as switch:
        config = fy.P4DigestEntry(
            "learned_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=10**12
        )
        await switch.insert([config])
        assert await read(switch, fy.P4DigestEntry("learned_t")) == [config]
        digests = switch.read_digests("learned_t")
        receiving = asyncio.create_task(first(digests))
        await asyncio.sleep(0)
        # The same again is not told before it is acknowledged.
        await switch.write([out(frame(1, src=0xAA)), out(frame(1, src=0xAA))])
        seen = await receiving
        assert list(seen) == [{"mac": 0xAA, "port": 2}]
        await switch.write([out(frame(1, src=0xBB))])
        other = await first(digests)
        assert list(other) == [{"mac": 0xBB, "port": 2}]
        assert other.list_id != seen.list_id
        await switch.write([seen.ack()])
        await switch.write([out(frame(1, src=0xAA))])
        assert list(await first(digests)) == [{"mac": 0xAA, "port": 2}]
        await switch.delete([config])
        assert await read(switch, fy.P4DigestEntry("learned_t")) == []


async def test_packets_go_out_and_come_in_with_their_metadata(address: str) -> None:
    async with primary(address) as switch:
        packets = switch.read_packets()
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        # From the CPU port to the CPU port.
        await switch.write([fy.P4PacketOut(frame(9), egress_port=CPU_PORT, padding=0)])
        packet = await receiving
        assert packet.payload == frame(9) and packet["ingress_port"] == CPU_PORT
        errors: list[p4r.StreamError] = []
        listener = fy.SwitchEvent.STREAM_ERROR
        switch.ee.add_listener(listener, lambda _, m: errors.append(m.error))
        wrong = p4r.StreamMessageRequest(packet=p4r.PacketOut(payload=b"x"))
        await raw(switch).send(wrong)

        async def told() -> bool:
            return bool(errors)

        await until(told, "no StreamError came")
        assert errors[0].canonical_code == CODE.INVALID_ARGUMENT.value
        assert "metadata 'egress_port'" in errors[0].message


async def test_value_sets_steer_the_parser(address: str) -> None:
    async with primary(address) as switch:
        ip_types = fy.P4ValueSetEntry(
            "ip_types", members=[P4ValueSetMember(0x86DD), P4ValueSetMember(0x8847)]
        )
        await switch.modify([ip_types])
        assert await read(switch, fy.P4ValueSetEntry("ip_types", members=[])) == [ip_types]
        caught = fy.P4TableEntry("acl", priority=1, action=fy.P4TableAction("to_cpu"))
        await switch.insert([caught])
        packets = switch.read_packets()
        receiving = asyncio.create_task(first(packets))
        await asyncio.sleep(0)
        # Only what is parsed as IPv4 reaches the ACL.
        for ether_type in (0x9999, 0x8847):
            await switch.write([out(frame(1, ether_type=ether_type, payload=ipv4(1, 2)))])
        packet = await receiving
        assert packet.payload[12:14] == b"\x88\x47"
        five = fy.P4ValueSetEntry("ip_types", members=[P4ValueSetMember(n) for n in range(5)])
        assert (await refused(switch.modify([five])))[0] == CODE.RESOURCE_EXHAUSTED


async def test_idle_entries_are_told(address: str) -> None:
    async with primary(address) as switch:
        entry = fy.P4TableEntry(
            "source",
            match=fy.P4TableMatch(src=5),
            action=fy.P4TableAction("permit"),
            idle_timeout_ns=1_000_000,
        )
        notices = switch.read_idle_timeouts()
        receiving = asyncio.create_task(first(notices))
        await asyncio.sleep(0)
        await switch.insert([entry])
        (told,) = await receiving
        assert told.match == entry.match and told.idle_timeout_ns == entry.idle_timeout_ns
        asked = fy.P4TableEntry("source", match=entry.match, time_since_last_hit=0)
        (idle,) = await read(switch, asked)
        assert idle.time_since_last_hit >= entry.idle_timeout_ns


def bridge_message(switch: fy.Switch, dst: bytes, port: bytes) -> p4r.Entity:
    table, action = switch.p4info.tables["bridge"], switch.p4info.actions["forward"]
    entry = p4r.TableEntry(table_id=table.id)
    entry.match.add(field_id=1).exact.value = dst
    entry.action.action.action_id = action.id
    entry.action.action.params.add(param_id=1, value=port)
    return p4r.Entity(table_entry=entry)


async def test_byte_strings_of_any_length_come_back_canonical(address: str) -> None:
    async with primary(address) as switch:
        shortest = bridge_message(switch, b"\x01", b"\x00")
        table = p4r.Entity(table_entry=p4r.TableEntry(table_id=switch.p4info.tables["bridge"].id))
        for dst, port in ((b"\x01", b"\x00"), (b"\0" * 9 + b"\x01", b"\0\0\0")):
            entity = bridge_message(switch, dst, port)
            await switch.insert([entity])
            assert await read_raw(switch, table) == [shortest]
            await switch.delete([shortest])
        for dst, port in ((b"", b"\x01"), (b"\x01", b""), (b"\x01", b"\x02\x00")):
            write = switch.insert([bridge_message(switch, dst, port)])
            assert (await refused(write))[0] == CODE.OUT_OF_RANGE


async def test_errors_name_table_field_and_what_is_allowed(address: str) -> None:
    async with primary(address) as switch:
        wide = bridge_message(switch, b"\x01", b"\x02\x00")
        _, message = await refused(switch.insert([wide]))
        assert message == (
            "table 'MyIngress.bridge': action 'MyIngress.forward': parameter 'port' (9 bits): "
            "value 0x0200 needs 10 bits, the field has 9; allowed: 0 to 0x01ff"
        )
        constant = fy.P4TableEntry(
            "well_known", match=fy.P4TableMatch(type=5), action=fy.P4TableAction("permit")
        )
        code, message = await refused(switch.insert([constant]))
        assert code == CODE.PERMISSION_DENIED and "MyIngress.well_known" in message
        none = fy.P4TableEntry("acl", action=fy.P4TableAction("drop"))
        code, message = await refused(switch.insert([none]))
        assert code == CODE.INVALID_ARGUMENT and "priority 0" in message
        # Each update of a batch has its own; the others are done.
        with pytest.raises(P4ClientError) as caught:
            await switch.insert([bridge(1), none, bridge(1), bridge(2)])
        codes = {n: e.canonical_code for n, e in caught.value.details.items()}
        assert codes == {1: CODE.INVALID_ARGUMENT, 2: CODE.ALREADY_EXISTS}
        assert len(await read(switch, fy.P4TableEntry("bridge"))) == 2


async def test_a_batch_may_be_all_or_nothing(address: str) -> None:
    async with primary(address) as switch:
        await switch.insert([bridge(1)])
        schema = switch.p4info
        for atomicity in (p4r.WriteRequest.ROLLBACK_ON_ERROR, p4r.WriteRequest.DATAPLANE_ATOMIC):
            changes = [-bridge(1), +bridge(2), -bridge(3)]
            request = p4r.WriteRequest(
                device_id=DEVICE_ID,
                updates=[change.encode_update(schema) for change in changes],
                atomicity=atomicity,
            )
            with pytest.raises(P4ClientError) as caught:
                await raw(switch).request(request)
            codes = [e.canonical_code for e in caught.value.details.values()]
            assert codes == [CODE.ABORTED, CODE.ABORTED, CODE.NOT_FOUND]
            assert await read(switch, fy.P4TableEntry("bridge")) == [bridge(1)]


async def test_delete_many_leaves_the_program_as_it_was_pushed(address: str) -> None:
    async with primary(address) as switch:
        before = await read(switch, fy.P4TableEntry())
        await switch.insert([bridge(n) for n in range(1, 901)])
        assert len(await read(switch, fy.P4TableEntry("bridge"))) == 900
        await switch.delete_many([fy.P4TableEntry("bridge")])
        assert await read(switch, fy.P4TableEntry()) == before
        # `delete_all` also deletes const entries of tables that are not const, as it read them.
        code, message = await refused(switch.delete_all())
        assert code == CODE.INVALID_ARGUMENT and "is_const is set" in message


async def test_ports_are_known_over_gnmi(address: str) -> None:
    async with primary(address) as switch:
        found = {port.name: (port.id, port.up) for port in switch.ports}
        assert found == {"s1-eth1": (1, True), "s1-eth2": (2, True)}
        client = switch.gnmi_client
        assert client is not None
        path = fy.GNMIPath("interfaces/interface[name=s1-eth1]/state/counters/out-pkts")
        await switch.write([fy.P4PacketOut(frame(1), egress_port=1, padding=0)])

        async def sent() -> bool:
            (update,) = await client.get(path)
            return bool(update.value >= 1)

        await until(sent, "the packet is not counted")
