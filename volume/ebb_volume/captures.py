"""pcap (draft-ietf-opsawg-pcap) and pcapng (draft-ietf-opsawg-pcapng): packets as columns.

Only the lengths are read record by record, since each gives the place of the next one; all other
fields are read for all records of a piece at once. A piece is a megabyte, so that
memory does not grow with the file; a record longer than a megabyte is damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ebb_volume.notes import Damaged, Notes
from ebb_volume.packets import Integers, Octets, Packets, windows

MAX_FRAME_BYTES = 1 << 20
"""Longest plausible frame, twice the longest of BIG TCP."""
MAX_BLOCK_BYTES = 16 << 20
"""Longest plausible block of a pcapng file."""
MAX_INTERFACES = 4096
PCAP_MAGICS = {
    0xA1B2C3D4: (1_000, 16),
    0xA1B23C4D: (1, 16),
    0xA1B2CD34: (1_000, 24),
}
"""By magic number: ns per unit of the fraction of a second, and bytes of a record's header (the
third is Kuznetsov's variant)."""
SECTION, INTERFACE, PACKET, SIMPLE, ENHANCED = 0x0A0D0D0A, 1, 2, 3, 6
NG_MAGIC = SECTION.to_bytes(4, "big")
LITTLE = 0x1A2B3C4D
TSRESOL, TSOFFSET = 9, 14
"""Options of an interface: unit of its time stamps, and seconds to add to them."""
SECOND_NS = 10**9
LATEST_S = 2**33
"""Latest Unix time of a packet, exclusive: the year 2242."""


def is_capture(head: bytes) -> bool:
    """Whether a file that begins with these bytes is a capture."""
    return head[:4] == NG_MAGIC or _order(head[:4]) is not None


def packets(path: Path, pieces: Iterable[bytes], notes: Notes) -> Iterator[Packets]:
    """Packets of a capture. Damage is noted; reading ends where no later record can be found."""
    buffer = _Buffer(pieces)
    try:
        if buffer.more(4) and bytes(buffer.data[:4]) == NG_MAGIC:
            yield from _Pcapng(path, buffer, notes).packets()
        else:
            yield from _Pcap(path, buffer, notes).packets()
    except Damaged as damaged:
        notes.add(str(damaged))


class _Buffer:
    """Bytes that have been read and are not parsed yet."""

    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = iter(pieces)
        self.data = b""
        self.offset = 0
        """Place of `data` in the (decompressed) file."""

    def more(self, length: int = 0) -> bool:
        """Reads pieces, at least one, until there are `length` bytes; whether it has read one and
        there are."""
        parts, total = [self.data], len(self.data)
        while total < length or len(parts) == 1:
            piece = next(self._pieces, None)
            if piece is None:
                break
            parts.append(piece)
            total += len(piece)
        self.data = b"".join(parts)
        return total >= length and len(parts) > 1

    def drop(self, length: int) -> None:
        self.data = self.data[length:]
        self.offset += length


class _Pcap:
    """Reader of a pcap file."""

    def __init__(self, path: Path, buffer: _Buffer, notes: Notes) -> None:
        self._path, self._buffer, self._notes = path, buffer, notes

    def packets(self) -> Iterator[Packets]:
        buffer = self._buffer
        if len(buffer.data) < 24 and not buffer.more(24):
            _raise_short(self._path, buffer.data)
        order = _order(buffer.data[:4])
        if order is None:
            raise Damaged(f"{self._path}: is no capture: it begins with {buffer.data[:4].hex(' ')}")
        magic, *_versions, network = struct.unpack_from(f"{order}IHHiIII", buffer.data)
        unit_ns, header = PCAP_MAGICS[magic]
        buffer.drop(24)
        while True:
            starts, end = self._walk(order, header)
            if len(starts):
                yield from self._columns(starts, order, header, unit_ns, network & 0xFFFF)
            buffer.drop(end)
            if not end and not buffer.more():
                break
        if buffer.data:
            self._notes.add(
                f"{self._path}: ends within a packet, {len(buffer.data)} bytes after byte "
                f"{buffer.offset}; those before it are used"
            )

    def _walk(self, order: str, header: int) -> tuple[Integers, int]:
        """Offsets of the whole records in the buffer, and the end of the last."""
        data, here = self._buffer.data, 0
        starts: list[int] = []
        last = len(data) - header
        length_at = struct.Struct(f"{order}8xI").unpack_from
        append = starts.append
        while here <= last:
            after = here + header + length_at(data, here)[0]
            if after > last + header:
                if after - here > MAX_FRAME_BYTES:
                    self._refuse_length(after - here - header, here, starts)
                break
            append(here)
            here = after
        return np.array(starts, np.int64), here

    def _refuse_length(self, length: int, here: int, starts: list[int]) -> None:
        """Raises `Damaged` for an impossible length, unless there are records before it, which are
        returned first."""
        if starts:
            return
        raise Damaged(
            f"{self._path}: the packet at byte {self._buffer.offset + here} has {length} bytes, "
            f"and none has more than {MAX_FRAME_BYTES}: the file is damaged; the packets before it "
            "are used"
        )

    def _columns(
        self, starts: Integers, order: str, header: int, unit_ns: int, link_type: int
    ) -> Iterator[Packets]:
        data = np.frombuffer(self._buffer.data, np.uint8)
        seconds, fraction, kept, wire = _words(data, starts, 4, order).T
        time_ns, wire = seconds * SECOND_NS + fraction * unit_ns, np.maximum(wire, kept)
        good = (fraction < SECOND_NS // unit_ns) & (wire <= MAX_FRAME_BYTES)
        yield from _good(
            Packets(time_ns, wire, data, starts + header, kept, link_type),
            good, self._path, self._notes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Interface:
    link_type: int
    per_second: int
    """Units of its time stamps in a second."""
    offset_s: int

    def time_ns(self, ticks: NDArray[np.uint64]) -> tuple[Integers, NDArray[np.bool_]]:
        """Times, and whether each is possible."""
        per_second = np.uint64(self.per_second)
        seconds, rest = ticks // per_second, ticks % per_second
        if self.per_second <= SECOND_NS and SECOND_NS % self.per_second == 0:
            fraction = rest.astype(np.int64) * (SECOND_NS // self.per_second)
        else:
            fraction = (rest.astype(np.float64) * (SECOND_NS / self.per_second)).astype(np.int64)
        whole = np.minimum(seconds, np.uint64(LATEST_S)).astype(np.int64) + self.offset_s
        good = (whole >= 0) & (whole < LATEST_S)
        return np.where(good, whole, 0) * SECOND_NS + fraction, good


class _Pcapng:
    """Reader of a pcapng file: blocks of packets, interfaces and sections."""

    def __init__(self, path: Path, buffer: _Buffer, notes: Notes) -> None:
        self._path, self._buffer, self._notes = path, buffer, notes
        self._order = "<"
        self._interfaces: list[_Interface] = []

    def packets(self) -> Iterator[Packets]:
        buffer = self._buffer
        while True:
            here = 0
            while True:
                starts, here, other = self._walk(here)
                if len(starts):
                    yield from self._columns(starts)
                if other is None:
                    break
                here += self._other(other, here)
            buffer.drop(here)
            if not here and not buffer.more():
                break
        if buffer.data:
            self._notes.add(
                f"{self._path}: ends within a block, {len(buffer.data)} bytes after byte "
                f"{buffer.offset}; those before it are used"
            )

    def _walk(self, here: int) -> tuple[Integers, int, int | None]:
        """Offsets of packets up to a complete block of another type or the end of the buffer; the
        offset of that, and the type of the block."""
        data = self._buffer.data
        starts: list[int] = []
        last = len(data) - 12
        head_at = struct.Struct(f"{self._order}II").unpack_from
        append = starts.append
        kind: int | None = None
        while here <= last:
            kind, length = head_at(data, here)
            if kind == SECTION:
                order = ">" if data[here + 8 : here + 12] == LITTLE.to_bytes(4, "big") else "<"
                (length,) = struct.unpack_from(f"{order}4xI", data, here)
            if length < 12 or length % 4 or length > MAX_BLOCK_BYTES:
                if not starts:
                    self._refuse_length(length, here)
                break
            if here + length > len(data):
                break
            if kind != ENHANCED or length < 32:
                return np.array(starts, np.int64), here, kind
            append(here)
            here += length
        return np.array(starts, np.int64), here, None

    def _refuse_length(self, length: int, here: int) -> None:
        raise Damaged(
            f"{self._path}: the block at byte {self._buffer.offset + here} has {length} bytes; "
            f"blocks have 12 to {MAX_BLOCK_BYTES}, a multiple of 4: the file is damaged; the "
            "packets before it are used"
        )

    def _other(self, kind: int, here: int) -> int:
        """Parses or skips a block that is no packet; returns its length."""
        data = self._buffer.data
        if kind == SECTION:
            self._section(here)
        (length,) = struct.unpack_from(f"{self._order}4xI", data, here)
        if kind == INTERFACE:
            self._interfaces.append(self._interface(data[here : here + length]))
            if len(self._interfaces) > MAX_INTERFACES:
                raise Damaged(f"{self._path}: has more than {MAX_INTERFACES} interfaces")
        if kind in (SIMPLE, PACKET):
            self._notes.add(
                f"{self._path}: has packet blocks "
                + ("without time stamps" if kind == SIMPLE else "of the obsolete type 2")
                + ", which are left out"
            )
        return int(length)

    def _section(self, here: int) -> None:
        magic = self._buffer.data[here + 8 : here + 12]
        if int.from_bytes(magic, "little") == LITTLE:
            self._order = "<"
        elif int.from_bytes(magic, "big") == LITTLE:
            self._order = ">"
        else:
            raise Damaged(
                f"{self._path}: the section at byte {self._buffer.offset + here} has no byte-order "
                f"magic, but {magic.hex(' ')}"
            )
        self._interfaces = []

    def _interface(self, block: bytes) -> _Interface:
        if len(block) < 20:
            raise Damaged(f"{self._path}: an interface block of {len(block)} bytes; 20 are needed")
        (link_type,) = struct.unpack_from(f"{self._order}H", block, 8)
        per_second, offset_s, here = 10**6, 0, 16
        while here + 4 <= len(block) - 4:
            code, length = struct.unpack_from(f"{self._order}HH", block, here)
            value = block[here + 4 : here + 4 + length]
            if code == TSRESOL and len(value) == 1:
                per_second = _per_second(value[0], self._path)
            if code == TSOFFSET and len(value) == 8:
                (offset_s,) = struct.unpack(f"{self._order}q", value)
            if code == 0:
                break
            here += 4 + (length + 3 & ~3)
        if abs(offset_s) > LATEST_S:
            raise Damaged(f"{self._path}: an interface whose time stamps are off by {offset_s} s")
        return _Interface(link_type, per_second, offset_s)

    def _columns(self, starts: Integers) -> Iterator[Packets]:
        data = np.frombuffer(self._buffer.data, np.uint8)
        _type, length, interface, high, low, kept, wire = _words(data, starts, 7, self._order).T
        ticks = (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)
        room = kept <= length - 32
        if not room.all():
            self._notes.add(f"{self._path}: packets that are longer than their block are left out")
        known = interface < len(self._interfaces)
        if not known.all():
            self._notes.add(f"{self._path}: packets of interfaces it does not have are left out")
        for number in np.unique(interface[known & room]).tolist():
            at = np.flatnonzero(known & room & (interface == number))
            time_ns, good = self._interfaces[number].time_ns(ticks[at])
            link_type = self._interfaces[number].link_type
            wire_bytes = np.maximum(wire, kept)[at]
            found = Packets(
                time_ns, wire_bytes, data, starts[at] + 28, kept[at], link_type, int(number)
            )
            yield from _good(found, good & (wire_bytes <= MAX_FRAME_BYTES), self._path, self._notes)


def _per_second(value: int, path: Path) -> int:
    exponent = value & 0x7F
    per_second = 2**exponent if value & 0x80 else 10**exponent
    if per_second >= 2**63:
        raise Damaged(f"{path}: an interface has time stamps of 1/{per_second} s; no clock has")
    return int(per_second)


def _words(data: Octets, starts: Integers, count: int, order: str) -> Integers:
    """32-bit words at each offset, a row each."""
    octets = windows(data, starts, 4 * count)
    words: Integers = octets.view(f"{order}u4").astype(np.int64)
    return words


def _good(found: Packets, good: NDArray[np.bool_], path: Path, notes: Notes) -> Iterator[Packets]:
    """Those packets whose time and length are possible."""
    if good.all():
        yield found
        return
    notes.add(f"{path}: packets with an impossible time or length are left out")
    at = np.flatnonzero(good)
    if len(at):
        yield Packets(
            found.time_ns[at], found.wire_bytes[at], found.data, found.begin[at],
            found.kept_bytes[at], found.link_type, found.interface,
        )  # fmt: skip


def _order(magic: bytes) -> str | None:
    """Byte order of a pcap file with this magic number, as in `struct`; none: no pcap file."""
    for order, name in (("<", "little"), (">", "big")):
        if int.from_bytes(magic, name) in PCAP_MAGICS:  # type: ignore[arg-type]
            return order
    return None


def _raise_short(path: Path, data: bytes) -> None:
    if not data:
        raise Damaged(f"{path}: is empty")
    raise Damaged(f"{path}: has {len(data)} bytes; the header of a capture has 24")
