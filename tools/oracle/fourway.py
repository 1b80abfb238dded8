"""Random packets and entries through two compilers and two switches: four ways, the same frames.

    PYTHONPATH=tools python3 -m oracle.fourway [--packets 1000] PROGRAM.p4 ... | @LIST

A LIST has a program per line, after a tab options for the compilers (`-I DIR`). docs/testing.md.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
import traceback
import zlib
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import bmv2, compilers, ebb
from .bmv2 import Run, Split, split
from .commands import Command, Packet, Script
from .compilers import OURS, THEIRS
from .known import (
    KNOWN,
    P4C_RUNS_ONCE,
    excused,
    has_loops,
    has_odd_prefixes,
    hashes_copies,
    legitimate,
)
from .model import Program
from .p4info import P4Info
from .packets import Packets
from .states import States

OUR_SWITCH, THEIR_SWITCH = "ebb-switch", "simple_switch"
MOST_TRIES = 8
"""How often the ways are run again: without a packet that ends BMv2, or with packets one by one."""

Way = tuple[str, str]
"""Compiler and switch."""


@dataclass(frozen=True)
class Options:
    packets: int = 1000
    """How many packets go through each of the four ways."""
    states: int = 10
    """How many table states there are, among which the packets are divided."""
    seed: int = 1
    batch: int = 100
    """How many packets BMv2 gets at once; where ways differ, they are sent again one by one."""
    build: Path = Path("build")
    """Folder with ebb-p4c and ebb-stf."""
    flags: tuple[str, ...] = ()
    """Options for both compilers: -I DIR, -DNAME."""
    keep: Path | None = None
    """Folder for the scripts of differences; none: they are not kept."""


@dataclass(slots=True)
class Result:
    program: str
    verdict: str
    """One of VERDICTS."""
    reason: str = ""
    packets: int = 0
    """How many packets went each way."""
    frames: int = 0
    """How many frames left on the first way."""
    states: int = 0
    ways: list[str] = field(default_factory=list)
    refused: int = 0
    """How many commands all ways refused."""
    ended: list[str] = field(default_factory=list)
    """Packets that ended a simple_switch, and are left out."""
    left_out: list[str] = field(default_factory=list)
    """Tables without entries, because they are not in every compiler's JSON."""
    seconds: float = 0.0


VERDICTS = {
    "same": "the same frames on all ways",
    "different": "other frames",
    "control": "a command that one way takes and another refuses",
    "accepted": "only one compiler takes the program",
    "legitimate": "otherwise, for a reason that is named",
    "refused": "no compiler takes the program",
    "error": "a way could not be run",
}
BAD = ("different", "control", "accepted", "error")


def compare(program: Path, options: Options) -> Result:
    """Compares one program on all the ways for which the tools are there."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ebb-four-ways-") as folder:
        try:
            result = FourWay(program, options, Path(folder)).run()
        except Exception as error:  # one program must not take the others with it
            place = traceback.extract_tb(error.__traceback__)[-1]
            problem = f"{type(error).__name__}: {error} ({place.filename}:{place.lineno})"
            result = Result(str(program), "error", problem)
    result.seconds = round(time.monotonic() - began, 1)
    if result.verdict in BAD and (reason := KNOWN.get(program.stem)):
        result.verdict, result.reason = "legitimate", f"{reason} ({result.reason})"
    return result


class FourWay:
    def __init__(self, path: Path, options: Options, folder: Path) -> None:
        self.path, self.options, self.folder = path, options, folder
        self.programs: dict[str, Program] = {}
        self.zeroed: dict[str, Program] = {}
        """Programs for BMv2, whose parsers first set all header fields to 0, by compiler."""
        self.runs: dict[Way, Run] = {}
        self.absent: dict[Way, str] = {}
        """Ways whose switch refuses the program, and why."""
        self.result = Result(str(path), "same")

    def run(self) -> Result:
        compiled = {}
        for compiler in (OURS, THEIRS):
            if compilers.command(compiler, self.options.build):
                compiled[compiler] = compilers.compile_program(
                    compiler,
                    self.options.build,
                    self.path,
                    self.options.flags,
                    self.folder / compiler,
                )
        for compiler, made in compiled.items():
            if made.json:
                program = self.programs[compiler] = Program(made.json)
                self.zeroed[compiler] = program.with_zeros(made.json.with_name("zeros.json"))
        refused = {name: made for name, made in compiled.items() if not made.json}
        if refused:
            name, made = next(iter(refused.items()))
            problem = f"{name}: {made.problem}"
            if not self.programs:
                return self.tell("refused", problem)
            if name == THEIRS and (reason := excused(made.problem)):
                return self.tell("legitimate", f"{reason} ({problem})")
            return self.tell("accepted", problem)
        info = P4Info(next(iter(compiled.values())).p4info.read_text())
        in_all = set.intersection(*(set(p.tables) for p in self.programs.values()))
        self.result.left_out = info.keep(in_all)
        commands = generate(self.programs[OURS], info, self.options, self.path.stem)
        return self.judge(commands)

    def tell(self, verdict: str, reason: str) -> Result:
        self.result.verdict, self.result.reason = verdict, reason
        return self.result

    def ways(self) -> list[Way]:
        switches = [OUR_SWITCH, *([THEIR_SWITCH] if bmv2.is_there() else [])]
        ways = [(compiler, switch) for switch in switches for compiler in self.programs]
        return [way for way in ways if way not in self.absent]

    def judge(self, commands: list[Command]) -> Result:
        """Runs all ways until they agree, or differ in one packet."""
        alone: set[int] = set()
        end = 0
        """The first packet that ends a switch, or whose batch differs."""
        for _ in range(MOST_TRIES):
            how = Split(self.options.batch, frozenset(alone))
            self.runs = {way: self.one(way, commands, how) for way in self.ways()}
            batches = split(commands, how)
            if ended := self.first_ended():
                reason = f"{' + '.join(ended)}: {self.runs[ended].ended}"
                if not self.runs[ended].frames and "panicked" not in reason:
                    self.absent[ended] = reason
                    continue
                last = batches[len(self.runs[ended].frames) - 1]
                if ended[1] == OUR_SWITCH or not last.packets:
                    return self.tell("error", reason)
                end = last.places[0]
                if len(last.packets) == 1:
                    if self.ends_ours_alone(ended):
                        packet = last.packets[0].data.hex()
                        return self.tell("different", f"{reason}, and not with p4c's: {packet}")
                    self.result.ended.append(f"{reason}: {last.packets[0].data.hex()}")
                    commands = [c for c in commands if c is not last.packets[0]]
                    alone = {place - (place > end) for place in alone}
                    if bmv2.ENDLESS in reason:
                        break
                else:
                    alone |= set(last.places)
                continue
            if differing := self.controls(commands):
                return self.tell("control", differing)
            number = self.difference()
            if number is None or len(batches[number].packets) == 1:
                return self.verdict(commands, number, how)
            alone |= set(batches[number].places)
            end = batches[number].places[0]
        reasons = {way: run.ended for way, run in self.runs.items() if run.ended}
        if (THEIRS, THEIR_SWITCH) in reasons and all(way[1] == THEIR_SWITCH for way in reasons):
            return self.without_bmv2(commands, reasons[THEIRS, THEIR_SWITCH])
        return self.until(commands[:end])

    def first_ended(self) -> Way | None:
        """The way that ended at the first of all packets at which one did."""
        ways = [way for way, run in self.runs.items() if run.ended]
        return min(ways, key=lambda way: len(self.runs[way].frames), default=None)

    def ends_ours_alone(self, ended: Way) -> bool:
        """Whether BMv2, running p4c's output, survives the packet at which it ended with ours."""
        theirs = self.runs.get((THEIRS, THEIR_SWITCH))
        if ended[0] != OURS or theirs is None:
            return False
        return not theirs.ended or len(theirs.frames) > len(self.runs[ended].frames)

    def until(self, commands: list[Command]) -> Result:
        """The result when trying again does not help: of the packets before, one by one."""
        how = Split(self.options.batch, frozenset(range(len(commands))))
        self.runs = {way: self.one(way, commands, how) for way in self.ways()}
        if ended := next((run.ended for run in self.runs.values() if run.ended), None):
            return self.tell("error", f"still ended: {ended}")
        self.result.reason = f"after {MOST_TRIES} tries, only the first packets"
        return self.verdict(commands, self.difference(), how)

    def without_bmv2(self, commands: list[Command], reason: str) -> Result:
        """The result of both compilers' outputs on our switch, when many packets end BMv2 with
        p4c's."""
        reason = f"too many packets end it: {reason}"
        self.absent |= {way: reason for way in self.ways() if way[1] == THEIR_SWITCH}
        how = Split(1)
        self.runs = {way: self.one(way, commands, how) for way in self.ways()}
        if ended := next((run.ended for run in self.runs.values() if run.ended), None):
            return self.tell("error", ended)
        if differing := self.controls(commands):
            return self.tell("control", differing)
        return self.verdict(commands, self.difference(), how)

    def one(self, way: Way, commands: list[Command], how: Split) -> Run:
        compiler, switch = way
        if switch == OUR_SWITCH:
            return ebb.run(self.programs[compiler], commands, how, self.options.build)
        return bmv2.run(self.zeroed[compiler], commands, how)

    def controls(self, commands: list[Command]) -> str:
        """In words, a command that some ways refuse and others do not; empty if there is none."""
        sets = {way: set(run.refused) for way, run in self.runs.items()}
        common = set.intersection(*sets.values())
        self.result.refused = len(common)
        for way, refused in sets.items():
            for place in sorted(refused - common):
                text = Script(self.programs[way[0]]).lines(commands[place])[0]
                return f"{' + '.join(way)} refuses `{text}`: {self.runs[way].refused[place]}"
        return ""

    def difference(self) -> int | None:
        """Number of the first batch whose frames differ; none if none do."""
        alike = zip(*(map(by_port, run.frames) for run in self.runs.values()), strict=True)
        for number, (first, *others) in enumerate(alike):
            if any(other != first for other in others):
                return number
        return None

    def verdict(self, commands: list[Command], number: int | None, how: Split) -> Result:
        first = next(iter(self.runs.values()))
        self.result.packets = sum(isinstance(command, Packet) for command in commands)
        self.result.frames = sum(map(len, first.frames))
        self.result.states = self.options.states
        self.result.ways = [" + ".join(way) for way in self.runs]
        if number is None:
            return self.without_absent()
        batch = split(commands, how)[number]
        packet = batch.packets[0]
        lines = [f"{packet.data.hex()} to port {packet.port}, command {batch.places[0]}:"]
        for way, run in self.runs.items():
            sent = ", ".join(f"{port}: {frame.hex()}" for port, frame in run.frames[number])
            lines.append(f"{' + '.join(way)}: {sent or 'nothing'}")
        text = "\n    ".join(lines)
        if reason := self.legitimate() or self.unsteady(commands, how):
            return self.tell("legitimate", f"{reason}\n    {text}")
        self.tell("different", text)
        self.keep(commands[: batch.places[0] + 1])
        return self.result

    def without_absent(self) -> Result:
        """The result when the ways agree, if some could not be gone."""
        if not self.absent:
            return self.result
        refusing = {switch for _, switch in self.absent}
        reason = "; ".join(self.absent.values())
        excused = all(way[1] == THEIR_SWITCH or way[0] == THEIRS for way in self.absent)
        if (OURS, THEIR_SWITCH) in self.absent and (THEIRS, THEIR_SWITCH) not in self.absent:
            excused = False
        if refusing == {OUR_SWITCH} or len(self.runs) < 2 or not excused:
            return self.tell("error", reason)
        return self.tell("legitimate", f"not on all ways: {reason}")

    def legitimate(self) -> str:
        """The reason why contents may differ; ports and lengths must still be the same."""
        first, *others = [[outline(frames) for frames in run.frames] for run in self.runs.values()]
        same = all(other == first for other in others)
        if reason := legitimate(self.programs[OURS], same):
            return reason
        theirs = self.programs.get(THEIRS)
        if theirs and self.switches_agree():
            if hashes_copies(self.programs[OURS], theirs):
                return "hashes fields of a header that is not valid"
            if has_loops(self.path.read_text(errors="replace")):
                return P4C_RUNS_ONCE
        if self.compilers_agree() and has_odd_prefixes(self.programs[OURS]):
            return "a prefix in a key of no whole bytes: BMv2 counts it from the first byte"
        return ""

    def switches_agree(self) -> bool:
        """Whether only the compilers make the difference."""
        pairs = (((c, OUR_SWITCH), (c, THEIR_SWITCH)) for c in (OURS, THEIRS))
        return all(self.agree(*pair) for pair in pairs)

    def compilers_agree(self) -> bool:
        """Whether only the switches make the difference."""
        return all(self.agree((OURS, s), (THEIRS, s)) for s in (OUR_SWITCH, THEIR_SWITCH))

    def agree(self, *ways: Way) -> bool:
        """Whether these ways send the same frames, as far as they are there."""
        sent = [list(map(by_port, self.runs[w].frames)) for w in ways if w in self.runs]
        return all(frames == sent[0] for frames in sent)

    def unsteady(self, commands: list[Command], how: Split) -> str:
        """Whether BMv2 with p4c's JSON differs from itself."""
        way = (THEIRS, THEIR_SWITCH)
        if way not in self.runs:
            return ""
        again = self.one(way, commands, how)
        before = [by_port(frames) for frames in self.runs[way].frames]
        if before != [by_port(frames) for frames in again.frames]:
            return "BMv2 differs from itself from run to run"
        return ""

    def keep(self, commands: list[Command]) -> None:
        """Writes down the commands up to the packet as an STF file for each compiler's output."""
        if not self.options.keep:
            return
        digest = zlib.crc32(str(self.path).encode())
        folder = self.options.keep / f"{self.path.stem}-{digest:08x}"
        folder.mkdir(parents=True, exist_ok=True)
        for compiler, program in self.programs.items():
            (folder / f"{compiler}.json").write_bytes(program.path.read_bytes())
            (folder / f"{compiler}.stf").write_text(Script(program).text(commands)[0])
        (folder / "result.json").write_text(json.dumps(asdict(self.result), indent=1))


def by_port(frames: list[tuple[int, bytes]]) -> dict[int, list[bytes]]:
    """Frames by port; order counts at each port only."""
    ports: dict[int, list[bytes]] = {}
    for port, frame in frames:
        ports.setdefault(port, []).append(frame)
    return ports


def outline(frames: list[tuple[int, bytes]]) -> dict[int, list[int]]:
    return {port: [len(frame) for frame in found] for port, found in by_port(frames).items()}


def generate(program: Program, info: P4Info, options: Options, name: str) -> list[Command]:
    """Random commands for a program, the same for the same seed and program."""
    rng = random.Random(zlib.crc32(name.encode()) ^ options.seed)
    states = States(program, info, rng)
    packets = Packets(program, states.values, rng)
    commands = states.first()
    for number in range(options.states):
        commands += states.next()
        share = (
            options.packets * (number + 1) // options.states
            - options.packets * number // options.states
        )
        commands += [Packet(*packets.next()) for _ in range(share)]
    return commands


def programs(arguments: list[str], flags: list[str]) -> list[tuple[Path, tuple[str, ...]]]:
    """The programs that are named, each with its flags for the compilers."""
    found = []
    for argument in arguments:
        if not argument.startswith("@"):
            found.append((Path(argument), tuple(flags)))
            continue
        for line in Path(argument[1:]).read_text().splitlines():
            path, _, own = line.partition("\t")
            if path:
                found.append((Path(path), (*flags, *own.split())))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="fourway", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("programs", nargs="+", metavar="PROGRAM.p4 or @LIST")
    parser.add_argument("--packets", type=int, default=Options.packets)
    parser.add_argument("--states", type=int, default=Options.states)
    parser.add_argument("--seed", type=int, default=Options.seed)
    parser.add_argument("--batch", type=int, default=Options.batch)
    parser.add_argument(
        "--build", type=Path, default=Options.build, help="where ebb-p4c and ebb-stf are"
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for the scripts of differences")
    parser.add_argument("--json", type=Path, help="file for a result per line")
    parser.add_argument("-I", dest="includes", action="append", default=[], metavar="DIR")
    parser.add_argument("-D", dest="defines", action="append", default=[], metavar="NAME[=VALUE]")
    given = parser.parse_args()
    flags = [f"-I{path}" for path in given.includes] + [f"-D{name}" for name in given.defines]
    for tool in (OURS, "ebb-stf"):
        if not (given.build / tool).exists():
            print(
                f"fourway: {given.build / tool} is not there: make build, or --build",
                file=sys.stderr,
            )
            return 2
    missing = [name for name in (THEIRS, THEIR_SWITCH) if not tool_is_there(name, given.build)]
    if len(missing) == 2:
        print(f"skipped: neither {THEIRS} nor {THEIR_SWITCH} is on PATH, nothing to compare with")
        return 0
    for name in missing:
        print(f"skipped: the two ways with {name}, which is not on PATH")
    work = [
        (
            path,
            Options(
                given.packets,
                given.states,
                given.seed,
                given.batch,
                given.build,
                flags,
                given.keep,
            ),
        )
        for path, flags in programs(given.programs, flags)
    ]
    results = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(compare, *one) for one in work]):
            result = done.result()
            results.append(result)
            show(result)
            if given.json:
                with given.json.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
    table(results)
    return 1 if any(result.verdict in BAD for result in results) else 0


def tool_is_there(name: str, build: Path) -> bool:
    return bmv2.is_there() if name == THEIR_SWITCH else compilers.command(name, build) is not None


def show(result: Result) -> None:
    if result.verdict == "same":
        counts = f"{result.packets} packets, {result.frames} frames"
        ended = f", {len(result.ended)} packets end BMv2" if result.ended else ""
        note = f": {result.reason}" if result.reason else ""
        if result.left_out:
            note += f" (not in every JSON, no entries: {', '.join(result.left_out)})"
        print(f"same          {result.program} ({counts}{ended}){note}", flush=True)
    else:
        print(f"{result.verdict:13} {result.program}: {result.reason}", flush=True)


def table(results: list[Result]) -> None:
    counts = Counter(result.verdict for result in results)
    packets: Counter[str] = Counter()
    for result in results:
        packets[result.verdict] += result.packets
    print(f"\n{'programs':>8} {'packets':>9}")
    for verdict, meaning in VERDICTS.items():
        if counts[verdict]:
            print(f"{counts[verdict]:8} {packets[verdict]:9}  {verdict}: {meaning}")
    print(f"{len(results):8} {sum(packets.values()):9}")
    for result in results:
        if result.verdict == "legitimate":
            print(f"  {Path(result.program).name}: {result.reason.splitlines()[0]}")


if __name__ == "__main__":
    sys.exit(main())
