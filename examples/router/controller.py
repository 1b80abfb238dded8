"""Two routes, and what each has counted: `python controller.py [ADDRESS]`."""

import asyncio

import finsy as fy
from client import switch

ROUTES = {"10.0.1.0/24": (2, 0x2), "10.0.1.5/32": (3, 0x3)}
"""Port and MAC address of the next hop, by prefix."""


async def main() -> None:
    """Writes the routes, then prints packets and bytes of each."""
    async with switch(__file__) as router:
        entries = {
            prefix: fy.P4TableEntry(
                "routes",
                match=fy.Match(dst=prefix),
                action=fy.Action("forward", port=port, next_hop=next_hop),
            )
            for prefix, (port, next_hop) in ROUTES.items()
        }
        await router.insert(entries.values())
        for prefix, entry in entries.items():
            wanted = fy.P4DirectCounterEntry(table_entry=entry)
            async for counter in router.read(wanted):
                print(f"{prefix}: {counter.packet_count} packets, {counter.byte_count} bytes")


asyncio.run(main())
