"""Values read of a time slot are of that slot, or it is reported that it is too late."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

import pytest
from ebb_controller.mechanisms.volume_counters import (
    CLOCK_BITS,
    VOLUME_BYTES,
    VOLUME_PACKETS,
    VOLUME_SLOT,
    Volume,
    cell,
    reciprocal,
)
from ebb_controller.tna import TICK_BITS
from ebb_controller.volume import (
    Overwritten,
    SlotCounters,
    TofinoCounters,
    V1modelCounters,
    counters_of,
)
from ebb_topologies.errors import InputError
from hypothesis import given
from hypothesis import strategies as st

QUEUES = [(1, 0), (1, 7), (2, 0)]
Packet = tuple[int, int, int, int]
"""Slot, port, queue, bytes."""


def test_the_program_says_how_slots_are_counted() -> None:
    volume = Volume(slot_ns=1_000_000)
    assert counters_of(volume, "v1model").slot_ns == 1_000_000
    assert counters_of(volume, "tna").slot_ns == 1 << 20
    with pytest.raises(InputError, match="slots on Tofino last 2"):
        counters_of(Volume(slot_ns=1_000), "t2na")


@given(st.integers(1, 2**CLOCK_BITS - 1), st.integers(0, 2**CLOCK_BITS - 1))
def test_a_product_is_the_quotient(divisor: int, number: int) -> None:
    inverse, shift = reciprocal(divisor)
    assert inverse < 2**64 and shift < 2**8
    for each in (number, number // divisor * divisor, max(number // divisor * divisor - 1, 0)):
        assert each * inverse >> shift == each // divisor


def test_a_slot_is_whole_microseconds() -> None:
    assert Volume(slot_ns=1_000).slot_us == 1
    assert Volume(slot_ns=1).slot_us == Volume(slot_ns=1_499).slot_us == 1
    assert Volume(slot_ns=10_000_000).slot_us == 10_000


BITS = 20
"""Slots of Tofino last 2^20 ns."""


class Switch:
    """The registers as `volume_counters.p4` writes them. `between` happens before each read but the
    first."""

    counters: SlotCounters = V1modelCounters(1_000)

    def __init__(self, between: Callable[[Switch], None] = lambda _switch: None) -> None:
        self.cells: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.between = between
        self.reads = 0

    def send(self, slot: int, port: int, queue: int, size: int) -> None:
        index = cell(slot, port, queue)
        if self.cells[VOLUME_SLOT.name][index] != slot:
            self.cells[VOLUME_SLOT.name][index] = slot
            self.cells[VOLUME_BYTES.name][index] = self.cells[VOLUME_PACKETS.name][index] = 0
        self.cells[VOLUME_BYTES.name][index] += size
        self.cells[VOLUME_PACKETS.name][index] += 1

    def cell(self, name: str, index: int) -> tuple[int, ...]:
        return (self.cells[name][index],)

    async def switch_registers(
        self, switch: str, wanted: Mapping[str, Sequence[int]]
    ) -> dict[str, dict[int, tuple[int, ...]]]:
        assert switch == "s1"
        if self.reads:
            self.between(self)
        self.reads += 1
        return {name: {i: self.cell(name, i) for i in of} for name, of in wanted.items()}

    def read(self, slot: int) -> dict[tuple[int, int], tuple[int, int]]:
        return asyncio.run(self.counters.read(self, "s1", slot, QUEUES))


class Tofino(Switch):
    """The registers as `tna/include/volume_counters.p4` writes them. Packets pass between the
    reads of two cells, as P4Runtime reads one after the other."""

    counters = TofinoCounters(BITS)

    def cell(self, name: str, index: int) -> tuple[int, ...]:
        self.between(self)
        return (self.cells[VOLUME_SLOT.name][index] << (BITS - TICK_BITS), self.cells[name][index])


SWITCHES = pytest.mark.parametrize("kind", [Switch, Tofino])


@SWITCHES
def test_a_slot_is_read_while_the_next_one_is_counted(kind: type[Switch]) -> None:
    switch = kind(lambda switch: switch.send(5, 1, 0, 1_000))
    switch.send(4, 1, 0, 60)
    switch.send(4, 1, 0, 1_514)
    switch.send(4, 2, 0, 100)
    assert switch.read(4) == {(1, 0): (1_574, 2), (2, 0): (100, 1)}


@SWITCHES
def test_an_idle_slot_is_empty(kind: type[Switch]) -> None:
    switch = kind()
    assert switch.read(0) == {}
    switch.send(2, 1, 0, 60)
    assert switch.read(4) == {}


@pytest.mark.parametrize("late", [1, 2])
def test_a_late_reader_is_told(late: int) -> None:
    """Whether the bank is taken before it looks, or while it does."""

    def take(switch: Switch) -> None:
        if switch.reads >= late:
            switch.send(6, 2, 0, 99)

    switch = Switch(take)
    switch.send(4, 1, 0, 60)
    switch.send(4, 2, 0, 60)
    with pytest.raises(Overwritten):
        switch.read(4)
    with pytest.raises(Overwritten):
        switch.read(4)


@SWITCHES
@given(
    packets=st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(QUEUES), st.integers(60, 1514), st.booleans()),
        max_size=40,
    )
)
def test_what_is_read_is_what_was_sent_or_nothing(
    kind: type[Switch],
    packets: list[tuple[int, tuple[int, int], int, bool]],
) -> None:
    """Slots end at random while earlier ones are read, by a reader that is on time or is not."""
    sent: dict[int, dict[tuple[int, int], tuple[int, int]]] = defaultdict(dict)
    waiting = sorted(packets)

    def pass_one(switch: Switch) -> None:
        if waiting:
            slot, queue, size, _ = waiting.pop(0)
            switch.send(slot, *queue, size)
            sizes, count = sent[slot].get(queue, (0, 0))
            sent[slot][queue] = (sizes + size, count + 1)

    switch = kind(pass_one)
    while waiting:
        _, _, _, looks = waiting[0]
        pass_one(switch)
        over = waiting[0][0] - 1 if waiting else 9
        if looks and over >= 0:
            try:
                told = switch.read(over)
            except Overwritten:
                continue
            assert told == sent.get(over, {})
