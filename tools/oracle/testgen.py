"""P4Testgen's tests on our compiler and switch; those that fail are asked of BMv2 too.

    PYTHONPATH=tools python3 -m oracle.testgen [--max-tests 10] PROGRAM.p4 ... | @LIST

A LIST has a program per line, after a tab options for the compilers (`-I DIR`). docs/testing.md.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import bmv2, compilers, stf
from .compilers import OURS, THEIRS
from .ebb import failures
from .fourway import programs
from .model import Program

TESTGEN = "p4testgen"
POLICIES = {
    "depth-first": "DEPTH_FIRST",
    "greedy": "GREEDY_STATEMENT_SEARCH",
    "random": "RANDOM_BACKTRACK",
}


@dataclass(frozen=True)
class Options:
    policies: tuple[str, ...] = tuple(POLICIES)
    max_tests: int = 10
    """The most tests of each program and policy."""
    seed: int = 1
    timeout_s: int = 60
    """How long each generation may take, in seconds; what is there by then counts."""
    build: Path = Path("build")
    flags: tuple[str, ...] = ()
    keep: Path | None = None
    """Folder for tests that only we fail; none: they are not kept."""


@dataclass
class Count:
    """How the tests of a program and policy ended."""

    tests: int = 0
    passed: int = 0
    shared: int = 0
    """How many failed, on BMv2 too."""
    ours: int = 0
    """How many failed that pass on BMv2."""
    unknown: int = 0
    """How many failed of which BMv2 could not be asked."""
    failures: list[str] = field(default_factory=list)
    problem: str = ""
    """Why there are no tests."""


@dataclass
class Result:
    program: str
    acceptance: str
    """`both`, `neither`, the only compiler that takes the program, or `unknown`."""
    problem: str
    """The first error, if not both compilers take it."""
    counts: dict[str, Count] = field(default_factory=dict)
    """Counts by policy of P4Testgen."""


def test(program: Path, options: Options) -> Result:
    with tempfile.TemporaryDirectory(prefix="ebb-testgen-") as folder:
        try:
            return test_in(Path(folder), program, options)
        except TimeoutError as error:
            return Result(str(program), "unknown", str(error))


def test_in(folder: Path, program: Path, options: Options) -> Result:
    made = {
        compiler: compilers.compile_program(
            compiler, options.build, program, options.flags, folder / compiler
        )
        for compiler in (OURS, THEIRS)
        if compilers.command(compiler, options.build)
    }
    taken = [compiler for compiler, output in made.items() if output.json]
    acceptance = {0: "neither", len(made): "both"}.get(len(taken)) or f"only {taken[0]}"
    problems = (f"{c}: {o.problem}" for c, o in made.items() if not o.json)
    result = Result(str(program), acceptance, next(problems, ""))
    ours = made[OURS].json
    if ours is None:
        return result
    theirs = made[THEIRS].json if THEIRS in made else None
    for policy in options.policies:
        place = folder / policy
        place.mkdir()
        count = result.counts[policy] = Count()
        count.problem = generate(program, policy, options, place)
        run(place, ours, theirs, options, count)
        if count.ours and options.keep:
            keep(program, policy, place, count, options.keep)
    return result


def generate(program: Path, policy: str, options: Options, folder: Path) -> str:
    """Makes tests; returns why there may be none, or nothing if P4Testgen was content."""
    arguments = [
        *(TESTGEN, "--target", "bmv2", "--arch", "v1model", "--std", "p4-16"),
        *("--test-backend", "STF", "--max-tests", str(options.max_tests)),
        *("--seed", str(options.seed), "--path-selection", POLICIES[policy]),
        *("--out-dir", str(folder), *options.flags, str(program)),
    ]
    process = subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=options.timeout_s)
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return f"not done after {options.timeout_s} s"
    text = output.decode(errors="replace")
    return "" if process.returncode == 0 else compilers.first_error(text)


def run(folder: Path, ours: Path, theirs: Path | None, options: Options, count: Count) -> None:
    """Runs all tests of a folder on our switch, and those that fail on BMv2."""
    scripts = sorted(folder.glob("*.stf"))
    count.tests = len(scripts)
    if not scripts:
        return
    for script in scripts:
        script.with_suffix(".json").symlink_to(ours)
    done = subprocess.run(
        [options.build / "ebb-stf", "-j", "1", folder], capture_output=True, text=True, check=False
    )
    failed = failures(done.stdout)
    count.passed = len(scripts) - len(failed)
    if done.returncode not in (0, 1) or f" {count.passed} passed" not in done.stdout:
        count.problem = f"ebb-stf: {done.stderr.strip() or done.stdout.strip()}"
        count.unknown, count.passed = len(scripts), 0
        return
    program = Program(theirs) if theirs and bmv2.is_there() else None
    for name, reason in failed.items():
        verdict = on_bmv2(folder / name, program)
        if verdict == "":
            count.ours += 1
            count.failures.append(f"{name}: {reason}")
        elif verdict is None:
            count.unknown += 1
            count.failures.append(f"{name}: {reason} (BMv2 was not asked)")
        else:
            count.shared += 1


def on_bmv2(path: Path, program: Program | None) -> str | None:
    """Failure of the test on BMv2; empty if it passes, None if that cannot be said."""
    if program is None:
        return None
    try:
        script = stf.read(path.read_text(), program)
    except stf.StfError:
        return None
    run = bmv2.run(program, script.commands, bmv2.Split(1))
    if run.ended:
        return run.ended
    frames = [frame for batch in run.frames for frame in batch]
    return stf.differences(script, frames) or "; ".join(run.refused.values())


def keep(program: Path, policy: str, folder: Path, count: Count, target: Path) -> None:
    for failure in count.failures:
        script = folder / failure.partition(":")[0]
        copy = target / program.stem / f"{policy}-{script.name}"
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(script, copy)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="testgen", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("programs", nargs="+", metavar="PROGRAM.p4 or @LIST")
    parser.add_argument("--policy", action="append", choices=list(POLICIES), help="[all]")
    parser.add_argument("--max-tests", type=int, default=Options.max_tests)
    parser.add_argument("--seed", type=int, default=Options.seed)
    parser.add_argument("--timeout", type=int, default=Options.timeout_s, metavar="SECONDS")
    parser.add_argument("--build", type=Path, default=Options.build)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=Path, help="folder for tests that only we fail")
    parser.add_argument("--json", type=Path, help="file for a result per line")
    given = parser.parse_args()
    if not shutil.which(TESTGEN):
        print(f"skipped: {TESTGEN} is not on PATH")
        return 0
    for tool in (OURS, "ebb-stf"):
        if not (given.build / tool).exists():
            problem = f"{given.build / tool} is not there: make build, or --build"
            print(f"testgen: {problem}", file=sys.stderr)
            return 2
    for name in (THEIRS, "simple_switch"):
        if not shutil.which(name):
            print(f"skipped: failures are not asked of BMv2, {name} is not on PATH")
    policies = tuple(given.policy or POLICIES)
    settings = (policies, given.max_tests, given.seed, given.timeout, given.build)
    work = [
        (path, Options(*settings, flags, given.keep))
        for path, flags in programs(given.programs, [])
    ]
    results = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for done in as_completed([pool.submit(test, *one) for one in work]):
            result = done.result()
            results.append(result)
            show(result)
            if given.json:
                with given.json.open("a") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
    table(results, policies)
    counts = [count for result in results for count in result.counts.values()]
    failed = any(count.ours or count.unknown for count in counts)
    return 1 if failed or any(result.acceptance == "unknown" for result in results) else 0


def show(result: Result) -> None:
    tests = sum(count.tests for count in result.counts.values())
    passed = sum(count.passed for count in result.counts.values())
    print(f"{passed:4} of {tests:4} {result.program}", flush=True)
    if result.acceptance.startswith("only"):
        print(f"    {result.acceptance}: {result.problem}", flush=True)
    for policy, count in result.counts.items():
        for failure in count.failures:
            print(f"    {policy} {failure}", flush=True)


def table(results: list[Result], policies: tuple[str, ...]) -> None:
    heads = ("programs", "tests", "passed", "shared", "ours", "unknown")
    print(f"\n{'':12}" + "".join(f"{head:>9}" for head in heads))
    for policy in policies:
        counts = [result.counts[policy] for result in results if policy in result.counts]
        sums = [sum(count.tests > 0 for count in counts)]
        sums += [sum(getattr(count, head) for count in counts) for head in heads[1:]]
        print(f"{policy:12}" + "".join(f"{number:9}" for number in sums))
    print("shared: BMv2 fails too; ours: BMv2 passes; unknown: BMv2 was not asked\n")
    taken = Counter(result.acceptance for result in results)
    print(f"{len(results)} programs, taken by: " + ", ".join(f"{k} {n}" for k, n in taken.items()))
    reasons = Counter(
        count.problem for result in results for count in result.counts.values() if not count.tests
    )
    for reason, number in reasons.most_common():
        print(f"{number:5} without tests: {reason or 'P4Testgen found none'}"[:200])


if __name__ == "__main__":
    sys.exit(main())
