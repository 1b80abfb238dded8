# SPDX-License-Identifier: Apache-2.0
"""Why the P4 program drops a packet: the enum of p4src/include/drop_reason.p4, read from that file.

P4Info has no place for it: the index of a counter has no type in v1model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.resources import files

FILE = "drop_reason.p4"
"""Beside this module: a link to the file in p4src, in an installed package a copy."""


def parse(source: str) -> dict[str, int]:
    """Numbers of the reasons in P4 source, by the names that results and messages give them:
    `NO_ROUTE` of the enum is `no-route`."""
    body = re.search(r"^enum bit<8> DropReason \{(.*?)^\}", source, re.MULTILINE | re.DOTALL)
    found = {} if body is None else dict(re.findall(r"^ *(\w+) *= *(\d+)", body[1], re.MULTILINE))
    if not found:
        raise ValueError(f"{FILE} has no `enum bit<8> DropReason {{` with lines `NAME = number`")
    return {name.lower().replace("_", "-"): int(number) for name, number in found.items()}


REASONS: Mapping[str, int] = parse((files(__package__) / FILE).read_text())
"""Indices into the counter of drops, by reason."""

_NAMES = {number: name for name, number in REASONS.items()}


def reason(index: int) -> str:
    """The reason of an index; a program of one's own may have more reasons than these."""
    return _NAMES.get(index, f"reason-{index}")


def named(*reasons: str) -> tuple[str, ...]:
    """These reasons, which the program must have. Raises `ValueError` for another."""
    for each in reasons:
        if each not in REASONS:
            raise ValueError(f"no drop reason '{each}' in {FILE}; there are {', '.join(REASONS)}")
    return reasons
