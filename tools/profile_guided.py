"""`make pgo`: the programs compiled again by a profile of how they run.

    python tools/profile_guided.py

A simulator that counts what it executes runs `TRAINING`; then all programs are compiled by its
counts and take the place of those in `build/`, until `make build` compiles a source that has
changed. Each of the two compilations takes as long as the first `make build`. Results are the same,
which is checked by trace hash. Needs `llvm-profdata` of the LLVM that rustc has (docs/bench.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD, SIMULATE = ROOT / "build", ROOT / ".venv" / "bin" / "ebb-sim"
COUNTING, PROFILED = ROOT / "target" / "counting", ROOT / "target" / "profiled"
PROGRAMS = ("ebb-p4c", "ebb-stf", "ebb-switch", "ebb-agent", "ebb-simulator")
TRAINING = (
    ("sim/incast", "tcp-droptail,dctcp,hull,ndp,scdp"),
    ("sim/permutation", "dctcp,ndp,scdp,hull,detail,fastlane,pfabric"),
    ("sim/ndp-permutation-128", "ndp"),
)
"""Scenarios, and the schemes that each is run with."""


def profdata(about: str, sysroot: Path, path: str | None = None) -> Path:
    """The `llvm-profdata` that reads the counts of a rustc. `about`: what `rustc -vV` prints;
    `path`: where commands are looked for, none: in PATH. Raises `LookupError` with what to do."""
    known = dict(line.split(": ", 1) for line in about.splitlines() if ": " in line)
    major = known["LLVM version"].split(".")[0]
    component = sysroot / "lib" / "rustlib" / known["host"] / "bin" / "llvm-profdata"
    if component.exists():
        return component
    if found := shutil.which(f"llvm-profdata-{major}", path=path):
        return Path(found)
    raise LookupError(
        f"there is no llvm-profdata of LLVM {major}, which rustc {known['release']} has: "
        f"`rustup component add llvm-tools`, or the distribution's package llvm-{major}"
    )


def compile_programs(target: Path, flags: str, *packages: str) -> Path:
    """Compiles programs into a folder of their own; returns where they are."""
    environment = {**os.environ, "RUSTFLAGS": flags, "CARGO_TARGET_DIR": str(target)}
    chosen = [f"--package={package}" for package in packages]
    chosen = chosen or ["--workspace", "--exclude=ebb-p4-generator"]
    command = [os.environ.get("CARGO", "cargo"), "build", "--locked", "--bins", *chosen]
    subprocess.run(command, cwd=ROOT, env=environment, check=True)
    return target / "debug"


def train(simulator: Path) -> dict[str, str]:
    """Runs `TRAINING` with a simulator; returns the trace hash of each run by its place among the
    results."""
    with tempfile.TemporaryDirectory() as folder:
        programs, results = Path(folder) / "programs", Path(folder) / "results"
        programs.mkdir()
        for made in BUILD.iterdir():
            if made.is_file() and made.name != simulator.name:
                (programs / made.name).symlink_to(made)
        (programs / simulator.name).symlink_to(simulator)
        for scenario, schemes in TRAINING:
            options = ("--schemes", schemes, "--build", programs, "--out", results)
            command: list[str | Path] = [SIMULATE, scenario, *options]
            subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
        return {
            str(run.parent.relative_to(results)): json.loads(run.read_text())["trace_hash"]
            for run in results.glob("*/latest/**/run.json")
        }


def main() -> int:
    ask = ["rustc", "-vV"], ["rustc", "--print", "sysroot"]
    about, sysroot = (subprocess.check_output(each, cwd=ROOT, text=True).strip() for each in ask)
    try:
        merge = profdata(about, Path(sysroot))
    except LookupError as error:
        print(error, file=sys.stderr)
        return 1
    counts, profile = COUNTING / "counts", PROFILED / "profile"
    shutil.rmtree(counts, ignore_errors=True)
    print("== compiling a simulator that counts what it executes", flush=True)
    counting = compile_programs(COUNTING, f"-Cprofile-generate={counts}", "ebb-simulator")
    print("== running " + ", ".join(scenario for scenario, _ in TRAINING), flush=True)
    before = train(counting / "ebb-simulator")
    PROFILED.mkdir(parents=True, exist_ok=True)
    subprocess.run([merge, "merge", "-o", profile, counts], check=True)
    print("== compiling the programs by its counts", flush=True)
    made = compile_programs(PROFILED, f"-Cprofile-use={profile}")
    after = train(made / "ebb-simulator")
    if differs := sorted(name for name in before if before[name] != after.get(name)):
        print(f"other traces, so build/ stays as it was: {'; '.join(differs)}", file=sys.stderr)
        return 1
    for name in PROGRAMS:
        (BUILD / name).unlink(missing_ok=True)
        shutil.copy2(made / name, BUILD / name)
    print(f"build/ has the programs compiled by the profile; {len(after)} traces as before")
    return 0


if __name__ == "__main__":
    sys.exit(main())
