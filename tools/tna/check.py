"""`tools/check_tna [--write] [PROGRAM ...]`: the programs of p4src/tna through p4c's tools.

What is not on PATH is skipped. Each check is a line that begins with `ok`, `FAIL` or `skip`, the
reason last. docs/porting-tofino.md.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import chip, p4info, resources

PAGE = p4info.ROOT / "docs" / "porting-tofino.md"
BEGIN, END = "<!-- made by `make check-tna` -->\n", "<!-- /made -->\n"
RESOURCES = p4info.ROOT / "build" / "tna" / "resources"
"""Folder of the pages with what each program takes of the chip."""
TESTS = 20
"""The most tests that P4Testgen is to make of a program."""


def include_folders() -> list[Path]:
    """The folders with core.p4 and tna.p4, if there is one with the latter: `P4C_TNA_INCLUDE`, a
    list as PATH is, or where p4c installs them."""
    given = os.environ.get("P4C_TNA_INCLUDE")
    if given:
        folders = [Path(folder) for folder in given.split(os.pathsep)]
        return folders if any((folder / "tna.p4").exists() for folder in folders) else []
    for tool in (chip.COMPILER, chip.TESTGEN):
        path = shutil.which(tool)
        if path:
            there = Path(path).resolve().parent
            for folder in ("p4include", "../p4include", "../share/p4c/p4include"):
                if (there / folder / "tna.p4").exists():
                    return [there / folder]
    return []


class Report:
    def __init__(self) -> None:
        self.failed = False

    def check(self, what: str, absent: str, check: Callable[[], str]) -> None:
        """Runs a check unless something is absent; a `ValueError` is a failure."""
        if absent:
            print(f"skip {what}: {absent}", flush=True)
            return
        try:
            told = check()
        except ValueError as error:
            self.failed = True
            print(f"FAIL {what}: {error}", flush=True)
        else:
            print(f"ok   {what}{': ' if told else ''}{told}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Checks the programs of p4src/tna.")
    parser.add_argument("programs", nargs="*", help="which (default: all)")
    parser.add_argument("--write", action="store_true", help="renew P4Info and the page's table")
    options = parser.parse_args(arguments)
    programs = options.programs or list(p4info.TARGETS)
    for program in programs:
        if program not in p4info.TARGETS:
            parser.error(f"no program {program}; there are {', '.join(p4info.TARGETS)}")
    report = Report()
    fits: dict[str, chip.Fit] = {}
    includes = include_folders()
    checker = "" if chip.TYPE_CHECKER.exists() else "no build/ebb-p4c; make build"
    for program in programs:
        back = _absent(includes, chip.COMPILER, chip.ASSEMBLER)
        tests = _absent(includes, chip.TESTGEN) or _no_tofino_testgen()
        with tempfile.TemporaryDirectory(prefix="ebb-tna-") as folder:

            def fit(
                program: str = program, folder: Path = Path(folder), here: list[Path] = includes
            ) -> str:
                fits[program] = found = chip.compiled(program, folder, here)
                chip.assemble(program, folder, found)
                return f"{found.stages} stages of {chip.STAGES[p4info.TARGETS[program]]}"

            def info(program: str = program, folder: Path = Path(folder)) -> str:
                return _p4info(program, folder, write=options.write)

            def page(program: str = program, folder: Path = Path(folder)) -> str:
                return resources.write(program, folder, RESOURCES)

            def tests_of(
                program: str = program, folder: Path = Path(folder), here: list[Path] = includes
            ) -> str:
                return chip.generate_tests(program, folder / "tests", here, TESTS)

            def types(program: str = program) -> str:
                return chip.check_types(program)

            report.check(f"types of {program}", checker, types)
            report.check(f"{program} on the chip", back, fit)
            report.check(f"P4Info of {program}", back, info)
            report.check(f"resources of {program}", back, page)
            report.check(f"tests of {program}", tests, tests_of)
    if fits:
        report.check("the page's table", "", lambda: _table(fits, write=options.write))
    return int(report.failed)


def _absent(includes: list[Path], *tools: str) -> str:
    absent = chip.missing(*tools)
    if absent:
        return f"no {absent} on PATH"
    return "" if includes else "no folder with tna.p4; P4C_TNA_INCLUDE says where"


def _no_tofino_testgen() -> str:
    """P4Testgen is often built without its targets for Tofino."""
    try:
        chip.run([chip.TESTGEN, "--target", "tofino", "--arch", "tna", "--version"])
    except ValueError:
        return f"this {chip.TESTGEN} has no target tofino"
    return ""


def _p4info(program: str, folder: Path, *, write: bool) -> str:
    made = p4info.made(program, folder)
    stored = p4info.stored(program)
    if write:
        stored.parent.mkdir(exist_ok=True)
        stored.write_text(made)
        return f"{stored.name} written"
    if not stored.exists() or stored.read_text() != made:
        raise ValueError(
            f"{stored.name} is not what the compiler makes; tools/check_tna --write renews it"
        )
    return ""


def _table(fits: dict[str, chip.Fit], *, write: bool) -> str:
    page = PAGE.read_text()
    made = renewed(page, fits)
    if write:
        PAGE.write_text(made)
    elif made != page:
        raise ValueError(f"{PAGE.name} says otherwise; tools/check_tna --write renews it")
    return ""


def renewed(page: str, fits: dict[str, chip.Fit]) -> str:
    """The page with a row for each of these programs, and its other rows."""
    before, _begin, rest = page.partition(BEGIN)
    old, _end, after = rest.partition(END)
    rows = {
        found[1]: line for line in old.splitlines() if (found := re.match(r"\| `(\w+)` \|", line))
    }
    rows |= {program: fit.row(program) for program, fit in fits.items()}
    ordered = [rows[program] for program in p4info.TARGETS if program in rows]
    return "".join([before, BEGIN, *(f"{line}\n" for line in (*chip.HEAD, *ordered)), END, after])


if __name__ == "__main__":
    sys.exit(main())
