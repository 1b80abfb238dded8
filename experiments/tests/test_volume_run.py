"""Traffic volume in time slots: what is read when, and what a run leaves of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from binaries import BINARIES, needs_simulator, needs_tna
from ebb_controller import ebb_tm_pb2 as tm
from ebb_controller.errors import ControllerError
from ebb_controller.mechanisms import FabricParameters
from ebb_controller.mechanisms.volume_counters import (
    VOLUME_BYTES,
    VOLUME_PACKETS,
    VOLUME_SLOT,
    Volume,
    cell,
)
from ebb_controller.volume import V1modelCounters
from ebb_experiments.run.run import Run
from ebb_experiments.run.virtual import Virtual
from ebb_experiments.run.volume import Volumes, VolumeWatch
from ebb_experiments.scenario.architecture import Architecture
from ebb_experiments.scenario.loaded import scenario
from ebb_experiments.scenario.volume import volume_slot_ns
from ebb_topologies.dilation import Dilation
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table

RACK = from_table({"single_rack": {"hosts": 2}}, "test")
(SWITCH,) = (switch.name for switch in RACK.switches)
HEAD = {"scheme": "a", "seed": 1, "phase": "p", "round": 0}
SLOT_NS = 2_000


class Registers:
    """Cells that a test writes; away on demand."""

    def __init__(self) -> None:
        self.cells: dict[str, Counter[int]] = {
            register.name: Counter() for register in (VOLUME_SLOT, VOLUME_BYTES, VOLUME_PACKETS)
        }
        self.away = False

    def count(self, slot: int, port: int, size: int) -> None:
        index = cell(slot, port, 0)
        values = {VOLUME_SLOT: slot, VOLUME_BYTES: size, VOLUME_PACKETS: 1}
        for register, value in values.items():
            self.cells[register.name][index] = value

    async def switch_registers(
        self, switch: str, wanted: Mapping[str, Sequence[int]]
    ) -> dict[str, dict[int, tuple[int, ...]]]:
        if self.away:
            raise ControllerError(f"{switch} is away")
        return {name: {i: (self.cells[name][i],) for i in of} for name, of in wanted.items()}


def volumes(registers: Registers) -> Volumes:
    parameters = FabricParameters(volume=Volume(slot_ns=SLOT_NS))
    return Volumes(registers, RACK, parameters, V1modelCounters(SLOT_NS))


def read(volumes: Volumes, *times_ns: int) -> None:
    for now_ns in times_ns:
        asyncio.run(volumes.until(SWITCH, now_ns))


def test_slots_are_read_once_and_idle_ones_are_zero() -> None:
    registers = Registers()
    counted = volumes(registers)
    read(counted, 0, SLOT_NS - 1)
    registers.count(0, 1, 100)
    registers.count(1, 2, 999)  # the next slot has begun
    read(counted, SLOT_NS, SLOT_NS + 1)
    read(counted, 2 * SLOT_NS, 3 * SLOT_NS)
    rows = list(counted.rows(Dilation(2.0), HEAD))
    keys = ("slot_start_ns", "slot_ns", "point", "class", "bytes", "packets")
    assert [tuple(row[key] for key in keys) for row in rows] == [
        (0, 1_000, f"{SWITCH}:1", 0, 100, 1),
        (0, 1_000, f"{SWITCH}:2", 0, 0, 0),
        (1_000, 1_000, f"{SWITCH}:1", 0, 0, 0),
        (1_000, 1_000, f"{SWITCH}:2", 0, 999, 1),
        (2_000, 1_000, f"{SWITCH}:1", 0, 0, 0),
        (2_000, 1_000, f"{SWITCH}:2", 0, 0, 0),
    ]
    assert all(row.items() >= HEAD.items() for row in rows)
    assert counted.about(Dilation(2.0)) == {
        "slot_ns": 1_000,
        "slots_read": 3,
        "slots_missed": {},
    }


def test_what_was_missed_is_left_out_and_counted() -> None:
    registers = Registers()
    counted = volumes(registers)
    read(counted, 0)
    registers.count(1, 1, 60)
    read(counted, 2 * SLOT_NS)  # slot 0 is gone, slot 1 is not
    registers.count(4, 1, 60)
    read(counted, 3 * SLOT_NS)  # slot 2 was overwritten
    registers.away = True
    read(counted, 4 * SLOT_NS)
    registers.away = False
    read(counted, 5 * SLOT_NS)
    assert set(counted.counts[SWITCH]) == {1, 4}
    assert counted.about(Dilation())["slots_missed"] == {SWITCH: 3}


def test_slots_before_the_traffic_are_left_out() -> None:
    registers = Registers()
    counted = volumes(registers)
    read(counted, 0)
    for slot in range(4):
        registers.count(slot, 1, 60 + slot)
        read(counted, (slot + 1) * SLOT_NS)
    rows = list(counted.rows(Dilation(), HEAD, {SWITCH: SLOT_NS + 500.0}))
    assert [(row["slot_start_ns"], row["bytes"]) for row in rows] == [(1_500, 62), (3_500, 63)]


SCENARIO = {
    "single_rack": {"hosts": 3},
    "schemes": ["dctcp", "ndp"],
    "limit_ns": 20_000_000,
    "volume_slot_ns": 20_000,
    "workload": {
        "traffic": [
            {
                "name": "all",
                "pattern": {"type": "incast", "senders": 2},
                "arrivals": {"type": "once"},
                "size": {"type": "fixed", "bytes": 150_000},
            }
        ]
    },
}


@needs_simulator
@pytest.mark.parametrize(
    ("scheme", "architecture", "slot_ns"),
    [
        ("dctcp", "v1model", 20_000),
        ("ndp", "v1model", 20_000),
        # Slots of 2^16 ns by the clock of the switch, which is slowed.
        pytest.param("dctcp", "tna", 52_428.8, marks=needs_tna),
    ],
)
def test_the_slots_of_a_simulation_add_up_to_what_its_ports_sent(
    scheme: str, architecture: Architecture, slot_ns: float, tmp_path: Path
) -> None:
    loaded = scenario(SCENARIO | {"volume_slot_ns": round(slot_ns)}, "volume")
    binaries = replace(BINARIES, architecture=architecture)
    results = Run(loaded, scheme, 1, Virtual(binaries, threads=1), tmp_path).go()
    sent: Counter[str] = Counter()
    for row in results.rows("volume"):
        sent[row["point"]] += row["bytes"]
    ports = {f"{r['switch']}:{r['port']}": r["transmitted_bytes"] for r in results.rows("ports")}
    assert sent == {point: size for point, size in ports.items() if size}
    assert max(sent.values()) > 2 * 150_000
    about = results.run["volume"]
    assert about["slot_ns"] == slot_ns and not about["slots_missed"]
    starts = sorted({row["slot_start_ns"] for row in results.rows("volume")})
    assert starts == [round(slot_ns * number) for number in range(len(starts))]


def test_a_simulation_does_not_count_unless_asked(tmp_path: Path) -> None:
    quiet = {key: value for key, value in SCENARIO.items() if key != "volume_slot_ns"}
    fabric = scenario(quiet, "quiet").schemes["dctcp"].fabric
    assert fabric.volume is None and fabric.program == "fabric"
    assert scenario(SCENARIO, "volume").schemes["dctcp"].fabric.program == "fabric_full"


def test_slots_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="volume_slot_ns = 10: expected at least 100, which is"):
        scenario(SCENARIO | {"volume_slot_ns": 10}, "short")
    with pytest.raises(InputError, match="is 10000000 slots until limit_ns"):
        scenario(SCENARIO | {"volume_slot_ns": 1_000, "limit_ns": 10_000_000_000}, "many")


def test_slots_of_a_command_line_are_in_ms() -> None:
    assert volume_slot_ns("1") == 1_000_000
    assert volume_slot_ns("0.1") == 100_000
    for text in ("0", "-1", "nan", "inf", "1e9", "x", ""):
        with pytest.raises(InputError, match="VOLUME must be the length of a time slot in ms"):
            volume_slot_ns(text)


class Clock:
    """A switch that says what time it is, as its traffic manager does."""

    def __init__(self, *times_ns: int) -> None:
        self.times_ns = times_ns

    async def stream(self, name: str, interval_ns: int) -> AsyncIterator[tm.Stats]:
        assert name == SWITCH
        for time_ns in self.times_ns:
            yield tm.Stats(time_ns=time_ns)
            for _ in range(9):  # what it has set off goes on
                await asyncio.sleep(0)
        raise ControllerError("restarted")


def test_a_switch_is_read_by_its_own_clock() -> None:
    """Not before it says that a slot is over, and each slot once."""
    registers = Registers()
    counted = volumes(registers)
    for slot in range(2):
        registers.count(slot, 1, 60 + slot)
    clock: Any = Clock(100, SLOT_NS - 1, SLOT_NS, SLOT_NS + 1, 2 * SLOT_NS)
    watch = VolumeWatch(clock, counted, SWITCH)
    asyncio.run(watch.sample())
    assert counted.counts[SWITCH] == {0: {(1, 0): (60, 1)}, 1: {(1, 0): (61, 1)}}
    assert counted.missed[SWITCH] == 1  # the slot in which it was restarted
    assert watch.behind_ns < float("inf")
