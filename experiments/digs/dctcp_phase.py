"""Two DCTCP flows through one port, as a small model that shares nothing with Ebb's programs: does
a port without any randomness keep them at unequal rates?

`.venv/bin/python experiments/digs/dctcp_phase.py` prints the rates of both, with and without a
random delay of up to `jitter_ns` at each packet's way to the port."""

from __future__ import annotations

import heapq
import random
from dataclasses import dataclass, field

PACKET_NS = 12_304
"""Time of a full packet on a link of 1 Gbit/s: 1538 bytes with preamble and gap."""
PAYLOAD_BITS = 1460 * 8
GAIN = 1 / 16
MOST_PACKETS = 1256
"""Largest window."""


@dataclass
class Sender:
    """One flow: RFC 8257, with a window of whole packets and RFC 5681's growth by bytes counted."""

    window: float = 10
    """Packets."""
    threshold: float = MOST_PACKETS
    """Slow start threshold, packets."""
    credit: int = 0
    """Packets acknowledged towards the next one of the window, where it grows by whole packets."""
    unacknowledged: int = 0
    """Packets that are acknowledged: all up to this number."""
    next: int = 0
    """Number of the packet that was sent last."""
    alpha: float = 1.0
    """RFC 8257's estimate of the marked fraction."""
    observed_until: int = 0
    """Packet with whose acknowledgment the present window of observation ends."""
    acked: int = 0
    """Packets acknowledged in that window."""
    marked: int = 0
    """Those of them with an echo of CE."""
    reduced_until: int = 0
    """Packet until whose acknowledgment the window is not reduced again."""
    free_at_ns: int = 0
    """Time at which the sender's link has sent all packets so far."""
    # the receiver's side: RFC 8257 3.2
    received: int = 0
    """Number of the packet that arrived last."""
    held: int = 0
    """Packets that are not acknowledged yet."""
    echo: bool = False
    """Whether the last packet was marked."""
    arrived: int = 0
    """Packets since the last sample."""

    def on_ack(self, upto: int, echo: bool, whole: bool) -> None:
        """An acknowledgment of all packets up to `upto`."""
        count = upto - self.unacknowledged
        limited = self.next - self.unacknowledged >= int(self.window)
        self.unacknowledged = upto
        self.acked += count
        self.marked += count if echo else 0
        if upto > self.observed_until:
            self.alpha += GAIN * (self.marked / self.acked - self.alpha)
            self.observed_until, self.acked, self.marked = self.next, 0, 0
        if echo and upto > self.reduced_until:
            self.window = self.threshold = max(2.0, self.window * (1 - self.alpha / 2))
            self.reduced_until, self.credit = self.next, 0
        elif not echo and limited and self.window < MOST_PACKETS:
            self.grow(count, whole)

    def grow(self, count: int, whole: bool) -> None:
        """Slow start, then a packet a round trip: at once if `whole`, else bit by bit."""
        if self.window < self.threshold:
            self.window += min(count, 2)
        elif not whole:
            self.window += count / self.window
        else:
            self.credit += count
            if self.credit >= self.window:
                self.credit -= int(self.window)
                self.window += 1


@dataclass(order=True)
class Event:
    """An event at an instant; those of one instant happen in the order of their plans."""

    at_ns: int
    order: int
    what: str = field(compare=False)
    """Kind: `send`, `arrive` and `leave` (at the port), `receive`, `ack`, `sample`."""
    flow: int = field(compare=False)
    number: int = field(compare=False, default=0)
    """Packet, or the last one that an acknowledgment is for."""
    flag: bool = field(compare=False, default=False)
    """Whether the packet is marked, or the acknowledgment echoes a mark."""


@dataclass
class Port:
    """Two senders, a port that marks, and their receiver."""

    threshold_packets: int = 20
    """A packet that makes the queue longer than this is marked."""
    ack_every: int = 2
    jitter_ns: int = 0
    whole: bool = True
    """Whether windows grow by whole packets."""
    round_trip_ns: int = 40_000
    """Round-trip time of the links alone."""
    second_at_ns: int = 200_000_000
    """Start of the second flow; the first starts at 0."""
    seed: int = 1
    events: list[Event] = field(default_factory=list)
    planned: int = 0
    """Events planned so far, which orders those of one instant."""
    queue: list[tuple[int, int, bool]] = field(default_factory=list)
    """Flow, number and mark of each packet; the first is on the link."""

    def plan(self, at_ns: int, what: str, flow: int, number: int = 0, flag: bool = False) -> None:
        """Puts an event into the calendar."""
        self.planned += 1
        heapq.heappush(self.events, Event(at_ns, self.planned, what, flow, number, flag))

    def run(self, seconds: float, sample_ns: int = 20_000_000) -> list[tuple[float, float]]:
        """Rates of both flows in Mbit/s, one pair for each sample from 0.1 s after the second
        flow's start on."""
        draw = random.Random(self.seed)
        flows = (Sender(), Sender())
        one_way = self.round_trip_ns // 4
        end_ns = self.second_at_ns + int(seconds * 1e9)
        self.plan(0, "send", 0)
        self.plan(self.second_at_ns, "send", 1)
        self.plan(sample_ns, "sample", 0)
        rates = []
        while self.events[0].at_ns <= end_ns:
            event = heapq.heappop(self.events)
            now, flow = event.at_ns, flows[event.flow]
            if event.what == "arrive":
                is_marked = len(self.queue) + 1 > self.threshold_packets
                self.queue.append((event.flow, event.number, is_marked))
                if len(self.queue) == 1:
                    self.plan(now + PACKET_NS, "leave", 0)
            elif event.what == "leave":
                self.plan(now + one_way, "receive", *self.queue.pop(0))
                if self.queue:
                    self.plan(now + PACKET_NS, "leave", 0)
            elif event.what == "receive":
                self.receive(now, event, flow)
            elif event.what == "ack" and event.number > flow.unacknowledged:
                flow.on_ack(event.number, event.flag, self.whole)
            elif event.what == "sample":
                if now > self.second_at_ns + 100_000_000:
                    pair = [each.arrived * PAYLOAD_BITS * 1e3 / sample_ns for each in flows]
                    rates.append((pair[0], pair[1]))
                for each in flows:
                    each.arrived = 0
                self.plan(now + sample_ns, "sample", 0)
            if event.what in ("send", "ack"):
                while flow.next - flow.unacknowledged < int(flow.window):
                    flow.next += 1
                    flow.free_at_ns = max(now, flow.free_at_ns) + PACKET_NS
                    late = draw.randrange(self.jitter_ns) if self.jitter_ns else 0
                    self.plan(flow.free_at_ns + one_way + late, "arrive", event.flow, flow.next)
        return rates

    def receive(self, now: int, event: Event, flow: Sender) -> None:
        """A packet at the receiver: an acknowledgment for every `ack_every`, and before marks
        change."""
        back = now + self.round_trip_ns // 2
        flow.arrived += 1
        if event.flag != flow.echo:
            if flow.held:
                self.plan(back, "ack", event.flow, flow.received, flow.echo)
            flow.held, flow.echo = 0, event.flag
        flow.received = event.number
        flow.held += 1
        if flow.held >= self.ack_every:
            self.plan(back, "ack", event.flow, flow.received, flow.echo)
            flow.held = 0


def jain(rates: list[tuple[float, float]]) -> float:
    """Jain's index of the average rates: 1 if both are equal, 0.5 if one has all."""
    first, second = (sum(pair[i] for pair in rates) for i in (0, 1))
    return (first + second) ** 2 / (2 * (first**2 + second**2))


def main() -> None:
    """A row for each threshold and jitter."""
    print("threshold  ack every  windows  jitter   rates (Mbit/s)  Jain")
    for threshold in (19, 20, 21, 22, 30):
        for ack_every, whole, jitter in ((2, True, 0), (1, True, 0), (2, False, 0), (2, True, 100)):
            rates = Port(threshold, ack_every, jitter, whole).run(2.0)
            first, second = (sum(pair[i] for pair in rates) / len(rates) for i in (0, 1))
            print(
                f"{threshold:9}  {ack_every:9}  {'whole' if whole else 'parts':7}  {jitter:3} ns"
                f"   {first:5.0f} {second:8.0f}  {jain(rates):.3f}"
            )


if __name__ == "__main__":
    main()
