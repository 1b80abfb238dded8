"""A service with three servers: `python controller.py [ADDRESS]`."""

import asyncio

import finsy as fy
from client import ip, switch

SERVICE, CLIENTS = ip("10.0.9.9"), 1
SERVERS = {ip("10.0.1.1"): 2, ip("10.0.1.2"): 3, ip("10.0.1.3"): 4}
"""Ports by address."""
GROUP = 1


async def main() -> None:
    """Writes servers, their group and the services, then prints the group."""
    async with switch(__file__) as balancer:
        members = [
            fy.P4ActionProfileMember(
                "servers",
                member_id=number,
                action=fy.Action("to_server", server=server, port=port),
            )
            for number, (server, port) in enumerate(SERVERS.items(), start=1)
        ]
        group = fy.P4ActionProfileGroup(
            "servers",
            group_id=GROUP,
            max_size=len(members),
            members=[fy.P4Member(member.member_id, weight=1) for member in members],
        )
        service = fy.P4TableEntry(
            "services", match=fy.Match(dst=SERVICE), action=fy.IndirectAction(group_id=GROUP)
        )
        answers = [
            fy.P4TableEntry(
                "answers",
                match=fy.Match(src=server),
                action=fy.Action("from_server", service=SERVICE, port=CLIENTS),
            )
            for server in SERVERS
        ]
        # A batch may be carried out in any order, and an entry needs its group.
        for batch in (members, [group], [service, *answers]):
            await balancer.insert(batch)
        async for entry in balancer.read(fy.P4ActionProfileGroup("servers")):
            print(f"group {entry.group_id}: {len(entry.members)} servers")


asyncio.run(main())
