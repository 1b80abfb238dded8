"""`tools/p4testgen_tna [--checkout P4C] [--ptf FOLDER] [NAME ...]`: P4Testgen's tests for Tofino.

P4Testgen makes tests in the STF format of p4c's own programs for it, as TNA and as T2NA, and of
those of p4src/tna; ebb-p4c compiles each program, and ebb-stf runs its tests. P4C (or EBB_P4C) has
p4lang/p4c, without which only our programs are tested. Without `p4testgen` on PATH the run is
skipped, and says so. Where tests of a program fail, the table has the reason that `testgen.toml`
knows. Of what PTF needs for tests over BF Runtime, with registers and action profiles besides,
`--ptf` makes a folder for `ptf-tests/studio.py --programs`, and runs nothing. docs/tofino-lab.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import tempfile
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from oracle.ebb import failures

from .check import include_folders
from .chip import ARCHITECTURES, TESTGEN
from .p4info import ROOT, SOURCES, TARGETS

COMPILER, RUNNER = ROOT / "build" / "ebb-p4c", ROOT / "build" / "ebb-stf"
VARIABLE = "EBB_P4C"
"""Environment variable with the checkout of p4c."""
PROGRAMS = "backends/p4tools/modules/testgen/targets/tofino/test/p4-programs"
INCLUDES = ("backends/tofino/bf-p4c/p4include", "p4include")
GENERATIONS = {"tofino1_only": (1,), "tofino2_only": (2,)}
"""Generations of the programs of a folder; others are for both."""
PORTS = {1: "0:63", 2: "8:71"}
"""Ports that tests choose from, by generation, as p4c's own tests have them."""
PORTS_OF_PTF = "0:8"
"""Ports of the switch that studio.py starts."""
REASONS = Path(__file__).parent / "testgen.toml"
"""Known reasons of failures."""
SECONDS = 60
"""Processor time in which tests of a program are made; what is there by then counts."""
WITHIN = 'ulimit -t "$0"; exec "$@"'
"""Shell script that runs a command (`$@`) with a limit of processor time (`$0`, s)."""
TESTS = 50


@dataclass(frozen=True, slots=True)
class Program:
    """A program of a generation of the chip."""

    source: Path
    generation: int

    @property
    def name(self) -> str:
        return f"{self.source.stem} ({ARCHITECTURES[self.generation][1]})"


@dataclass(slots=True)
class Outcome:
    """Results of the tests of a program."""

    program: Program
    tests: int = 0
    passed: int = 0
    problem: str = ""
    """Why there are no tests, or none was run."""
    failures: dict[str, str] = field(default_factory=dict)
    """Verdict and difference of those that failed, by the name of the script."""
    seconds: bool = False
    """Whether the time for making tests was over."""


@dataclass(frozen=True, slots=True)
class Options:
    includes: tuple[Path, ...]
    tests: int
    """The most tests of each program."""
    seed: int
    seconds: int
    keep: Path | None
    """Folder for scripts that fail; none: they are not kept."""


def programs(checkout: Path | None) -> Iterator[Program]:
    """Ours, then p4c's."""
    for name, generation in TARGETS.items():
        yield Program(SOURCES / "tna" / f"{name}.p4", generation)
    if checkout is None:
        return
    folder = checkout / PROGRAMS
    for generation in ARCHITECTURES:
        for path in sorted(folder.rglob("*.p4")):
            generations = GENERATIONS.get(path.parent.name, tuple(ARCHITECTURES))
            if generation in generations and path.parent.name != "common":
                yield Program(path, generation)


def generate(
    program: Program, folder: Path, options: Options, back_end: str = "STF"
) -> tuple[str, bool]:
    """Makes tests; returns why there may be none, and whether the time was over."""
    ports = PORTS[program.generation] if back_end == "STF" else PORTS_OF_PTF
    target, architecture = ARCHITECTURES[program.generation]
    arguments = [
        *("sh", "-c", WITHIN, str(options.seconds)),
        *(TESTGEN, "--target", target, "--arch", architecture, "--std", "p4-16"),
        *(f"-I{each}" for each in options.includes),
        *(f"-D__TARGET_TOFINO__={program.generation}", "--test-backend", back_end),
        *("--port-ranges", ports, "--seed", str(options.seed)),
        *("--path-selection", "RANDOM_BACKTRACK"),
        *("--max-tests", str(options.tests), "--out-dir", str(folder), str(program.source)),
    ]
    made = subprocess.run(
        arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, errors="replace", check=False,
    )  # fmt: skip
    if made.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return "", True
    return ("" if made.returncode == 0 else first_error(made.stdout)), False


def first_error(text: str) -> str:
    """The first error among the words of a tool."""
    found = re.search(r"^.*(?:\berror\b|Unimplemented|Bug|BUG).*$", text, re.MULTILINE)
    line = found[0] if found else (text.strip() or "no message").splitlines()[-1]
    return re.sub(r"^\S+/", "", line.strip())[:160]


def examine(program: Program, options: Options) -> Outcome:
    """Makes tests of a program and runs them."""
    outcome = Outcome(program)
    with tempfile.TemporaryDirectory(prefix="ebb-testgen-") as scratch:
        folder, made = Path(scratch) / "tests", Path(scratch) / "program.json"
        folder.mkdir()
        outcome.problem, outcome.seconds = generate(program, folder, options)
        scripts = sorted(folder.rglob("*.stf"))
        outcome.tests = len(scripts)
        if not scripts:
            return outcome
        outcome.problem = compile_program(program, made)
        if not outcome.problem:
            run(scripts, made, outcome)
        if options.keep:
            keep(outcome, scripts, made, options.keep)
    return outcome


def write_ptf(program: Program, target: Path, options: Options) -> str:
    """Makes a folder as studio.py takes it: a program and tests of its name. Returns why there is
    none; empty: there is."""
    name = program.source.stem
    folder = target / name
    with tempfile.TemporaryDirectory(prefix="ebb-testgen-") as scratch:
        problem, late = generate(program, Path(scratch), options, "PTF")
        made = Path(scratch) / f"{name}.py"
        # Nothing but the head: no test was found.
        if not made.exists() or "class Test1(" not in made.read_text():
            return problem or ("the time was over" if late else "P4Testgen found none")
        folder.mkdir(parents=True)
        text = made.read_text().replace(str(made.with_suffix("")), name)
        (folder / "test.py").write_text(text)
    (folder / f"{name}.p4").symlink_to(program.source)
    for beside in program.source.parent.iterdir():
        place = target / beside.name
        if beside.is_dir() and not place.exists():
            place.symlink_to(beside)
    return ""


def compile_program(program: Program, made: Path) -> str:
    """Compiles a program; returns the first error, or nothing."""
    compiled = subprocess.run(
        [COMPILER, "--Wdisable", "--error-format=short",
         "--arch", ARCHITECTURES[program.generation][1],
         f"-D__TARGET_TOFINO__={program.generation}",
         *(f"-I{each}" for each in (program.source.parent, program.source.parent.parent)),
         "-o", made, program.source],
        capture_output=True, text=True, errors="replace", check=False,
    )  # fmt: skip
    return f"not compiled: {first_error(compiled.stderr)}" if compiled.returncode else ""


def run(scripts: list[Path], made: Path, outcome: Outcome) -> None:
    """Runs all scripts with a compiled program."""
    folder = scripts[0].parent
    for script in scripts:
        script.with_suffix(".json").symlink_to(made)
    done = subprocess.run(
        [RUNNER, "-j", "1", folder], capture_output=True, text=True, errors="replace", check=False
    )
    outcome.failures = failures(done.stdout)
    outcome.passed = len(scripts) - len(outcome.failures)
    if done.returncode not in (0, 1) or f" {outcome.passed} passed" not in done.stdout:
        told = (done.stderr.strip() or done.stdout.strip() or "no message").splitlines()[-1]
        outcome.passed, outcome.problem = 0, f"ebb-stf: {told}"


def keep(outcome: Outcome, scripts: list[Path], made: Path, target: Path) -> None:
    """Copies scripts that failed, with the program."""
    folder = (
        target / f"{outcome.program.source.stem}-{ARCHITECTURES[outcome.program.generation][1]}"
    )
    for script in scripts:
        if script.name in outcome.failures or outcome.problem:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(script, folder)
            if made.exists():
                shutil.copy(made, folder / script.with_suffix(".json").name)


def reasons(path: Path = REASONS) -> dict[str, str]:
    """Known reasons of failures, by program."""
    return {name: str(why) for name, why in tomllib.loads(path.read_text()).items()}


def table(outcomes: Iterable[Outcome], known: dict[str, str]) -> str:
    """A row for each program of which tests were made, and how many programs there are none of."""
    lines = ["| program | tests | passed | the others |", "|---|--:|--:|---|"]
    tested = [each for each in outcomes if each.tests]
    for each in tested:
        told = known.get(each.program.name, "") or each.problem or first_failure(each)
        if each.passed == each.tests:
            told = ""
        lines.append(f"| `{each.program.name}` | {each.tests} | {each.passed} | {told} |")
    tests, passed = (sum(getattr(o, key) for o in tested) for key in ("tests", "passed"))
    lines.append(f"| {len(tested)} programs | {tests} | {passed} | |")
    without = Counter(
        ("the time was over" if each.seconds else each.problem) or "P4Testgen found none"
        for each in outcomes
        if not each.tests
    )
    lines += ["", "| no tests, because | programs |", "|---|--:|"] * bool(without)
    lines += [f"| {reason} | {number} |" for reason, number in without.most_common()]
    return "\n".join(lines)


def first_failure(outcome: Outcome) -> str:
    return next(iter(outcome.failures.values()), "")[:160]


def main(arguments: list[str] | None = None) -> int:
    """Returns the exit code: 1 if a test fails without a known reason."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="programs (default: all)")
    parser.add_argument(
        "--checkout", type=Path, default=os.environ.get(VARIABLE), help=f"p4lang/p4c [{VARIABLE}]"
    )
    parser.add_argument("--max-tests", type=int, default=TESTS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="to make tests of a program")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for tests that fail")
    parser.add_argument("--ptf", type=Path, metavar="FOLDER", help="write tests for PTF, run none")
    given = parser.parse_args(arguments)
    if not shutil.which(TESTGEN):
        print(f"skipped: {TESTGEN} is not on PATH")
        return 0
    if not (COMPILER.exists() and RUNNER.exists()):
        parser.error(f"{COMPILER} or {RUNNER} is not there: make build")
    checkout = Path(given.checkout).resolve() if given.checkout else None
    if checkout is None:
        print(f"p4c's programs are skipped: --checkout or {VARIABLE} names p4lang/p4c")
    elif not (checkout / PROGRAMS).is_dir():
        parser.error(f"{checkout / PROGRAMS} is not there")
    includes = [checkout / each for each in INCLUDES] if checkout else include_folders()
    options = Options(tuple(includes), given.max_tests, given.seed, given.seconds, given.keep)
    wanted = [each for each in programs(checkout) if chosen(each, given.names)]
    if not wanted:
        parser.error(f"no program is called {', '.join(given.names)}")
    if given.ptf:
        for program in (each for each in wanted if each.generation == 1):
            told = write_ptf(program, given.ptf.resolve(), options)
            print(f"{program.name}: {told or 'written'}", flush=True)
        return 0
    outcomes = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for outcome in pool.map(lambda each: examine(each, options), wanted):
            outcomes.append(outcome)
            print(f"{outcome.passed:4} of {outcome.tests:4} {outcome.program.name}", flush=True)
            for name, why in outcome.failures.items():
                print(f"    {name}: {why}"[:300], flush=True)
            if outcome.problem:
                print(f"    {outcome.problem}", flush=True)
    known = reasons()
    print("\n" + table(outcomes, known))
    fails = (o for o in outcomes if o.tests and o.passed < o.tests)
    return 1 if any(each.program.name not in known for each in fails) else 0


def chosen(program: Program, names: list[str]) -> bool:
    """Whether a program is among those of a command line; none: all are."""
    return not names or program.source.stem in names or program.name in names
