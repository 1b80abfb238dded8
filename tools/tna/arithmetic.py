"""Arithmetic of the programs of p4src/tna that differs from v1model's, beside v1model's formula.

In tools/: `python -m tna.arithmetic [--sequences 100000] [--seed 1]` prints a table as Markdown.

Models of the arithmetic as both programs have it, number by number, with the widths that they have.
A sequence is one packet after another at one port, with drawn lengths and pauses.
"""

from __future__ import annotations

import argparse
import random
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from ebb_controller import tna

WORD = 2**32
PACKETS = 20
"""Packets of a sequence."""
GBPS = 125 * 2**16
"""Drain rate, in bytes per 2^16 us, of 1 Gbit/s."""


@dataclass(frozen=True)
class Packet:
    at_ns: int
    """When it leaves."""
    bytes: int
    """Length of its frame."""


# -- phantom queue --------------------------------------------------------------------------------


def phantom_v1model(packets: Sequence[Packet], drain_rate: int) -> list[float]:
    """Backlog in bytes before each packet: phantom_queue.p4 of v1model, whose clock has us."""
    return _phantom_exact(packets, drain_rate, 1000)


def phantom_ideal(packets: Sequence[Packet], drain_rate: int) -> list[float]:
    """The same formula with a clock of ns."""
    return _phantom_exact(packets, drain_rate, 1)


def _phantom_exact(packets: Sequence[Packet], drain_rate: int, tick_ns: int) -> list[float]:
    per_tick = drain_rate * tick_ns  # in 2^-16 bytes / 1000 * ns
    found, backlog, last = [], 0, 0
    for packet in packets:
        now = packet.at_ns // tick_ns
        backlog = max(0, backlog - (now - last) * per_tick)
        found.append(backlog / 65_536_000)
        backlog, last = backlog + packet.bytes * 65_536_000, now
    return found


@cache
def _drain_table(drain_rate: int) -> tuple[list[int], list[int]]:
    intervals = list(tna.intervals())
    return (
        [first for first, _mask, _length in intervals],
        [tna.drained_bytes(drain_rate, first, length) for first, _mask, length in intervals],
    )


def phantom_tna(packets: Sequence[Packet], drain_rate: int) -> list[float]:
    """Backlog in bytes before each packet: phantom_queue.p4 of TNA."""
    firsts, drained = _drain_table(drain_rate)
    found, backlog, updated, length = [], 0, 0, 0
    for packet in packets:
        now = packet.at_ns % WORD
        elapsed = (now - updated) % WORD
        delta = _signed(length - drained[bisect_right(firsts, elapsed) - 1])
        backlog = max(0, _signed(backlog + delta))
        found.append(float(backlog))
        updated, length = now, packet.bytes
    return found


def _signed(number: int) -> int:
    number %= WORD
    return number - WORD if number >= WORD // 2 else number


# -- path hash ------------------------------------------------------------------------------------


def path_v1model(flow_hash: int, entropy: int, seed: int) -> int:
    """Input of the selector's hash: upper half of the product."""
    return ((flow_hash ^ entropy) * (seed | 1) % WORD) >> 16


def path_tna(flow_hash: int, entropy: int, seed: int) -> int:
    """Input of the selector's hash: two sums with a CRC between them."""
    first = path_one_sum(flow_hash, entropy, seed)
    return (zlib.crc32(first.to_bytes(4, "big")) + seed) % WORD


def path_one_sum(flow_hash: int, entropy: int, seed: int) -> int:
    """The sum that would be shorter, and polarises."""
    return ((flow_hash ^ entropy) + seed) % WORD


def crc16(data: bytes) -> int:
    """CRC-16/ARC, CRC16 of P4."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _bit in range(8):
            crc = crc >> 1 ^ (0xA001 if crc & 1 else 0)
    return crc


PATHS = {"TNA": (path_tna, 4), "v1model": (path_v1model, 2), "a single sum": (path_one_sum, 4)}
"""Input of the selector's hash, and its length in bytes."""


def member(kind: str, flow_hash: int, entropy: int, seed: int, members: int) -> int:
    """The member that is chosen; how a selector of a chip goes from the hash to it is not
    public, so it is the remainder in all cases."""
    path, length = PATHS[kind]
    return crc16(path(flow_hash, entropy, seed).to_bytes(length, "big")) % members


# -- occupancy ------------------------------------------------------------------------------------


def occupancy_queue(packets: Sequence[Packet], rate_bps: int, limit_bytes: int) -> list[bool]:
    """Which packets occupancy.p4 of v1model refuses, before a link that sends packet by packet."""
    refused, occupied, free = [], 0, 0
    leaving: list[tuple[int, int]] = []
    for packet in packets:
        while leaving and leaving[0][0] <= packet.at_ns:
            occupied -= leaving.pop(0)[1]
        refused.append(occupied + packet.bytes > limit_bytes)
        if not refused[-1]:
            # Egress runs, and counts the packet out, when its transmission starts.
            start = max(free, packet.at_ns)
            free = start + packet.bytes * 8 * 10**9 // rate_bps
            occupied += packet.bytes
            leaving.append((start, packet.bytes))
    return refused


def occupancy_meter(packets: Sequence[Packet], rate_bps: int, limit_bytes: int) -> list[bool]:
    """Which packets a token bucket of `limit_bytes` that fills at the rate of the link refuses."""
    refused, tokens, last = [], limit_bytes * 8 * 10**9, 0
    for packet in packets:
        tokens = min(limit_bytes * 8 * 10**9, tokens + (packet.at_ns - last) * rate_bps)
        last = packet.at_ns
        refused.append(tokens < packet.bytes * 8 * 10**9)
        if not refused[-1]:
            tokens -= packet.bytes * 8 * 10**9
    return refused


# -- checksum of the Ebb header -------------------------------------------------------------------


def flags_v1model(checksum: int, flags: int, wanted: int) -> tuple[int, int]:
    added = wanted & ~flags
    total = (~checksum & 0xFFFF) + added
    return ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF, flags | wanted


TRIMMED, RETURNED = 0x04, 0x80
_FLAG_ENTRIES = (
    (TRIMMED, 0, 0x03, 0xFFFB),
    (TRIMMED, 0, 0xFFFF, 0xFFFC),
    (TRIMMED | RETURNED, 0, 0x83, 0xFF7B),
    (TRIMMED | RETURNED, 0, 0xFFFF, 0xFF7C),
    (TRIMMED | RETURNED, TRIMMED, 0x7F, 0xFF7F),
    (TRIMMED | RETURNED, TRIMMED, 0xFFFF, 0xFF80),
)
"""The entries of ebb_flags.p4 of TNA: flags wanted, TRIMMED there, highest checksum, the sum."""


def flags_tna(checksum: int, flags: int, wanted: int) -> tuple[int, int]:
    for asked, there, highest, difference in _FLAG_ENTRIES:
        if asked == wanted and there == flags & TRIMMED and checksum <= highest:
            return (checksum + difference) % 65_536, flags | wanted
    return checksum, flags


# -- comparisons ----------------------------------------------------------------------------------


def sequence(draw: random.Random, rate_bps: int) -> list[Packet]:
    """Packets of mixed lengths at one of several loads of a link, from back to back to idle."""
    at, packets = draw.randrange(10**9), []
    load = draw.choice((0.3, 0.8, 0.95, 1.0))
    full_only = draw.random() < 0.5
    for _packet in range(PACKETS):
        length = 1514 if full_only else draw.choice((60, 66, 128, 590, 1514))
        packets.append(Packet(at, length))
        sent_ns = length * 8 * 10**9 // rate_bps
        at += sent_ns if load == 1.0 else max(sent_ns, round(draw.expovariate(load / sent_ns)))
    return packets


@dataclass
class Errors:
    packets: int = 0
    largest: float = 0.0
    total: float = 0.0
    """Sum of the errors with their sign."""
    decisions: int = 0
    """Packets that only one of both marks or refuses."""

    def add(self, error: float) -> None:
        self.packets += 1
        self.total += error
        self.largest = max(self.largest, abs(error))


PHANTOM_THRESHOLD_BYTES = 1_000
"""Backlog above which HULL marks (section 6.1)."""


def phantom_errors(sequences: int, seed: int, rate_gbps: int) -> tuple[Errors, Errors]:
    """TNA and v1model against the formula with a clock of ns: bytes of backlog, and marks."""
    draw = random.Random(seed)
    drain_rate = round(rate_gbps * GBPS * 0.95)
    results = Errors(), Errors()
    for _sequence in range(sequences):
        packets = sequence(draw, rate_gbps * 10**9)
        exact = phantom_ideal(packets, drain_rate)
        for model, errors in zip((phantom_tna, phantom_v1model), results, strict=True):
            for found, ideal in zip(model(packets, drain_rate), exact, strict=True):
                errors.add(found - ideal)
                above = (found > PHANTOM_THRESHOLD_BYTES, ideal > PHANTOM_THRESHOLD_BYTES)
                errors.decisions += above[0] != above[1]
    return results


def occupancy_errors(sequences: int, seed: int) -> Errors:
    """Packets that only the queue or only the meter refuses, 12 000 bytes at 10 Gbit/s."""
    draw, errors = random.Random(seed), Errors()
    for _sequence in range(sequences):
        at, packets = 0, []
        for _packet in range(PACKETS):
            packets.append(Packet(at, draw.choice((128, 590, 1514, 1514, 1514))))
            at += draw.randrange(0, 1600)  # up to more than twice the rate of the link
        queue = occupancy_queue(packets, 10**10, 12_000)
        meter = occupancy_meter(packets, 10**10, 12_000)
        for both in zip(queue, meter, strict=True):
            errors.add(float(both[0]) - float(both[1]))
            errors.decisions += both[0] != both[1]
    return errors


@dataclass(frozen=True)
class Spread:
    most_uneven: float
    """The largest deviation of a member from an even share, as a part of that share."""
    polarised: float
    """The same of the second switch, among what the first sends to one member."""


def spread(kind: str, sequences: int, seed: int, *, per_packet: bool) -> Spread:
    """How evenly two switches with seeds of their own, one after the other, use four paths each:
    with one flow per sequence, or with the packets of one flow."""
    draw = random.Random(seed)
    seeds = [zlib.crc32(bytes([device])) | 1 for device in (1, 2)]
    pairs: Counter[tuple[int, int]] = Counter()
    flow = draw.getrandbits(32)
    for _sequence in range(sequences):
        entropy = draw.getrandbits(16) if per_packet else 0
        if not per_packet:
            flow = draw.getrandbits(32)
        pairs[
            member(kind, flow, entropy, seeds[0], 4), member(kind, flow, entropy, seeds[1], 4)
        ] += 1
    first = [sum(pairs[a, b] for b in range(4)) for a in range(4)]
    uneven = max(abs(count * 4 / sequences - 1) for count in first)
    polarised = max(
        abs(pairs[a, b] * 4 / first[a] - 1) if first[a] else 1.0 for a in range(4) for b in range(4)
    )
    return Spread(uneven, polarised)


def flag_errors() -> int:
    """Cases of checksum and flags in which the bytes differ, of all that the program meets."""
    return sum(
        flags_v1model(checksum, flags, wanted) != flags_tna(checksum, flags, wanted)
        for checksum in range(65_536)
        for flags, wanted in (
            (0, TRIMMED),
            (TRIMMED, TRIMMED),
            (0, TRIMMED | RETURNED),
            (TRIMMED, TRIMMED | RETURNED),
        )
    )


def table(sequences: int, seed: int) -> Iterator[str]:
    """The comparison as Markdown."""
    yield "| arithmetic | compared | result |"
    yield "|---|---|---|"
    for rate in (1, 10, 100):
        for name, errors in zip(
            ("TNA", "v1model"), phantom_errors(sequences, seed, rate), strict=True
        ):
            yield (
                f"| phantom queue, {rate} Gbit/s, {name} | backlog against the formula with a "
                f"clock of ns, {errors.packets} packets | mean error "
                f"{errors.total / errors.packets:+.2f} bytes, largest {errors.largest:.0f}; "
                f"{errors.decisions / errors.packets:.2%} of the marks at 1000 bytes differ |"
            )
    errors = occupancy_errors(sequences, seed)
    yield (
        f"| occupancy | packets that the meter refuses against the queue, {errors.packets} packets "
        f"| {errors.decisions / errors.packets:.2%} differ, of all packets the queue refuses "
        f"{errors.total / errors.packets:+.2%} |"
    )
    for per_packet in (False, True):
        for kind in PATHS:
            found = spread(kind, sequences, seed, per_packet=per_packet)
            what = "packets of one flow" if per_packet else "flows"
            yield (
                f"| path hash, {kind} | {sequences} {what} over 4 paths, twice | share of a path "
                f"within {found.most_uneven:.1%} of even, after a first choice within "
                f"{found.polarised:.1%} |"
            )
    yield f"| flags of Ebb | all checksums and flags | {flag_errors()} of 262144 differ |"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compares TNA's arithmetic with v1model's.")
    parser.add_argument(
        "--sequences", type=int, default=100_000, help="how many (default %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of all draws (default %(default)s)")
    options = parser.parse_args()
    for line in table(options.sequences, options.seed):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
