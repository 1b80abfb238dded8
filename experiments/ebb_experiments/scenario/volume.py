"""The length of the time slots of traffic volume, as a command line has it."""

from __future__ import annotations

import math

from ebb_topologies.errors import InputError

VOLUME_HELP = "count what leaves each port in time slots of so many nominal ms, into table volume"


def volume_slot_ns(text: str) -> int:
    """Nominal ns of a slot, from ms. Raises `InputError`."""
    from ebb_experiments.scenario.faults import MAX_TIME_NS

    try:
        slot_ns = float(text) * 1e6
    except ValueError:
        slot_ns = math.nan
    if not 1 <= slot_ns <= MAX_TIME_NS:
        raise InputError(
            f"VOLUME must be the length of a time slot in ms, up to {MAX_TIME_NS / 1e6:g}, "
            f"not '{text}'"
        )
    return round(slot_ns)
