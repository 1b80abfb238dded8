"""Random entries and other state for a program, from its P4Info.

Values are drawn from few: what the program compares a field with, smallest and largest ones, and a
handful of random ones that packets use too, so that entries are hit. Keys are drawn from what the
actions of other tables set, and actions that drop are chosen less often: else hardly a packet would
get through many tables.
"""

from __future__ import annotations

import random
from collections import defaultdict

from . import p4info
from .commands import (
    Add,
    AddToGroup,
    Call,
    Command,
    CreateGroup,
    CreateMember,
    Group,
    Match,
    Member,
    Mirror,
    Multicast,
    Remove,
    SetDefault,
    TableAction,
    WriteRegister,
)
from .flow import Flow, unwrapped
from .model import Field, Key, Program, Table, objects

PORT_BITS = 9
PORTS = 8
"""Number of ports, from 0, at which packets arrive; most leave by these, too."""
DROP_PORT = 511
GROUPS = 4
"""Numbers, from 1, of multicast groups and clone sessions that are set, besides those that the
program names."""
MOST_ENTRIES = 8
"""Most entries of a table in a state."""
LARGEST_REGISTER_BITS = 63
"""Widest value of a register that BMv2's control plane takes, in bits."""
MOST_MEMBERS = 5
"""Most members of an action profile."""
DROPPING_WEIGHT = 5
"""Weight of an action that does not drop in random choices, over that of one that drops."""


class Values:
    """Numbers that a program's fields may have."""

    def __init__(self, program: Program, rng: random.Random) -> None:
        self.rng = rng
        self.flow = Flow(program)
        self.compared: dict[Field, list[int]] = defaultdict(list)
        """Numbers that the program compares fields with, by class of the field."""
        self.present: dict[Field, list[int]] = defaultdict(list)
        """Numbers that the entries of the present state match or set, by class of the field."""
        self.constants = sorted({c for c in constants(program) if c < 1 << 128})
        self.shared: dict[int, list[int]] = {}
        """Random numbers that are drawn again and again, by their bits."""
        for field, found in compared(program).items():
            self.compared[self.flow.class_of(field)] += found

    def draw(self, field: Field, bits: int) -> int:
        """A number for a field of a packet or of a key."""
        largest = (1 << bits) - 1
        choice = self.rng.random()
        kind = self.flow.class_of(field)
        for known, share in ((self.present, 0.55), (self.compared, 0.75)):
            if kind in known and choice < share:
                return self.rng.choice(known[kind]) & largest
        return self.any(bits)

    def any(self, bits: int) -> int:
        """A number for an argument of an action, or where nothing is known of a field."""
        largest = (1 << bits) - 1
        choice = self.rng.random()
        if bits == PORT_BITS and choice < 0.8:
            return self.rng.randrange(PORTS)
        if choice < 0.75:
            fitting = [c for c in self.constants if c <= largest]
            if fitting and self.rng.random() < 0.5:
                return self.rng.choice(fitting)
            return self.rng.choice(self._shared(bits))
        if choice < 0.85:
            return self.rng.choice((0, 1 & largest, largest, largest >> 1))
        return self.rng.getrandbits(bits)

    def _shared(self, bits: int) -> list[int]:
        if bits not in self.shared:
            self.shared[bits] = [self.rng.getrandbits(bits) for _ in range(4)]
        return self.shared[bits]


def constants(program: Program) -> set[int]:
    """Constants of the program. Those of signed arithmetic may be negative, which no key is; they
    are left out."""
    found = {
        int(node["value"], 16)
        for node in program.nodes()
        if node.get("type") == "hexstr" and isinstance(node.get("value"), str)
    }
    return {value for value in found if value >= 0}


def compared(program: Program) -> dict[Field, list[int]]:
    """Constants that a field is compared with in an expression."""
    found: dict[Field, list[int]] = defaultdict(list)
    for node in program.nodes():
        if node.get("op") not in ("==", "!=", "<", "<=", ">", ">="):
            continue
        sides = [unwrapped(node.get(side)) for side in ("left", "right")]
        for this, other in (sides, sides[::-1]):
            if this.get("type") == "field" and other.get("type") == "hexstr":
                value = int(other["value"], 16)
                if value >= 0:
                    header, name = this["value"]
                    # Programs mostly drop what differs from the constant: it is drawn more often
                    # than its neighbours.
                    times = 4 if node["op"] in ("==", "!=") else 1
                    found[header, name] += [value] * times + [value + 1, max(value - 1, 0)]
    return found


def dropping(program: Program) -> set[str]:
    """Names of the actions that drop."""
    return {
        action["name"]
        for action in program.json["actions"]
        if any(node.get("op") in ("mark_to_drop", "drop") for node in objects(action))
    }


class States:
    """Makes one state after another; each takes away the entries of the one before."""

    def __init__(self, program: Program, info: p4info.P4Info, rng: random.Random) -> None:
        self.program, self.info, self.rng = program, info, rng
        self.values = Values(program, rng)
        self.labels: list[str] = []
        """Labels of the entries of the present state."""
        self.defaults: list[str] = []
        """Tables whose default action the present state sets."""
        self.members: dict[str, tuple[int, int]] = {}
        """Numbers of members and groups, by profile."""
        self.made = 0
        """Entries of all states so far, which numbers labels."""
        self.dropping = dropping(program)

    def first(self) -> list[Command]:
        """Commands for what stays: replication, action profiles, contents of registers."""
        return [*self.replication(), *self.profiles(), *self.registers()]

    def next(self) -> list[Command]:
        """Commands for the next state of tables."""
        commands: list[Command] = [Remove(label) for label in self.labels]
        commands += [SetDefault(table, None) for table in self.defaults]
        self.labels, self.defaults = [], []
        self.values.present.clear()
        for info in self.info.tables:
            table = self.program.tables.get(info.name)
            if table is None or len(table.keys) != len(info.kinds):
                continue
            commands += self.entries(info, table)
            commands += self.default(info, table)
        return commands

    def entries(self, info: p4info.Table, table: Table) -> list[Command]:
        actions = [ref.action for ref in info.refs if ref.in_entries]
        if not table.keys or not actions or info.is_const or table.has_entries:
            return []
        count = self.rng.choice((0, 1, 2, 3, 5, MOST_ENTRIES))
        commands: list[Command] = []
        seen = set()
        for number in range(min(count, info.size or count)):
            action = self.table_action(info, actions)
            if action is None:
                break
            kinds = zip(table.keys, info.kinds, strict=True)
            keys = tuple(self.match(key, kind) for key, kind in kinds)
            # Different priorities, since no specification says which of two equal ones wins.
            priority = number + 1 if table.has_priorities else None
            if keys in seen:
                continue
            seen.add(keys)
            self.made += 1
            self.labels.append(f"e{self.made}")
            commands.append(Add(table.name, keys, action, self.labels[-1], priority))
        self.rng.shuffle(commands)
        return commands

    def match(self, key: Key, kind: str) -> Match:
        bits, ones = key.bits, (1 << key.bits) - 1
        value = self.values.draw(key.target, bits)
        self.values.present[self.values.flow.class_of(key.target)].append(value)
        if kind == "LPM":
            length = self.rng.choice((bits, bits, bits // 2, self.rng.randint(0, bits)))
            return Match("lpm", value & ones << bits - length & ones, prefix_length=length)
        if kind == "TERNARY":
            prefix = ones << self.rng.randint(0, bits) & ones
            mask = self.rng.choice((ones, ones, 0, prefix, self.rng.getrandbits(bits)))
            return Match("ternary", value & mask, mask=mask)
        if kind == "OPTIONAL":
            mask = self.rng.choice((ones, 0))
            return Match("optional", value & mask, mask=mask)
        if kind == "RANGE":
            other = self.values.draw(key.target, bits)
            low, high = sorted((value, other))
            return Match("range", low, high=high)
        return Match("exact", value)

    def default(self, info: p4info.Table, table: Table) -> list[Command]:
        actions = [ref.action for ref in info.refs if ref.as_default]
        if info.has_const_default or not actions or table.profile or self.rng.random() < 0.6:
            return []
        self.defaults.append(table.name)
        return [SetDefault(table.name, self.call(self.one_of(actions)))]

    def table_action(self, info: p4info.Table, actions: list[str]) -> TableAction | None:
        if info.profile is None:
            return self.call(self.one_of(actions))
        members, groups = self.members.get(info.profile, (0, 0))
        if groups and self.rng.random() < 0.7:
            return Group(self.rng.randrange(groups))
        return Member(self.rng.randrange(members)) if members else None

    def one_of(self, actions: list[str]) -> str:
        weights = [1 if action in self.dropping else DROPPING_WEIGHT for action in actions]
        return self.rng.choices(actions, weights)[0]

    def call(self, action: str) -> Call:
        arguments = {}
        for name, bits in self.program.actions[action].items():
            kind = self.values.flow.parameters.get((action, name))
            known = self.values.present.get(kind, []) if kind else []
            reuse = known and self.rng.random() < 0.6
            arguments[name] = self.rng.choice(known) if reuse else self.argument(bits)
            if kind:
                self.values.present[kind].append(arguments[name])
        return Call(action, arguments)

    def argument(self, bits: int) -> int:
        if bits == PORT_BITS:
            port: int = self.rng.choice([*range(PORTS), DROP_PORT])
            return port
        if bits in (16, 32) and self.rng.random() < 0.3:
            return self.rng.randint(1, GROUPS)
        return self.values.any(bits)

    def replication(self) -> list[Command]:
        named = [n for n in self.values.constants if 0 < n < 1 << 15]
        commands: list[Command] = []
        if self.program.says("mcast_grp", "intrinsic_metadata.mcast_grp"):
            for group in sorted({*range(1, GROUPS + 1), *named}):
                nodes = []
                for instance in range(self.rng.randint(1, 2)):
                    ports = self.rng.sample(range(PORTS), self.rng.randint(1, 3))
                    nodes.append((instance, tuple(sorted(ports))))
                commands.append(Multicast(group, tuple(nodes)))
        clones = ("clone_ingress_pkt_to_egress", "clone_egress_pkt_to_egress")
        if self.program.says(*clones):
            for session in sorted({*range(1, GROUPS + 1), *named}):
                commands.append(Mirror(session, self.rng.randrange(PORTS)))
        return commands

    def profiles(self) -> list[Command]:
        commands: list[Command] = []
        for profile in self.info.profiles:
            users = [t for t in self.info.tables if t.name in profile.tables]
            common = [{r.action for r in user.refs if r.in_entries} for user in users]
            actions = sorted(set.intersection(*common)) if common else []
            if not actions:
                continue
            members = min(self.rng.randint(2, MOST_MEMBERS), profile.size or MOST_MEMBERS)
            for _ in range(members):
                commands.append(CreateMember(profile.name, self.call(self.one_of(actions))))
            groups = 2 if profile.with_selector else 0
            for group in range(groups):
                commands.append(CreateGroup(profile.name))
                for member in sorted(self.rng.sample(range(members), self.rng.randint(1, members))):
                    commands.append(AddToGroup(profile.name, member, group))
            self.members[profile.name] = (members, groups)
        return commands

    def registers(self) -> list[Command]:
        commands: list[Command] = []
        for name, (size, bits) in self.program.registers.items():
            if bits > LARGEST_REGISTER_BITS or self.rng.random() < 0.5:
                continue
            for index in {0, 1, self.rng.randrange(size or 1)}:
                if index < size:
                    commands.append(WriteRegister(name, index, self.rng.getrandbits(bits)))
        return commands
