"""A threshold of 20 packets, and how many were marked: `python controller.py [ADDRESS]`."""

import asyncio

import finsy as fy
from client import ip, switch

HOST, PORT = ip("10.0.1.1"), 2
THRESHOLD = 20
"""K in packets: DCTCP's authors take 20 for 1 Gbit/s (SIGCOMM 2010, section 3.5)."""


async def main() -> None:
    """Writes the threshold, then prints it with the packets that were marked."""
    async with switch(__file__) as marker:
        await marker.write(
            [
                +fy.P4TableEntry(
                    "hosts", match=fy.Match(dst=HOST), action=fy.Action("send", port=PORT)
                ),
                ~fy.P4RegisterEntry("threshold", index=0, data=THRESHOLD),
            ]
        )
        async for register in marker.read(fy.P4RegisterEntry("threshold", index=0)):
            print(f"packets are marked from a queue of {register.data} packets on")
        async for counter in marker.read(fy.P4CounterEntry("marked", index=PORT)):
            print(f"port {PORT}: {counter.packet_count} packets marked")


asyncio.run(main())
