"""Tells who sends most, for some seconds: `python controller.py [ADDRESS [SECONDS]]`."""

import asyncio
import ipaddress
import sys

import finsy as fy
from client import switch

SECONDS = float(sys.argv[2]) if len(sys.argv) > 2 else 10.0


async def main() -> None:
    """Asks for digests of heavy flows and prints them."""
    async with switch(__file__) as counting:
        digest = fy.P4DigestEntry("heavy_t", max_list_size=1, max_timeout_ns=0, ack_timeout_ns=0)
        await counting.insert([digest])
        print(f"listening for {SECONDS:g} s")
        try:
            async with asyncio.timeout(SECONDS):
                async for told in counting.read_digests("heavy_t"):
                    for heavy in told:
                        source = ipaddress.IPv4Address(heavy["source"])
                        print(f"{source} has sent {heavy['packets']} packets")
        except TimeoutError:
            pass


asyncio.run(main())
