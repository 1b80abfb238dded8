"""Header fields of all packets at once: IP length, protocol, DSCP, addresses.

Behind the link header up to four VLAN tags (802.1Q, 802.1ad) and eight MPLS labels are passed over.
The first IP header counts: that of a tunnel, not of what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

import numpy as np
from ebb_topologies.errors import InputError
from numpy.typing import NDArray

from ebb_volume.packets import Integers, Octets, Packets

NULL, ETHERNET, RAW, LOOP, LINUX_COOKED, IPV4_ONLY, IPV6_ONLY, LINUX_COOKED_2 = (
    0, 1, 101, 108, 113, 228, 229, 276,
)  # fmt: skip
"""Link types in which IP headers are found."""
LINK_HEADER_BYTES = {ETHERNET: 14, LINUX_COOKED: 16, LINUX_COOKED_2: 20, NULL: 4, LOOP: 4}
TYPE_OFFSETS = {ETHERNET: 12, LINUX_COOKED: 14, LINUX_COOKED_2: 0}
"""Where the EtherType is."""
VLAN_TYPES = (0x8100, 0x88A8, 0x9100)
MPLS_TYPES = (0x8847, 0x8848)
MOST_TAGS, MOST_LABELS = 4, 8
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 47: "gre", 50: "esp", 58: "icmpv6", 132: "sctp"}
Network = IPv4Network | IPv6Network


@dataclass(frozen=True, slots=True)
class Headers:
    """A row per packet; 0 where `version` is 0."""

    version: Integers
    """4, 6, or 0: no IP header was found or kept."""
    ip_bytes: Integers
    """Total length of the IP packet."""
    protocol: Integers
    """Protocol of the IP header; in IPv6 the next header, which may be an extension."""
    dscp: Integers
    source: Octets
    """16 bytes; of an IPv4 address the first four."""
    destination: Octets


def read(packets: Packets) -> Headers:
    """IP headers of packets; columns of those without one are zero."""
    at = _ip_offset(packets)
    first = packets.octets(np.maximum(at, 0), 40)
    version = np.where(at >= 0, first[:, 0] >> 4, 0).astype(np.int64)
    kept = packets.kept_bytes - at
    four, six = (version == 4) & (kept >= 20), (version == 6) & (kept >= 40)
    byte = [first[:, column].astype(np.int64) for column in range(10)]
    traffic_class = ((byte[0] & 15) << 4) | (byte[1] >> 4)
    source, destination = first[:, 8:24].copy(), first[:, 24:40].copy()
    source[four], destination[four] = 0, 0
    source[four, :4], destination[four, :4] = first[four, 12:16], first[four, 16:20]
    return Headers(
        version=np.where(four | six, version, 0),
        ip_bytes=_either(four, six, (byte[2] << 8) | byte[3], ((byte[4] << 8) | byte[5]) + 40),
        protocol=_either(four, six, byte[9], byte[6]),
        dscp=_either(four, six, byte[1] >> 2, traffic_class >> 2),
        source=source,
        destination=destination,
    )


def _either(
    four: NDArray[np.bool_], six: NDArray[np.bool_], of_four: Integers, of_six: Integers
) -> Integers:
    return np.where(four, of_four, np.where(six, of_six, 0))


def _ip_offset(packets: Packets) -> Integers:
    """Where the IP header of each packet begins; -1: it has none that is found."""
    count, link_type = len(packets), packets.link_type
    if link_type in (RAW, IPV4_ONLY, IPV6_ONLY):
        return np.zeros(count, np.int64)
    if link_type in (NULL, LOOP):
        return np.full(count, LINK_HEADER_BYTES[link_type], np.int64)
    if link_type not in TYPE_OFFSETS:
        return np.full(count, -1, np.int64)
    at = np.full(count, LINK_HEADER_BYTES[link_type], np.int64)
    kind = packets.number(TYPE_OFFSETS[link_type], 2)
    for _ in range(MOST_TAGS):
        tagged = np.isin(kind, VLAN_TYPES)
        if not tagged.any():
            break
        kind = np.where(tagged, packets.number(at + 2, 2), kind)
        at = np.where(tagged, at + 4, at)
    more = np.isin(kind, MPLS_TYPES)
    labelled = more
    for _ in range(MOST_LABELS):
        if not more.any():
            break
        bottom = (packets.number(at + 2, 1) & 1) == 1
        at = np.where(more, at + 4, at)
        more = more & ~bottom
    return np.where(np.isin(kind, (0x0800, 0x86DD)) | (labelled & ~more), at, -1)


def protocol_name(number: int) -> str:
    """Name of an IP protocol number; -1: the packet is not IP."""
    return "not-ip" if number < 0 else PROTOCOLS.get(number, f"ip-{number}")


def network(text: str) -> Network:
    """A prefix as `10.0.0.0/8` or `2001:db8::/32`. Raises `InputError`."""
    try:
        return ip_network(text)
    except ValueError as error:
        raise InputError(f"'{text}' is no prefix: {error}; expected as 10.0.0.0/8") from error


def within(headers: Headers, addresses: Octets, prefix: Network) -> NDArray[np.bool_]:
    """Which of the addresses are in a prefix."""
    packed = prefix.network_address.packed
    mask = np.frombuffer(prefix.netmask.packed, np.uint8)
    same = (addresses[:, : len(packed)] & mask) == np.frombuffer(packed, np.uint8)
    found: NDArray[np.bool_] = same.all(axis=1) & (headers.version == prefix.version)
    return found
