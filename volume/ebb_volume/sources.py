"""Files of any kind to series."""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
from ebb_topologies.errors import InputError

from ebb_volume import captures, tables
from ebb_volume.notes import Damaged, Notes
from ebb_volume.selection import Selection
from ebb_volume.series import Binner, Series
from ebb_volume.streams import PieceReader, Stream

DEFAULT_SLOT_NS = 100_000_000
"""Bins of a capture unless others are asked for: those of the thesis, 100 ms."""


@dataclass
class Loaded:
    """Series that were read, with notes."""

    series: list[Series] = field(default_factory=list)
    notes: Notes = field(default_factory=Notes)
    packets: int = 0
    """Packets of captures that were read, those left out not included."""
    read_bytes: int = 0
    """Bytes of all files that were read."""
    interrupted: bool = False
    """Whether the reading was ended early."""


Watch = Callable[[Path, int, int | None], None]
"""Called with the bytes of a file that have been read, and its length (none: not known)."""


def load(
    paths: Sequence[Path],
    slot_ns: int | None = None,
    selection: Selection | None = None,
    watch: Watch = lambda _path, _read, _of: None,
    keep_edges: bool = False,
    point: str | None = None,
) -> Loaded:
    """Reads files one after the other. `slot_ns`: none is 100 ms for packets, and that of the table
    for bins. `keep_edges`: also the first and the last bin of a capture, of which it saw a part
    only. `point`: name of all captures, as of one that was written to several files; none: each has
    that of its file, and those of the same name are one point. Raises `InputError` where nothing
    can be read; what has been read when the user interrupts is kept."""
    loaded, captured = Loaded(), dict[str, Binner]()
    for path in paths:
        if loaded.interrupted:
            break
        stream = Stream(path)
        try:
            _read(stream, slot_ns, selection or Selection(), watch, point, captured, loaded)
        finally:
            loaded.read_bytes += stream.read_bytes
            stream.close()
    found = [series for binner in captured.values() for series in binner.series()]
    loaded.series += found if keep_edges else [series.inner() for series in found]
    if not loaded.series:
        files = ", ".join(map(str, paths))
        why = "; ".join(loaded.notes) or f"{files}: no packet that counts, no row"
        raise InputError(f"there is nothing to use: {why}")
    return loaded


def _read(
    stream: Stream, slot_ns: int | None, selection: Selection, watch: Watch, point: str | None,
    captured: dict[str, Binner], loaded: Loaded,
) -> None:  # fmt: skip
    path = stream.path
    try:
        head = stream.peek(4)
    except Damaged as damaged:
        loaded.notes.add(str(damaged))
        return
    if not head:
        loaded.notes.add(f"{path}: is empty")
        return
    if captures.is_capture(head):
        name = point or _point(stream.path)
        binner = captured.setdefault(name, Binner(slot_ns or DEFAULT_SLOT_NS, loaded.notes))
        _capture(stream, name, binner, selection, watch, loaded)
        return
    loaded.series += _table(stream, head, slot_ns, watch, loaded)


def _capture(
    stream: Stream, point: str, binner: Binner, selection: Selection, watch: Watch, loaded: Loaded
) -> None:
    link_types = set()
    try:
        for packets in captures.packets(stream.path, stream, loaded.notes):
            binner.clock(packets.time_ns, str(stream.path), packets.interface)
            selection.add(binner, point, packets)
            loaded.packets += len(packets)
            link_types.add(packets.link_type)
            watch(stream.path, stream.read_bytes, stream.size_bytes)
    except KeyboardInterrupt:
        loaded.interrupted = True
        loaded.notes.add(f"{stream.path}: reading was interrupted; what was read is used")
    if len(link_types) > 1:
        names = ", ".join(map(str, sorted(link_types)))
        loaded.notes.add(
            f"{stream.path}: has interfaces of different link types ({names}), whose frames have "
            "headers of different lengths; --length ip makes them alike"
        )


def _table(
    stream: Stream, head: bytes, slot_ns: int | None, watch: Watch, loaded: Loaded
) -> list[Series]:
    reader = tables.TableReader(stream.path, loaded.notes, slot_ns or DEFAULT_SLOT_NS)
    damage: list[Damaged] = []
    try:
        if head == tables.PARQUET_MAGIC:
            reader.add(tables.parquet_batches(stream.path))
        else:
            reader.add(tables.csv_batches(stream.path, _file(stream, watch, damage)))
    except KeyboardInterrupt:
        loaded.interrupted = True
    except (InputError, Damaged) as error:
        if reader.binner is None:
            raise InputError(str(damage[0] if damage else error)) from error
        loaded.notes.add(f"{error}; the rows before it are used")
    for found_damage in damage:
        loaded.notes.add(f"{found_damage}; the rows before it are used")
    if reader.binner is None:
        return []
    found = reader.binner.series()
    if slot_ns and slot_ns != reader.binner.slot_ns:
        found = [each for each in (series.joined(slot_ns) for series in found) if len(each)]
        if not found:
            raise InputError(f"{stream.path}: has no whole bin of {slot_ns} ns")
    return found


def _file(stream: Stream, watch: Watch, damage: list[Damaged]) -> pa.PythonFile:
    """A stream for Arrow, which reads ahead and would lose the rows before a failure. So the file
    ends after the last whole row before the damage, which is added to the list."""

    def pieces() -> Iterator[bytes]:
        rest = b""
        try:
            for piece in _text(stream):
                watch(stream.path, stream.read_bytes, stream.size_bytes)
                rows, newline, rest = (rest + piece).rpartition(b"\n")
                yield rows + newline
        except Damaged as error:
            damage.append(error)
            return
        yield rest

    return pa.PythonFile(PieceReader(pieces()), mode="r")


def _text(stream: Stream) -> Iterator[bytes]:
    """The pieces of a stream. Raises `Damaged` at the first that is not text in UTF-8, in which
    Arrow would look for rows."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    for piece in stream:
        try:
            text = decoder.decode(piece)
        except UnicodeDecodeError:
            text = "\0"
        if "\0" in text:
            raise Damaged(
                f"{stream.path}: is no text; expected a capture (pcap, pcapng), Parquet, or CSV "
                "with a heading that has slot_start_ns or time_ns, and bytes"
            )
        yield piece


def _point(path: Path) -> str:
    """The name of a capture without what says how it is kept."""
    name = path.name
    for ending in (".zst", ".gz", ".pcapng", ".pcap", ".cap"):
        name = name.removesuffix(ending)
    return name or "-"
