# SPDX-License-Identifier: Apache-2.0
"""Sets NDP's program for TNA up by the client of P4 Studio, for a switch of one pipe.

Tables, meters and sessions get the values that the program's own control program writes for such a
configuration. That uses Thrift for the traffic manager, the ports, the mirror sessions and the
multicast groups of the chip; here the first two are in the configuration of the lab, the last two
in tables of BF Runtime.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

RECIRCULATION_PORT = 68
"""Port to which refused packets are deflected; packets that leave by it enter ingress again."""
CPU_PORT = 192
GROUP = 0x1000
"""Multicast group of the notifications."""
SESSION_PACKET_BYTES = 67
"""Length to which mirrored packets are cut, bytes: 64 of the packet, and 3 of the header that the
program puts in front, as in the program's control program."""
QUEUE_DATA, QUEUE_PRIORITY, QUEUE_OTHERS = range(3)
ADJUST_BYTES = 1 + 12 + 8 + 4
"""Bytes that meters add to the length of a packet."""
AGAIN_FLAGS = 1 << 4 | 1 << 7
"""Flags of a packet that was deflected."""
ALL_PIPES = 4
"""Lowest three bits of the numbers of members and next hops: all pipes have them."""
_Data = dict[str, object] | list[Any]
"""Fields: values by name, or data tuples of the client."""
COUNTERS = {
    "SwitchIngress": ("per_port_counter", "meter_chop", "return_chop", "nr_arm", "nr_opti",
                      "nr_pesi", "nr_half"),
    "SwitchEgress": ("dod_chop", "ig_chopped", "trim_metas"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the switch with a host at it."""

    number: int
    mac: str
    """Address of the port itself."""
    host_mac: str
    host_address: str
    rate_kbps: int
    """Rate of the meter for what leaves by the port."""
    burst_kbits: int


class Program:
    """The program of a switch, as the client sees it."""

    def __init__(self, client: ModuleType, address: str, device: int = 0) -> None:
        self._client = client
        self._target = client.Target(device_id=device, pipe_id=0xFFFF)
        self._interface = client.ClientInterface(address, client_id=0, device_id=device)
        self._interface.bind_pipeline_config("ndp")
        self._tables = self._interface.bfrt_info_get("ndp")

    def close(self) -> None:
        """Ends the session."""
        self._interface.tear_down_stream()

    def set_up(self, ports: list[Port], *, allow_pessimism: bool = True) -> None:
        """Writes all tables, meters and sessions for these ports."""
        self._look_up_flows()
        self._default("SwitchIngress.configure_ndp", "SwitchIngress.set_config",
                      p_allow_pessimism=int(allow_pessimism), always_truncate=0,
                      drop_ndp=0)  # fmt: skip
        self._meters(ports)
        for index, port in enumerate(ports, start=1):
            self._route(index, port)
            self._trim(port)
        self._notify()

    def counts(self, port: int) -> dict[str, int]:
        """Packets of a port, by counter of the program."""
        return {
            name: self._packets(f"{control}.{name}", port)
            for control, names in COUNTERS.items()
            for name in names
        }

    def _packets(self, counter: str, port: int) -> int:
        table = self._tables.table_get(counter)
        key = table.make_key([self._client.KeyTuple("$COUNTER_INDEX", port)])
        data, _ = next(iter(table.entry_get(self._target, [key], {"from_hw": True})))
        return int(data.to_dict()["$COUNTER_SPEC_PKTS"])

    def _look_up_flows(self) -> None:
        table = "SwitchIngress.populate_lkp"
        for valid, action, priority in (
            ({"ipv4": 1, "tcp": 1}, "set_lkp_tcp", 100),
            ({"ipv4": 1, "udp": 1, "ndp_s_data": 0}, "set_lkp_udp", 50),
            ({"ipv4": 1, "udp": 1, "ndp_s_data": 1}, "set_lkp_ndp", 50),
            ({}, "set_lkp_ip_unknown", 100),
        ):
            keys = [self._key(f"hdr.{each}.$valid", valid.get(each, 0))
                    for each in ("ipv4", "udp", "tcp")]  # fmt: skip
            data = "ndp_s_data"
            keys.append(self._key(f"hdr.{data}.$valid", valid.get(data, 0), int(data in valid)))
            keys.append(self._key("$MATCH_PRIORITY", priority))
            self._insert(table, keys, f"SwitchIngress.{action}")
        self._default(table, "NoAction")

    def _meters(self, ports: list[Port]) -> None:
        for name, part in (("optimistic", 1), ("pessimistic", 4), ("halftimistic", 2)):
            meter = f"SwitchIngress.meter_{name}"
            table = self._tables.table_get(meter)
            table.attribute_meter_bytecount_adjust_set(self._target, ADJUST_BYTES)
            for port in ports:
                rate = port.rate_kbps // part
                self._insert(meter, [self._key("$METER_INDEX", port.number)], None, {
                    "$METER_SPEC_CIR_KBPS": rate, "$METER_SPEC_PIR_KBPS": rate,
                    "$METER_SPEC_CBS_KBITS": port.burst_kbits,
                    "$METER_SPEC_PBS_KBITS": port.burst_kbits,
                })  # fmt: skip

    def _route(self, index: int, port: Port) -> None:
        number = index << 3 | ALL_PIPES
        self._insert("SwitchIngress.ecmp_selector", [self._key("$ACTION_MEMBER_ID", number)],
                     "SwitchIngress.ipv4_forward_direct_connect",
                     {"srcAddr": self._client.mac_to_bytes(port.mac),
                      "port": port.number})  # fmt: skip
        self._insert("SwitchIngress.nexthop_resolve", [self._key("ig_md.nhop_idx", number)], None,
                     {"$ACTION_MEMBER_ID": number})  # fmt: skip
        address = bytearray(self._client.ipv4_to_bytes(port.host_address))
        self._insert("SwitchIngress.ipv4_lpm",
                     [self._client.KeyTuple("hdr.ipv4.dst_addr", address, prefix_len=32)],
                     "SwitchIngress.set_nhop_idx", {"nhop_idx": number})  # fmt: skip
        self._insert("SwitchIngress.arp", [self._key("ig_md.nhop", address)],
                     "SwitchIngress.set_dst",
                     {"dst_addr": self._client.mac_to_bytes(port.host_mac)})  # fmt: skip

    def _trim(self, port: Port) -> None:
        """Mirror sessions of the trimmed packets of a port: from ingress into its priority queue,
        from egress to the recirculation port."""
        session = 2 * port.number + 1
        self._mirror(session, "INGRESS", port.number, QUEUE_PRIORITY)
        self._insert("SwitchIngress.truncate",
                     [self._key("ig_intr_tm_md.ucast_egress_port", port.number)],
                     "SwitchIngress.mirror_and_drop", {"session_id": session})  # fmt: skip
        self._insert("SwitchEgress.eg_port2_egmirror",
                     [self._key("hdr.normal_meta.egress_port", port.number)],
                     "SwitchEgress.set_eg_mirror",
                     {"session_id": 2 * RECIRCULATION_PORT + 2})  # fmt: skip

    def _notify(self) -> None:
        """Recirculation of deflected packets, and their notifications to ingress."""
        self._mirror(2 * RECIRCULATION_PORT + 2, "EGRESS", RECIRCULATION_PORT, 0)
        self._insert("SwitchEgress.act_on_egress",
                     [self._key("eg_intr_md.egress_port", RECIRCULATION_PORT)],
                     "SwitchEgress.invalidate_trim_and_set_update",
                     {"also_add": AGAIN_FLAGS})  # fmt: skip
        self._insert("SwitchIngressParser.is_recirc_port",
                     [self._key("f1", RECIRCULATION_PORT, 0x1FF)], None)  # fmt: skip
        client, node = self._client, 1
        ports = [RECIRCULATION_PORT, CPU_PORT]
        self._insert("$pre.node", [self._key("$MULTICAST_NODE_ID", node)], None,
                     [client.DataTuple("$MULTICAST_RID", 0),
                      client.DataTuple("$DEV_PORT", int_arr_val=ports)])  # fmt: skip
        self._insert("$pre.mgid", [self._key("$MGID", GROUP)], None,
                     [client.DataTuple("$MULTICAST_NODE_ID", int_arr_val=[node]),
                      client.DataTuple("$MULTICAST_NODE_L1_XID_VALID", bool_arr_val=[False]),
                      client.DataTuple("$MULTICAST_NODE_L1_XID", int_arr_val=[0])])  # fmt: skip

    def _mirror(self, session: int, direction: str, port: int, queue: int) -> None:
        tuple_of = self._client.DataTuple
        self._insert("$mirror.cfg", [self._key("$sid", session)], "$normal",
                     [tuple_of("$direction", str_val=direction),
                      tuple_of("$ucast_egress_port", port),
                      tuple_of("$ucast_egress_port_valid", bool_val=True),
                      tuple_of("$egress_port_queue", queue),
                      tuple_of("$session_enable", bool_val=True),
                      tuple_of("$max_pkt_len", SESSION_PACKET_BYTES)])  # fmt: skip

    def _key(self, name: str, value: object, mask: int | None = None) -> Any:
        return self._client.KeyTuple(name, value, mask=mask)

    def _insert(
        self, name: str, keys: list[Any], action: str | None, data: _Data | None = None
    ) -> None:
        table = self._tables.table_get(name)
        made = [self._data(table, action, data or {})] if action or data else None
        table.entry_add(self._target, [table.make_key(keys)], made)

    def _default(self, name: str, action: str, **data: object) -> None:
        table = self._tables.table_get(name)
        table.default_entry_set(self._target, self._data(table, action, data))

    def _data(self, table: Any, action: str | None, data: _Data) -> Any:
        if isinstance(data, dict):
            data = [self._client.DataTuple(name, _bytes(value)) for name, value in data.items()]
        return table.make_data(list(data), action)


def _bytes(value: object) -> object:
    return bytearray(value) if isinstance(value, bytes) else value
