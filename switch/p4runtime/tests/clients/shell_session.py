"""A session of p4runtime-shell, as a script: every entity that it has, written and read.

    python shell_session.py ADDRESS P4INFO JSON [CA CERTIFICATE KEY]

Runs in an environment of its own, since p4runtime-shell 0.0.6 needs protobuf 3.20
(`pip install p4runtime-shell==0.0.6 "protobuf<3.21"`). test_shell.py runs it against the switch.
"""

import functools
import struct
import sys
from collections.abc import Callable
from typing import Any

import p4runtime_sh.shell as sh
from p4runtime_sh.p4runtime import P4RuntimeWriteException, SSLOptions

PATIENCE_S = 20
CPU_PORT = 510


def frame(dst: int, src: int = 0x0A, ether_type: int = 0x1234) -> bytes:
    header = dst.to_bytes(6, "big") + src.to_bytes(6, "big") + ether_type.to_bytes(2, "big")
    return header.ljust(60, b"\0")


def out(payload: bytes) -> None:
    """It comes in again at port 2."""
    sh.PacketOut(payload, egress_port="1").send()


@functools.cache
def packet_ins() -> Any:
    """One for all: each takes messages away from the others."""
    return sh.PacketIn()


def first(sniffer: Any, kind: str) -> Any:
    """The next message; `sniff` itself waits for all of its time."""
    return getattr(sniffer, kind).get(timeout=PATIENCE_S)


def bridge(dst: str, port: str) -> Any:
    entry = sh.TableEntry("MyIngress.bridge")(action="MyIngress.forward")
    entry.match["dst"] = dst
    entry.action["port"] = port
    return entry


def everything(entity: Any) -> list[Any]:
    return list(entity.read())


def refused(write: Callable[[], None]) -> str:
    try:
        write()
    except P4RuntimeWriteException as error:
        return str(error)
    raise AssertionError("it was accepted")


def tables() -> None:
    for dst, port in (("00:00:00:00:00:01", "3"), ("2", "0x1ff")):
        bridge(dst, port).insert()
    entries = everything(sh.TableEntry("MyIngress.bridge"))
    assert len(entries) == 2
    assert all(e.action.action_name == "MyIngress.forward" for e in entries)
    changed = bridge("2", "4")
    changed.metadata = b"mine"
    changed.modify()
    (entry,) = [e for e in everything(sh.TableEntry("MyIngress.bridge")) if e.metadata]
    assert entry.metadata == b"mine"
    assert "ALREADY_EXISTS" in refused(changed.insert)
    wide = bridge("3", "4")
    wide.action._param_values["port"].value = b"\x02\x00"  # the shell would refuse 512 itself
    said = refused(wide.insert)
    assert "OUT_OF_RANGE" in said and "table 'MyIngress.bridge'" in said, said

    acl = sh.TableEntry("MyIngress.acl")(action="MyIngress.drop", priority=7)
    acl.match.set(src="10.0.0.0&&&255.0.0.0", ttl="1..9", protocol="6")
    acl.insert()
    (entry,) = everything(sh.TableEntry("MyIngress.acl"))
    assert entry.priority == 7 and entry.match._count() == 3

    default = sh.TableEntry("MyIngress.bridge")(action="MyIngress.forward", is_default=True)
    default.action["port"] = "5"
    default.modify()
    (entry,) = everything(sh.TableEntry("MyIngress.bridge")(is_default=True))
    assert entry.action.action_name == "MyIngress.forward"
    sh.TableEntry("MyIngress.bridge")(is_default=True).modify()
    (entry,) = everything(sh.TableEntry("MyIngress.bridge")(is_default=True))
    assert entry.action.action_name == "MyIngress.drop"

    source = sh.TableEntry("MyIngress.source")(action="MyIngress.permit")
    source.match["src"] = "77"
    source.idle_timeout_ns = 1_000_000
    idle = sh.IdleTimeoutNotification()
    source.insert()
    told = first(idle, "notification_queue").idle_timeout_notification
    assert told.table_entry[0].idle_timeout_ns == 1_000_000
    source.delete()
    # The way that the shell's documentation empties a table.
    for table in ("MyIngress.bridge", "MyIngress.acl"):
        sh.TableEntry(table).read(function=lambda entry: entry.delete())
        assert everything(sh.TableEntry(table)) == []
    assert len(everything(sh.TableEntry("MyIngress.well_known"))) == 2


def counters() -> None:
    counter = sh.CounterEntry("MyIngress.port_in")
    counter.index = 3
    counter.byte_count, counter.packet_count = 900, 9
    counter.modify()
    cells = everything(sh.CounterEntry("MyIngress.port_in"))
    assert len(cells) == 8
    assert (cells[3].packet_count, cells[3].byte_count) == (9, 900)


def meters() -> None:
    meter = sh.MeterEntry("MyIngress.port_meter")
    meter.index = 1
    meter.cir, meter.cburst, meter.pir, meter.pburst = 1000, 100, 2000, 200
    meter.modify()
    cells = everything(sh.MeterEntry("MyIngress.port_meter"))
    assert len(cells) == 4 and (cells[1].cir, cells[1].pburst) == (1000, 200)
    meter.clear_config()
    meter.modify()
    (cell,) = everything(meter)
    assert cell.cir == cell.pburst == 0


def profiles() -> None:
    for number in (1, 2):
        member = sh.ActionProfileMember("MyIngress.ecmp")(member_id=number)
        member.action = sh.Action("MyIngress.set_next_hop")
        member.action["port"] = str(number)
        member.action["mac"] = f"00:00:00:00:00:0{number}"
        member.insert()
    assert len(everything(sh.ActionProfileMember("MyIngress.ecmp"))) == 2
    group = sh.ActionProfileGroup("MyIngress.ecmp")(group_id=1)
    group.add(1).add(2, weight=3, watch_port=b"\x02")
    group.insert()
    (read,) = everything(sh.ActionProfileGroup("MyIngress.ecmp"))
    assert [(m.member_id, m.weight) for m in read.members] == [(1, 1), (2, 3)]

    route = sh.TableEntry("MyIngress.route")(group_id=1)
    route.match["dst"] = "10.0.0.0/8"
    route.counter_data.packet_count = 5
    route.insert()
    (entry,) = everything(sh.TableEntry("MyIngress.route"))
    assert entry.group_id == 1
    direct = sh.DirectCounterEntry("MyIngress.route_hits")
    (cell,) = everything(direct)
    assert cell.packet_count == 5
    assert "FAILED_PRECONDITION" in refused(group.delete)
    route.member_id = 2
    route.modify()
    route.delete()
    group.delete()
    sh.ActionProfileMember("MyIngress.ecmp").read(function=lambda member: member.delete())
    assert everything(sh.ActionProfileMember("MyIngress.ecmp")) == []

    route = sh.TableEntry("MyIngress.route")
    route.match["dst"] = "10.0.0.0/8"
    route.oneshot = sh.Oneshot("MyIngress.route")
    for number, weight in ((1, 1), (2, 3)):
        action = sh.Action("MyIngress.set_next_hop")
        action.set(port=str(number), mac=str(number))
        route.oneshot.add(action, weight=weight)
    route.insert()
    (entry,) = everything(sh.TableEntry("MyIngress.route"))
    assert [action.weight for action in entry.oneshot.actions] == [1, 3]
    route.delete()


def direct_meters() -> None:
    acl = sh.TableEntry("MyIngress.acl")(action="MyIngress.meter_it", priority=1)
    acl.match["ttl"] = "1..9"
    acl.meter_config.cir = acl.meter_config.pir = 1000
    acl.meter_config.cburst = acl.meter_config.pburst = 100
    acl.insert()
    meter = sh.DirectMeterEntry("MyIngress.acl_meter")
    (cell,) = everything(meter)
    assert cell.cir == 1000
    acl.delete()


def replication() -> None:
    group = sh.MulticastGroupEntry(1).add(CPU_PORT, 1).add(CPU_PORT, 2)
    group.insert()
    (read,) = everything(sh.MulticastGroupEntry())
    assert [(r.port, r.instance) for r in read.replicas] == [(CPU_PORT, 1), (CPU_PORT, 2)]
    session = sh.CloneSessionEntry(5).add(CPU_PORT, 1)
    session.packet_length_bytes = 20
    session.insert()
    (read,) = everything(sh.CloneSessionEntry())
    assert (read.session_id, read.packet_length_bytes) == (5, 20)
    packets = packet_ins()
    flood = sh.TableEntry("MyIngress.bridge")(action="MyIngress.multicast")
    flood.match["dst"] = "1"
    flood.action["group"] = "1"
    flood.insert()
    mirror = sh.TableEntry("MyIngress.bridge")(action="MyIngress.mirror")
    mirror.match["dst"] = "2"
    mirror.action["port"] = "7"
    mirror.insert()
    out(frame(1))
    for _ in range(2):
        assert first(packets, "packet_in_queue").packet.payload == frame(1)
    out(frame(2))
    # Two of the 20 bytes that leave are the header for the controller.
    assert first(packets, "packet_in_queue").packet.payload == frame(2)[:18]
    for entity in (flood, mirror, group, session):
        entity.delete()
    assert everything(sh.MulticastGroupEntry()) == everything(sh.CloneSessionEntry()) == []


def packets() -> None:
    received = packet_ins()
    sh.PacketOut(frame(9), egress_port=str(CPU_PORT)).send()
    packet = first(received, "packet_in_queue").packet
    assert packet.payload == frame(9)
    values = {m.metadata_id: m.value for m in packet.metadata}
    assert values[1] == struct.pack(">H", CPU_PORT)


def digests() -> None:
    digest = sh.DigestEntry("learned_t")
    digest.max_list_size, digest.ack_timeout_ns = 1, 10**12
    digest.insert()
    (read,) = everything(sh.DigestEntry("learned_t"))
    assert read.ack_timeout_ns == 10**12
    lists = sh.DigestList()
    out(frame(1, src=0xAA))
    data = first(lists, "digest_list_queue").digest.data
    members = data[0].struct.members
    assert [m.bitstring for m in members] == [b"\xaa", b"\x02"]
    digest.delete()


CHECKS = [tables, counters, meters, direct_meters, profiles, replication, packets, digests]


def main() -> None:
    address, p4info, json, *tls = sys.argv[1:]
    options = SSLOptions(False, *tls) if tls else None
    config = sh.FwdPipeConfig(p4info, json)
    sh.setup(1, address, (0, 1), config=config, ssl_options=options, verbose=False)
    try:
        print("API version", sh.APIVersion())
        for check in CHECKS:
            check()
            print(check.__name__, "ok", flush=True)
    finally:
        sh.teardown()


if __name__ == "__main__":
    main()
