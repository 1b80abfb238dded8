"""Runs every level of `make test` and ends with one table: what passed, failed and was skipped.

    python tools/levels.py [LEVEL ...]        # as `make LEVEL` each; none: all

Tests wait more than they compute, so levels, and both parts of the longest ones, run side by side
once everything is built; those that measure run after them, alone. Output passes through level by
level. Counts are read from it, because the runners of cargo, pytest and PTF agree on nothing else.
A level that prints no result has not run, which is a failure; so is one whose command fails
although no test did. The last line is `N passed, N failed, N skipped`; before the table are the
slowest files of tests, and all of them in build/test-times.txt.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from threading import Event, Thread

import clippy
import durations

WIDEST = 100
"""Characters of a reason or of a failure in the table."""
TIMES = Path(__file__).resolve().parents[1] / "build" / "test-times.txt"


@dataclass
class Level:
    """Results in the output of a level."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    """How many tests were skipped, by reason."""
    failures: list[str] = field(default_factory=list)
    """Names of the tests that failed, as far as the output has them, each with what it says of the
    cause on the same line."""
    ran: bool = True
    times: durations.Durations = field(default_factory=dict)
    wall_s: float = 0.0
    processor_s: float = 0.0
    """User and system time of all its processes that were waited for."""

    @property
    def results(self) -> int:
        return self.passed + self.failed + self.skipped.total()

    def __add__(self, beside: Level) -> Level:
        """Both parts of a level, which ran side by side."""
        return Level(
            self.passed + beside.passed,
            self.failed + beside.failed,
            self.skipped + beside.skipped,
            self.failures + beside.failures,
            self.ran and beside.ran,
            self.times | beside.times,
            max(self.wall_s, beside.wall_s),
            self.processor_s + beside.processor_s,
        )


def cargo(lines: Iterable[str]) -> Level:
    """Reads what libtest prints, and what prints like it (common/testkit)."""
    level, ignored = Level(), 0
    places: dict[str, str] = {}
    for line in lines:
        if found := re.match(r"test result: .*? (\d+) passed; (\d+) failed; (\d+) ignored", line):
            passed, failed, skipped = map(int, found.groups())
            level.passed += passed
            level.failed += failed
            ignored += skipped
        elif found := re.match(r"test .*\.\.\. ignored(?:, (.*)| \((.*)\))?$", line):
            level.skipped[found[1] or found[2] or "no reason given"] += 1
        elif found := re.match(r"test (\S+) +\.\.\. FAILED", line):
            level.failures.append(found[1])
        elif found := re.match(r"thread '(.*)' .*?(panicked at .*):$", line):
            places.setdefault(found[1], found[2])
    level.skipped["no reason given"] += ignored - level.skipped.total()
    level.skipped = +level.skipped
    level.failures = [f"{name} {places.get(name, '')}".rstrip() for name in level.failures]
    return level


def pytest(lines: Iterable[str]) -> Level:
    """Reads what pytest prints with `-rs`: a line for each reason, and a last one with the
    counts."""
    level = Level()
    for line in lines:
        if found := re.match(r"SKIPPED \[(\d+)\] [^ ]+ (.*)", line):
            level.skipped[found[2]] += int(found[1])
        elif found := re.match(r"(?:FAILED|ERROR) (\S+::.*)", line):
            level.failures.append(found[1])
        elif re.match(r"(=+ )?(\d+ \w+, )*\d+ \w+ in [\d.]+s", line):
            counts = {word: int(count) for count, word in re.findall(r"(\d+) (\w+)", line)}
            level.passed = counts.get("passed", 0)
            level.failed = counts.get("failed", 0) + counts.get("error", counts.get("errors", 0))
    return level


def unittest(lines: Iterable[str]) -> Level:
    """Reads what PTF prints, which is what Python's unittest prints."""
    level, tests = Level(), 0
    for line in lines:
        if found := re.match(r".*\.\.\. skipped ['\"](?:SKIP: )?(.*)['\"]$", line):
            level.skipped[found[1]] += 1
        elif found := re.match(r"(\S+) \.\.\. (?:FAIL|ERROR)$", line):
            level.failures.append(found[1])
        elif found := re.match(r"Ran (\d+) tests? in ", line):
            tests = int(found[1])
        elif found := re.match(r"FAILED \((.*)\)$", line):
            told = dict(re.findall(r"(\w+)=(\d+)", found[1]))
            level.failed = int(told.get("failures", 0)) + int(told.get("errors", 0))
    level.passed = tests - level.failed - level.skipped.total()
    return level


def verdicts(lines: Iterable[str]) -> Level:
    """Reads lines that begin with `ok`, `FAIL`, `skip` or `busy`, as `ebb-run` and the lints print
    them. `busy` is a check whose numbers are not valid because the machine had too much to do."""
    level = Level()
    for line in lines:
        match line.split(maxsplit=1):
            case ["ok", _]:
                level.passed += 1
            case ["FAIL", what]:
                level.failed += 1
                level.failures.append(what)
            case ["skip", what]:
                level.skipped[what.rpartition(": ")[2]] += 1
            case ["busy", _]:
                level.skipped["this machine was too busy: the numbers are not valid"] += 1
    return level


Counting = Callable[[Iterable[str]], Level]
Timing = Callable[[Iterable[durations.Line]], durations.Durations]

LEVELS: dict[str, tuple[Counting, Timing]] = {
    "lint": (verdicts, durations.verdicts),
    "test-rust": (cargo, durations.cargo),
    "test-python": (pytest, durations.pytest),
    "test-ptf": (unittest, durations.unittest),
    "test-instructions": (verdicts, durations.verdicts),
    "test-e2e": (verdicts, durations.verdicts),
}
"""How counts and times are read from the output of a level, by its target of the Makefile, in the
order in which they are shown."""

PARTS = {
    "test-rust": ("test-crates", "test-units"),
    "test-python": ("test-fabrics", "test-tools"),
}
"""Targets of levels that run as two, side by side. The second begins once the first has said
something: that cargo compiles it, which the second's cargo waits for."""
NICE = {"lint": 19, "test-units": 19, "test-instructions": 19, "test-tools": 15}
"""Niceness of targets that compute: they take what others, which wait for times, leave of the
processors. The last one's tests wait for processes of their own, for two minutes at most."""
LINTED = {"lint", "test-rust"}
"""Levels that share a compilation, by clippy's driver, if both run."""
ALONE = {"test-e2e"}
"""Levels with checks that measure: nothing runs beside them."""


class Running:
    """A level that runs, or a part of it; its output waits until somebody shows it."""

    def __init__(
        self, name: str, environment: Mapping[str, str] | None = None, part: str = ""
    ) -> None:
        self.name = name
        self._target = part or name
        self.has_begun = Event()
        """It has printed a line, or ended."""
        self._lines: SimpleQueue[durations.Line | None] = SimpleQueue()
        self._start = time.monotonic()
        self._wall_s = self._processor_s = 0.0
        self._process = subprocess.Popen(
            ["nice", "-n", str(NICE.get(self._target, 0)), "make", self._target],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env={**os.environ, **(environment or {})},
        )
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put((time.monotonic() - self._start, line))
            self.has_begun.set()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._wall_s, self._processor_s = time.monotonic() - self._start, processor_s(usage)
        self._lines.put(None)
        self.has_begun.set()

    def show(self) -> Level:
        """Prints its output until the level has ended; returns its counts."""
        print(f"\n== {self._target}", flush=True)
        lines: list[durations.Line] = []
        while (timed := self._lines.get()) is not None:
            at, line = timed
            print(line, end="", flush=True)
            lines.append((at, line.rstrip("\n")))
        counting, timing = LEVELS[self.name]
        level = counting(line for _, line in lines)
        level.times = timing(lines)
        level.wall_s, level.processor_s = self._wall_s, self._processor_s
        return judge(level, self._process.returncode)


def processor_s(usage: resource.struct_rusage) -> float:
    """Seconds of a processor, in user mode and in the kernel."""
    return usage.ru_utime + usage.ru_stime


def build() -> bool:
    """Builds what several levels need, and prints what it took; false: it could not be built."""
    start = time.monotonic()
    built = subprocess.run(["make", "test-build"], check=False).returncode == 0
    took = processor_s(resource.getrusage(resource.RUSAGE_CHILDREN))
    print(f"built in {time.monotonic() - start:.0f} s, {took:.0f} s of a processor", flush=True)
    return built


def start(name: str, environment: Mapping[str, str] | None) -> list[Running]:
    """Starts a level, in its parts if it has some."""
    parts: list[Running] = []
    for part in PARTS.get(name, (name,)):
        if parts:
            parts[-1].has_begun.wait()
        parts.append(Running(name, environment, part))
    return parts


def run(names: Sequence[str]) -> dict[str, Level]:
    """Runs levels; returns the counts of each, in their order.

    Side by side only if everything could be built: two levels do not build the same thing at once.
    """
    built = build()
    linted = LINTED if set(names) >= LINTED else set()
    beside = [
        running
        for name in names
        if built and name not in ALONE
        for running in start(name, clippy.WHILE_COMPILING if name in linted else None)
    ]
    levels: dict[str, Level] = {}
    for running in beside:
        part = running.show()
        levels[running.name] = levels[running.name] + part if running.name in levels else part
    return {name: levels.get(name) or Running(name).show() for name in names}


def judge(level: Level, code: int) -> Level:
    """Counts what the tests did not tell: that the command failed, or that there were none."""
    level.ran = level.results > 0
    if (code != 0 or not level.ran) and not level.failed:
        level.failed = 1
    return level


def table(levels: dict[str, Level]) -> Iterator[str]:
    """The table as lines; the last one has the sums."""
    yield f"{'level':<12} {'passed':>7} {'failed':>7} {'skipped':>7} {'wall s':>7} {'cpu s':>7}"
    for name, level in levels.items():
        note = "" if level.ran else "   did not run"
        counts = f"{level.passed:>7} {level.failed:>7} {level.skipped.total():>7}"
        yield f"{name:<12} {counts} {level.wall_s:>7.0f} {level.processor_s:>7.0f}{note}"
        for reason, count in level.skipped.most_common():
            yield f"{'':<12} {'':>7} {'':>7} {count:>7}   {_short(reason)}"
        for failure in level.failures:
            yield f"{'':<12} {'':>7} {'FAILED':>7} {'':>7}   {_short(failure)}"
    passed = sum(level.passed for level in levels.values())
    failed = sum(level.failed for level in levels.values())
    skipped = sum(level.skipped.total() for level in levels.values())
    yield ""
    yield f"{passed} passed, {failed} failed, {skipped} skipped"


def _short(text: str) -> str:
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "…"


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in LEVELS]
    if unknown:
        print(f"no level {unknown[0]}; levels: {', '.join(LEVELS)}", file=sys.stderr)
        return 2
    levels = run(names or list(LEVELS))
    slowest = list(durations.rows({name: level.times for name, level in levels.items()}))
    TIMES.write_text("".join(f"{row}\n" for row in slowest))
    print()
    for row in slowest[: 1 + durations.SLOWEST]:
        print(row)
    print()
    for line in table(levels):
        print(line)
    return int(any(level.failed for level in levels.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
