# SPDX-License-Identifier: Apache-2.0
"""Runs the tests of P4 Studio's example programs, unchanged, against ebb-switch over BF Runtime.

    python ptf-tests/studio.py [--checkout DIR] [--programs FOLDER] [PROGRAM[:TEST,..] ...]

DIR (or EBB_OPEN_P4STUDIO) has p4lang/open-p4studio; without it the run is skipped, and says so.
Each PROGRAM of pkgsrc/p4-examples/p4_16_programs (default: all with a test.py) is compiled, its
switch started, and its test.py run by PTF with the client of the checkout: all of its tests, or
those that are named. FOLDER has programs of the same form in their place, as `p4testgen_tna --ptf`
of tools makes it. Prints a row for each and the totals (docs/tofino-lab.md). Exit code 0 unless a
run was impossible.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import finsy.proto

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

from run import RunError, find_binary, ptf_script  # noqa: E402
from testbed import TestbedError, namespace  # noqa: E402

VARIABLE = "EBB_OPEN_P4STUDIO"
"""Environment variable with the checkout."""
EXAMPLES = "pkgsrc/p4-examples/p4_16_programs"
CLIENT = "pkgsrc/bf-drivers/src/bf_rt/bfruntime_grpc_client/python"
UTILITIES = "pkgsrc/ptf-modules/ptf-utils"
PROTO = "pkgsrc/bf-drivers/src/bf_rt/proto"
WITHOUT_THRIFT = '''"""In the place of P4 Studio's tests with Thrift."""

from ptf.base_tests import BaseTest


class ThriftInterfaceDataPlane(BaseTest):
    """Skips the tests that need the server."""

    def __init__(self, *programs):
        BaseTest.__init__(self)

    def setUp(self):
        self.skipTest("needs P4 Studio's Thrift server")
'''
"""A module that many tests import and few need."""
PORTS = range(9)
"""Ports of the first pipe that tests choose from."""
ADDRESS = "127.0.0.1:50052"
"""Where the client of P4 Studio looks for the switch."""
PIPES = {"tna_port_metadata": 2, "tna_port_metadata_extern": 2, "tna_32q_2pipe": 4}
"""How many pipes a test is told of: two choose 100 ports, more than one pipe has, one is about two
outer and two inner pipes. Others: 1."""
LOAD_BYTES = """
from scapy.packet import Packet
Packet.load_bytes = lambda packet, frame: type(packet)(frame)
"""
"""A method that packets of P4 Studio's own library have, and Scapy's have not."""
PROGRAM_SECONDS = 1500
"""How long the tests of a program may take unless the command line says otherwise: selectors get
members and packets by the thousand."""
START_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of the tests of a program."""

    program: str
    tests: int
    """Tests that were run; 0: it came to none."""
    passed: int
    reason: str
    """The first failure; empty: all passed."""

    @property
    def row(self) -> str:
        """The outcome as a row of a table in Markdown."""
        return f"| `{self.program}` | {self.passed}/{self.tests} | {self.reason} |"


def python_path(checkout: Path, scratch: Path) -> Path:
    """A folder with the modules that the tests import, as P4 Studio installs them."""
    folder = scratch / "python"
    for package in ("bfrt_grpc", "p4testutils"):
        (folder / package).mkdir(parents=True)
        (folder / package / "__init__.py").touch()
    for name in ("client.py", "info_parse.py"):
        shutil.copy(checkout / CLIENT / name, folder / "bfrt_grpc")
    for name in ("misc_utils.py", "bfrt_utils.py", "ptf_port.py"):
        shutil.copy(checkout / UTILITIES / name, folder / "p4testutils")
        shutil.copy(checkout / UTILITIES / name, folder)
    (folder / "pd_base_tests.py").write_text(WITHOUT_THRIFT)
    shutil.copy(checkout / UTILITIES / "bfruntime_client_base_tests.py", folder)
    google = Path(finsy.proto.__file__).parent
    generate(folder / "bfrt_grpc", [checkout / PROTO, google], ["bfruntime.proto"])
    generate(folder, [google], ["google/rpc/status.proto", "google/rpc/code.proto"])
    stub = folder / "bfrt_grpc" / "bfruntime_pb2_grpc.py"
    own = "import bfruntime_pb2 as bfruntime__pb2"
    stub.write_text(stub.read_text().replace(own, f"from bfrt_grpc {own}"))
    # Other parts of `google` are installed, and would hide these.
    (folder / "sitecustomize.py").write_text(
        f"import google\ngoogle.__path__ = [*google.__path__, {str(folder / 'google')!r}]\n"
        + LOAD_BYTES
    )
    return folder


def client_of(modules: Path) -> ModuleType:
    """P4 Studio's client, in this process, from the folder that `python_path` makes."""
    sys.path.insert(0, str(modules))
    # Other parts of this package are installed, and would hide these.
    google = importlib.import_module("google")
    google.__path__ = [*google.__path__, str(modules / "google")]
    client = importlib.import_module("bfrt_grpc.client")
    client.logger.setLevel("WARNING")
    return client


def generate(into: Path, includes: list[Path], protos: list[str]) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", *(f"-I{each}" for each in includes),
         f"--python_out={into}", f"--grpc_python_out={into}", *protos],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise RunError(f"{', '.join(protos)} cannot be compiled: {made.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Choice:
    """The tests of a program to run."""

    tests: tuple[str, ...] = ()
    """Names of their classes; none: all."""
    seconds: int = PROGRAM_SECONDS
    """How long they may take."""


def examine(program: Path, modules: Path, folder: Path, choice: Choice) -> Outcome:
    """Compiles a program, starts its switch, and runs its tests."""
    name = program.name
    source = program / f"{name}.p4"
    if not source.exists():
        return Outcome(name, 0, 0, "no program of this name")
    files = [folder / f"{name}{end}" for end in (".json", ".p4info.txtpb", ".bf-rt.json")]
    compiler = find_binary("ebb-p4c", None)
    made = subprocess.run(
        [compiler, "-o", files[0], "--p4runtime-files", files[1], "--bf-rt-schema", files[2],
         f"-I{program.parent}", source],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        return Outcome(name, 0, 0, f"not compiled: {first_error(made.stderr)}")
    with namespace(PORTS, veths) as inside:
        interfaces = [f"--interface={port}@{veths(port)[1]}" for port in PORTS]
        log = folder / "switch.log"
        with log.open("wb") as sink:
            switch = subprocess.Popen(
                ["ip", "netns", "exec", inside, find_binary("ebb-switch", None), files[0],
                 "--p4info", files[1], "--bf-rt-schema", files[2],
                 f"--grpc-server-addr={ADDRESS}", *interfaces],
                stdout=sink, stderr=sink,
            )  # fmt: skip
        try:
            wait_until_up(inside, switch, log)
            return _run(program, inside, modules, folder, choice)
        except RunError as error:
            return Outcome(name, 0, 0, str(error))
        finally:
            switch.terminate()
            switch.wait()


def wait_until_up(inside: str, switch: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when the switch listens. Raises `RunError` with its last words if it ends."""
    deadline = time.monotonic() + START_SECONDS
    port = ADDRESS.rpartition(":")[2]
    while time.monotonic() < deadline:
        if switch.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines() or ["no message"]
            raise RunError(f"not loaded: {lines[-1][:160]}")
        listening = subprocess.run(
            ["ip", "netns", "exec", inside, "ss", "-ltn", f"sport = :{port}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if port in listening.stdout:
            return
        time.sleep(0.1)
    raise RunError(f"the switch does not answer within {START_SECONDS} s")


def _run(program: Path, inside: str, modules: Path, folder: Path, choice: Choice) -> Outcome:
    name = program.name
    tests = folder / "tests"
    tests.mkdir()
    shutil.copy(program / "test.py", tests / f"{name}_test.py")
    for beside in program.glob("*.txt"):
        shutil.copy(beside, tests)
    arch = "tofino2" if name.startswith("t2na") else "tofino"
    pipes = PIPES.get(name, 1)
    install(name, folder / f"{name}.bf-rt.json", arch, folder)
    parameters = (
        f"arch='{arch}';target='asic-model';num_pipes='{pipes}';pkt_size='100';test_seed='1'"
    )
    command = ["ip", "netns", "exec", inside, sys.executable, str(ptf_script()),
               f"--test-dir={tests}", f"--pypath={modules}",
               *(f"--interface={port}@{veths(port)[0]};{front_panel(port)}"
                 for port in PORTS),
               f"--log-dir={folder / 'logs'}", f"--test-params={parameters}",
               *(f"{name}_test.{test}" for test in choice.tests)]  # fmt: skip
    environment = os.environ | {
        "PYTHONPATH": str(modules),
        "PATH": f"{commands(folder)}{os.pathsep}{os.environ['PATH']}",
    }
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", cwd=folder, env=environment, start_new_session=True,
    ) as run:  # fmt: skip
        try:
            text, _ = run.communicate(timeout=choice.seconds)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            text = (run.communicate()[0] or "") + f"\nTimeoutError: {choice.seconds} s are over\n"
    (folder / "ptf.log").write_text(text)
    return outcome(name, text)


def veths(port: int) -> tuple[str, str]:
    """The ends of a veth pair as P4 Studio calls them: tests find that of the switch by the name of
    theirs, which has the next number."""
    return f"veth{2 * port + 1}", f"veth{2 * port}"


def commands(into: Path) -> Path:
    """A folder with the commands by which tests set the interface of the switch up and down."""
    folder = into / "commands"
    folder.mkdir()
    for state in ("up", "down"):
        command = folder / f"port_if{state}"
        command.write_text(f'#!/bin/sh\nexec ip link set dev "$1" {state}\n')
        command.chmod(0o755)
    return folder


def front_panel(port: int) -> str:
    """A port as PTF is told of it: connectors of the front panel have four lanes."""
    return f"speed=25G;fec=none;conn_id={port // 4 + 1};chnl_id={port % 4}"


def install(name: str, schema: Path, arch: str, into: Path) -> None:
    """The files of a program where tests that start it again look for them.

    Those of the chip are empty: the switch does not read them.
    """
    folder = into / "install" / "share" / f"{arch}pd" / name
    (folder / "pipe").mkdir(parents=True)
    shutil.copy(schema, folder / "bf-rt.json")
    for of_chip in ("context.json", f"{arch}.bin"):
        (folder / "pipe" / of_chip).touch()


def outcome(name: str, text: str) -> Outcome:
    """The counts in the output of PTF; where it did not come to its end, one more test failed."""
    ran = re.search(r"^Ran (\d+) test", text, re.MULTILINE)
    if ran is None:  # it came to no end, or not even to a beginning
        ended_well = len(re.findall(r"(?:^|\.\.\. )ok$", text, re.MULTILINE))
        return Outcome(name, ended_well + 1, ended_well, _reason(text))
    count = int(ran[1])
    if count and re.search(r"^OK$", text, re.MULTILINE):
        return Outcome(name, count, count, "")
    # A test may fail several times: in itself, and as it cleans up.
    lost = len(set(re.findall(r"^(?:FAIL|ERROR): (\S+)", text, re.MULTILINE)))
    skipped = re.search(r"skipped=(\d+)", text)
    lost += int(skipped[1]) if skipped else 0
    return Outcome(name, max(count, 1), max(count - lost, 0), _reason(text))


def _reason(text: str) -> str:
    """The last line of the first traceback, or what the switch answered."""
    found = re.search(
        r"^Traceback .*?\n(?=[A-Za-z_])(?P<line>[^\n]*)", text, re.DOTALL | re.MULTILINE
    )
    line = found["line"] if found else (text.strip().splitlines() or ["no output"])[-1]
    if "RpcError" in line and (told := re.search(r'details = "([^"]*)', text)):
        line = told[1]
    return line.replace("|", "/")[:160]


def first_error(text: str) -> str:
    """The first error among the lines of the compiler."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()
    errors = [
        line.strip()
        for line in lines
        if line.strip().startswith("\u00d7") or "error" in line.lower()
    ]
    first = (errors or lines or ["no message"])[0]
    return (first.partition("error: ")[2] or first).replace("|", "/")[:160]


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, help=f"of p4lang/open-p4studio ({VARIABLE})")
    parser.add_argument("--programs", type=Path, help="folder of other programs with test.py")
    parser.add_argument("--keep", type=Path, help="folder for logs; none: they are removed")
    parser.add_argument(
        "--seconds", type=int, default=PROGRAM_SECONDS, help="of a program (default: %(default)s)"
    )
    parser.add_argument(
        "program", nargs="*", help="example programs, or PROGRAM:TEST,.. (default: all)"
    )
    options = parser.parse_args()
    given = options.checkout or os.environ.get(VARIABLE)
    if given is None or not (Path(given) / EXAMPLES).is_dir():
        print(f"skip: no checkout of p4lang/open-p4studio: --checkout or {VARIABLE} names one")
        return 0
    checkout = Path(given).resolve()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    all_of_them = sorted(
        path.parent for path in (options.programs or checkout / EXAMPLES).glob("*/test.py")
    )
    named = dict(word.partition(":")[::2] for word in options.program)
    chosen = [path for path in all_of_them if not named or path.name in named]
    print("| program | tests passed | first failure |\n|---|--:|---|", flush=True)
    outcomes = []
    try:
        if os.geteuid() != 0:
            raise RunError("it makes network namespaces: run it as root")
        with tempfile.TemporaryDirectory(prefix="ebb-studio-") as scratch:
            modules = python_path(checkout, Path(scratch))
            for program in chosen:
                folder = (options.keep or Path(scratch)).resolve() / program.name
                if folder.exists():
                    raise RunError(f"--keep {folder} is there already: remove it, or name another")
                folder.mkdir(parents=True)
                only = tuple(filter(None, named.get(program.name, "").split(",")))
                choice = Choice(only, options.seconds)
                outcomes.append(examine(program, modules, folder, choice))
                print(outcomes[-1].row, flush=True)
    except (RunError, TestbedError) as error:
        print(f"studio: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("studio: interrupted", file=sys.stderr)
        return 130
    whole = sum(each.passed == each.tests > 0 for each in outcomes)
    tests, passed = sum(e.tests for e in outcomes), sum(e.passed for e in outcomes)
    print(f"\n{whole} of {len(outcomes)} programs pass whole; {passed} of {tests} tests pass")
    return 0


if __name__ == "__main__":
    sys.exit(main())
