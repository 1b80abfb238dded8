# SPDX-License-Identifier: Apache-2.0
"""Compiles p4src and runs the packet tests against a switch, in a network namespace of its own.

    python ptf-tests/run.py [--switch ebb|bmv2] [--compiler ebb-p4c|p4c-bm2-ss|PATH]
                            [--architecture v1model|tna] [FILTER ...]

A FILTER is part of a test's name, such as `trimming` or `trimming.Deflected`. Exit code 0 if all
tests that ran have passed. What a target cannot do is skipped with a line that says why.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ebb_controller.tna import COMPOSITIONS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
SWITCHES = {"ebb": "ebb-switch", "bmv2": "simple_switch_grpc"}
"""The binary of a target."""
PROGRAMS = ("fabric", "fabric_codel", "fabric_tenants", "fabric_full")
"""Programs of p4src that tests ask for."""
ARCHITECTURES = {"v1model": PROGRAMS, "tna": tuple(f"tna/{c.name}" for c in COMPOSITIONS)}
"""Programs of an architecture, below p4src and without `.p4`."""
COMPILERS = {"ebb": "ebb-p4c", "bmv2": "p4c-bm2-ss"}
"""The compiler that a target is usually tested with."""

sys.path.insert(0, str(HERE))

from testbed import PORTS, TestbedError, namespace, tester_interface  # noqa: E402


class RunError(Exception):
    """Something is missing, or did not work; one line that says what."""


def find_binary(name: str, directory: Path | None) -> Path:
    """A path as it is; a name from --bin-dir, from build/, or from PATH."""
    if "/" in name:
        if not Path(name).is_file():
            raise RunError(f"{name} is not there")
        return Path(name).resolve()
    for place in [directory] if directory else [ROOT / "build"]:
        if (place / name).is_file():
            return (place / name).resolve()
    found = shutil.which(name)
    if found is None:
        raise RunError(f"{name} is neither in build/ nor on PATH; `make build` makes ebb's own")
    return Path(found)


def compile_programs(compiler: Path, architecture: str, work_dir: Path) -> None:
    """The programs of p4src as BMv2 JSON and P4Info. Both compilers take the same options."""
    for name in ARCHITECTURES[architecture]:
        output = work_dir / Path(name).name
        command: list[str | Path] = [
            compiler,
            "-o",
            f"{output}.json",
            "--p4runtime-files",
            f"{output}.p4info.txtpb",
            ROOT / "p4src" / f"{name}.p4",
        ]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        if run.returncode:
            raise RunError(f"{compiler.name} cannot compile p4src/{name}.p4:\n{run.stderr}")


def list_tests() -> list[str]:
    """Names of all tests, as PTF writes them: module.Class."""
    command = [str(ptf_script()), "--list-test-names", f"--test-dir={HERE / 'tests'}",
               f"--pypath={HERE}", "--allow-user"]  # fmt: skip
    with tempfile.TemporaryDirectory() as scratch:
        run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=scratch)
    if run.returncode:
        raise RunError(f"ptf cannot load the tests:\n{run.stdout}{run.stderr}")
    return re.findall(r"^\w+\.\w+$", run.stdout, re.MULTILINE)


def ptf_script() -> Path:
    """The `ptf` command of this Python environment."""
    script = Path(sys.executable).parent / "ptf"
    if not script.exists():
        raise RunError(f"ptf is not installed for {sys.executable}; `make setup` does that")
    return script


def run_tests(options: argparse.Namespace, work_dir: Path) -> int:
    """Compiles, makes the namespace, runs PTF; returns its exit code."""
    switch = find_binary(SWITCHES[options.switch], options.bin_dir)
    compiler = find_binary(options.compiler or COMPILERS[options.switch], options.bin_dir)
    known = list_tests()
    tests = [t for t in known if not options.filter or any(f in t for f in options.filter)]
    if not tests:
        names = "\n".join(known)
        raise RunError(f"no test matches {' '.join(options.filter)}; there are:\n{names}")
    compile_programs(compiler, options.architecture, work_dir)
    print(f"== {len(tests)} packet tests: {compiler.name}, {switch.name}", flush=True)
    parameters = {
        "target": options.switch,
        "architecture": options.architecture,
        "switch": str(switch),
        "work_dir": str(work_dir),
    }
    with namespace() as name:
        command = ["ip", "netns", "exec", name, sys.executable, str(ptf_script()),
                   f"--test-dir={HERE / 'tests'}", f"--pypath={HERE}",
                   *(f"--interface={port}@{tester_interface(port)}" for port in PORTS),
                   f"--log-dir={work_dir / 'logs'}",
                   "--test-params=" + ";".join(f"{k}={v!r}" for k, v in parameters.items()),
                   *tests]  # fmt: skip
        # A signal can end PTF inside a test; the namespace is removed with all that runs in it.
        return subprocess.run(command, check=False, cwd=work_dir).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--switch", choices=sorted(SWITCHES), default="ebb")
    parser.add_argument("--architecture", choices=sorted(ARCHITECTURES), default="v1model")
    parser.add_argument("--compiler", help="ebb-p4c, p4c-bm2-ss or a path (default: the switch's)")
    parser.add_argument("--bin-dir", type=Path, help="where the binaries are (default: build/)")
    parser.add_argument("--keep", action="store_true", help="keep logs and the compiled program")
    parser.add_argument("filter", nargs="*", help="part of a test's name")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up then, too
    work_dir = Path(tempfile.mkdtemp(prefix="ebb-ptf-"))
    try:
        if os.geteuid() != 0:
            raise RunError("packet tests make a network namespace: run them as root")
        return run_tests(options, work_dir)
    except (RunError, TestbedError) as error:
        print(f"ptf-tests: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("ptf-tests: interrupted", file=sys.stderr)
        return 130
    finally:
        if options.keep:
            print(f"kept: {work_dir}")
        else:
            shutil.rmtree(work_dir, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
