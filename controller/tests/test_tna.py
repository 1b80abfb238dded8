"""The programs of p4src/tna and the controller: that a plan fits them, and what is made of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from built import FULL_PROGRAM, NEEDS_PROGRAM, p4info
from ebb_controller import tna
from ebb_controller.mechanism import Entity
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.policing import Contract, Policing
from ebb_controller.mechanisms.volume_counters import Volume
from ebb_controller.multicast import MulticastGroup
from ebb_controller.plan import INSERT_ORDER, plan
from ebb_controller.program import Program
from ebb_controller.scheme import known_schemes, load_scheme
from ebb_controller.site import Site
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table
from ebb_topologies.traffic_manager import traffic_manager_config
from everything import everything
from finsy import (
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4MeterEntry,
    P4TableAction,
    P4TableEntry,
)
from finsy.p4schema import P4Schema
from finsy.proto import p4i
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
P4INFO = ROOT / "p4src" / "tna" / "p4info"
FAT_TREE = from_table({"fat_tree": {"k": 4}}, "test")
GROUPS = (MulticastGroup("239.0.0.1", 1, ("h1", "h3", "h16")),)
QUEUE_IDS = {(port, queue): (0, port * 8 + queue) for port in range(1, 5) for queue in range(8)}


PORTED = [name for name in known_schemes() if load_scheme(name).fabric.codel is None]
"""Schemes that need no CoDel."""


def program(name: str) -> p4i.P4Info:
    info = p4i.P4Info()
    text_format.Parse((P4INFO / f"{name}.p4info.txtpb").read_text(), info)
    return info


def sites(parameters: Any) -> Iterator[Site[Any]]:
    for switch in FAT_TREE.switches:
        yield Site(FAT_TREE, switch, parameters, groups=GROUPS)


@pytest.mark.parametrize("scheme", PORTED)
def test_every_entity_of_every_scheme_fits_a_program(scheme: str) -> None:
    parameters = load_scheme(scheme).fabric
    composition = tna.composition_for(plan(next(sites(parameters))))
    schema = P4Schema(program(composition.name))
    for site in sites(parameters):
        entities: list[Entity | tna.Added] = [*tna.translated(plan(site), composition.chip)]
        assert len(entities) >= 15
        seen: set[bytes] = set()
        for entity in [*entities, *tna.added(site, QUEUE_IDS)]:
            message = entity.encode(schema)
            key = message.SerializeToString(deterministic=True)
            assert key not in seen
            seen.add(key)


def test_which_program_a_scheme_needs() -> None:
    chosen = {
        scheme: tna.composition_for(plan(next(sites(load_scheme(scheme).fabric)))).name
        for scheme in PORTED
    }
    assert chosen["dctcp"] == chosen["hull"] == "fabric_marking"
    assert chosen["ndp"] == chosen["ndp-return"] == chosen["scdp"] == "fabric_trimming"
    assert chosen["fastlane"] == chosen["fastlane-fh"] == "fabric_notification"
    assert chosen["detail"] == "fabric_adaptive"
    assert chosen["silo"] == chosen["oktopus"] == "fabric_tenants"
    with pytest.raises(
        ValueError, match=r"fabric_marking lacks .*trimming.*; fabric_trimming lacks"
    ):
        tna.composition_for(plan(next(sites(everything(return_to_sender=True, codel=None)))))
    with pytest.raises(ValueError, match=r"fabric_marking lacks codel, codel_law; "):
        tna.composition_for(plan(next(sites(load_scheme("codel").fabric))))


# -- the same tables, keys and actions -------------------------------------------------------------

DIFFERENT = {
    ("mlfq_demotion", "flow_bytes", "RANGE 32", "TERNARY 32"),
    ("ecn_threshold", "depth", "19", "32"),
    ("volume", "inverse", "64", ""),
    ("volume", "shift", "8", ""),
}
"""Differences on purpose: table, key or argument, v1model's, TNA's."""


def shape(info: p4i.P4Info) -> dict[str, dict[str, str]]:
    """Keys with kind and width, arguments of actions with width, by table."""
    actions = {action.preamble.id: action for action in info.actions}
    kinds = p4i.MatchField.MatchType
    tables = {}
    for table in info.tables:
        parts = {
            key.name: f"{kinds.Name(key.match_type)} {key.bitwidth}" for key in table.match_fields
        }
        for reference in table.action_refs:
            action = actions[reference.id]
            parts[f"{action.preamble.alias}()"] = "action"
            parts |= {each.name: str(each.bitwidth) for each in action.params}
        tables[table.preamble.alias] = parts
    return tables


@NEEDS_PROGRAM
@pytest.mark.parametrize("composition", tna.COMPOSITIONS, ids=lambda each: each.name)
def test_tables_are_those_of_v1model_but_for_what_is_said(composition: tna.Composition) -> None:
    ours, theirs = shape(p4info(FULL_PROGRAM)), shape(program(composition.name))
    assert set(ours) - set(theirs) == composition.without | tna.NEEDLESS | (tna.ABSENT & set(ours))
    differences = {
        (table, part, said, theirs[table].get(part, ""))
        for table in set(ours) & set(theirs)
        for part, said in ours[table].items()
        if theirs[table].get(part) != said
    }
    assert differences <= DIFFERENT
    assert {d[0] for d in DIFFERENT} - composition.without <= set(theirs)


@NEEDS_PROGRAM
def test_together_the_programs_have_every_table_that_is_needed() -> None:
    tables = set().union(*(shape(program(each.name)) for each in tna.COMPOSITIONS))
    assert (
        set(shape(p4info(FULL_PROGRAM))) - tables - tna.ABSENT
        == {"queue_accounting"} | tna.NEEDLESS
    )


def test_a_mechanism_says_itself_that_it_is_not_ported() -> None:
    assert {"codel", "codel_law", "source_quench"} <= tna.ABSENT
    assert not tna.ABSENT & {
        table for each in tna.COMPOSITIONS for table in shape(program(each.name))
    }


# -- the plan in the units of the chip -------------------------------------------------------------


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))
def test_prefixes_hold_the_numbers_of_the_range_and_no_others(a: int, b: int, number: int) -> None:
    low, high = min(a, b), max(a, b)
    found = list(tna.prefixes(low, high))
    assert len(found) <= 62
    for each in (low, high, max(low - 1, 0), min(high + 1, 2**32 - 1), number):
        assert sum(each & mask == value for value, mask in found) == (low <= each <= high)


def test_prefixes_of_everything_is_one() -> None:
    assert list(tna.prefixes(0, 2**32 - 1)) == [(0, 0)]
    assert list(tna.prefixes(10_000, 10_000)) == [(10_000, 2**32 - 1)]


def test_depths_are_in_cells_and_other_entries_stay() -> None:
    parameters = everything(return_to_sender=False, codel=None)
    entities = plan(next(sites(parameters)))
    for chip in tna.Chip:
        found = list(tna.translated(entities, chip))
        depths = {
            (each.table_id, *each.action.args.values())
            for each in found
            if isinstance(each, P4TableEntry) and isinstance(each.action, P4TableAction)
            if each.table_id in ("ecn_threshold", "adaptive_thresholds", "drain_marking")
        }
        assert depths == {
            ("ecn_threshold", 30_000 // chip.value),
            ("adaptive_thresholds", 16_384 // chip.value, 65_536 // chip.value),
        }
        members = [each for each in entities if isinstance(each, P4ActionProfileMember)]
        assert [each for each in found if isinstance(each, P4ActionProfileMember)] == members


def test_a_range_of_all_numbers_is_left_out() -> None:
    whole = [each for each in tna.pick() if each.match is not None and "draw" not in each.match]
    assert len(whole) == 8  # sets of one port: any number chooses it


# -- our own switches with these programs ----------------------------------------------------------


@pytest.mark.parametrize("scheme", ["dctcp", "ndp-return", "fastlane", "detail", "silo"])
def test_requirements_are_in_the_order_of_a_plan(scheme: str) -> None:
    parameters = load_scheme(scheme).fabric
    chip = tna.composition_of(FAT_TREE, parameters).chip
    entities = tna.requirements(next(sites(parameters)), chip)
    kinds = [INSERT_ORDER.index(type(each)) for each in entities]
    assert kinds == sorted(kinds)
    queues = [
        each.action.args["queue_index"]
        for each in entities
        if isinstance(each, P4TableEntry) and each.table_id == "queue_of_port"
        if isinstance(each.action, P4TableAction)
    ]
    assert queues == (list(range(8, 40)) if scheme == "detail" else [])


def test_the_traffic_manager_gets_the_port_back_to_ingress_and_exports_nothing() -> None:
    parameters = load_scheme("detail").fabric
    config = traffic_manager_config(FAT_TREE, FAT_TREE.switches[0], parameters.ports)
    assert "export" in config
    for chip, port in ((tna.Chip.TOFINO, "68"), (tna.Chip.TOFINO_2, "6")):
        made = tna.traffic_manager(config, chip)
        assert "export" not in made
        (profile,) = (p for p in made["profile"] if p["name"] == made["ports"][port])
        assert profile["rate_bps"] == 10 * max(link.rate_bps for link in FAT_TREE.links)
        assert [queue["id"] for queue in profile["queue"]] == list(range(8))
        assert made["pfc"] == config["pfc"]


def test_a_program_of_a_folder_is_chosen_by_what_all_need() -> None:
    parameters = [load_scheme(name).fabric for name in ("tcp-droptail", "ndp")]
    program = Program.of_tofino(Path("build"), FAT_TREE, *parameters)
    assert program.json == Path("build/tna/fabric_trimming.json")
    assert program.p4info == Path("build/tna/fabric_trimming.p4info.txtpb")
    assert (program.name, program.chip) == ("tna/fabric_trimming", tna.Chip.TOFINO)


@pytest.mark.parametrize(
    ("scheme", "why"),
    [
        ("codel", r"no program of p4src/tna has all tables of this switch: .*lacks codel"),
        ("pfabric", "ranks are in a field"),
    ],
)
def test_what_is_not_ported_is_refused_in_one_line(scheme: str, why: str) -> None:
    with pytest.raises(InputError, match=why) as refused:
        tna.composition_of(FAT_TREE, load_scheme(scheme).fabric)
    assert "\n" not in str(refused.value)


def test_a_trigger_of_the_program_is_refused() -> None:
    parameters = load_scheme("ndp").fabric.without_deflection()
    with pytest.raises(InputError, match=r'trimming\.trigger = "occupancy": .* expected "deflect"'):
        tna.composition_of(FAT_TREE, parameters)


# -- what only these programs need -----------------------------------------------------------------


def test_adaptive_marking_is_step_marking_at_all_ports() -> None:
    site = next(sites(everything(return_to_sender=False, codel=None)))
    marking = [
        (each.match["egress_port"], each.action.args["depth"])
        for each in tna.added(site, {})
        if isinstance(each, P4TableEntry) and each.table_id == "ecn_threshold"
        if each.match is not None and isinstance(each.action, P4TableAction)
    ]
    assert marking == [(port.number, 65_536 // 176) for port in site.ports]


def test_contracts_fit_the_program_for_tenants() -> None:
    contract = Contract(hosts=["h1"], guarantee_bps=8_000_000, peak_bps=80_000_000)
    parameters = FabricParameters(policing=Policing(contract=[contract]), void_frames=True)
    schema = P4Schema(program("fabric_tenants"))
    policed = []
    for site in sites(parameters):
        assert tna.composition_for(plan(site)).name in ("fabric_marking", "fabric_tenants")
        for entity in tna.translated(plan(site), tna.Chip.TOFINO):
            message = entity.encode(schema)
            if isinstance(entity, P4TableEntry) and entity.table_id == "policing":
                policed.append(message.table_entry.meter_config)
    (config,) = policed
    assert (config.cir, config.cburst, config.pir) == (1_000_000, 15_000, 10_000_000)


def test_slots_are_the_nearest_power_of_two() -> None:
    parameters = FabricParameters(volume=Volume(slot_ns=1_000_000))
    site = next(sites(parameters))
    assert tna.composition_for(plan(site)).name == "fabric_tenants"
    assert not [
        each
        for each in tna.translated(plan(site), tna.Chip.TOFINO)
        if isinstance(each, P4TableEntry) and each.table_id == "volume"
    ]
    (entry,) = tna.added(site, {})
    assert isinstance(entry, P4TableEntry) and isinstance(entry.action, P4TableAction)
    assert entry.is_default_action
    mask, odd = entry.action.args["slot_mask"], entry.action.args["bank_mask"]
    for time_ns in range(0, 2**24, 2**14 + 1):  # 2^20 ns are the nearest to a millisecond
        tick = time_ns >> 16
        assert tick & mask == time_ns >> 20 << 4
        assert bool(tick & odd) == bool(time_ns >> 20 & 1)
    entry.encode(P4Schema(program("fabric_tenants")))


@pytest.mark.parametrize(("slot_ns", "bits"), [(65_536, 16), (90_000, 16), (2**28, 28)])
def test_lengths_of_slots(slot_ns: int, bits: int) -> None:
    assert tna.slot_bits(slot_ns) == bits


@pytest.mark.parametrize("slot_ns", [1_000, 46_000, 400_000_000])
def test_slots_that_the_clock_or_the_cells_do_not_allow_are_refused(slot_ns: int) -> None:
    with pytest.raises(InputError, match=rf"slot_ns = {slot_ns} .* expected 65536..268435456"):
        tna.slot_bits(slot_ns)


def test_intervals_make_up_all_times_once() -> None:
    following = 0
    for first, mask, length in tna.intervals():
        assert first == following
        assert first & mask == first
        assert 2**32 - mask == length
        assert length == 1 or length * 2**tna.MANTISSA_BITS <= first
        following = first + length
    assert following == 2**32


def test_what_drains_is_the_rate_times_the_middle_of_the_interval() -> None:
    one_gbit = 125 * 2**16  # bytes in 2^16 us
    assert tna.drained_bytes(one_gbit, 8_000, 1) == 1_000
    assert tna.drained_bytes(one_gbit, 8_192, 128) == round((8_192 + 63.5) / 8)
    assert tna.drained_bytes(2**32 - 1, 2**31, 2**25) == tna.MOST_DRAINED


def test_every_value_of_the_random_number_chooses_a_slot_of_the_set_evenly() -> None:
    for slots in range(1, 256):
        following = 0
        members = slots.bit_count()
        for slot, first, last in tna.shares(slots):
            assert slots >> slot & 1
            assert first == following
            assert abs((last - first + 1) - 256 / members) < 1
            following = last + 1
        assert following == 256


def test_what_trimming_needs_besides_its_entries() -> None:
    for site in sites(everything(return_to_sender=False, codel=None)):
        found = list(tna.added(site, {}))
        (session,) = (each for each in found if isinstance(each, P4CloneSessionEntry))
        assert (session.session_id, session.packet_length_bytes, session.class_of_service) == (
            1,
            128 + tna.DEFLECTED_BYTES,
            7,
        )
        meters = [each for each in found if isinstance(each, P4MeterEntry)]
        assert [each.index for each in meters] == [port.number for port in site.ports]
        for each, port in zip(meters, site.ports, strict=True):
            assert each.config is not None
            assert (each.config.cir * 8, each.config.cburst) == (port.rate_bps, 12_000)
