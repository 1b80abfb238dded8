"""`generated_programs [--seeds 0..2000]`: random programs through both compilers and switches.

Each program of p4-generator is compiled by ebb-p4c and p4c-bm2-ss: both must take it or refuse it,
the JSON must mean the same (`compare_json`), and packets must fare the same on every way through
the two compilers and the two switches (`oracle.fourway`; without simple_switch on our switch only).
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from compare import runner
from oracle import bmv2
from oracle.commands import Command
from oracle.compilers import OURS, THEIRS, command
from oracle.fourway import FourWay, Options, Result

AGREED, DIFFERENT, MISSING = 0, 1, 2
NODES = 400_000
"""The most nodes of a diagram of `compare_json`, after which it gives up."""


@dataclass(slots=True)
class Outcome:
    seed: int
    packets: Result
    meaning: str = "not reached"
    """A verdict of `compare.runner`, or `not reached` if a compiler refused; left is ours."""
    details: list[str] = field(default_factory=list)
    reasons: set[str] = field(default_factory=set)
    """Why what differs is nobody's fault, and what was left out."""

    @property
    def good(self) -> bool:
        if self.meaning in ("not reached", "not usable"):
            return self.packets.verdict in ("refused", "legitimate")
        same = self.packets.verdict in ("same", "legitimate")
        return same and self.meaning in ("equal", "explained")


class Both(FourWay):
    """Compares what both compilers made before packets are sent."""

    def __init__(self, path: Path, options: Options, folder: Path) -> None:
        super().__init__(path, options, folder)
        self.meaning = "not reached"
        self.details: list[str] = []
        self.reasons: set[str] = set()

    def judge(self, commands: list[Command]) -> Result:
        ours, theirs = (self.programs[name].path for name in (OURS, THEIRS))
        self.meaning, result, problem = runner.judged(ours, theirs, NODES)
        self.details = [problem, *runner.findings(result)] if problem else runner.findings(result)
        self.reasons = {f"JSON: {d.reason}" for d in result.differences if d.reason}
        if problem:
            self.reasons.add(f"JSON: {problem}")
        return super().judge(commands)


def one(folder: Path, options: Options, seed: int) -> Outcome:
    program = folder / f"generated-{seed}.p4"
    with tempfile.TemporaryDirectory(prefix="ebb-generated-") as work:
        both = Both(program, options, Path(work))
        try:
            result = both.run()
        except Exception as error:  # One program must not take the others with it.
            result = Result(str(program), "error", f"{type(error).__name__}: {error}")
        reasons = set(both.reasons)
        if result.verdict == "legitimate":
            reasons.add("packets: " + re.split(r":| \(", result.reason)[0])
        if result.left_out:
            reasons.add("packets: a table that is not in every JSON got no entries")
        return Outcome(seed, result, both.meaning, both.details, reasons)


def generate(generator: Path, seeds: str, folder: Path) -> list[int]:
    first, _, end = seeds.partition("..")
    subprocess.run([generator, seeds, folder], check=True)
    return list(range(int(first), int(end)))


def tell(outcomes: list[Outcome]) -> None:
    switches = "both switches" if bmv2.is_there() else "our switch only: no simple_switch"
    verdicts = Counter(outcome.packets.verdict for outcome in outcomes)
    meanings = Counter(outcome.meaning for outcome in outcomes)
    packets = sum(outcome.packets.packets for outcome in outcomes)
    print(f"{len(outcomes)} programs, {packets} packets each way, {switches}")
    print("packets: " + ", ".join(f"{n} {what}" for what, n in verdicts.most_common()))
    print("JSON:    " + ", ".join(f"{n} {what}" for what, n in meanings.most_common()))
    reasons = Counter(reason for outcome in outcomes for reason in outcome.reasons)
    for reason, count in reasons.most_common():
        print(f"{count:6} {reason}")


def write_report(path: Path, outcomes: list[Outcome]) -> None:
    lines = []
    for outcome in sorted(outcomes, key=lambda o: o.seed):
        lines.append(f"== {outcome.seed}: {outcome.packets.verdict}, JSON {outcome.meaning}")
        lines += [*sorted(outcome.reasons), *outcome.packets.left_out]
        if not outcome.good or outcome.packets.verdict == "legitimate":
            lines += [outcome.packets.reason, *outcome.details]
    path.write_text("\n".join(lines) + "\n")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="generated_programs", description=__doc__)
    parser.add_argument("--seeds", default="0..2000", help="FIRST..END (default %(default)s)")
    parser.add_argument("--packets", type=int, default=100, help="of a program, each way")
    parser.add_argument("--states", type=int, default=4, help="states of tables, of a program")
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--build", type=Path, default=Path("build"), help="where ebb-p4c is")
    parser.add_argument(
        "--generator", type=Path, default=Path("target/debug/p4-generator"), metavar="FILE"
    )
    parser.add_argument("--report", type=Path, help="where every program's result is written")
    given = parser.parse_args(arguments)
    missing = [name for name in (OURS, THEIRS) if not command(name, given.build)]
    if not shutil.which(given.generator):
        missing.append(f"{given.generator} (cargo build -p ebb-p4-generator)")
    if missing:
        print(f"skipped: not there: {', '.join(missing)}")
        return MISSING
    options = Options(packets=given.packets, states=given.states, build=given.build)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="ebb-generated-") as name:
        folder = Path(name)
        seeds = generate(given.generator, given.seeds, folder)
        with ProcessPoolExecutor(given.jobs) as pool:
            work = partial(one, folder, options)
            for done in as_completed([pool.submit(work, seed) for seed in seeds]):
                outcomes.append(done.result())
                if given.report:
                    write_report(given.report, outcomes)
    tell(outcomes)
    return AGREED if all(outcome.good for outcome in outcomes) else DIFFERENT
