"""Counters of a switch, read once per bin over P4Runtime or gNMI."""

from __future__ import annotations

import json
import time
from array import array
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from ebb_controller.ctl.client import Client, Place, connect
from ebb_controller.ctl.stream import SwitchError
from ebb_topologies.errors import InputError
from ebb_topologies.text import printable
from finsy import P4CounterEntry
from finsy.proto import gnmi, gnmi_grpc

from ebb_volume.notes import Notes
from ebb_volume.series import MAX_BINS, MOST_BYTES, Name, Series

CALL_SECONDS = 10.0
LEAST_SLOT_NS = 10_000_000
"""Shortest bin: a reading takes some milliseconds. Shorter ones are counted in the data plane."""
MOST_POINTS = 4096
"""Most points of all readings together."""
MOST_SLOTS = 1 << 20
"""Most bins of a recording."""
LATE = 0.1
"""Share of a bin by which a reading may be late without a note."""
Counts = Mapping[Name, tuple[int, int]]
"""Bytes and packets since the switch started, by point."""
Read = Callable[[], Counts]


class Readings:
    """Series of counters that are read at the end of each bin."""

    def __init__(self, slot_ns: int, notes: Notes) -> None:
        self.slot_ns, self._notes = slot_ns, notes
        self._start_ns = 0
        self._last: Counts | None = None
        self._bins: dict[Name, tuple[array[int], array[int]]] = {}
        """Bytes and packets, by point."""
        self._count = 0

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another reading."""
        return len(self._bins) * (self._count + 1) > MAX_BINS

    def handle(self, due_ns: int, late_ns: int, counts: Counts) -> None:
        """Takes a reading that was due at `due_ns`, a Unix time, and was `late_ns` late. Raises
        `InputError` for too many points."""
        if late_ns > LATE * self.slot_ns:
            self._notes.add(
                f"some readings came late, by more than {LATE:.0%} of a bin: their bins hold "
                "traffic of the next; take longer bins"
            )
        points = len(self._bins.keys() | counts.keys())
        if points > MOST_POINTS:
            raise InputError(f"the switch has {points} points; at most {MOST_POINTS} fit")
        if self._last is None:
            self._start_ns = due_ns
        else:
            for name in counts.keys() - self._bins.keys():
                self._bins[name] = _zeros(self._count), _zeros(self._count)
            for name, columns in self._bins.items():
                found = (0, 0)
                if now := counts.get(name):
                    found = self._difference(name, self._last.get(name, (0, 0)), now)
                for column, value in zip(columns, found, strict=True):
                    column.append(value)
            self._count += 1
        self._last = counts

    def _difference(
        self, name: Name, before: tuple[int, int], now: tuple[int, int]
    ) -> tuple[int, int]:
        """Bytes and packets of a point between two readings."""
        if now[0] < before[0] or now[1] < before[1]:
            self._notes.add(f"{name}: its counter began anew; that bin has what came after")
            before = 0, 0
        found = now[0] - before[0], now[1] - before[1]
        if not 0 <= min(found) <= max(found) <= MOST_BYTES:
            self._notes.add(f"{name}: no bin can have what its counter says; it counts as empty")
            return 0, 0
        return found

    def series(self) -> list[Series]:
        """Series of the points that have counted anything."""
        found = []
        for name, bins in self._bins.items():
            sizes, packets = (np.array(column, np.int64) for column in bins)
            if sizes.any() or packets.any():
                found.append(Series(name, self._start_ns, self.slot_ns, sizes, packets))
        return sorted(found, key=lambda series: (series.name.point, series.name.kind))


def record(read: Read, slot_ns: int, slots: int, notes: Notes) -> tuple[list[Series], bool]:
    """Reads at the end of each bin; returns the series, and whether the user ended it early. Raises
    `InputError` for a wrong length or number of bins, and if no counter has changed."""
    if slot_ns < LEAST_SLOT_NS:
        raise InputError(
            f"bins of {slot_ns} ns are too short to be read from outside of a switch; "
            f"{LEAST_SLOT_NS} ns is the shortest"
        )
    if not 0 < slots <= MOST_SLOTS:
        raise InputError(f"{slots} bins cannot be read; expected 1 to {MOST_SLOTS}")
    readings, interrupted = Readings(slot_ns, notes), False
    begin, wall_ns = time.monotonic_ns(), time.time_ns()
    try:
        for slot in range(slots + 1):
            due = begin + slot * slot_ns
            time.sleep(max(due - time.monotonic_ns(), 0) / 1e9)
            counts = read()
            late_ns = time.monotonic_ns() - due if slot else 0
            readings.handle(wall_ns + slot * slot_ns, late_ns, counts)
            if readings.is_full:
                notes.add(f"all series together have at most {MAX_BINS} bins: reading ended there")
                break
    except KeyboardInterrupt:
        interrupted = True
    except SwitchError as error:
        notes.add(f"the switch does not answer any more: {error}; what was read before is used")
    found = readings.series()
    if not found:
        why = "; ".join(["no counter has changed", *notes])
        raise InputError(f"there is nothing to use: {why}")
    return found, interrupted


@contextmanager
def p4runtime(place: Place, counter: str) -> Iterator[Read]:
    """Reads the cells of an indirect counter of the program, a point each. Raises `InputError`."""
    client = Client(place)

    def read() -> Counts:
        found = {}
        for cell in client.read(P4CounterEntry(counter), timeout=CALL_SECONDS):
            if data := cell.data:
                found[Name(f"{counter}[{cell.index}]")] = (data.byte_count, data.packet_count)
            if len(found) > MOST_POINTS:
                break
        return found

    try:
        try:
            known = [each.alias for each in client.schema.counters]
        except SwitchError as error:
            raise InputError(str(error)) from error
        if counter not in known:
            raise InputError(
                f"the program at {place.address} has no counter '{counter}'; it has: "
                f"{', '.join(known) or 'none'}"
            )
        yield read
    finally:
        client.close()


@contextmanager
def openconfig(place: Place) -> Iterator[Read]:
    """Reads the octets of the interfaces of OpenConfig, in and out. Raises `InputError`."""
    path = gnmi.Path(
        origin="openconfig",
        elem=[gnmi.PathElem(name="interfaces"), gnmi.PathElem(name="interface", key={"name": "*"}),
              gnmi.PathElem(name="state"), gnmi.PathElem(name="counters")],
    )  # fmt: skip
    request = gnmi.GetRequest(path=[path], type=gnmi.GetRequest.STATE, encoding=gnmi.JSON_IETF)
    with connect(place) as channel:
        stub = gnmi_grpc.gNMIStub(channel)

        def read() -> Counts:
            try:
                answer = stub.Get(request, timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                raise SwitchError(
                    f"{place.address} does not answer gNMI: {printable(error.details())}"
                ) from error
            return interface_counts(answer)

        yield read


def _zeros(count: int) -> array[int]:
    return array("q", bytes(8 * count))


def interface_counts(answer: Any) -> dict[Name, tuple[int, int]]:
    """Octets and packets of each interface, of the answer to a request for its counters. Leaves
    that are no numbers are passed over."""
    found: dict[Name, tuple[int, int]] = {}
    for notification in answer.notification:
        for update in notification.update:
            elements = [*notification.prefix.elem, *update.path.elem]
            names = [each.key["name"] for each in elements if "name" in each.key]
            tree = _json(update.val)
            if not names or not isinstance(tree, dict):
                continue
            leaves = {key.rpartition(":")[2]: value for key, value in tree.items()}
            for kind in ("in", "out"):
                octets, packets = (_number(leaves.get(f"{kind}-{of}")) for of in ("octets", "pkts"))
                if octets is not None:
                    found[Name(printable(names[0]), kind)] = (octets, packets or 0)
    return found


def _json(value: Any) -> Any:
    try:
        return json.loads(value.json_ietf_val or value.json_val or b"null")
    except (ValueError, RecursionError):
        return None


def _number(value: Any) -> int | None:
    """A counter, which JSON_IETF has as a string."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else None
