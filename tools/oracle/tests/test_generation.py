"""Random packets and states."""

import json
import random
from pathlib import Path

from oracle.commands import (
    Add,
    Call,
    CreateGroup,
    CreateMember,
    Group,
    Member,
    Packet,
    Remove,
    SetDefault,
    WriteRegister,
)
from oracle.flow import Flow
from oracle.fourway import Options, generate
from oracle.model import Program
from oracle.p4info import P4Info
from oracle.packets import Bits, Packets, checksum
from oracle.states import States, Values
from oracle.tests.fixtures import P4INFO, document, field, program


def test_the_same_seed_gives_the_same_commands(tmp_path: Path) -> None:
    made = [
        generate(program(tmp_path), P4Info(P4INFO), Options(packets=50, states=3, seed=seed), "x")
        for seed in (1, 1, 2)
    ]
    assert made[0] == made[1] != made[2]
    assert sum(isinstance(command, Packet) for command in made[0]) == 50


def test_entries_are_such_that_a_switch_takes_them(tmp_path: Path) -> None:
    states = States(program(tmp_path), P4Info(P4INFO), random.Random(3))
    first = states.first()
    members = sum(isinstance(command, CreateMember) for command in first)
    groups = sum(isinstance(command, CreateGroup) for command in first)
    assert members >= 2
    assert groups == 2
    known: set[str] = set()
    seen = set()
    for _ in range(60):
        present: dict[tuple[object, ...], int | None] = {}
        for command in states.next():
            match command:
                case Remove(label):
                    known.remove(label)
                case Add(table, keys, chosen, label, priority):
                    known.add(label)
                    assert (table, keys) not in present
                    present[table, keys] = priority
                    seen |= {(table, key.kind) for key in keys}
                    for key, field in zip(keys, program(tmp_path).tables[table].keys, strict=True):
                        ones = (1 << field.bits) - 1
                        assert 0 <= key.value <= ones
                        if key.kind in ("ternary", "optional"):
                            assert key.value & ~key.mask == 0
                        if key.kind == "lpm":
                            assert key.value & ones >> key.prefix_length == 0
                        if key.kind == "range":
                            assert key.value <= key.high <= ones
                    assert (priority is not None) == (table == "I.acl")
                    match chosen:
                        case Member(number):
                            assert number < members
                        case Group(number):
                            assert number < groups
                        case Call(action, arguments):
                            assert action == "I.forward"
                            assert 0 <= arguments["port"] < 512
                case SetDefault(table, _):
                    # The other default action is constant.
                    assert table == "I.route"
                case WriteRegister(_, index, value):
                    assert index < 4
                    assert value < 1 << 16
        priorities = [priority for priority in present.values() if priority is not None]
        assert len(set(priorities)) == len(priorities)
    kinds = {("I.route", "lpm"), ("I.ecmp", "exact"), ("I.acl", "ternary")}
    assert seen == {*kinds, ("I.acl", "range"), ("I.acl", "optional")}


def two_tables(folder: Path) -> Program:
    """An action writes to `meta.x`, of which `copied.x` is a copy, which a table matches."""
    made = document()
    made["headers"].append({"name": "copied", "id": 3, "header_type": "meta_t", "metadata": True})
    forward, drop = made["actions"]
    forward["runtime_data"] = [{"name": "port", "bitwidth": 8}]
    argument = {"type": "runtime_data", "value": 0}
    headers = [{"type": "header", "value": name} for name in ("copied", "meta")]
    forward["primitives"] = [
        {"op": "assign", "parameters": [field("meta", "x"), argument]},
        {"op": "assign_header", "parameters": headers},
        {"op": "assign", "parameters": [field("ipv4", "ttl"), field("ipv4", "tos")]},
    ]
    drop["primitives"] = [{"op": "mark_to_drop", "parameters": [headers[0]]}]
    made["pipelines"][0]["tables"][2]["key"][0]["target"] = ["copied", "x"]
    path = folder / "program.json"
    path.write_text(json.dumps(made))
    return Program(path)


def test_fields_that_are_copied_are_one_class(tmp_path: Path) -> None:
    flow = Flow(two_tables(tmp_path))
    written = flow.parameters["I.forward", "port"]
    assert flow.class_of(("copied", "x")) == flow.class_of(("meta", "x")) == written
    assert flow.class_of(("ipv4", "ttl")) == flow.class_of(("ipv4", "tos")) != written
    assert flow.class_of(("ipv4", "protocol")) == ("ipv4", "protocol")


def agreement(states: States) -> float:
    """Share of the keys of one table that an action of another one has set."""
    found = total = 0
    states.first()
    for _ in range(200):
        arguments, keys = set(), []
        for command in states.next():
            match command:
                case Add("I.ecmp", (key,), _, _, _):
                    keys.append(key.value)
                case Add(_, _, Call(_, given), _, _):
                    arguments.add(given["port"])
        if arguments:
            found += sum(key in arguments for key in keys)
            total += len(keys)
    return found / total


def test_keys_find_what_actions_set(tmp_path: Path) -> None:
    states = States(two_tables(tmp_path), P4Info(P4INFO), random.Random(5))
    blind = States(two_tables(tmp_path), P4Info(P4INFO), random.Random(5))
    blind.values.flow.parameters.clear()
    # Few values are drawn often, so some agree by chance.
    assert agreement(states) > 0.55 > agreement(blind)


def test_actions_that_drop_are_chosen_less_often(tmp_path: Path) -> None:
    states = States(two_tables(tmp_path), P4Info(P4INFO), random.Random(6))
    chosen = [states.one_of(["I.drop", "I.forward"]) for _ in range(600)]
    assert 50 < chosen.count("I.drop") < 150


def test_packets_follow_the_parser(tmp_path: Path) -> None:
    rng = random.Random(4)
    packets = Packets(program(tmp_path), Values(program(tmp_path), rng), rng)
    frames = [packets.next()[1] for _ in range(400)]
    ip = [frame for frame in frames if frame[12:14] == b"\x08\x00" and len(frame) >= 34]
    # Half of the walks take that transition; some packets are cut.
    assert 120 < len(ip) < 280
    right = sum(checksum(int.from_bytes(frame[14:34], "big")) == 0 for frame in ip)
    assert len(ip) / 2 < right < len(ip)
    assert any(len(frame) < 14 for frame in frames)
    assert all(frames)


def test_the_checksum_is_that_of_rfc_1071() -> None:
    # The example of the RFC, section 3: the sum of these words is 0xddf2.
    assert checksum(0x0001F203F4F5F6F7) == 0xDDF2 ^ 0xFFFF


def test_bits_are_written_in_any_order() -> None:
    bits = Bits()
    bits.write(4, 8, 0xAB)
    assert not bits.is_free(0, 8)
    assert bits.is_free(0, 4)
    assert bits.read(4, 4) == 0xA
    bits.write(0, 4, 0xC)
    assert bits.to_bytes() == b"\xca\xb0"
