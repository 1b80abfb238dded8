"""Durations and rates as people write them."""

from __future__ import annotations

import re

from ebb_topologies.errors import InputError

UNITS_NS = {
    "ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9,
}  # fmt: skip
LONGEST_NS = 366 * 86_400 * 10**9
RATES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def duration_ns(text: str) -> int:
    """`100ms`, `5us`, `1.5s`, `5min`. Raises `InputError`."""
    match = re.fullmatch(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s?(ns|us|ms|s|min|h)", text)
    if not match:
        raise InputError(
            f"'{text}' is no duration; expected a number above 0 with ns, us, ms, s, min or h, "
            "as 100ms"
        )
    found = round(float(match[1]) * UNITS_NS[match[2]])
    if not 0 < found <= LONGEST_NS:
        raise InputError(f"'{text}' is no duration here; expected more than 0 and at most a year")
    return found


def rate_bps(text: str) -> float:
    """`1G`, `100M`, `2.5e9`: bit/s. Raises `InputError`."""
    match = re.fullmatch(r"([0-9.]+(?:e[0-9]{1,2})?)\s?([kMGT]?)(?:bit/s|bps)?", text)
    try:
        found = float(match[1]) * RATES[match[2]] if match else 0.0
    except ValueError:
        found = 0.0
    if not 0 < found < 1e18:
        raise InputError(f"'{text}' is no rate; expected bit/s above 0, as 100M or 1e9")
    return found


def share(text: str) -> float:
    """A number between 0 and 1, neither of them. Raises `InputError`."""
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0 < found < 1:
        raise InputError(f"'{text}' is no share; expected a number between 0 and 1, as 0.01")
    return found


def shown_duration(ns: float) -> str:
    """In the largest unit of which it has one."""
    for unit, size in reversed(UNITS_NS.items()):
        if ns >= size:
            return f"{ns / size:g} {unit}"
    return f"{ns:g} ns"


def shown_rate(bps: float) -> str:
    """Four digits and a unit."""
    for prefix, size in reversed(RATES.items()):
        if abs(bps) >= size:
            return f"{bps / size:.4g} {prefix}bit/s"
    return f"{bps:.4g} bit/s"
