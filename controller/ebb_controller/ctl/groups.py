"""Action profiles, multicast groups, mirror sessions and value sets."""

from __future__ import annotations

import argparse
from typing import Any

from finsy import (
    P4ActionProfileGroup,
    P4ActionProfileMember,
    P4CloneSessionEntry,
    P4MulticastGroupEntry,
    P4ValueSetEntry,
)
from finsy.p4entity import P4ValueSetMember

from ebb_controller.ctl import values, words
from ebb_controller.ctl.client import Client
from ebb_controller.ctl.command import Answer, Command, first_of, names
from ebb_controller.ctl.output import Row


def profiles(client: Client, options: argparse.Namespace) -> Answer:
    """`profile list`: action profiles and selectors."""
    return [
        {
            "profile": p.alias,
            "size": p.size,
            "selector": p.with_selector,
            "actions": names(p.actions),
            "tables": p.table_names,
        }
        for p in client.schema.action_profiles
    ]


def dump_profile(client: Client, options: argparse.Namespace) -> Answer:
    """`profile dump`: members and groups of a profile."""
    profile = _profile(client, options)
    rows: list[Row] = []
    for member in client.read(P4ActionProfileMember(profile.alias)):
        action = values.one_action(client.schema, member.action) if member.action else None
        rows.append({"member": member.member_id, "action": action})
    if profile.with_selector:
        for group in client.read(P4ActionProfileGroup(profile.alias)):
            weights = {str(m.member_id): m.weight for m in group.members or ()}
            rows.append({"group": group.group_id, "weights": weights})
    return rows


def set_member(client: Client, options: argparse.Namespace) -> Answer:
    """`profile set-member`: inserts or modifies a member."""
    profile = _profile(client, options)
    _, behind = words.until_do(options.words)
    action = words.action_of(client.schema, behind)
    there = any(
        m.member_id == options.id for m in client.read(P4ActionProfileMember(profile.alias))
    )
    client.put(P4ActionProfileMember(profile.alias, member_id=options.id, action=action), there)
    return None


def delete_member(client: Client, options: argparse.Namespace) -> Answer:
    """`profile delete-member`: deletes a member."""
    client.delete(P4ActionProfileMember(_profile(client, options).alias, member_id=options.id))
    return None


def set_group(client: Client, options: argparse.Namespace) -> Answer:
    """`profile set-group`: inserts or modifies a group."""
    profile = _profile(client, options)
    members = words.members(options.members)
    there = any(g.group_id == options.id for g in client.read(P4ActionProfileGroup(profile.alias)))
    client.put(P4ActionProfileGroup(profile.alias, group_id=options.id, members=members), there)
    return None


def delete_group(client: Client, options: argparse.Namespace) -> Answer:
    """`profile delete-group`: deletes a group."""
    client.delete(P4ActionProfileGroup(_profile(client, options).alias, group_id=options.id))
    return None


def _profile(client: Client, options: argparse.Namespace) -> Any:
    return words.named(client.schema.action_profiles, options.profile)


def multicast_groups(client: Client, options: argparse.Namespace) -> Answer:
    """`multicast list`: groups and their ports."""
    found = client.read(P4MulticastGroupEntry())
    return [{"group": g.multicast_group_id, "ports": _ports(g.replicas)} for g in found]


def set_multicast(client: Client, options: argparse.Namespace) -> Answer:
    """`multicast set`: inserts or modifies a group."""
    group = P4MulticastGroupEntry(options.id, replicas=words.replicas(options.ports))
    known = client.read(P4MulticastGroupEntry())
    client.put(group, any(g.multicast_group_id == options.id for g in known))
    return None


def delete_multicast(client: Client, options: argparse.Namespace) -> Answer:
    """`multicast delete`: deletes a group."""
    client.delete(P4MulticastGroupEntry(options.id))
    return None


def sessions(client: Client, options: argparse.Namespace) -> Answer:
    """`mirror list`: clone sessions."""
    return [
        {
            "session": s.session_id,
            "ports": _ports(s.replicas),
            "class": s.class_of_service,
            "length": s.packet_length_bytes,
        }
        for s in client.read(P4CloneSessionEntry())
    ]


def set_session(client: Client, options: argparse.Namespace) -> Answer:
    """`mirror set`: inserts or modifies a clone session."""
    session = P4CloneSessionEntry(
        options.id,
        replicas=words.replicas(options.ports),
        class_of_service=options.class_,
        packet_length_bytes=options.length,
    )
    known = client.read(P4CloneSessionEntry())
    client.put(session, any(s.session_id == options.id for s in known))
    return None


def delete_session(client: Client, options: argparse.Namespace) -> Answer:
    """`mirror delete`: deletes a clone session."""
    client.delete(P4CloneSessionEntry(options.id))
    return None


def _ports(replicas: Any) -> list[str]:
    """PORT, or PORT:INSTANCE."""
    return [str(replica).replace("#", ":") for replica in replicas]


def value_sets(client: Client, options: argparse.Namespace) -> Answer:
    """`value-set list`: value sets of parsers."""
    return [{"value_set": v.alias, "size": v.size} for v in client.schema.value_sets]


def read_value_set(client: Client, options: argparse.Namespace) -> Answer:
    """`value-set read`: members of a value set."""
    name = words.named(client.schema.value_sets, options.name).alias
    found = client.read(P4ValueSetEntry(name, members=[]))
    return [{"value_set": name, "member": _member(m)} for e in found for m in e.members]


def _member(member: P4ValueSetMember) -> Any:
    """One value, or values by the names of their fields."""
    values = {name: str(value) for name, value in member.items()}
    return values[""] if list(values) == [""] else values


def set_value_set(client: Client, options: argparse.Namespace) -> Answer:
    """`value-set set`: replaces the members of a value set."""
    value_set = words.named(client.schema.value_sets, options.name)
    fields = [field.alias for field in value_set.match]
    members = [P4ValueSetMember(words.value_set_member(fields, m)) for m in options.members]
    client.modify(P4ValueSetEntry(value_set.alias, members=members))
    return None


def _one_profile(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE")


def _in_profile(parser: argparse.ArgumentParser) -> None:
    _one_profile(parser)
    parser.add_argument("id", metavar="ID", type=words.natural())


def _member_words(parser: argparse.ArgumentParser) -> None:
    _in_profile(parser)
    parser.add_argument("words", metavar="do ACTION PARAMETER=VALUE", nargs="*")


def _group_members(parser: argparse.ArgumentParser) -> None:
    _in_profile(parser)
    parser.add_argument("members", metavar="MEMBER[:WEIGHT]", nargs="*")


def _id(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", type=words.natural())


def _ports_of(parser: argparse.ArgumentParser) -> None:
    _id(parser)
    parser.add_argument("ports", metavar="PORT[:INSTANCE]", nargs="+")


def _session(parser: argparse.ArgumentParser) -> None:
    _ports_of(parser)
    parser.add_argument(
        "--class", dest="class_", type=words.natural(), default=0, help="class of service"
    )
    parser.add_argument(
        "--length", type=words.natural(31), default=0, help="bytes that are copied; 0: all"
    )


def _value_set(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")


def _value_set_members(parser: argparse.ArgumentParser) -> None:
    _value_set(parser)
    parser.add_argument("members", metavar="VALUE|FIELD=VALUE,..", nargs="*")


IN_PROFILE = first_of("action_profiles")

COMMANDS = {
    "profile": {
        "list": Command("action profiles and selectors", profiles),
        "dump": Command("members and groups", dump_profile, _one_profile, IN_PROFILE),
        "set-member": Command("makes or changes a member", set_member, _member_words, IN_PROFILE),
        "delete-member": Command("deletes a member", delete_member, _in_profile, IN_PROFILE),
        "set-group": Command("makes or changes a group", set_group, _group_members, IN_PROFILE),
        "delete-group": Command("deletes a group", delete_group, _in_profile, IN_PROFILE),
    },
    "multicast": {
        "list": Command("multicast groups and their ports", multicast_groups),
        "set": Command("makes or changes a group", set_multicast, _ports_of),
        "delete": Command("deletes a group", delete_multicast, _id),
    },
    "mirror": {
        "list": Command("mirror sessions, which P4Runtime calls clone sessions", sessions),
        "set": Command("makes or changes a session", set_session, _session),
        "delete": Command("deletes a session", delete_session, _id),
    },
    "value-set": {
        "list": Command("value sets of parsers", value_sets),
        "read": Command(
            "members of a value set", read_value_set, _value_set, first_of("value_sets")
        ),
        "set": Command(
            "replaces all members", set_value_set, _value_set_members, first_of("value_sets")
        ),
    },
}
