# SPDX-License-Identifier: Apache-2.0
"""Runs the PTF tests of fabric-tna, unchanged, against its TNA program on ebb-switch.

    python ptf-tests/fabric_tna.py [--checkout DIR] [PROFILE ...]

DIR (or EBB_FABRIC_TNA) has stratum/fabric-tna; without it the run is skipped, and says so. Each
PROFILE (default: all) of the program is compiled, its switch started, and the tests that its own
makefile chooses for it are run over P4Runtime. Prints each test that did not pass, and the totals
(docs/tofino-lab.md). Exit code 0 unless a run was impossible.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from run import RunError, find_binary, ptf_script  # noqa: E402
from studio import first_error, wait_until_up  # noqa: E402
from testbed import TestbedError, namespace, switch_interface, tester_interface  # noqa: E402

VARIABLE = "EBB_FABRIC_TNA"
"""Environment variable with the checkout."""
PROGRAM = "p4src/tna/fabric_tna.p4"
TESTS = "ptf/tests/unary"
COMMON = "ptf/tests/common"
PROFILES = {"fabric": [], "fabric-upf": ["-DWITH_UPF"], "fabric-int": ["-DWITH_INT"],
            "fabric-upf-int": ["-DWITH_UPF", "-DWITH_INT"]}  # fmt: skip
"""Options of the preprocessor, by profile with tests."""
GROUPS = {"fabric": "all ^upf ^int ^bng ^dth ^xconnect ^p4rt ^int-dod",
          "fabric-upf": "all ^int ^bng ^dth ^p4rt ^int-dod",
          "fabric-int": "all ^upf ^bng ^dth ^p4rt ^int-dod",
          "fabric-upf-int": "all ^bng ^dth ^p4rt ^int-dod"}  # fmt: skip
"""Groups of tests by profile, in PTF's syntax, as in its makefile."""
PORTS = range(1, 5)
CPU_PORT = 320
"""Port of the controller: a number of the chip, since ports are not translated."""
QUEUES = 8
"""Queues of a port."""
ADDRESS = "127.0.0.1:50052"
PROFILE_SECONDS = 3600
ALIASES = '''"""The modules of P4Runtime and gNMI under the names that the tests import."""
import sys

import google
from finsy.proto import gnmi1, google as ours, p4
from finsy.proto.gnmi1 import gnmi_pb2, gnmi_pb2_grpc
from finsy.proto.google.rpc import code_pb2, status_pb2
from finsy.proto.p4.config.v1 import p4info_pb2
from finsy.proto.p4.v1 import p4data_pb2, p4runtime_pb2, p4runtime_pb2_grpc

google.rpc = ours.rpc
sys.modules |= {
    "p4": p4, "p4.v1": p4.v1, "p4.config": p4.config, "p4.config.v1": p4.config.v1,
    "p4.config.v1.p4info_pb2": p4info_pb2, "p4.v1.p4data_pb2": p4data_pb2,
    "p4.v1.p4runtime_pb2": p4runtime_pb2, "p4.v1.p4runtime_pb2_grpc": p4runtime_pb2_grpc,
    "google.rpc": ours.rpc, "google.rpc.code_pb2": code_pb2, "google.rpc.status_pb2": status_pb2,
    "gnmi": gnmi1, "gnmi.gnmi_pb2": gnmi_pb2, "gnmi.gnmi_pb2_grpc": gnmi_pb2_grpc,
}
'''
UNUSED = '''"""In the place of a module that records test vectors, for which nobody asks."""
'''


@dataclass(frozen=True, slots=True)
class Outcome:
    """Results of the tests of a profile."""

    profile: str
    tests: int
    """Tests that were run."""
    failures: dict[str, str]
    """Reason by test that failed."""
    skipped: int
    """Tests that skip themselves."""

    @property
    def passed(self) -> int:
        """Tests that passed."""
        return self.tests - len(self.failures) - self.skipped


def python_path(scratch: Path) -> Path:
    """A folder with the modules that the tests import and the checkout does not have."""
    folder = scratch / "python"
    (folder / "testvector").mkdir(parents=True)
    (folder / "testvector" / "__init__.py").touch()
    (folder / "testvector" / "tvutils.py").write_text(UNUSED)
    (folder / "sitecustomize.py").write_text(ALIASES)
    return folder


def examine(profile: str, checkout: Path, modules: Path, folder: Path) -> Outcome:
    """Compiles the program for a profile, starts its switch, and runs the tests."""
    files = [folder / f"fabric{end}" for end in (".json", ".p4info.txtpb")]
    made = subprocess.run(
        [find_binary("ebb-p4c", None), "--arch", "tna", "-o", files[0], "--p4runtime-files",
         files[1], f"-I{checkout / 'p4src'}", *PROFILES[profile], checkout / PROGRAM],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if made.returncode:
        raise RunError(f"{profile} is not compiled: {first_error(made.stderr)}")
    with namespace(PORTS) as inside:
        log = folder / "switch.log"
        with log.open("wb") as sink:
            switch = subprocess.Popen(
                ["ip", "netns", "exec", inside, find_binary("ebb-switch", None), files[0],
                 "--p4info", files[1], "--device-id=1", f"--cpu-port={CPU_PORT}",
                 f"--priority-queues={QUEUES}",
                 f"--grpc-server-addr={ADDRESS}",
                 *(f"--interface={port}@{switch_interface(port)}" for port in PORTS)],
                stdout=sink, stderr=sink,
            )  # fmt: skip
        try:
            wait_until_up(inside, switch, log)
            return outcome(profile, _run(profile, files[1], inside, checkout, modules, folder))
        finally:
            switch.terminate()
            switch.wait()


def _run(
    profile: str, p4info: Path, inside: str, checkout: Path, modules: Path, folder: Path
) -> str:
    """Output of PTF."""
    parameters = (
        f"p4info='{p4info}';grpcaddr='{ADDRESS}';device_id='1';cpu_port='{CPU_PORT}';"
        f"generate_tv='False';loopback='False';pltfm='tm';profile='{profile}'"
    )
    command = ["ip", "netns", "exec", inside, sys.executable, str(ptf_script()),
               f"--test-dir={checkout / TESTS}", f"--pypath={modules}",
               *(f"--interface={port}@{tester_interface(port)}" for port in PORTS),
               f"--log-dir={folder / 'logs'}", f"--test-params={parameters}",
               *GROUPS[profile].split()]  # fmt: skip
    path = os.pathsep.join(map(str, (modules, checkout / COMMON)))
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
        cwd=folder, env=os.environ | {"PYTHONPATH": path}, start_new_session=True,
    ) as run:  # fmt: skip
        try:
            text, _ = run.communicate(timeout=PROFILE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            text = (run.communicate()[0] or "") + f"\nTimeoutError: {PROFILE_SECONDS} s are over\n"
    (folder / "ptf.log").write_text(text)
    return text


def outcome(profile: str, text: str) -> Outcome:
    """Counts and reasons in the output of PTF. Raises `RunError` if it did not come to its end."""
    ran = re.search(r"^Ran (\d+) test", text, re.MULTILINE)
    if ran is None:
        last = (text.strip().splitlines() or ["no output"])[-1]
        raise RunError(f"the tests of {profile} did not end: {last[:160]}")
    parts = re.split(r"^={20,}\n(?=FAIL|ERROR)", text, flags=re.MULTILINE)[1:]
    failures: dict[str, str] = {}
    for part in parts:
        name = part.partition(": ")[2].split()[0]
        failures.setdefault(name, _reason(part))
    skipped = re.search(r"skipped=(\d+)", text)
    return Outcome(profile, int(ran[1]), failures, int(skipped[1]) if skipped else 0)


def _reason(part: str) -> str:
    """The error of the switch, or else the last exception of a traceback."""
    if details := re.search(r'details = "([^"]*)', part):
        return details[1][:160]
    lines = [line for line in part.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line)]
    return (lines or ["no reason"])[-1][:160]


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--checkout", type=Path, help=f"of stratum/fabric-tna ({VARIABLE})")
    parser.add_argument("--keep", type=Path, help="folder for logs; none: they are removed")
    parser.add_argument("profile", nargs="*", help=f"{', '.join(PROFILES)} (default: all)")
    options = parser.parse_args()
    given = options.checkout or os.environ.get(VARIABLE)
    if given is None or not (Path(given) / PROGRAM).is_file():
        print(f"skip: no checkout of stratum/fabric-tna: --checkout or {VARIABLE} names one")
        return 0
    if unknown := set(options.profile) - set(PROFILES):
        parser.error(f"no profile {', '.join(unknown)}; there are {', '.join(PROFILES)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    print("| profile | tests passed | skipped by themselves |\n|---|--:|--:|", flush=True)
    outcomes = []
    try:
        if os.geteuid() != 0:
            raise RunError("it makes network namespaces: run it as root")
        with tempfile.TemporaryDirectory(prefix="ebb-fabric-tna-") as scratch:
            modules = python_path(Path(scratch))
            for profile in options.profile or PROFILES:
                folder = (options.keep or Path(scratch)).resolve() / profile
                if folder.exists():
                    raise RunError(f"--keep {folder} is there already: remove it, or name another")
                folder.mkdir(parents=True)
                done = examine(profile, Path(given).resolve(), modules, folder)
                print(f"| {profile} | {done.passed}/{done.tests} | {done.skipped} |", flush=True)
                outcomes.append(done)
    except (RunError, TestbedError) as error:
        print(f"fabric_tna: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("fabric_tna: interrupted", file=sys.stderr)
        return 130
    for done in outcomes:
        print(f"\n{done.profile}: {len(done.failures)} failed")
        for reason, count in Counter(done.failures.values()).most_common():
            tests = [name for name, why in done.failures.items() if why == reason]
            print(f"* {count}: {reason} ({', '.join(tests[:3])}{', ..' if count > 3 else ''})")
    return 0


if __name__ == "__main__":
    sys.exit(main())
