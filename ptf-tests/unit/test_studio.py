# SPDX-License-Identifier: Apache-2.0
"""The runner of P4 Studio's tests: that it says when it skips, and how it reads PTF's output."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import studio

RUNNER = Path(studio.__file__)


def test_without_a_checkout_it_skips_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, str(RUNNER), "--checkout", str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0
    assert run.stdout.startswith("skip: no checkout of p4lang/open-p4studio")


def test_counts_are_those_of_ptf() -> None:
    passed = "Ran 3 tests in 1.0s\n\nOK\n"
    assert studio.outcome("p", passed) == studio.Outcome("p", 3, 3, "")
    failed = (
        'Traceback (most recent call last):\n  File "t.py", line 1, in runTest\n    assert a | b\n'
        "AssertionError: a | b\n\nFAIL: p.First\nERROR: p.First\nERROR: p.Second\n"
        "Ran 4 tests in 1.0s\n\nFAILED (failures=1, errors=2)\n"
    )
    assert studio.outcome("p", failed) == studio.Outcome("p", 4, 2, "AssertionError: a / b")
    cut = "p.First ... Sending a packet\nok\np.Second ... ok\np.Third ... Sending\n"
    assert studio.outcome("p", cut) == studio.Outcome("p", 3, 2, "p.Third ... Sending")
    nothing = "ImportError: no module\n"
    assert studio.outcome("p", nothing) == studio.Outcome("p", 1, 0, "ImportError: no module")


def test_the_reason_of_an_error_of_grpc_is_what_the_switch_says() -> None:
    text = (
        'Traceback (most recent call last):\n  File "t.py", line 1\n'
        "grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:\n"
        '\tstatus = StatusCode.UNKNOWN\n\tdetails = "no such table"\n>\n'
        "ERROR: p.Only\nRan 1 test in 0.1s\n\nFAILED (errors=1)\n"
    )
    assert studio.outcome("p", text) == studio.Outcome("p", 1, 0, "no such table")


def test_tests_find_the_interface_of_the_switch_by_the_name_of_theirs(tmp_path: Path) -> None:
    assert studio.veths(0) == ("veth1", "veth0")
    assert studio.veths(8) == ("veth17", "veth16")
    commands = studio.commands(tmp_path)
    assert (commands / "port_ifdown").read_text().endswith('dev "$1" down\n')
