# SPDX-License-Identifier: Apache-2.0
"""Workers of SwitchML's allreduce, against a model of the switch; and that the runner skips."""

from __future__ import annotations

import heapq
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import numpy as np
import pytest
import switchml
import switchml_worker
from switchml_worker import HEADER, PAYLOAD, Address, Numbers, Settings, Worker

RUNNER = Path(switchml.__file__)
SWITCH = Address(b"\2\0\0\xff\0\1", b"\x0a\0\0\xfe", 0xBEE0)


@dataclass
class Version:
    """One of the two versions of a slot of the switch."""

    came: set[int] = field(default_factory=set)
    """Workers whose packets it has, and who have not begun with the other version."""
    missing: int = 0
    """Packets that come until the sum is whole; 0: it is, or nothing has come."""
    sums: Numbers = field(default_factory=lambda: np.zeros(0, dtype=np.int32))


@dataclass
class Aggregator:
    """The rules of the switch: a packet sent again never counts twice; a full slot is answered."""

    workers: int
    clears_other: bool = True
    """Whether a packet takes its worker out of the other version of the slot, as it has to."""
    versions: dict[int, Version] = field(default_factory=dict)

    def receive(self, worker: int, frame: bytes) -> dict[int, bytes]:
        """The answers to a packet of a worker, by worker."""
        at = PAYLOAD - HEADER.size
        _, _, _, slot, _, _ = HEADER.unpack_from(frame, at)
        version = self.versions.setdefault(slot, Version())
        other = self.versions.setdefault(slot ^ switchml_worker.SECOND_VERSION, Version())
        values = np.frombuffer(frame, dtype=">i4", offset=PAYLOAD).astype(np.int32)
        is_again = worker in version.came
        if not is_again:
            version.sums = version.sums + values if version.came else values
            version.missing = (version.missing or self.workers) - 1
        version.came.add(worker)
        if self.clears_other:
            other.came.discard(worker)
        if version.missing:
            return {}
        answer = frame[:PAYLOAD] + version.sums.astype(">i4").tobytes()
        return {worker: answer} if is_again else dict.fromkeys(range(self.workers), answer)


@dataclass
class Lossy:
    """A network in which each packet takes a microsecond, or is lost."""

    aggregator: Aggregator
    dice: random.Random
    lost: float = 0.0
    now_ns: int = 0
    receivers: dict[str, Callable[[int, bytes], None]] = field(default_factory=dict)
    _order: count[int] = field(default_factory=count)
    _events: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)

    def attach(self, host: str, receive: Callable[[int, bytes], None]) -> None:
        """As in a lab."""
        self.receivers[host] = receive

    def send(self, host: str, frame: bytes, at_ns: int | None = None) -> None:
        """As in a lab."""
        assert at_ns is None
        self.call(self.now_ns + 1000, lambda: self._arrive(host, frame))

    def call(self, at_ns: int, function: Callable[[], None]) -> None:
        """As in a lab."""
        heapq.heappush(self._events, (at_ns, next(self._order), function))

    def run(self, until_ns: int) -> None:
        """As in a lab."""
        while self._events and self._events[0][0] <= until_ns:
            self.now_ns, _, function = heapq.heappop(self._events)
            function()
        self.now_ns = until_ns

    def _arrive(self, host: str, frame: bytes) -> None:
        if self.dice.random() < self.lost:
            return
        for worker, answer in self.aggregator.receive(int(host[1:]) - 1, frame).items():
            if self.dice.random() >= self.lost:
                self.call(self.now_ns + 1000, self._answer(f"h{worker + 1}", answer))

    def _answer(self, host: str, frame: bytes) -> Callable[[], None]:
        return lambda: self.receivers[host](self.now_ns, frame)


def allreduce(
    aggregator: Aggregator, lost: float, at_workers: float, settings: Settings, numbers: int
) -> tuple[switchml.Allreduce, bool]:
    """An allreduce of random numbers; whether all workers have numpy's sums."""
    dice = np.random.default_rng(7)
    given = [switchml.random_numbers(numbers, dice) for _ in range(aggregator.workers)]
    workers = {
        switchml.name_of(rank): Worker(address, SWITCH, mine, 5, settings)
        for rank, (address, mine) in enumerate(
            zip(switchml.addresses(aggregator.workers), given, strict=True)
        )
    }
    network = Lossy(aggregator, random.Random(1), lost)
    made = switchml.Allreduce(network, workers, switchml.Losses(at_workers, random.Random(2)))
    made.run()
    expected = np.sum(given, axis=0, dtype=np.int32)
    results = [worker.result[:numbers] for worker in workers.values()]
    return made, all(np.array_equal(result, expected) for result in results)


@pytest.mark.parametrize("numbers", [1, 64, 1000, 5000])
@pytest.mark.parametrize("of_packet", [64, 256])
def test_all_workers_have_the_sums(numbers: int, of_packet: int) -> None:
    settings = Settings(of_packet, window=8, timeout_ns=20_000)
    made, equal = allreduce(Aggregator(3), 0, 0, settings, numbers)
    assert equal
    packets = -(-numbers // of_packet)
    for worker in made.workers.values():
        assert (worker.counts.sent, worker.counts.again, worker.counts.others) == (packets, 0, 0)
        assert worker.counts.sums == worker.packets == packets
        assert worker.due_ns is None
    assert made.duration_ns == 2000 * -(-packets // 8)


@pytest.mark.parametrize(("in_network", "at_workers"), [(0.1, 0.0), (0.0, 0.1), (0.2, 0.2)])
def test_what_is_lost_is_sent_again_and_counts_once(in_network: float, at_workers: float) -> None:
    settings = Settings(window=8, timeout_ns=20_000)
    made, equal = allreduce(Aggregator(4), in_network, at_workers, settings, 5000)
    assert equal
    for worker in made.workers.values():
        assert worker.counts.sent == worker.packets + worker.counts.again
        assert worker.counts.again > 0
    lost = (made.losses.to_switch, made.losses.to_workers)
    assert all(lost) if at_workers else lost == (0, 0)


def test_a_switch_that_keeps_the_old_version_gives_other_sums() -> None:
    aggregator = Aggregator(3, clears_other=False)
    _, equal = allreduce(aggregator, 0, 0, Settings(window=8, timeout_ns=20_000), 5000)
    assert not equal


def test_a_job_uses_versions_in_the_order_that_the_last_one_left() -> None:
    settings = Settings(window=8, timeout_ns=20_000)
    here = switchml.addresses(1)[0]
    mine = np.arange(64 * 11, dtype=np.int32)
    first = Worker(here, SWITCH, mine, 0, settings)
    assert [first.slot(n) for n in (0, 7, 8, 10)] == [0, 7, 0x8000, 0x8002]
    second = Worker(here, SWITCH, mine, 1, settings, shift=first.next_shift)
    assert [second.slot(n) for n in (0, 4, 5)] == [0x8003, 0x8007, 0]


def test_packets_have_the_form_that_the_program_reads() -> None:
    here = switchml.addresses(2)[1]
    worker = Worker(here, SWITCH, np.array([1, -2], dtype=np.int32), 0x107, Settings(64))
    (frame,) = worker.start(100)
    assert frame[:14].hex() == "020000ff0001" + "020000000002" + "0800"
    assert switchml_worker.checksum_of(frame[14:34]) == 0
    assert struct.unpack("!HH", frame[16:18] + frame[38:40]) == (20 + 8 + 10 + 256, 8 + 10 + 256)
    assert frame[34:38].hex() == "12c0bee0"
    assert frame[42:52].hex() == "11" + "07" + "00000000" + "0000" + "0000"
    assert frame[52:60].hex() == "00000001fffffffe"
    assert worker.due_ns == 100 + Settings().timeout_ns
    assert worker.tick(worker.due_ns - 1) == []
    assert worker.tick(worker.due_ns) == [frame]


def test_packets_of_others_are_not_taken() -> None:
    here = switchml.addresses(1)[0]
    worker = Worker(here, SWITCH, np.zeros(64, dtype=np.int32), 3, Settings(64))
    (frame,) = worker.start(0)
    of_another_job = frame[:43] + b"\4" + frame[44:]
    assert worker.receive(1, of_another_job) == worker.receive(1, frame[:100]) == []
    assert not worker.is_done and worker.counts.others == 1
    assert worker.receive(1, frame) == []
    assert worker.is_done
    assert worker.receive(2, frame) == []
    assert worker.counts.others == 2


def test_what_the_program_cannot_do_is_refused() -> None:
    with pytest.raises(ValueError, match="128 numbers"):
        Settings(128)
    with pytest.raises(ValueError, match="8192"):
        Settings(window=8193)


def test_ports_of_the_front_panel() -> None:
    assert [switchml.lane(port) for port in (1, 4, 16)] == ["1/1", "2/0", "5/0"]


def test_without_a_checkout_it_skips_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, str(RUNNER), "--checkout", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert run.stdout.startswith("skipped: no checkout of p4lang/p4app-switchML")
