"""How long each file of tests takes: read from what the runners print, and when it came.

Files of a level run one after the other, so one takes from the result before it to its own. Of Rust
a file is an executable: unit tests of a crate, or its integration tests.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

SLOWEST = 20
Line = tuple[float, str]
"""When a line came, in seconds since its level began, and its text."""
Durations = dict[str, float]
"""Seconds by file."""


def cargo(lines: Iterable[Line]) -> Durations:
    """Executables of `cargo test`, by the source file of each."""
    times, name, since = defaultdict[str, float](float), "", 0.0
    for at, line in lines:
        if found := re.match(r" +Running .* \((.*)\)$", line):
            name, since = _source(Path(found[1])), at
        elif line.startswith("test result: "):
            times[name] += at - since
    return times


def _source(executable: Path) -> str:
    """The file that an executable is compiled from, which cargo's list of its sources names first;
    the executable, if there is no such list."""
    listed = executable.with_suffix(".d")
    if not listed.is_file():
        return executable.name
    sources = re.findall(r"^\S+: (?:\S+ )*?(\S+\.rs)\b", listed.read_text(), re.MULTILINE)
    return sources[0] if sources else executable.name


def pytest(lines: Iterable[Line]) -> Durations:
    """Files of pytest, which prints a line or more for each. What is collected before counts for
    the first."""
    times, name, since = defaultdict[str, float](float), "", 0.0
    for at, line in lines:
        if found := re.match(r"(?:(\S+\.py) )?[.sxXFE]+ *(\[ *\d+%\])?$", line):
            name = found[1] or name
            times[name] += at - since
            since = at
    return times


def unittest(lines: Iterable[Line]) -> Durations:
    """Modules of packet tests."""
    return _by(lines, r"(\w+)\.\w+ \.\.\. ", "ptf-tests/tests/{}.py".format)


def verdicts(lines: Iterable[Line]) -> Durations:
    """Checks that print a verdict, by what is before the colon."""
    return _by(lines, r"(?:ok|FAIL|skip|busy) +([^:]*)", str)


def _by(lines: Iterable[Line], result: str, name: Callable[[str], str]) -> Durations:
    times, since = defaultdict[str, float](float), 0.0
    for at, line in lines:
        if found := re.match(result, line):
            times[name(found[1])] += at - since
            since = at
    return times


def rows(levels: Mapping[str, Durations]) -> Iterator[str]:
    """The table as lines, the slowest file first."""
    all_files = [
        (time, name, level) for level, times in levels.items() for name, time in times.items()
    ]
    yield f"{'seconds':>8}  {'level':<18} file"
    for time, name, level in sorted(all_files, key=lambda row: (-row[0], row[1])):
        yield f"{time:>8.1f}  {level:<18} {name}"
