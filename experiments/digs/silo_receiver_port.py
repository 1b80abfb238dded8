"""How many tenants of class A no placement can admit, as a small model that shares nothing with
Ebb's programs: the port of one receiver, in an empty network, by the numbers of Moncaster's thesis.

All VMs of a tenant may send their bursts to one of them at once (section 5.4.1), those on its own
host apart. While a burst comes at Bmax, the port sends at C; what remains has to fit its queue
(constraint 5.2). Queues before the port, which let bursts grow, and all other tenants are left out:
so this is the least that any program refuses which keeps the constraint.

`.venv/bin/python experiments/digs/silo_receiver_port.py` prints the share by the mean of VMs and of
bursts, both exponential.
"""

from __future__ import annotations

import numpy as np

LINK_BPS, PEAK_BPS = 10e9, 1e9
QUEUE_BYTES = 312_000
SLOTS = 8
"""VMs of a host."""
PACKET_BYTES = 1_500
TENANTS = 1_000_000


def refused(mean_vms: float, mean_burst_bytes: float) -> float:
    """The share of tenants whose bursts no queue can hold, %."""
    draw = np.random.default_rng(1)
    vms = np.maximum(2, draw.exponential(mean_vms, TENANTS).round())
    burst = np.maximum(PACKET_BYTES, draw.exponential(mean_burst_bytes, TENANTS))
    waits = burst * np.maximum(vms - SLOTS - LINK_BPS / PEAK_BPS, 0)
    return 100 * float((waits > QUEUE_BYTES).mean())


def main() -> None:
    """A line for each mean number of VMs."""
    for mean_vms in (10, 20, 49):
        shares = (f"{refused(mean_vms, kb * 1_000):.1f} % ({kb} KB)" for kb in (5, 15, 25))
        print(f"mean of {mean_vms} VMs: {', '.join(shares)} of class A are refused at least")


if __name__ == "__main__":
    main()
