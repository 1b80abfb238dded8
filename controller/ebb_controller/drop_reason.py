# SPDX-License-Identifier: Apache-2.0
"""The reasons of p4src/include/drop_reason.p4; tests/test_drop_reason.py compares the two."""

from enum import IntEnum


class DropReason(IntEnum):
    """Index into the counter `dropped`."""

    NONE = 0
    TRUNCATED = 1
    IPV4_VERSION = 2
    IPV4_HEADER_LENGTH = 3
    IPV4_TOTAL_LENGTH = 4
    IPV4_CHECKSUM = 5
    TTL_EXPIRED = 6
    EBB_VERSION = 7
    UNKNOWN_ETHERTYPE = 8
    NO_ROUTE = 9
    ROUTE_DROP = 10
    ARP_UNANSWERED = 11
    NOT_TRIMMABLE = 12
    REPLICA_TO_SOURCE = 13
    RETURN_REFUSED = 14


def reason(index: int) -> str:
    """As results and messages call it; also of a program with more reasons than these."""
    known = {each.value: each.name.lower().replace("_", "-") for each in DropReason}
    return known.get(index, f"reason-{index}")
