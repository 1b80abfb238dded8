# SPDX-License-Identifier: Apache-2.0
"""simple_switch_grpc: queues have a capacity and a rate in packets, set over Thrift."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import ClassVar

from targets.base import Feature, Target, TargetError, TrafficManager

THRIFT_PORT = 9090
"""TCP port of BMv2's own interface, its default."""
FULL_FRAME_BITS = 1514 * 8
"""Frames of this length make a queue's rate in packets one in bit/s."""
CLI = "simple_switch_CLI"
"""The command that sets rates of queues and reads registers."""


class Bmv2(Target):
    """A simple_switch_grpc process."""

    name = "bmv2"
    lacks: ClassVar[Mapping[Feature, str]] = {
        Feature.PORT_SCHEDULER: "every queue has a rate of its own, they do not share a link",
        Feature.WEIGHTED_GROUPS: "strict priority is the only scheduler",
        Feature.DEFLECTION: "a full queue drops without telling the program",
        Feature.BYTE_DEPTHS: "queue depths are in packets",
        Feature.QUEUE_STATISTICS: "drops of queues are not counted",
        Feature.PFC: "its queues cannot be paused, and frames of flow control go to the program",
        Feature.QUEUE_EXPORT: "the program learns of a queue only in egress, of the one it left",
        Feature.PUSH_OUT: "a packet in a queue stays there until it leaves",
        Feature.SHARES: "strict priority is the only scheduler",
        Feature.RANKS: "strict priority is the only scheduler",
    }

    def lacks_now(self, feature: Feature) -> str | None:
        if feature in (Feature.SLOW_PORT, Feature.REGISTERS):
            return _why_no_cli()
        return super().lacks_now(feature)

    def command(self, ports: Mapping[int, str], manager: TrafficManager, address: str) -> list[str]:
        interfaces = [f"--interface={port}@{name}" for port, name in ports.items()]
        return [
            str(self._binary),
            "--no-p4",
            *interfaces,
            f"--thrift-port={THRIFT_PORT}",
            "--log-console",
            "-Lwarn",
            "--",
            f"--grpc-server-addr={address}",
            "--priority-queues=8",
        ]

    def register(self, name: str, index: int) -> int | None:
        answer = _ask_cli(f"register_read {name} {index}")
        found = re.search(rf"{re.escape(name)}\[{index}\]= (-?\d+)", answer)
        if found is None:
            raise TargetError(f"{CLI} tells nothing of {name}[{index}]:\n{answer}")
        return int(found[1])

    def configure(self, manager: TrafficManager) -> None:
        if not manager.slow_ports or _why_no_cli():
            return  # tests that need a slow port have been skipped, the others do without
        rate_pps = max(1, round(manager.rate_bps / FULL_FRAME_BITS))
        _ask_cli(*(f"set_queue_rate {rate_pps} {port}" for port in manager.slow_ports))


def _ask_cli(*commands: str) -> str:
    result = subprocess.run(
        [CLI, f"--thrift-port={THRIFT_PORT}"],
        input="\n".join(commands) + "\n",
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode or "Error" in result.stdout:
        raise TargetError(f"{CLI} failed:\n{result.stdout}{result.stderr}")
    return result.stdout


@cache
def _why_no_cli() -> str | None:
    if shutil.which(CLI) is None:
        return f"queue rates and registers need {CLI}, which is not on PATH"
    run = subprocess.run([CLI, "--help"], capture_output=True, check=False)
    if run.returncode:
        last = run.stderr.decode(errors="replace").strip().rpartition("\n")[2]
        return f"queue rates and registers need {CLI}, which does not run here ({last})"
    return None
