"""A rate for a customer, and what was policed: `python controller.py [ADDRESS]`."""

import asyncio

import finsy as fy
from client import switch

CUSTOMER = 1
RATE = fy.P4MeterConfig(cir=1_250_000, cburst=15_000, pir=2_500_000, pburst=30_000)
"""10 Mbit/s in bursts of ten full packets, and as much again of a lower class (bytes, bytes/s)."""


async def main() -> None:
    """Sets the rate of the customer, then prints it with the packets that exceeded it."""
    async with switch(__file__) as policer:
        await policer.modify([fy.P4MeterEntry("rate_of_port", index=CUSTOMER, config=RATE)])
        async for meter in policer.read(fy.P4MeterEntry("rate_of_port", index=CUSTOMER)):
            print(f"port {CUSTOMER}: {meter.config.cir * 8 / 1e6:g} Mbit/s")
        async for counter in policer.read(fy.P4CounterEntry("policed", index=CUSTOMER)):
            print(f"port {CUSTOMER}: {counter.packet_count} packets dropped")


asyncio.run(main())
