"""How many messages are late that a VM sends within its guarantees (Moncaster section 5.2.1).

Messages of M bytes come as a Poisson process whose average rate is B. The VM is guaranteed r B and
a burst of b messages. A message is late if it does not find all its tokens when it comes. That is
an M/D/1 queue with load 1/r, in which a message may wait until b - 1 others have been served.
"""

from __future__ import annotations

import numpy as np


def simulated_late_share(
    overprovisioning: float, burst_messages: int, messages: int, rng: np.random.Generator
) -> float:
    """The share of messages that are late, over a run of this many, whose token bucket is full at
    first. `overprovisioning`: r; `burst_messages`: b."""
    gaps = rng.exponential(1.0, messages)
    gaps[0] = 0.0
    # Tokens that are missing, in messages: each takes one, and time gives r of them per mean gap.
    change = 1.0 - overprovisioning * gaps
    sums = np.cumsum(change)
    lowest = np.minimum.accumulate(np.concatenate(([0.0], sums - 1.0)))[1:]
    missing = sums - lowest  # after the message has taken its token
    return float(np.mean(missing > burst_messages + 1e-9))
