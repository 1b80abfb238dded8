"""Two hosts in network namespaces of their own, joined by veths: directly or through a middle.

```
 Nothing:   a: eth1 ──veth── eth1 :b
 Middle:    a: eth1 ──veth── {in} middle {out} ──veth── eth1 :b
```
"""

from __future__ import annotations

import contextlib
import enum
import os
import subprocess
from collections.abc import Iterator, Sequence
from typing import Self

from ebb_topologies.files import InputError
from ebb_topologies.processes import uninterrupted

from ebb_experiments.bench.machine import output_of, realtime
from ebb_experiments.bench.section import Context

ADDRESSES = {"a": "10.0.0.2", "b": "10.0.0.3"}
"""Addresses of the hosts that have one."""
INTERFACE = "eth1"
QUIET = ("sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
"""Switches IPv6 off, so that nobody sends what was not asked for."""


class Middle(enum.Enum):
    """Place of the process between the two hosts."""

    NONE = 0
    NAMESPACE = 1
    """The middle is in a namespace of its own, `p`."""
    HERE = 2
    """The middle is in the caller's namespace, where whoever runs there is reached over
    loopback."""


class Testbed:
    """The namespaces and veths; use it as a context manager."""

    def __init__(
        self, middle: Middle = Middle.NONE, *, addressed: bool = True, mtu_bytes: int = 1500
    ) -> None:
        self.middle = middle
        self.addressed = addressed
        self.mtu_bytes = mtu_bytes
        self.name = f"ebb{os.getpid()}"

    @property
    def ports(self) -> tuple[str, str]:
        """Interfaces of the middle, towards a and towards b."""
        return f"{self.name}in", f"{self.name}out"

    def namespace(self, part: str) -> str:
        """Name of the namespace of a part."""
        return f"{self.name}-{part}"

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise InputError("network namespaces need root: run it as root")
        try:
            with uninterrupted():
                self._create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with uninterrupted():
            # A namespace takes its end of a veth with it, but only later.
            for port in self.ports if self.middle is Middle.HERE else ():
                with contextlib.suppress(InputError):
                    output_of("ip", "link", "delete", port)
            for part in self._parts:
                with contextlib.suppress(InputError):
                    output_of("ip", "netns", "delete", self.namespace(part))

    @property
    def _parts(self) -> str:
        return "apb" if self.middle is Middle.NAMESPACE else "ab"

    def _create(self) -> None:
        for part in self._parts:
            output_of("ip", "netns", "add", self.namespace(part))
            output_of(*self.inside(part), *QUIET)
        if self.middle is Middle.NONE:
            self._join("a", INTERFACE, "b")
        else:
            middle = "p" if self.middle is Middle.NAMESPACE else ""
            for port, host in zip(self.ports, "ab", strict=True):
                self._join(middle, port, host)
        for host, address in ADDRESSES.items() if self.addressed else ():
            self._ip(host, "address", "add", f"{address}/24", "dev", INTERFACE)

    def _join(self, part: str, port: str, host: str) -> None:
        mtu = ("mtu", str(self.mtu_bytes))
        peer = ("peer", "name", INTERFACE, *mtu, "netns", self.namespace(host))
        self._ip(part, "link", "add", port, *mtu, "type", "veth", *peer)
        if not part:
            output_of("sysctl", "-qw", f"net.ipv6.conf.{port}.disable_ipv6=1")
        self._ip(part, "link", "set", port, "up")
        self._ip(host, "link", "set", INTERFACE, "up")

    def _ip(self, part: str, *args: str) -> None:
        output_of("ip", *(("-n", self.namespace(part)) if part else ()), *args)

    def inside(self, part: str) -> tuple[str, ...]:
        """Beginning of a command that runs in a namespace."""
        return ("ip", "netns", "exec", self.namespace(part))

    @contextlib.contextmanager
    def agent(
        self, context: Context, part: str, args: Sequence[str], *, first: bool = False
    ) -> Iterator[subprocess.Popen[str]]:
        """Runs `ebb-agent`, which ends with the context. `first`: before all other processes, if
        the benchmark runs with `--realtime`."""
        runner = realtime(context) if first else []
        process = subprocess.Popen(
            [*self.inside(part), *runner, str(context.agent), *args],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                process.wait()


def wait_ready(process: subprocess.Popen[str]) -> None:
    """Waits until an agent says that it is ready."""
    assert process.stdout is not None
    if '"ready"' not in process.stdout.readline():
        assert process.stderr is not None
        raise InputError(f"an agent does not start: {process.stderr.read().strip()}")
