"""The programs of examples/ pass their packet tests, and take what their controllers say."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, BUILD = ROOT / "examples", ROOT / "build"
NAMES = sorted(path.parent.name for path in EXAMPLES.glob("*/controller.py"))
SAID = {
    "router": "10.0.1.0/24: 0 packets, 0 bytes\n10.0.1.5/32: 0 packets, 0 bytes\n",
    "ecn_marking": "packets are marked from a queue of 20 packets on\nport 2: 0 packets marked\n",
    "load_balancer": "group 1: 3 servers\n",
    "policer": "port 1: 10 Mbit/s\nport 1: 0 packets dropped\n",
    "heavy_hitters": "listening for 0.2 s\n",
}
PATIENCE_S = 20.0

needs_build = pytest.mark.skipif(
    not (BUILD / "ebb-stf").exists(), reason="needs build/: run `make build`"
)


def test_every_example_has_its_parts() -> None:
    assert sorted(SAID) == NAMES
    for name in NAMES:
        assert {f"{name}.p4", f"{name}.stf", "controller.py"} <= {
            path.name for path in (EXAMPLES / name).iterdir()
        }


@needs_build
def test_their_packet_tests_pass() -> None:
    command = [str(BUILD / "ebb-stf"), str(EXAMPLES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "5 tests: 5 passed")


@needs_build
def test_their_controllers_fill_a_switch(tmp_path: Path) -> None:
    """All at once, each with a switch of its own."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    switches, controllers = [], {}
    try:
        for name in NAMES:
            folder = tmp_path / "examples" / name
            subprocess.run(
                [BUILD / "ebb-p4c", "-o", f"{name}.json",
                 "--p4runtime-files", f"{name}.p4info.txtpb", f"{name}.p4"],
                cwd=folder, check=True, timeout=60,
            )  # fmt: skip
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
            address = f"127.0.0.1:{port}"
            command = [BUILD / "ebb-switch", "--no-p4", "--grpc-server-addr", address]
            switches.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            wait_for(port)
            controllers[name] = subprocess.Popen(
                [sys.executable, "controller.py", address, "0.2"], cwd=folder,
                env=os.environ | {"PYTHONPATH": str(folder.parent)}, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
        for name, controller in controllers.items():
            said, complaint = controller.communicate(timeout=PATIENCE_S)
            assert (controller.returncode, said) == (0, SAID[name]), complaint
    finally:
        for process in (*switches, *controllers.values()):
            process.kill()
            process.wait()


VETHS = """
set -e
ip link add veth0 type veth peer name veth1
ip link add veth2 type veth peer name veth3
for end in veth0 veth1 veth2 veth3; do
  sysctl -qw net.ipv6.conf.$end.disable_ipv6=1
  ip link set $end up
done
"""


@needs_build
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: a network namespace")
def test_packets_of_a_test_are_sent_as_the_page_says(tmp_path: Path) -> None:
    """The router, in a namespace of its own: it has forwarded one packet to each next hop."""
    shutil.copytree(EXAMPLES, tmp_path / "examples")
    page = (EXAMPLES / "README.md").read_text()
    (line,) = (line for line in page.splitlines() if "send.py" in line)
    assert line == "python3 ../send.py router.stf 1=veth1"
    python, ctl = shlex.quote(sys.executable), "-m ebb_controller.ctl.cli"
    script = [
        VETHS,
        f"{BUILD}/ebb-p4c -o router.json --p4runtime-files router.p4info.txtpb router.p4",
        "ip link set lo up",
        f"{BUILD}/ebb-switch router.json --p4info router.p4info.txtpb -i 1@veth0 -i 2@veth2 "
        "2> log &",
        "trap 'kill $!' EXIT",
        "for try in $(seq 200); do grep -q 'P4Runtime on' log && break; sleep 0.05; done",
        f"PYTHONPATH=.. {python} controller.py > /dev/null",
        line,
        f"for try in $(seq 100); do {python} {ctl} counter read routed > seen; "
        "grep -q ' [1-9]' seen && break; sleep 0.05; done; cat seen",
    ]
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", "\n".join(script)],
        cwd=tmp_path / "examples" / "router", capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("port 1: 46 bytes\n" * 4)
    rows = [line.split() for line in done.stdout.splitlines() if "dst=" in line]
    assert ["1", "46"] in [row[-2:] for row in rows], done.stdout


def wait_for(port: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.02)
    raise TimeoutError(f"nothing listens on port {port}")


def test_what_is_missing_is_told_in_a_line(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "router", tmp_path / "router", ignore=lambda *_: ["router.json"])
    for file in ("client.py", "send.py"):
        shutil.copy(EXAMPLES / file, tmp_path)
    for command, told in (
        (["controller.py"], "compile router.p4 first: examples/README.md has the command\n"),
        (["../send.py", "router.stf"], "Sends the packets of a test"),
        (["../send.py", "router.stf", "1=nowhere"], "send.py: [Errno"),
    ):
        done = subprocess.run(
            [sys.executable, *command], cwd=tmp_path / "router", capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(tmp_path)}, check=False,
        )  # fmt: skip
        assert done.returncode == 1
        assert done.stderr.startswith(told), done.stderr
