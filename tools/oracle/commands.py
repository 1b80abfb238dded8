"""Commands for a switch in a run. Names of tables, actions and so on are whole names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from .model import Program


@dataclass(frozen=True, slots=True)
class Match:
    """Match of an entry on one key field."""

    kind: Literal["exact", "lpm", "ternary", "optional", "range", "any"]
    value: int = 0
    mask: int = 0
    """Bits that are compared, of ternary and optional keys."""
    prefix_length: int = 0
    high: int = 0
    """Upper end of a range, whose lower end is `value`. Both belong to it."""


@dataclass(frozen=True, slots=True)
class Call:
    """An action with its arguments, by name of the parameter."""

    action: str
    arguments: dict[str, int] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Member:
    """A member of the table's action profile."""

    number: int


@dataclass(frozen=True, slots=True)
class Group:
    """A group of the table's action selector."""

    number: int


TableAction = Call | Member | Group
"""Action of an entry, or default action; of a table with a profile a member or group of that."""


@dataclass(frozen=True, slots=True)
class Packet:
    port: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Add:
    """An entry; the keys are in the order of the program."""

    table: str
    keys: tuple[Match, ...]
    action: TableAction
    label: str
    priority: int | None = None
    """Priority, of which the higher wins; none: the table has no priorities."""


@dataclass(frozen=True, slots=True)
class Remove:
    label: str


@dataclass(frozen=True, slots=True)
class SetDefault:
    table: str
    action: TableAction | None
    """Default action to set; none: the program's own."""


@dataclass(frozen=True, slots=True)
class CreateMember:
    """Makes a member of a profile; members and groups of each profile are numbered from 0."""

    profile: str
    call: Call


@dataclass(frozen=True, slots=True)
class CreateGroup:
    profile: str


@dataclass(frozen=True, slots=True)
class AddToGroup:
    profile: str
    member: int
    group: int


@dataclass(frozen=True, slots=True)
class Multicast:
    """A multicast group; each of its nodes is an instance (egress_rid) and its ports."""

    group: int
    nodes: tuple[tuple[int, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class Mirror:
    """A clone session to a port."""

    session: int
    port: int


@dataclass(frozen=True, slots=True)
class WriteRegister:
    name: str
    index: int
    value: int


Control = (
    Add
    | Remove
    | SetDefault
    | CreateMember
    | CreateGroup
    | AddToGroup
    | Multicast
    | Mirror
    | WriteRegister
)
Command = Packet | Control


class Script:
    """Writes commands as STF text, for a program with these names of key fields."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes = 0

    def text(self, commands: list[Command]) -> tuple[str, list[int]]:
        """The text, and for each of its lines the number of the command."""
        lines, origins = [], []
        for number, command in enumerate(commands):
            for line in self.lines(command):
                lines.append(line)
                origins.append(number)
        return "\n".join(lines) + "\n", origins

    def lines(self, command: Command) -> list[str]:
        match command:
            case Packet(port, data):
                return [f"packet {port} {data.hex()}"]
            case Add(table, keys, action, label, priority):
                fields = self.program.tables[table].keys
                texts = [
                    f'"{key.name}":{match_text(given, key.bits)}'
                    for key, given in zip(fields, keys, strict=True)
                    if given.kind != "any"
                ]
                priorities = [] if priority is None else [str(priority)]
                words = [
                    "add",
                    f'"{table}"',
                    *priorities,
                    *texts,
                    action_text(action),
                    f"= {label}",
                ]
                return [" ".join(words)]
            case Remove(label):
                return [f"remove {label}"]
            case SetDefault(table, action):
                return [f'setdefault "{table}"' + (f" {action_text(action)}" if action else "")]
            case CreateMember(profile, call):
                return [f'act_prof_create_member "{profile}" {action_text(call)}']
            case CreateGroup(profile):
                return [f'act_prof_create_group "{profile}"']
            case AddToGroup(profile, member, group):
                return [f'act_prof_add_member_to_group "{profile}" {member} {group}']
            case Multicast(group, nodes):
                return self.multicast_lines(group, nodes)
            case Mirror(session, port):
                return [f"mirroring_add {session} {port}"]
            case WriteRegister(name, index, value):
                return [f'register_write "{name}" {index} {value}']

    def multicast_lines(
        self, group: int, nodes: tuple[tuple[int, tuple[int, ...]], ...]
    ) -> list[str]:
        lines = [f"mc_mgrp_create {group}"]
        for instance, ports in nodes:
            lines.append(f"mc_node_create {instance} {' '.join(map(str, ports))}")
            lines.append(f"mc_node_associate {group} {self.nodes}")
            self.nodes += 1
        return lines


def match_text(match: Match, bits: int) -> str:
    match match.kind:
        case "lpm":
            return f"{match.value:#x}/{match.prefix_length}"
        case "ternary" | "optional":
            digits = (
                str(match.value >> bit & 1) if match.mask >> bit & 1 else "*"
                for bit in reversed(range(bits))
            )
            return "0b" + "".join(digits)
        case "range":
            return f"{match.value:#x}->{match.high:#x}"
        case _:
            return f"{match.value:#x}"


def action_text(action: TableAction) -> str:
    match action:
        case Member(number):
            return f"member {number}"
        case Group(number):
            return f"group {number}"
        case Call(name, arguments):
            given = ", ".join(f'"{parameter}":{value:#x}' for parameter, value in arguments.items())
            return f'"{name}"({given})'
