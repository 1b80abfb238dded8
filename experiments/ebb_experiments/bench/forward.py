"""Cost of one switch per packet, beside a process that only forwards and beside BMv2."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shutil
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from ebb_experiments.bench.forward_net import Forwarder, ForwardNet, Load, Program
from ebb_experiments.bench.machine import output_of
from ebb_experiments.bench.section import Cell, Context, Section

RATES = (40_000, 100_000)
"""Rates in packets per second."""
FRAME_BYTES = (64, 1500)
RATIO_TO_FORWARDER = 1.5
"""Processor time per packet over that of the forwarder, with ordinary sockets, at most."""
RATIO_TO_BMV2 = 5.0
"""BMv2's processor time per packet over ours at the lower rate, at least; the aim is twice that."""
SECONDS = 1.5
QUICK_SECONDS = 1.0
ROUNDS = 3
"""How often all processes take turns: a machine is not always as fast, so the medians count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Rounds of one process with one program at one load."""

    program: str
    who: str
    frame_bytes: int
    rate: int
    rounds: list[Load]

    @property
    def sent(self) -> int:
        """Packets sent, of all rounds."""
        return sum(load.sent for load in self.rounds)

    @property
    def received(self) -> int:
        """Packets that arrived, of all rounds."""
        return sum(load.received for load in self.rounds)

    @property
    def cpu_us(self) -> float | None:
        """Processor time per packet of the process between the veths."""
        each = [load.cpu_s * 1e6 / load.received for load in self.rounds if load.received]
        return statistics.median(each) if each else None

    @property
    def lost(self) -> float:
        """Share of the packets that did not arrive."""
        return 1 - self.received / self.sent


def run(context: Context) -> Section:
    """Measures all processes in turn at each load."""
    seconds = QUICK_SECONDS if context.quick else SECONDS
    rounds = 1 if context.quick else ROUNDS
    runs = _measure(context, seconds, rounds)
    return Section(
        title="one switch between two veths: processor time per packet",
        parameters={
            "seconds": seconds,
            "rounds": rounds,
            "routes": "router: 1; fabric: those of 2 hosts",
        },
        columns=("process", "bytes", "packets/s", "lost %", "us/packet", "x forwarder"),
        names=3,
        rows=[_row(runs, result) for result in runs],
        verdicts=_verdicts(runs),
        details=[dataclasses.asdict(result) for result in runs],
    )


def _measure(context: Context, seconds: float, rounds: int) -> list[Run]:
    tool = _forward_tool(context)
    runs: dict[tuple[Program, str, int, int], Run] = {}
    for _ in range(rounds):
        for program in (Program.ROUTER, Program.FABRIC):
            for forwarder in _processes(context, tool, program):
                with ForwardNet(context, tool, program) as net, net.between(forwarder):
                    for rate, size in itertools.product(RATES, FRAME_BYTES):
                        new = Run(
                            program=program.value,
                            who=forwarder.name,
                            frame_bytes=size,
                            rate=rate,
                            rounds=[],
                        )
                        run_ = runs.setdefault((program, forwarder.name, rate, size), new)
                        run_.rounds.append(net.load(size, rate, seconds))
    return list(runs.values())


def _processes(context: Context, tool: str, program: Program) -> Iterator[Forwarder]:
    ports = ("{1}", "{2}")
    if program is Program.ROUTER:
        forward = ("recvmmsg", "batches"), ("ring", "ring")
        for name, how in forward:
            command = [tool, how, *ports, "3600"]
            yield Forwarder(name=f"forwarder, {name}", command=command, is_switch=False)
    interfaces = ["-i", "1@{1}", "-i", "2@{2}"]
    listen = ["--grpc-server-addr", "127.0.0.1:{grpc}"]
    ours = [str(context.agent.parent / "ebb-switch"), "--no-p4", "--device-id", "1"]
    for name in ("sockets", "ring"):
        yield Forwarder(name=f"ebb, {name}", command=[*ours, *interfaces, *listen, "--io", name])
    if (theirs := shutil.which("simple_switch_grpc")) is not None:
        command = [theirs, "--no-p4", "--device-id", "1", *interfaces, "--", *listen]
        yield Forwarder(name="bmv2", command=command)


def _forward_tool(context: Context) -> str:
    """Builds `common/packet-io/examples/forward.rs`, which also makes the packets; returns its
    path."""
    command = ["cargo", "build", "--quiet", "--locked", "-p", "ebb-packet-io"]
    command += ["--example", "forward", "--message-format", "json"]
    built = map(json.loads, output_of(*command, folder=context.root).splitlines())
    (path,) = (
        line["executable"]
        for line in built
        if line.get("target", {}).get("name") == "forward" and line.get("executable")
    )
    return str(path)


def _find(runs: list[Run], like: Run, forwarder: str, program: str) -> Run | None:
    for run_ in runs:
        same = run_.frame_bytes == like.frame_bytes and run_.rate == like.rate
        if same and (run_.who, run_.program) == (forwarder, program):
            return run_
    return None


def _ratio(of: Run, to: Run | None) -> float | None:
    """Ratio of the processor times per packet; none if one of them is not known."""
    if to is None or not to.cpu_us or of.cpu_us is None:
        return None
    return of.cpu_us / to.cpu_us


def _row(runs: list[Run], result: Run) -> tuple[Cell, ...]:
    plain = _find(runs, result, "forwarder, recvmmsg", Program.ROUTER.value)
    return (
        f"{result.program}: {result.who}",
        result.frame_bytes,
        result.rate,
        round(100 * result.lost, 2),
        result.cpu_us,
        _ratio(result, plain),
    )


def _verdicts(runs: list[Run]) -> list[str]:
    verdicts = []
    for result in (r for r in runs if r.who.startswith("ebb")):
        name = f"{result.program}, {result.who}, {result.frame_bytes} bytes"
        if result.rate == max(RATES):
            lost = result.sent - result.received
            verdicts.append(
                f"{name} at {result.rate}/s: {lost} of {result.sent} lost; the target is none: "
                + ("reached" if lost == 0 else "missed")
            )
            plain = _find(runs, result, "forwarder, recvmmsg", Program.ROUTER.value)
            ratio = _ratio(result, plain)
            if ratio is not None and result.who == "ebb, sockets":
                verdicts.append(
                    f"{name}: {ratio:.2f} times the plain forwarder's processor time; the target "
                    f"is {RATIO_TO_FORWARDER:g} at most: "
                    + ("reached" if ratio <= RATIO_TO_FORWARDER else "missed")
                )
        else:
            theirs = _find(runs, result, "bmv2", result.program)
            if theirs is None:
                continue
            ratio = _ratio(theirs, result)
            if ratio is not None:
                verdicts.append(
                    f"{name} at {result.rate}/s: {ratio:.1f} times less processor time than BMv2; "
                    f"the target is {RATIO_TO_BMV2:g}: "
                    + ("reached" if ratio >= RATIO_TO_BMV2 else "missed")
                )
    if not any(r.who == "bmv2" for r in runs):
        verdicts.append("BMv2 was not measured: simple_switch_grpc is not on PATH")
    return verdicts
