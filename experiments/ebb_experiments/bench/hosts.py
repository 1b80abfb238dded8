"""An agent on each of two hosts that a veth joins, and objects from one to the other."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import dataclass
from typing import Any

from ebb_topologies.files import InputError

from ebb_experiments.bench.section import Context
from ebb_experiments.bench.testbed import ADDRESSES, INTERFACE, Testbed, wait_ready

PORT = 7000
PATIENCE_SECONDS = 60.0
Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One object that went from a to b."""

    sent: Record
    received: Record
    """Records of the flow at both ends (docs/agent-records.md)."""
    sender_cpu_s: float
    receiver_cpu_s: float
    """User and system time of both processes from start to end, hashing the object included."""

    @property
    def seconds(self) -> float:
        """Time from the first packet to the last byte, as the receiver saw it."""
        return float(self.received["duration_ns"]) / 1e9

    @property
    def goodput_mbps(self) -> float:
        """Content per second, in Mbit/s."""
        return float(self.received["object_bytes"]) * 8 / 1e6 / self.seconds

    @property
    def cpu_s_per_gb(self) -> tuple[float, float]:
        """Processor seconds per GB of content: of the sender, of the receiver."""
        gigabytes = float(self.received["object_bytes"]) / 1e9
        return self.sender_cpu_s / gigabytes, self.receiver_cpu_s / gigabytes


class TwoHosts(Testbed):
    """The two hosts with their agents; use it as a context manager."""

    def __init__(self, context: Context) -> None:
        super().__init__(mtu_bytes=context.mtu_bytes)
        self.context = context

    def transfer(self, transport: str, object_bytes: int, parameters: dict[str, Any]) -> Transfer:
        """Sends one generated object from a to b."""
        file = self.context.directory / f"{transport}.json"
        file.write_text(json.dumps(parameters))
        common = ("--interface", INTERFACE, "--transport", transport, "--params", str(file))
        receive = ("recv", "--port", str(PORT), "--count", "1", *common)
        send = ("send", "--generate", str(object_bytes), f"{ADDRESSES['b']}:{PORT}", *common)
        with self.agent(self.context, "b", receive, first=True) as receiver:
            wait_ready(receiver)
            with self.agent(self.context, "a", send, first=True) as sender:
                sent, sender_cpu_s = _end(sender)
            received, receiver_cpu_s = _end(receiver)
        return Transfer(
            sent=sent,
            received=received,
            sender_cpu_s=sender_cpu_s,
            receiver_cpu_s=receiver_cpu_s,
        )


def _end(process: subprocess.Popen[str]) -> tuple[Record, float]:
    """Waits for a process; returns the record of its one flow and the processor time it took."""
    assert process.stdout is not None
    assert process.stderr is not None
    text = process.stdout.read()
    cpu_s = _wait(process)
    lines = [json.loads(line) for line in text.splitlines()]
    records = [line for line in lines if line.get("event") == "flow"]
    if process.returncode != 0 or len(records) != 1 or records[0]["status"] != "finished":
        raise InputError(f"a transfer failed: {text.strip()} {process.stderr.read().strip()}")
    return records[0], cpu_s


def _wait(process: subprocess.Popen[str]) -> float:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid != 0:
            break
        if time.monotonic() > deadline:
            raise InputError(f"an agent does not end: {process.args!r}")
        time.sleep(0.005)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime
