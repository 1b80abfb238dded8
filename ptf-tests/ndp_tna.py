# SPDX-License-Identifier: Apache-2.0
"""Has NDP's program for TNA, unchanged, trim in an incast on a switch in virtual time.

    python ptf-tests/ndp_tna.py [--checkout DIR] [--studio DIR]

DIR (or EBB_NDP_TNA) has research_projects/NDP of p4lang/p4-applications#92, the second one (or
EBB_OPEN_P4STUDIO) p4lang/open-p4studio, whose client sets the program up; without one of them the
run is skipped, and says so. Hosts send to one at 100 Gbit/s, and each packet that arrives is held
against a model of the program's README (`ndp_tna_model.py`). Prints a row for each check
(docs/tofino-lab.md). Exit code 1 if one fails.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from ebb_experiments.lab.lab import Lab  # noqa: E402
from ebb_experiments.run.conversation import SimulatorError  # noqa: E402
from ebb_topologies.errors import InputError  # noqa: E402
from ndp_tna_model import (  # noqa: E402
    CONTROL,
    DEFLECTED_BYTES,
    FCS_BYTES,
    NDP_UDP_PORT,
    PS_PER_NS,
    PS_PER_S,
    T0_NS,
    T1_NS,
    TRIMMED,
    TRIMMED_BYTES,
    WIRE_BYTES,
    Arrival,
    Fate,
    Host,
    Kind,
    Mode,
    PortConfig,
    Result,
    ndp_frame,
    other_frame,
    received,
)
from ndp_tna_model import Port as PortModel  # noqa: E402
from ndp_tna_setup import (  # noqa: E402
    ADJUST_BYTES,
    CPU_PORT,
    QUEUE_DATA,
    QUEUE_OTHERS,
    QUEUE_PRIORITY,
    Port,
    Program,
)
from run import RunError  # noqa: E402
from studio import CLIENT, client_of, python_path  # noqa: E402
from studio import VARIABLE as STUDIO_VARIABLE  # noqa: E402

VARIABLE = "EBB_NDP_TNA"
"""Environment variable with the checkout."""
PROGRAM = "dev_root/ndp.p4"
SENDERS = 8
SENDER_PORTS = range(4, 4 + 4 * SENDERS, 4)
"""Ports of 100 Gbit/s have four lanes."""
RECEIVER_PORT = 36
LINE_BPS = 100_000_000_000
RATE_KBPS = 99_000_000
BURST_KBITS = 960
"""The meter's, as in its sample for one pipe; the shaper of a port has the same rate."""
RATE_BPS, BURST_BYTES = RATE_KBPS * 1000, BURST_KBITS * 125
DEEP_BYTES, SHALLOW_BYTES = 4_500_000, 30_000
"""`port_bufsize`: that of its sample for several pipes, and one much below the burst."""
CELL_BYTES = 80
DELAY_NS = 500
DATA_BYTES, CONTROL_BYTES, OTHER_BYTES = 1500, 64, 300
STAGGER_NS = 15
"""Between the first packets of two senders, so that no two packets arrive at once."""
START_NS = 1_000_000
"""Time of the first packet."""


def queue_bytes(bufsize: int) -> int:
    """Capacity of the queues of a port, in whole cells, as the program's control program has it."""
    return (-(-bufsize // CELL_BYTES) + 3) * CELL_BYTES


def host(port: int) -> Host:
    """The host at a port."""
    return Host(port, f"02:01:00:00:00:{port:02x}", f"10.0.{port}.2", f"02:02:00:00:00:{port:02x}")


RECEIVER = host(RECEIVER_PORT)


@dataclass(frozen=True, slots=True)
class Sent:
    """A packet on its way to the receiver."""

    source: int
    number: int
    kind: Kind
    at_ns: int
    """When its first bit may leave."""
    frame: bytes
    arrival: Arrival

    @property
    def key(self) -> tuple[int, int]:
        """By which it is found again: its source and its number."""
        return self.source, self.number


@dataclass(slots=True)
class Seen:
    """Results of a run of the lab."""

    frames: list[tuple[int, bytes]] = field(default_factory=list)
    """At the receiver, with the time in ns."""
    notices: list[bytes] = field(default_factory=list)
    """At the port of the CPU."""
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Table:
    """The checks so far."""

    rows: list[tuple[str, str, str, str, bool]] = field(default_factory=list)

    def check(self, part: str, what: str, expected: object, seen: object, passed: bool) -> None:
        """Prints and keeps a check."""
        row = (part, what, str(expected), str(seen), passed)
        self.rows.append(row)
        print(f"| {' | '.join(row[:4])} | {'ok' if passed else 'FAILED'} |", flush=True)

    def equal(self, part: str, what: str, expected: object, seen: object) -> None:
        """Both are the same."""
        self.check(part, what, expected, seen, expected == seen)

    @property
    def failed(self) -> int:
        """Number of checks that failed."""
        return sum(not passed for *_, passed in self.rows)


def schedule(counts: Sequence[int], kind_of: Callable[[int, int], Kind]) -> list[Sent]:
    """As many packets of each sender, one after the other; `kind_of` says of what kind the n-th one
    of a sender is. In order of arrival at the switch."""
    sent = []
    for place, (port, count) in enumerate(zip(SENDER_PORTS, counts, strict=False)):
        at_ns = START_NS + place * STAGGER_NS
        free_ps = at_ns * PS_PER_NS
        for number in range(count):
            kind = kind_of(place, number)
            frame = frame_of(host(port), number, kind)
            free_ps += wire_ps(len(frame), LINE_BPS)
            arrival = Arrival(free_ps + DELAY_NS * PS_PER_NS, kind, len(frame))
            sent.append(Sent(port, number, kind, at_ns, frame, arrival))
    return sorted(sent, key=lambda each: each.arrival.at_ps)


def data_and_control(place: int, number: int) -> Kind:
    """Mostly data, and now and then a packet of control, of senders one after the other."""
    return Kind.CONTROL if number % 32 == 4 * place + 1 else Kind.DATA


def all_kinds(place: int, number: int) -> Kind:
    """The same with packets of others in between."""
    return Kind.OTHER if number % 40 == 5 * place + 2 else data_and_control(place, number)


def frame_of(source: Host, number: int, kind: Kind) -> bytes:
    """The frame of a packet to the receiver."""
    match kind:
        case Kind.DATA:
            return ndp_frame(source, RECEIVER, number, DATA_BYTES)
        case Kind.CONTROL:
            return ndp_frame(source, RECEIVER, number, CONTROL_BYTES, CONTROL)
        case Kind.OTHER:
            return other_frame(source, RECEIVER, number, OTHER_BYTES)


def wire_ps(length: int, rate_bps: int) -> int:
    """How long a frame takes on a link, rounded up."""
    return -(-(length + WIRE_BYTES) * 8 * PS_PER_S // rate_bps)


def key_of(frame: bytes) -> tuple[int, int]:
    """Source and number of a packet that has arrived, whole or not."""
    is_ndp = int.from_bytes(frame[36:38]) == NDP_UDP_PORT
    number = frame[44:46] if is_ndp else frame[46:48]
    return frame[28], int.from_bytes(number)


def lab_table(bufsize: int) -> dict[str, Any]:
    """The lab: a switch with the program, senders, the receiver, and the CPU."""
    capacity = queue_bytes(bufsize)
    rates = dict.fromkeys((*SENDER_PORTS, CPU_PORT), LINE_BPS) | {RECEIVER_PORT: RATE_BPS}
    return {
        "switch": [{"name": "s1"}],
        "host": [{"name": f"h{port}", "ip": f"10.0.{port}.2"} for port in rates],
        "link": [{"ends": [f"h{port}", "s1"], "ports": [1, port], "rate_bps": rate,
                  "delay_ns": DELAY_NS} for port, rate in rates.items()],
        "program": {"s1": {
            "p4": PROGRAM, "arch": "tna", "device_id": 0,
            "ports": {
                "frame_overhead_bytes": WIRE_BYTES,
                "queue": [{"id": QUEUE_DATA, "capacity_bytes": capacity, "on_full": "deflect"},
                          {"id": QUEUE_PRIORITY},
                          {"id": QUEUE_OTHERS, "capacity_bytes": capacity}],
                # Queue 1 goes before the others, which take turns.
                "group": [{"queues": [QUEUE_PRIORITY], "share": 0.9, "burst_bytes": 100_000},
                          {"queues": [QUEUE_DATA]}, {"queues": [QUEUE_OTHERS]}],
            },
        }},
    }  # fmt: skip


def observe(client: ModuleType, checkout: Path, bufsize: int, sent: list[Sent]) -> Seen:
    """Sends packets in a new lab, until the last one has arrived."""
    seen = Seen()
    with Lab.of(lab_table(bufsize), checkout, first_port=free_port()) as lab:
        program = Program(client, lab.addresses["s1"])
        program.set_up([port_of(port) for port in (*SENDER_PORTS, RECEIVER_PORT)])
        lab.attach(f"h{RECEIVER_PORT}", lambda at_ns, frame: seen.frames.append((at_ns, frame)))
        lab.attach(f"h{CPU_PORT}", lambda _, frame: seen.notices.append(frame))
        for each in sorted(sent, key=lambda each: (each.at_ns, each.number)):
            lab.send(f"h{each.source}", each.frame, each.at_ns)
        rest_ns = (BURST_BYTES + sum(len(each.frame) for each in sent)) * 8 * 10**9 // RATE_BPS
        lab.run(sent[-1].arrival.at_ps // PS_PER_NS + rest_ns + 100_000)
        seen.counts = program.counts(RECEIVER_PORT)
        program.close()
    return seen


def free_port() -> int:
    """A TCP port of this machine at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def port_of(number: int) -> Port:
    """A port as the program is set up for it."""
    of = host(number)
    return Port(number, of.port_mac, of.mac, of.address, RATE_KBPS, BURST_KBITS)


def predict(bufsize: int, sent: list[Sent]) -> list[Result]:
    """Results of the model."""
    config = PortConfig(RATE_BPS, BURST_BYTES, queue_bytes(bufsize), ADJUST_BYTES)
    return PortModel(config).run(each.arrival for each in sent)


def fate_of(frame: bytes) -> Fate:
    """How a packet of the receiver has passed, by length and flags."""
    if int.from_bytes(frame[36:38]) != NDP_UDP_PORT or not frame[42] & TRIMMED:
        return Fate.WHOLE
    return {TRIMMED_BYTES: Fate.TRIMMED, DEFLECTED_BYTES: Fate.DEFLECTED}.get(
        len(frame), Fate.WHOLE
    )


def below_burst(table: Table, client: ModuleType, checkout: Path) -> None:
    """As many packets at once as the bucket of the meter holds."""
    part = "below the burst"
    cost = DATA_BYTES + FCS_BYTES + ADJUST_BYTES
    most = BURST_BYTES // cost
    sent = schedule([-(-most // SENDERS)] * SENDERS, lambda *_: Kind.DATA)[:most]
    seen = observe(client, checkout, DEEP_BYTES, sent)
    fates = Counter(fate_of(frame) for _, frame in seen.frames)
    table.equal(part, f"{most} packets of {cost} bytes at once, of {BURST_BYTES}: whole",
                {Fate.WHOLE.value: most}, {of.value: n for of, n in fates.items()})  # fmt: skip
    table.equal(part, "`meter_chop`", 0, seen.counts["meter_chop"])
    table.equal(part, "`per_port_counter`, `nr_opti`", (most, most),
                (seen.counts["per_port_counter"], seen.counts["nr_opti"]))  # fmt: skip


def each_packet(
    table: Table, part: str, sent: list[Sent], results: list[Result], seen: Seen
) -> None:
    """Every packet arrives once, as the model says, byte for byte and to the ns."""
    expected = {each.key: received(each.frame, RECEIVER, result.fate)
                for each, result in zip(sent, results, strict=True)}  # fmt: skip
    got = {key_of(frame): frame for _, frame in seen.frames}
    table.equal(part, "packets sent, arrived, different ones", (len(sent), len(sent), len(sent)),
                (len(sent), len(seen.frames), len(got)))  # fmt: skip
    for fate in Fate:
        keys = [each.key for each, result in zip(sent, results, strict=True)
                if result.fate is fate and each.kind is Kind.DATA]  # fmt: skip
        as_said = sum(fate_of(got.get(key, b"").ljust(48)) is fate for key in keys)
        table.equal(part, f"data {fate.value}: of those of the model", len(keys), as_said)
    same = sum(got.get(key) == frame for key, frame in expected.items())
    table.equal(part, "frames equal byte for byte", len(expected), same)
    left = {each.key: result.left_ps for each, result in zip(sent, results, strict=True)}
    on_time = sum(at_ns == left.get(key_of(frame), -1) // PS_PER_NS + DELAY_NS
                  for at_ns, frame in seen.frames)  # fmt: skip
    table.equal(part, "arrived in the ns of the model", len(sent), on_time)


def counters(table: Table, part: str, sent: list[Sent], results: list[Result], seen: Seen) -> None:
    """The program's own counters agree with the model."""
    fates = Counter(result.fate for result in results)
    modes = Counter(result.mode for result in results)
    deflected = fates[Fate.DEFLECTED]
    for name, expected in {
        "per_port_counter": len(sent),
        "meter_chop": fates[Fate.TRIMMED], "ig_chopped": fates[Fate.TRIMMED],
        "dod_chop": deflected, "trim_metas": deflected, "return_chop": deflected,
        "nr_arm": deflected, "nr_opti": modes[Mode.OPTIMISTIC],
        "nr_pesi": modes[Mode.PESSIMISTIC], "nr_half": modes[Mode.HALFTIMISTIC],
    }.items():  # fmt: skip
        table.equal(part, f"`{name}`", expected, seen.counts[name])
    table.equal(part, "notices at the port of the CPU", deflected, len(seen.notices))


def incast(table: Table, client: ModuleType, checkout: Path) -> None:
    """Eight senders at once into a deep queue: the meter alone trims."""
    part = "incast"

    sent = schedule([160] * SENDERS, all_kinds)
    results = predict(DEEP_BYTES, sent)
    seen = observe(client, checkout, DEEP_BYTES, sent)
    each_packet(table, part, sent, results, seen)
    counters(table, part, sent, results, seen)
    overtaking(table, part, sent, seen)


def overtaking(table: Table, part: str, sent: list[Sent], seen: Seen) -> None:
    """Control waits for the frame that is being sent and for what came to its queue meanwhile, less
    than another such frame; other traffic for two such turns; data for all data."""
    at_switch = {each.key: each for each in sent}
    waits = dict.fromkeys(Kind, 0)
    for at_ns, frame in seen.frames:
        each = at_switch.get(key_of(frame))
        if each is not None and fate_of(frame) is Fate.WHOLE:
            left_ps = (at_ns - DELAY_NS) * PS_PER_NS - wire_ps(len(frame), RATE_BPS)
            waits[each.kind] = max(waits[each.kind], (left_ps - each.arrival.at_ps) // PS_PER_NS)
    frame_ns = wire_ps(DATA_BYTES, RATE_BPS) // PS_PER_NS
    for kind, frames in ((Kind.CONTROL, 2), (Kind.OTHER, 4)):
        table.check(part, f"longest wait of {kind.name.lower()}, ns",
                    f"at most {frames} frames of data: {frames * frame_ns}", waits[kind],
                    waits[kind] <= frames * frame_ns)  # fmt: skip
    table.check(part, "longest wait of data, ns", f"above 20 frames: {20 * frame_ns}",
                waits[Kind.DATA], waits[Kind.DATA] > 20 * frame_ns)  # fmt: skip


def shallow_queue(table: Table, client: ModuleType, checkout: Path) -> None:
    """Eight senders for 2 us into a queue that is full before the bucket is empty; two of them go
    on for 60 us."""
    part = "shallow queue"
    sent = schedule([500, 500, *[16] * (SENDERS - 2)], data_and_control)
    results = predict(SHALLOW_BYTES, sent)
    seen = observe(client, checkout, SHALLOW_BYTES, sent)
    each_packet(table, part, sent, results, seen)
    counters(table, part, sent, results, seen)
    periods(table, part, sent, seen)


def lasting_incast(table: Table, client: ModuleType, checkout: Path) -> None:
    """Eight senders for 60 us: what is trimmed takes a third of the link, so that a port that is
    optimistic again deflects once more."""
    part = "lasting incast"
    sent = schedule([500] * SENDERS, data_and_control)
    results = predict(SHALLOW_BYTES, sent)
    seen = observe(client, checkout, SHALLOW_BYTES, sent)
    each_packet(table, part, sent, results, seen)
    counters(table, part, sent, results, seen)


def periods(table: Table, part: str, sent: list[Sent], seen: Seen) -> None:
    """How many packets pass whole in each mode, without the model of the port.

    Under overload a bucket that is empty at the beginning of a period of D lets through R * D bytes
    and no more; it may hold less than a packet at either end, and less than what comes until the
    next packet: two packets in all.
    """
    at_switch = {each.key: each.arrival.at_ps for each in sent}
    fates = {key_of(frame): fate_of(frame) for _, frame in seen.frames}
    is_data = {each.key for each in sent if each.kind is Kind.DATA}
    deflected = [at_switch[key] for key in is_data if fates.get(key) is Fate.DEFLECTED]
    table.check(part, "packets deflected", "some", len(deflected), bool(deflected))
    told_ps = max(deflected, default=sent[0].arrival.at_ps)
    cost_bits = (DATA_BYTES + FCS_BYTES + ADJUST_BYTES) * 8
    edges = [told_ps, told_ps + T0_NS * PS_PER_NS, told_ps + T1_NS * PS_PER_NS,
             sent[-1].arrival.at_ps]  # fmt: skip
    modes = (Mode.PESSIMISTIC, Mode.HALFTIMISTIC, Mode.OPTIMISTIC)
    for mode, begin, end in zip(modes, edges, edges[1:], strict=False):
        whole = sum(begin < at_switch[key] <= end
                    for key in is_data if fates.get(key) is Fate.WHOLE)  # fmt: skip
        expected = RATE_BPS // mode.value * (end - begin) / PS_PER_S / cost_bits
        share = whole * (DATA_BYTES + WIRE_BYTES) * 8 * PS_PER_S / (end - begin) / LINE_BPS
        name = mode.name.lower()
        table.check(part, f"{name}, {(end - begin) / 1e6:.1f} us: packets that pass whole",
                    f"{expected:.1f} +- 2", f"{whole}, {share:.3f} of the line",
                    abs(whole - expected) <= 2)  # fmt: skip


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, help=f"research_projects/NDP ({VARIABLE})")
    parser.add_argument("--studio", type=Path, help=f"p4lang/open-p4studio ({STUDIO_VARIABLE})")
    options = parser.parse_args()
    checkout = options.checkout or os.environ.get(VARIABLE)
    if checkout is None or not (Path(checkout) / PROGRAM).is_file():
        print(f"skipped: no checkout of NDP's program: --checkout or {VARIABLE} names one")
        return 0
    studio = options.studio or os.environ.get(STUDIO_VARIABLE)
    if studio is None or not (Path(studio) / CLIENT).is_dir():
        print(f"skipped: no checkout of P4 Studio: --studio or {STUDIO_VARIABLE} names one")
        return 0
    table = Table()
    try:
        with tempfile.TemporaryDirectory(prefix="ebb-ndp-tna-") as scratch:
            client = client_of(python_path(Path(studio).resolve(), Path(scratch)))
            print("| part | check | expected | seen | |\n|---|---|---|---|---|", flush=True)
            for part in (below_burst, incast, shallow_queue, lasting_incast):
                part(table, client, Path(checkout).resolve())
    except (RunError, InputError, SimulatorError) as error:
        print(f"ndp_tna: {error}", file=sys.stderr)
        return 2
    print(f"\n{len(table.rows) - table.failed} of {len(table.rows)} checks pass")
    return 1 if table.failed else 0


if __name__ == "__main__":
    sys.exit(main())
