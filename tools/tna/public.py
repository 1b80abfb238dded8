"""`tools/tna_programs [--checkouts DIR] [NAME ...]`: public programs for Tofino on our switch.

`programs.tsv` lists them. Each is compiled with all folders from its own up to the root of its
repository, and the one that its build names besides, loaded, and run on random packets by ebb-stf,
interpreted and as native code, which must send the same frames; the table counts what became of
them.
DIR (or EBB_TNA_PROGRAMS) has a folder OWNER/NAME or OWNER+NAME of each repository; without it the
run is skipped, and says so. With `--lab FILE` nothing is run, but a file for `ebb-lab` written, in
which each program is on a switch of its own. docs/tofino-lab.md.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = Path(__file__).parent / "programs.tsv"
COMPILER, RUNNER = ROOT / "build" / "ebb-p4c", ROOT / "build" / "ebb-stf"
VARIABLE = "EBB_TNA_PROGRAMS"
"""Environment variable with the folder of the checkouts."""
PORTS = range(8)
PACKETS = 10_000
SECONDS = 600
"""How long a program may be compiled, and how long its packets may take."""
SURVIVED = "compiled, loaded, all packets survived"
MISSING = "includes a file that its repository does not have"
REFUSED = "refused: what is missing here"
FAULT = "not accepted: an error of the program, as the compiler sees it"
DIFFERS = "native code and interpreter send other frames"
FAILED = "compiled, but not loaded, or ended by a fault of ours"
ABSENT = "no checkout of its repository"
VERDICTS = (SURVIVED, REFUSED, MISSING, FAULT, DIFFERS, FAILED, ABSENT)
UNSUPPORTED = ("unsupported", "table-applied-twice", "other-architecture")
"""How the codes of errors begin that say what the compiler or the switch does not have."""


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the list."""

    repository: str
    """Owner and name."""
    path: str
    generation: int
    """The generation of the chip."""
    folder: str = ""
    """A folder of its repository with included files that is not above it; empty: none."""

    @property
    def name(self) -> str:
        return f"{self.repository}: {self.path}"

    @property
    def macro(self) -> str:
        """Macro by which it knows the generation."""
        return f"__TARGET_TOFINO__={self.generation}"

    def folders(self, root: Path) -> list[Path]:
        """Folders of the files that it includes, below the root of its repository."""
        parents = (root / self.path).parents
        found = [parent for parent in parents if parent.is_relative_to(root)]
        return found + [root / self.folder] * bool(self.folder)


@dataclass(frozen=True, slots=True)
class Outcome:
    program: Program
    verdict: str
    code: str = ""
    """The code of the first error."""
    reason: str = ""
    frames: int = 0
    """Frames that left the switch."""


def programs() -> list[Program]:
    with LIST.open(newline="") as file:
        return [
            Program(r["repository"], r["program"], int(r["generation"]), r["folder"])
            for r in csv.DictReader(file, delimiter="\t")
        ]


def checkout(folder: Path, program: Program) -> Path | None:
    """The root of the repository of a program; none: there is none with it."""
    for name in (program.repository, program.repository.replace("/", "+")):
        if (folder / name / program.path).is_file():
            return folder / name
    return None


def script(packets: int, seed: int) -> str:
    """An STF script that sends random frames: three tenths random bytes, the others Ethernet with
    random fields, mostly IPv4 with TCP or UDP."""
    rng = random.Random(seed)
    lines = (f"packet {rng.choice(PORTS)} {frame(rng).hex()}" for _ in range(packets))
    return "\n".join(lines) + "\n"


def frame(rng: random.Random) -> bytes:
    if rng.random() < 0.3:
        return rng.randbytes(rng.randrange(14, 200))
    ethernet = rng.randbytes(12)
    if rng.random() < 0.2:
        kind = rng.choice((0x0806, 0x8100, 0x86DD, 0x88CC, rng.getrandbits(16)))
        return ethernet + kind.to_bytes(2, "big") + rng.randbytes(rng.randrange(46, 200))
    protocol = rng.choice((6, 6, 17, 17, 1, rng.getrandbits(8)))
    payload = rng.randbytes(rng.randrange(20, 160))
    length = (20 + len(payload)).to_bytes(2, "big")
    time_to_live = rng.choice((64, 1, rng.getrandbits(8)))
    head = bytes([0x45, rng.getrandbits(8)]) + length + rng.randbytes(4)
    addresses = rng.randbytes(2) + rng.randbytes(8)
    return ethernet + b"\x08\x00" + head + bytes([time_to_live, protocol]) + addresses + payload


def examine(program: Program, folder: Path, stf: Path, scratch: Path) -> Outcome:
    """The fate of a program."""
    root = checkout(folder, program)
    if root is None:
        return Outcome(program, ABSENT)
    made = scratch / "program.json"
    made.unlink(missing_ok=True)
    command = [
        str(COMPILER), "--error-format=short", "--Wdisable",
        f"-D{program.macro}", *(f"-I{each}" for each in program.folders(root)),
        "-o", str(made), str(root / program.path),
    ]  # fmt: skip
    try:
        compiled = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
        if compiled.returncode:
            return refusal(program, compiled.stderr)
        interpreted, native = run(made, stf, "--interpreted"), run(made, stf)
    except subprocess.TimeoutExpired:
        return Outcome(program, FAILED, "time", f"not ended within {SECONDS} s")
    for ran in (interpreted, native):
        if ran.returncode:
            last = (ran.stderr.strip() or ran.stdout.strip() or "no message").splitlines()[-1]
            return Outcome(program, FAILED, "run", last[:160])
    frames = [ran.stdout.splitlines() for ran in (interpreted, native)]
    if frames[0] != frames[1]:
        return Outcome(program, DIFFERS, "frames", first_difference(*frames)[:160])
    return Outcome(program, SURVIVED, frames=len(frames[0]))


def run(made: Path, stf: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs a program on the packets of a script, and prints the frames that leave."""
    return subprocess.run(
        [RUNNER, *options, "--print-frames", f"--timeout={SECONDS}", made, stf],
        capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False,
    )  # fmt: skip


def first_difference(interpreted: list[str], native: list[str]) -> str:
    """The first line in which two outputs differ."""
    for number, (ours, theirs) in enumerate(zip_longest(interpreted, native), 1):
        if ours != theirs:
            return f"line {number}: {ours} interpreted, {theirs} native"
    return "none"


def refusal(program: Program, text: str) -> Outcome:
    """The verdict on a program that the compiler does not take, by its first error."""
    found = re.search(r"error(?:\[(?P<code>[a-z0-9-]+)\])?: (?P<what>.*)", text)
    if found is None:
        last = (text.strip() or "no message").splitlines()[-1]
        return Outcome(program, FAILED, "compiler", last[:160])
    what, code = found["what"], found["code"] or ""
    if not code and (behind := re.search(r" \[(?P<code>[a-z0-9-]+)\]$", what)):
        what, code = what[: behind.start()], behind["code"]
    if code == "include-not-found":
        return Outcome(program, MISSING, code, what)
    verdict = REFUSED if code.startswith(UNSUPPORTED) else FAULT
    return Outcome(program, verdict, code, what)


def lab_file(programs: list[Program], folder: Path) -> str:
    """A lab (docs/lab.md) with a switch for each program that there is a checkout of, in a row:
    hosts are at its ports 1 and 2, its neighbours at 3 and 4."""
    here = [(p, root) for p in programs if (root := checkout(folder, p)) is not None]
    lines = []
    for number, (program, root) in enumerate(here, 1):
        switch, hosts = f"s{number}", (f"h{2 * number - 1}", f"h{2 * number}")
        lines += [f"# {program.name}", "[[switch]]", f'name = "{switch}"']
        for port, host in enumerate(hosts, 1):
            lines += ["[[host]]", f'name = "{host}"']
            lines += ["[[link]]", f'ends = ["{host}", "{switch}"]', f"ports = [1, {port}]"]
        if number > 1:
            lines += ["[[link]]", f'ends = ["s{number - 1}", "{switch}"]', "ports = [4, 3]"]
        source, folders = str(root / program.path), list(map(str, program.folders(root)))
        lines += [f"[program.{switch}]", "device_id = 0", f"p4 = {json.dumps(source)}"]
        lines += [f"include = {json.dumps(folders)}", f'define = ["{program.macro}"]', ""]
    return "\n".join(lines)


def table(outcomes: list[Outcome]) -> str:
    """Counts by verdict, and those that did not survive by the code of their first error."""
    verdicts = Counter(each.verdict for each in outcomes)
    lines = ["| result | programs |", "|---|--:|"]
    lines += [f"| {verdict} | {verdicts[verdict]} |" for verdict in VERDICTS if verdicts[verdict]]
    lines += ["", "| result | first error | programs |", "|---|---|--:|"]
    others = Counter((each.verdict, each.code) for each in outcomes if each.code)
    lines += [f"| {verdict} | `{code}` | {n} |" for (verdict, code), n in sorted(others.items())]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 1 if a program that compiles is not loaded, does not survive, or does
    something else as native code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--checkouts", type=Path, help=f"folder of the repositories ({VARIABLE})")
    parser.add_argument(
        "--packets", type=int, default=PACKETS, help="of each (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the packets (default: %(default)s)")
    parser.add_argument("--lab", type=Path, help="file for `ebb-lab`, with a switch of each")
    parser.add_argument("name", nargs="*", help="parts of names (default: all)")
    options = parser.parse_args(arguments)
    folder = options.checkouts or Path(os.environ.get(VARIABLE, ""))
    if folder == Path() or not folder.is_dir():
        print(
            f"skip: no checkouts of public programs: --checkouts or {VARIABLE} names their folder"
        )
        return 0
    wanted = [p for p in programs() if not options.name or any(n in p.name for n in options.name)]
    if options.lab is not None:
        options.lab.write_text(lab_file(wanted, folder.resolve()))
        for program in (p for p in wanted if checkout(folder, p) is None):
            print(f"{program.name}: {ABSENT}")
        return 0
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="ebb-tna-programs-") as scratch:
        stf = Path(scratch) / "packets.stf"
        stf.write_text(script(options.packets, options.seed))
        for program in wanted:
            outcome = examine(program, folder.resolve(), stf, Path(scratch))
            outcomes.append(outcome)
            told = outcome.reason or f"{outcome.frames} frames left" * bool(outcome.frames)
            print(f"{program.name}: {outcome.verdict}{': ' * bool(told)}{told}", flush=True)
    print(f"\n{table(outcomes)}")
    return 1 if any(each.verdict in (DIFFERS, FAILED) for each in outcomes) else 0
