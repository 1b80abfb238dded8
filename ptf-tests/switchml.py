# SPDX-License-Identifier: Apache-2.0
"""Runs SwitchML's allreduce in a lab: its program and controller, unchanged, and our workers.

    python ptf-tests/switchml.py [--checkout DIR] [--studio DIR] [--workers N] [--numbers N]

DIR has p4lang/p4app-switchML (or EBB_SWITCHML), and p4lang/open-p4studio with the client of BF
Runtime (or EBB_OPEN_P4STUDIO); without them the run is skipped, and says so. Each run adds up
random numbers of all workers, in virtual time, with packets of 64 numbers and of 256, which pass
four pipes: without loss, with packets lost at random between workers and switch, and with the drops
that the program itself simulates. Every worker's sums are compared with numpy's, bit for bit
(docs/tofino-lab.md). Exit code 1 if any differs.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import studio  # noqa: E402
from ebb_experiments.lab.lab import Lab  # noqa: E402
from ebb_experiments.run.conversation import SimulatorError  # noqa: E402
from ebb_topologies.errors import InputError  # noqa: E402
from run import RunError  # noqa: E402
from switchml_worker import BASE_PORT, SIZES, Address, Numbers, Settings, Worker  # noqa: E402

VARIABLE = "EBB_SWITCHML"
"""Environment variable with the checkout."""
PROGRAM = "dev_root/p4/switchml.p4"
CONTROLLER = "dev_root/controller"
PROTO = "dev_root/protos"
SWITCH = "s1"
SWITCH_MAC = "02:00:00:ff:00:01"
SWITCH_IP = "10.0.0.254"
WORKER_PORT = 4800
"""UDP port of the workers."""
LANES = 4
"""Ports of a connector."""
GENERATOR_PORTS = (192, 448)
"""Ports of packet generators by which packets of 256 numbers come back to ingress. The controller
asks an operator for them."""
MOST_WORKERS = {64: 32, 256: 16}
"""By the numbers of a packet; for those of 256 each worker has a port of pipe 1."""
HARVEST3 = "Ingress.next_step_selector.recirculate_for_HARVEST3"
HARVEST3_PORT = 324
"""A port of pipe 2, from whose registers the program reads in this pass. The controller has 448,
of pipe 3, whose numbers would be read twice."""
RATE_BPS = 25_000_000_000
DELAY_NS = 1_000
LIMIT_NS = 1_000_000_000
"""A run that is not over after this time has failed."""
STEP_NS = 1_000_000
COLOURS = '''"""In the place of a library that colours the prompt, which nobody sees."""


def color(text, *_, **__):
    return text
'''


class Network(Protocol):
    """The part of a lab that an allreduce needs."""

    @property
    def now_ns(self) -> int:
        """The clock."""

    def attach(self, host: str, receive: Callable[[int, bytes], None]) -> None:
        """Has frames that arrive at a host given to a function."""

    def send(self, host: str, frame: bytes, at_ns: int | None = None) -> None:
        """Sends a frame."""

    def call(self, at_ns: int, function: Callable[[], None]) -> None:
        """Has a function called at a time."""

    def run(self, until_ns: int) -> None:
        """Runs the clock."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How packets are lost in a run."""

    name: str
    lost: float = 0.0
    """Share of packets that are lost between workers and switch, in each direction."""
    dropped: float = 0.0
    """Share that the program drops in each gress."""
    goes_on: bool = False
    """Whether it is the next job of the same session: the switch is as the last one left it."""


@dataclass(slots=True)
class Losses:
    """Packets that are lost at random at the workers, in both directions."""

    share: float
    dice: random.Random
    to_switch: int = 0
    to_workers: int = 0

    def loses(self) -> bool:
        """Whether the next packet is lost."""
        return self.share > 0 and self.dice.random() < self.share


@dataclass(slots=True)
class Allreduce:
    """The workers of one allreduce, at the hosts of a network."""

    network: Network
    workers: dict[str, Worker]
    losses: Losses
    began_ns: int = field(init=False)
    ended_ns: int = field(init=False)
    _woken_ns: dict[str, int] = field(init=False, default_factory=dict)

    def run(self) -> None:
        """Runs until all workers have all sums. Raises `RunError` if they do not get them."""
        network = self.network
        self.began_ns = self.ended_ns = network.now_ns
        for host, worker in self.workers.items():
            network.attach(host, self._receiver(host, worker))
            self._send(host, worker, worker.start(network.now_ns))
        while not all(worker.is_done for worker in self.workers.values()):
            if network.now_ns >= self.began_ns + LIMIT_NS:
                missing = sum(w.packets - w.counts.sums for w in self.workers.values())
                raise RunError(f"{missing} sums are missing after {LIMIT_NS / 1e9} s")
            network.run(network.now_ns + STEP_NS)
        network.run(network.now_ns + STEP_NS)  # what is still on its way arrives

    @property
    def duration_ns(self) -> int:
        """From the first packet to the last sum."""
        return self.ended_ns - self.began_ns

    @property
    def arrived(self) -> int:
        """Packets that have arrived at workers, those included that were lost there."""
        counts = [worker.counts for worker in self.workers.values()]
        return sum(of.sums + of.others for of in counts) + self.losses.to_workers

    def _receiver(self, host: str, worker: Worker) -> Callable[[int, bytes], None]:
        def receive(now_ns: int, frame: bytes) -> None:
            if self.losses.loses():
                self.losses.to_workers += 1
                return
            sums = worker.counts.sums
            frames = worker.receive(now_ns, frame)
            if worker.counts.sums > sums:
                self.ended_ns = max(self.ended_ns, now_ns)
            self._send(host, worker, frames)

        return receive

    def _send(self, host: str, worker: Worker, frames: Iterable[bytes]) -> None:
        for frame in frames:
            if self.losses.loses():
                self.losses.to_switch += 1
            else:
                self.network.send(host, frame)
        due = worker.due_ns
        if due is not None and host not in self._woken_ns:
            self._woken_ns[host] = due
            self.network.call(due, lambda: self._wake(host, worker))

    def _wake(self, host: str, worker: Worker) -> None:
        del self._woken_ns[host]
        self._send(host, worker, worker.tick(self.network.now_ns))


@dataclass(slots=True)
class Control:
    """SwitchML's controller, connected to a switch."""

    theirs: Any
    messages: Any
    """Its requests."""
    switch: Address | None = None
    """The address that the session has been told."""

    @classmethod
    def connect(
        cls, checkout: Path, client: Path, scratch: Path, address: str, hosts: list[Address]
    ) -> Control:
        """Starts the controller, which sets its tables."""
        made = scratch / "controller"
        made.mkdir()
        (made / "colors.py").write_text(COLOURS)
        studio.generate(made, [checkout / PROTO], ["switchml.proto"])
        # Where an installation of P4 Studio has the client.
        place = scratch / "sde" / "lib" / "python3" / "site-packages"
        place.mkdir(parents=True)
        (place / "tofino").symlink_to(client)
        os.environ["SDE_INSTALL"] = str(scratch / "sde")
        studio.client_of(client)
        sys.path[:0] = [str(checkout / CONTROLLER), str(made)]
        # Another module is called like this one.
        path = checkout / CONTROLLER / "switchml.py"
        spec = importlib.util.spec_from_file_location("switchml_controller", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)

        class Controller(module.SwitchML):  # type: ignore[misc, name-defined]
            """Raises errors, where theirs ends the process."""

            def critical_error(self, message: str) -> None:
                raise RunError(f"SwitchML's controller: {message}")

        ports = scratch / "ports.yaml"
        ports.write_text("ports:\n" + "".join(
            f'    {lane(port)}: {{speed: "25G", mac: "{text_of(host.mac)}"}}\n'
            for port, host in enumerate(hosts, 1)
        ))  # fmt: skip
        _fold(address)
        theirs = Controller()
        ip, _, port = address.rpartition(":")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            asyncio.set_event_loop(asyncio.new_event_loop())
            theirs.setup("switchml", SWITCH_MAC, SWITCH_IP, ip, int(port), str(ports), True)
        theirs.grpc_server.ctrl = theirs
        return cls(theirs, importlib.import_module("switchml_pb2"))

    def mend(self) -> None:
        """Has the pass HARVEST3 take place in pipe 2."""
        selector = self.theirs.next_step_selector
        table, port = selector.table, selector.gc.DataTuple("recirc_port", HARVEST3_PORT)
        for data, key in list(table.entry_get(self.theirs.target)):
            if data.to_dict()["action_name"] == HARVEST3:
                table.entry_mod(self.theirs.target, [key], [table.make_data([port], HARVEST3)])

    def open_session(self, hosts: list[Address], numbers: int) -> None:
        """Opens a session of all workers, as their clients do, which clears the switch."""
        for rank, host in enumerate(hosts):
            request = self.messages.UdpSessionRequest(
                session_id=0, rank=rank, num_workers=len(hosts), packet_size=SIZES[numbers],
                mac=int.from_bytes(host.mac, "big"), ipv4=int.from_bytes(host.ip, "big"),
            )  # fmt: skip
            answer = self.theirs.grpc_server.UdpSession(request, None)
            if answer.mac == 0:
                raise RunError(f"the controller refuses worker {rank}")
            mac, ip = answer.mac.to_bytes(6, "big"), answer.ipv4.to_bytes(4, "big")
            self.switch = Address(mac, ip, BASE_PORT)

    def begin(self, share: float) -> None:
        """Sets counters to 0, and has the program drop packets in ingress and in egress."""
        simulator = self.theirs.drop_simulator
        simulator.set_drop_probabilities(0, 0)
        simulator.reset_counter()
        self.theirs.next_step_selector.reset_counters()
        self.theirs.udp_receiver.reset_counters()
        self.theirs.udp_sender.reset_counters()
        if share > 0:
            done, error, _ = simulator.set_drop_probabilities(share, share)
            if not done:
                raise RunError(f"SwitchML's controller: {error}")

    def counts(self, slots: int) -> dict[str, int]:
        """The counters of the switch, those of slots as sums."""
        of_slots = self.theirs.next_step_selector.get_counters(0, slots)
        counts = {
            name: sum(of[name] for of in of_slots)
            for name in ("broadcast", "retransmit", "recirculate", "drop")
        }
        received = self.theirs.udp_receiver.get_workers_counter()
        sent = self.theirs.udp_sender.get_workers_counter()
        counts["received"] = sum(of["rpkts"] for of in received.values())
        counts["sent"] = sum(of["spkts"] for of in sent.values())
        simulated = self.theirs.drop_simulator.get_counter()
        counts["simulated"] = sum(of["packets"] for of in simulated)
        return counts


def _fold(address: str) -> None:
    """Has packets come back to ingress by ports of packet generators."""
    client = importlib.import_module("bfrt_grpc.client")
    interface = client.ClientInterface(address, client_id=1, device_id=0)
    interface.bind_pipeline_config("switchml")
    table = interface.bfrt_info_get("switchml").table_get("tf1.pktgen.port_cfg")
    table.entry_add(
        client.Target(device_id=0),
        [table.make_key([client.KeyTuple("dev_port", port)]) for port in GENERATOR_PORTS],
        [table.make_data([client.DataTuple("recirculation_enable", bool_val=True)])]
        * len(GENERATOR_PORTS),
    )
    interface.tear_down_stream()


def lane(port: int) -> str:
    """A port as the front panel has it: connector and lane."""
    return f"{port // LANES + 1}/{port % LANES}"


def text_of(mac: bytes) -> str:
    """A MAC address as text."""
    return mac.hex(":").upper()


def addresses(workers: int) -> list[Address]:
    """The addresses of workers."""
    return [
        Address(bytes([2, 0, 0, 0, 0, n]), bytes([10, 0, 0, n]), WORKER_PORT)
        for n in range(1, workers + 1)
    ]


def name_of(rank: int) -> str:
    """The host of a worker."""
    return f"h{rank + 1}"


def topology(program: Path, workers: int) -> dict[str, Any]:
    """The lab: a switch with a host for each worker."""
    hosts = [name_of(rank) for rank in range(workers)]
    return {
        "name": "switchml",
        "switch": [{"name": SWITCH}],
        "host": [{"name": host} for host in hosts],
        "link": [
            {"ends": [host, SWITCH], "ports": [1, port], "rate_bps": RATE_BPS, "delay_ns": DELAY_NS}
            for port, host in enumerate(hosts, 1)
        ],
        "program": {SWITCH: {"p4": str(program), "arch": "tna", "device_id": 0}},
    }


def random_numbers(count: int, dice: np.random.Generator) -> Numbers:
    """Numbers of all 32 bits, so that sums wrap around, as the program's do."""
    info = np.iinfo(np.int32)
    return dice.integers(info.min, info.max, count, dtype=np.int32, endpoint=True)


HEAD = (
    "| numbers of a packet | run | sent | sent again | lost | simulated drops | broadcast "
    "| retransmitted | ms | equal |\n|--:|---|--:|--:|--:|--:|--:|--:|--:|---|"
)


@dataclass(slots=True)
class Bench:
    """Runs allreduces one after the other, and prints a row of each."""

    network: Network
    control: Control
    options: argparse.Namespace
    shift: int = 0
    jobs: int = 0

    def run(self, plan: Plan, numbers: int) -> bool:
        """Runs an allreduce with packets of so many numbers; whether all is right."""
        options, control = self.options, self.control
        hosts = addresses(options.workers)
        if not plan.goes_on:
            control.open_session(hosts, numbers)
            self.shift = 0
        assert control.switch is not None, "a session is open"
        control.begin(plan.dropped)
        dice = np.random.default_rng([options.seed, self.jobs])
        settings = Settings(numbers, options.window, options.timeout_us * 1000)
        given = [random_numbers(options.numbers, dice) for _ in hosts]
        workers = {
            name_of(rank): Worker(host, control.switch, mine, self.jobs, settings, self.shift)
            for rank, (host, mine) in enumerate(zip(hosts, given, strict=True))
        }
        losses = Losses(plan.lost, random.Random(f"{options.seed} {self.jobs}"))
        allreduce = Allreduce(self.network, workers, losses)
        allreduce.run()
        of_all = list(workers.values())
        self.shift, self.jobs = of_all[0].next_shift, self.jobs + 1
        expected = np.sum(given, axis=0, dtype=np.int32)
        equal = all(np.array_equal(of.result[: options.numbers], expected) for of in of_all)
        counts = control.counts(settings.window)
        sent, again = sum(of.counts.sent for of in of_all), sum(of.counts.again for of in of_all)
        # Each sum is made once, and no packet is lost but those that are meant to be.
        right = counts["broadcast"] == of_all[0].packets
        right &= counts["received"] == sent - losses.to_switch
        right &= counts["sent"] == allreduce.arrived or plan.dropped > 0
        print(
            f"| {numbers} | {plan.name} | {sent} | {again} "
            f"| {losses.to_switch} + {losses.to_workers} | {counts['simulated']} "
            f"| {counts['broadcast']} | {counts['retransmit']} "
            f"| {allreduce.duration_ns / 1e6:.3f} | {'yes' if equal else 'NO'}"
            f"{'' if right else f', but the switch counts {counts}'} |",
            flush=True,
        )
        return equal and right


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, help=f"of p4lang/p4app-switchML ({VARIABLE})")
    parser.add_argument(
        "--studio", type=Path, help=f"checkout of p4lang/open-p4studio ({studio.VARIABLE})"
    )
    parser.add_argument("--workers", type=int, default=16, help="2 to 32 (default: %(default)s)")
    parser.add_argument("--numbers", type=int, default=65536, help="of each worker (%(default)s)")
    parser.add_argument("--window", type=int, default=64, help="packets on their way (%(default)s)")
    parser.add_argument("--timeout-us", type=int, default=200, help="(default: %(default)s)")
    parser.add_argument("--loss", type=float, default=0.01, help="share (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    parser.add_argument(
        "--as-published",
        action="store_true",
        help=f"leave the controller's port of HARVEST3 (default: {HARVEST3_PORT}, of pipe 2)",
    )
    options = parser.parse_args()
    if not 2 <= options.workers <= max(MOST_WORKERS.values()):
        parser.error(f"{options.workers} workers; the program has 2 to 32")
    found = []
    for given, variable, what, inside in (
        (options.checkout, VARIABLE, "p4lang/p4app-switchML", PROGRAM),
        (options.studio, studio.VARIABLE, "p4lang/open-p4studio", studio.CLIENT),
    ):
        place = given or os.environ.get(variable)
        if place is None or not (Path(place) / inside).exists():
            print(f"skipped: no checkout of {what}: an option or {variable} names one")
            return 0
        found.append(Path(place).resolve())
    share = f"{100 * options.loss:g} %"
    plans = [
        Plan("no loss"),
        Plan("the next job", goes_on=True),
        Plan(f"{share} lost, each way", lost=options.loss),
        Plan(f"{share} dropped by the program, each gress", dropped=options.loss),
        Plan(f"{share} of both", lost=options.loss, dropped=options.loss),
    ]
    try:
        with tempfile.TemporaryDirectory(prefix="ebb-switchml-") as scratch:
            checkout, client = found
            return run(checkout, client, Path(scratch), plans, options)
    except (InputError, RunError, SimulatorError) as error:
        print(f"switchml: {error}", file=sys.stderr)
        return 2


def run(
    checkout: Path, client: Path, scratch: Path, plans: list[Plan], options: argparse.Namespace
) -> int:
    """Runs all plans in one lab."""
    modules = studio.python_path(client, scratch)
    with Lab.of(topology(checkout / PROGRAM, options.workers), scratch) as lab:
        control = Control.connect(
            checkout, modules, scratch, lab.addresses[SWITCH], addresses(options.workers)
        )
        print(f"{options.workers} workers, {options.numbers} numbers of 32 bits each, "
              f"{options.window} slots\n\n{HEAD}", flush=True)  # fmt: skip
        if not options.as_published:
            control.mend()
        bench = Bench(lab, control, options)
        sizes = [numbers for numbers in SIZES if options.workers <= MOST_WORKERS[numbers]]
        done = [bench.run(plan, numbers) for numbers in sizes for plan in plans]
        if left_out := set(SIZES) - set(sizes):
            print(f"skipped: packets of {left_out.pop()} numbers, which the controller leads "
                  f"round for {min(MOST_WORKERS.values())} workers at most")  # fmt: skip
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
