"""Two network namespaces joined by one veth, and an agent in each.

```
 ebb-bench-{pid}-a: 10.0.0.2 ──veth── ebb-bench-{pid}-b: 10.0.0.3
```
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ebb_topologies.files import InputError
from ebb_topologies.processes import uninterrupted

from ebb_experiments.bench.section import Context

ADDRESSES = {"a": "10.0.0.2", "b": "10.0.0.3"}
PORT = 7000
INTERFACE = "eth1"
PATIENCE_SECONDS = 60.0
REALTIME_PRIORITY = 10
Record = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One object that went from a to b."""

    sent: Record
    received: Record
    """The records of the flow (docs/agent-records.md)."""
    sender_cpu_s: float
    receiver_cpu_s: float
    """User and system time of the whole processes, hashing the object included."""

    @property
    def seconds(self) -> float:
        """From the first packet to the last byte, as the receiver saw it."""
        return float(self.received["duration_ns"]) / 1e9

    @property
    def goodput_mbps(self) -> float:
        return float(self.received["object_bytes"]) * 8 / 1e6 / self.seconds

    @property
    def cpu_s_per_gb(self) -> tuple[float, float]:
        gigabytes = float(self.received["object_bytes"]) / 1e9
        return self.sender_cpu_s / gigabytes, self.receiver_cpu_s / gigabytes


class TwoHosts:
    """Namespaces of our own; use as a context manager."""

    def __init__(self, context: Context) -> None:
        self.agent = context.agent
        self.directory = context.directory
        self.realtime = context.realtime
        self.name = f"ebb-bench-{os.getpid()}"

    def __enter__(self) -> TwoHosts:
        if os.geteuid() != 0:
            raise InputError("network namespaces need root: run it as root")
        try:
            with uninterrupted():
                self._create()
        except BaseException:
            self._delete()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            self._delete()

    def namespace(self, side: str) -> str:
        return f"{self.name}-{side}"

    def _create(self) -> None:
        a, b = self.namespace("a"), self.namespace("b")
        _ip("netns", "add", a)
        _ip("netns", "add", b)
        veth = ("type", "veth", "peer", "name", INTERFACE, "netns", b)
        _ip("-n", a, "link", "add", INTERFACE, *veth)
        for side, peer in (("a", "b"), ("b", "a")):
            here = ("-n", self.namespace(side))
            _ip(*here, "address", "add", f"{ADDRESSES[side]}/32", "dev", INTERFACE)
            _ip(*here, "link", "set", INTERFACE, "up")
            _ip(*here, "link", "set", "lo", "up")
            gateway = ("via", ADDRESSES[peer], "dev", INTERFACE, "onlink")
            _ip(*here, "route", "add", "default", *gateway)

    def _delete(self) -> None:
        for side in ADDRESSES:
            with contextlib.suppress(InputError):
                _ip("netns", "delete", self.namespace(side))

    def transfer(self, scheme: str, object_bytes: int, parameters: dict[str, Any]) -> Transfer:
        """Sends one generated object."""
        file = self.directory / f"{scheme}.json"
        file.write_text(json.dumps(parameters))
        common = ("--interface", INTERFACE, "--scheme", scheme, "--params", str(file))
        with self._agent("b", "recv", "--port", str(PORT), "--count", "1", *common) as receiver:
            _wait_ready(receiver)
            to = f"{ADDRESSES['b']}:{PORT}"
            args = ("send", "--generate", str(object_bytes), to)
            with self._agent("a", *args, *common) as sender:
                sent, sender_cpu_s = _end(sender)
            received, receiver_cpu_s = _end(receiver)
        return Transfer(
            sent=sent,
            received=received,
            sender_cpu_s=sender_cpu_s,
            receiver_cpu_s=receiver_cpu_s,
        )

    @contextlib.contextmanager
    def _agent(self, side: str, *args: str) -> Iterator[subprocess.Popen[str]]:
        command = ["ip", "netns", "exec", self.namespace(side), str(self.agent), *args]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=_run_first if self.realtime else None,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()


def _run_first() -> None:
    """All threads of the process, its workers too: not what `engine.realtime_priority` does."""
    os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(REALTIME_PRIORITY))


def _wait_ready(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    line = process.stdout.readline()
    if '"ready"' not in line:
        assert process.stderr is not None
        raise InputError(f"the receiver does not start: {process.stderr.read().strip()}")


def _end(process: subprocess.Popen[str]) -> tuple[Record, float]:
    """The record of the process's one flow, and the processor time it took."""
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
    return _cpu_s(usage)


def _cpu_s(usage: resource.struct_rusage) -> float:
    return usage.ru_utime + usage.ru_stime


def _ip(*args: str) -> None:
    done = subprocess.run(["ip", *args], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"ip {' '.join(args)} failed: {done.stderr.strip()}")
