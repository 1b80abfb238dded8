"""Traffic volume per time bin, and its computation from packets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from ebb_topologies.errors import InputError
from numpy.typing import NDArray

from ebb_volume.notes import Notes
from ebb_volume.packets import Integers

MAX_BINS = 1 << 24
"""Bins of all series together, 16 bytes each: a capture whose clock jumps by decades, or bins of a
microsecond over a day, would need more memory than there is."""
MOST_BYTES = 2**53
"""No bin has as many; sums of bins stay within 63 bits."""
SECOND_NS = 10**9
Numbers = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Name:
    """Quantity of a series."""

    point: str
    """Place of the measurement: a capture, a link or a port."""
    kind: str = "all"
    """Class of traffic; `all`: not divided into classes."""

    def __str__(self) -> str:
        return self.point if self.kind == "all" else f"{self.point} {self.kind}"


@dataclass(frozen=True, slots=True)
class Series:
    """Volume of consecutive bins: bin i begins at start_ns + i slot_ns."""

    name: Name
    start_ns: int
    """Since 1970."""
    slot_ns: int
    bytes: Integers
    packets: Integers

    def __len__(self) -> int:
        return len(self.bytes)

    @property
    def rate_bps(self) -> Numbers:
        """Mean rate in each bin, bit/s."""
        rates: Numbers = self.bytes.astype(np.float64) * (8 * SECOND_NS / self.slot_ns)
        return rates

    @property
    def time_s(self) -> Numbers:
        """Beginning of each bin, in seconds from the first."""
        times: Numbers = np.arange(len(self), dtype=np.float64) * (self.slot_ns / SECOND_NS)
        return times

    def part(self, begin: int, end: int) -> Series:
        """Bins from `begin` to before `end`."""
        start_ns = self.start_ns + begin * self.slot_ns
        return replace(
            self, start_ns=start_ns, bytes=self.bytes[begin:end], packets=self.packets[begin:end]
        )

    def inner(self) -> Series:
        """Without the first and the last bin, which a capture covers only in part."""
        return self.part(1, len(self) - 1) if len(self) > 2 else self

    def joined(self, slot_ns: int) -> Series:
        """In longer bins; those at the ends that would not be whole are left out. Raises
        `InputError` for bins that are no multiple of these."""
        count, rest = divmod(slot_ns, self.slot_ns)
        if rest or not count:
            raise InputError(
                f"bins of {slot_ns} ns cannot be made of bins of {self.slot_ns} ns: a multiple of "
                "these is expected"
            )
        skipped = -(self.start_ns // self.slot_ns) % count
        whole = max(len(self) - skipped, 0) // count
        used = slice(skipped, skipped + whole * count)
        return replace(
            self, start_ns=self.start_ns + skipped * self.slot_ns, slot_ns=slot_ns,
            bytes=self.bytes[used].reshape(whole, count).sum(axis=1),
            packets=self.packets[used].reshape(whole, count).sum(axis=1),
        )  # fmt: skip


class Binner:
    """Adds up packets, in whatever order they come, in bins that begin at multiples of their
    length since 1970."""

    def __init__(
        self, slot_ns: int, notes: Notes, max_bins: int = MAX_BINS, offset_ns: int = 0
    ) -> None:
        """`offset_ns`: how much later than at multiples of their length the bins begin. Raises
        `InputError`."""
        if slot_ns <= 0:
            raise InputError(f"a bin has to be longer than 0, not {slot_ns} ns")
        self.slot_ns, self._notes, self._max_bins = slot_ns, notes, max_bins
        self._offset_ns = offset_ns
        self._cells: dict[Name, _Cells] = {}
        self._span: tuple[int, int] | None = None
        """First and last slot of any series."""
        self._latest_ns: dict[int, int] = {}
        """Time of the last packet by interface: each has a clock of its own."""
        self.left_out = 0
        """Packets that are in no bin, since their time is too far from the others'."""

    def add(
        self, name: Name, time_ns: Integers, size_bytes: Integers, packets: Integers | None = None
    ) -> None:
        """Packets, or events that stand for this many packets; none: for one each."""
        if not len(time_ns):
            return
        slots = (time_ns - self._offset_ns) // self.slot_ns
        if self._span is None:
            # A median, since the first time stamp may be the one that is wrong.
            middle = int(np.median(slots))
            self._span = (middle, middle)
        series = len(self._cells) + (name not in self._cells)
        most = max(self._max_bins // series, 1)
        near = (slots > self._span[1] - most) & (slots < self._span[0] + most)
        if near.any():
            low, high = int(slots[near].min()), int(slots[near].max())
            span = min(low, self._span[0]), max(high, self._span[1])
            if span[1] - span[0] < most:
                self._span = span
            else:  # on either side
                near &= False
        if not near.all():
            self._leave_out(int(len(slots) - near.sum()), series)
            slots, size_bytes = slots[near], size_bytes[near]
            packets = None if packets is None else packets[near]
        if len(slots):
            self._cells.setdefault(name, _Cells()).add(slots, size_bytes, packets)

    def clock(self, time_ns: Integers, where: str, interface: int = 0) -> None:
        """Notes whether the clock went back between consecutive packets of an interface."""
        if not len(time_ns):
            return
        before = self._latest_ns.get(interface, int(time_ns[0]))
        times = np.concatenate(([before], time_ns))
        back = int((times[:-1] - times[1:]).max())
        if back > max(self.slot_ns, SECOND_NS):
            self._notes.add(
                f"{where}: the clock steps back, by {back / 1e9:.3f} s at once; packets are in "
                "the bins of their own time stamps"
            )
        self._latest_ns[interface] = int(time_ns[-1])

    def _leave_out(self, count: int, series: int) -> None:
        self.left_out += count
        self._notes.add(
            f"packets whose time is too far from the others' are left out: {series} series have "
            f"{self._max_bins // series} bins of {self.slot_ns} ns each at most; the clock was "
            "wrong, or take longer bins"
        )

    def series(self) -> list[Series]:
        """All series, over the same bins: from the first of any to the last of any."""
        if not self._cells:
            return []
        spans = [cells.span for cells in self._cells.values() if cells.span]
        if not spans:
            return []
        first, last = min(span[0] for span in spans), max(span[1] for span in spans)
        found = []
        for name, cells in self._cells.items():
            size_bytes, packets = cells.between(first, last)
            start_ns = first * self.slot_ns + self._offset_ns
            found.append(Series(name, start_ns, self.slot_ns, size_bytes, packets))
        return sorted(found, key=lambda series: (series.name.point, series.name.kind))


class _Cells:
    """Bytes and packets by slot; the arrays grow at both ends."""

    def __init__(self) -> None:
        self._base = 0
        self._sums = np.zeros((2, 0), np.int64)
        self.span: tuple[int, int] | None = None
        """First and last slot with a packet; none: there is none."""

    def add(self, slots: Integers, size_bytes: Integers, packets: Integers | None) -> None:
        low, high = int(slots.min()), int(slots.max())
        self._reach(low, high)
        place = slots - self._base
        if high - low < 4 * len(slots) + 1024:
            # Sums in float64 are exact: a piece has less than 2^53 bytes.
            first, length = low - self._base, high - low + 1
            window = slice(first, first + length)
            for row, weights in enumerate((size_bytes, packets)):
                sums = np.bincount(place - first, weights=weights, minlength=length)
                self._sums[row, window] += sums.astype(np.int64)
        else:
            np.add.at(self._sums[0], place, size_bytes)
            np.add.at(self._sums[1], place, 1 if packets is None else packets)

    def _reach(self, low: int, high: int) -> None:
        if self.span is None:
            self._base, self.span = low, (low, high)
        first, last = self.span
        self.span = (min(first, low), max(last, high))
        length = self._sums.shape[1]
        if self._base <= low and high < self._base + length:
            return
        margin = (self.span[1] - self.span[0] + 1) // 2
        before = margin if low < self._base else 0
        base = min(self._base, low) - before
        end = max(self._base + length, high + 1 + (margin if high >= self._base + length else 0))
        sums = np.zeros((2, end - base), np.int64)
        sums[:, self._base - base : self._base - base + length] = self._sums
        self._base, self._sums = base, sums

    def between(self, first: int, last: int) -> tuple[Integers, Integers]:
        """Bytes and packets of the slots from `first` to `last`."""
        sums = np.zeros((2, last - first + 1), np.int64)
        if self.span:
            low, high = self.span
            inside = self._sums[:, low - self._base : high + 1 - self._base]
            sums[:, low - first : high + 1 - first] = inside
        return sums[0], sums[1]
