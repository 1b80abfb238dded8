"""The tables of docs/architecture.md as P4Info: what the controller may rely on, and no more.

Written by hand, so that a change of `fabric.p4` that breaks it is seen (test_contract.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from finsy.proto import p4i

EXACT, LPM, RANGE = p4i.MatchField.EXACT, p4i.MatchField.LPM, p4i.MatchField.RANGE
Parameters = Mapping[str, int]
"""Width of a parameter in bits, by name."""


@dataclass(frozen=True)
class Table:
    keys: Mapping[str, tuple[p4i.MatchField.MatchType.ValueType, int]]
    """(match type, width in bits) of a key, by name."""
    actions: Mapping[str, Parameters]
    selector: str | None = None


TABLES = {
    "traffic_class": Table(
        {"dscp": (EXACT, 6)},
        {"set_traffic_class": {"queue": 3, "spray": 1, "trimmable": 1, "mlfq": 2}},
    ),
    "mlfq_level": Table({"level": (EXACT, 8)}, {"set_mlfq_queue": {"queue": 3}}),
    "mlfq_demotion": Table({"flow_bytes": (RANGE, 32)}, {"set_mlfq_level": {"level": 8}}),
    "ipv4_route": Table(
        {"dst": (LPM, 32)},
        {
            "set_next_hop": {"port": 9, "src_mac": 48, "dst_mac": 48},
            "set_multicast_group": {"group": 16},
            "drop": {},
        },
        selector="ecmp",
    ),
    "hash_settings": Table({}, {"set_hash_seed": {"seed": 32}}),
    "trimming": Table(
        {"egress_port": (EXACT, 9)},
        {"set_trimming": {"size": 16, "dscp_value": 6, "queue_index": 3}},
    ),
    "return_to_sender": Table({"dscp": (EXACT, 6)}, {"return_header": {}}),
    "occupancy_limit": Table(
        {"egress_port": (EXACT, 9)}, {"set_occupancy_limit": {"limit_bytes": 32}}
    ),
    "phantom_queue": Table(
        {"egress_port": (EXACT, 9)},
        {"set_phantom_queue": {"drain_rate": 32, "threshold_bytes": 32, "count_self": 1}},
    ),
    "ecn_threshold": Table({"egress_port": (EXACT, 9)}, {"set_ecn_threshold": {"depth": 19}}),
    "arp_responder": Table({"target": (EXACT, 32)}, {"answer_arp": {"mac": 48}}),
}

COUNTERS = (
    "port_in",
    "port_out",
    "phantom_marked",
    "step_marked",
    "trimmed",
    "trim_sent",
    "returned",
    "mlfq_demoted",
    "dropped",
    "replicated",
)


def p4info() -> p4i.P4Info:
    """The contract as P4Info; ids have P4Runtime's prefix for their kind in the highest byte."""
    info = p4i.P4Info(pkg_info=p4i.PkgInfo(arch="v1model"))
    action_ids: dict[str, int] = {}
    for table_id, (name, table) in enumerate(TABLES.items(), start=0x02000001):
        message = info.tables.add(preamble=_preamble(table_id, name), size=1024)
        for number, (key, (match, width)) in enumerate(table.keys.items(), start=1):
            message.match_fields.add(id=number, name=key, bitwidth=width, match_type=match)
        for action, parameters in table.actions.items():
            action_ids[action] = 0x01000001 + len(action_ids)
            definition = info.actions.add(preamble=_preamble(action_ids[action], action))
            for number, (parameter, width) in enumerate(parameters.items(), start=1):
                definition.params.add(id=number, name=parameter, bitwidth=width)
            message.action_refs.add(id=action_ids[action])
        if table.selector:
            profile = info.action_profiles.add(
                preamble=_preamble(0x11000001, table.selector), with_selector=True, size=1024
            )
            profile.table_ids.append(table_id)
            message.implementation_id = 0x11000001
    for counter_id, name in enumerate(COUNTERS, start=0x12000001):
        info.counters.add(
            preamble=_preamble(counter_id, name),
            spec=p4i.CounterSpec(unit=p4i.CounterSpec.BOTH),
            size=16,
        )
    return info


def _preamble(number: int, alias: str) -> p4i.Preamble:
    return p4i.Preamble(id=number, name=f"fabric.{alias}", alias=alias)


def findings(program: p4i.P4Info) -> Iterator[str]:
    """In words, where a program differs from the contract."""
    actions = {action.preamble.id: action for action in program.actions}
    tables = {table.preamble.alias: table for table in program.tables}
    profiles = {profile.preamble.id: profile.preamble.alias for profile in program.action_profiles}
    for name, wanted in TABLES.items():
        table = tables.get(name)
        if table is None:
            yield f"no table {name}"
            continue
        keys = {f.name: (f.match_type, f.bitwidth) for f in table.match_fields}
        if keys != dict(wanted.keys):
            yield f"{name}: keys are {keys}, not {dict(wanted.keys)}"
        held = {
            actions[ref.id].preamble.alias: {p.name: p.bitwidth for p in actions[ref.id].params}
            for ref in table.action_refs
        }
        for action, parameters in wanted.actions.items():
            if held.get(action) != parameters:
                yield f"{name}: action {action} has {held.get(action)}, not {parameters}"
        if profiles.get(table.implementation_id) != wanted.selector:
            yield f"{name}: implementation is {profiles.get(table.implementation_id)}"
    counters = {counter.preamble.alias for counter in program.counters}
    yield from (f"no counter {name}" for name in COUNTERS if name not in counters)
