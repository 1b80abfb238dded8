"""Table writes over P4Runtime from one Python client, and how a large table loads."""

from __future__ import annotations

import asyncio
import shutil
import socket
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import finsy
import grpc
from ebb_controller.channel import ChannelSwitch
from ebb_controller.encoding import Encoder
from ebb_controller.reconcile import reconcile
from ebb_topologies.files import InputError
from ebb_topologies.processes import Process, ProcessTable
from finsy.p4schema import P4Schema
from finsy.proto import p4r, p4r_grpc

from ebb_experiments.bench.machine import output_of
from ebb_experiments.bench.section import Context, Section
from ebb_experiments.run.usage import Usage

BATCH = 500
"""How many updates one Write has."""
WRITES = 50_000
LOAD = 1_000_000
TARGET_PER_S = 26_000
"""Inserts per second that BMv2 took from finsy when the target was set."""
AIM = 2.0
"""The aim, as a multiple of the target."""
DEVICE_ID = 1
START_SECONDS = 60.0
"""How long a switch may take to start and to install a program on a busy machine."""
TABLES = ("bridge", "routes")


@dataclass(frozen=True, slots=True)
class Run:
    """Writes of one client to one table."""

    switch: str
    client: str
    table: str
    writes: int
    seconds: float
    server_cpu_s: float
    """Processor time of the switch."""
    client_cpu_s: float
    """Processor time of this process for the same writes."""
    memory_bytes: int
    """Memory that the switch holds more than before."""

    @property
    def per_s(self) -> float:
        """Writes per second."""
        return self.writes / self.seconds

    @property
    def row(self) -> tuple[str | float | int, ...]:
        """The row of the table."""
        return (
            self.switch,
            self.client,
            f"{self.table}, {self.writes:,}",
            self.per_s,
            self.server_cpu_s / self.writes * 1e6,
            self.client_cpu_s / self.writes * 1e6,
            self.memory_bytes / self.writes,
        )


@dataclass(frozen=True, slots=True)
class ReadBack:
    """A wildcard read of a whole table."""

    table: str
    entries: int
    seconds: float
    server_cpu_s: float
    messages: int
    largest_bytes: int
    memory_bytes: int
    """Memory that the switch holds more afterwards than before."""

    @property
    def line(self) -> str:
        """The result in one line for people."""
        return (
            f"{self.table}: {self.entries:,} entries read in {self.seconds:.1f} s, "
            f"{self.server_cpu_s / self.entries * 1e6:.1f} us of the switch each, in "
            f"{self.messages:,} messages of {self.largest_bytes:,} bytes at most; "
            f"{self.memory_bytes / 1e6:.0f} MB more memory than before"
        )


@dataclass(frozen=True, slots=True)
class Server:
    """A switch process without ports."""

    name: str
    address: str
    process: Process

    def wait(self) -> None:
        """Waits until the server accepts connections."""
        host, _, port = self.address.partition(":")
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline and self.process.running:
            with suppress(OSError), socket.create_connection((host, int(port)), timeout=1):
                return
            time.sleep(0.05)
        raise InputError(
            f"{self.name} does not listen at {self.address}: {self.process.last_words()} "
            f"(log: {self.process.log})"
        )

    def usage(self) -> Usage:
        """Processor time and memory of the server so far."""
        return Usage.of(self.process.popen.pid)


def run(context: Context) -> Section:
    """Has both clients write to both tables of each switch; then loads a million entries into
    ours."""
    json, p4info = _program(context)
    count = 10 * BATCH if context.quick else WRITES
    load = LOAD // 10 if context.quick else LOAD
    runs: list[Run] = []
    reads: list[ReadBack] = []
    for name in ("ebb-switch", "simple_switch_grpc"):
        command = _command(context, name)
        if command is None:
            continue
        for client, write in CLIENTS.items():
            for table in TABLES:
                with _serve(context, name, command) as server:
                    runs.append(asyncio.run(write(server, (json, p4info), client, table, count)))
        if name == "ebb-switch":
            for table in TABLES:
                with _serve(context, name, command) as server:
                    program = (json, p4info)
                    runs.append(asyncio.run(_bare(server, program, "grpcio", table, load, reads)))
    return Section(
        title=f"Table writes over P4Runtime from one Python client, {BATCH} in a batch of finsy's",
        parameters={"batch": BATCH, "device": "no ports, no packets"},
        columns=(
            "switch",
            "client",
            "table, inserts",
            "inserts/s",
            "switch CPU us/insert",
            "client CPU us/insert",
            "bytes/entry",
        ),
        names=3,
        rows=[run.row for run in runs],
        verdicts=_verdicts(runs) + [read.line for read in reads],
        details=[asdict(run) for run in runs] + [asdict(read) for read in reads],
    )


def _verdicts(runs: list[Run]) -> list[str]:
    verdicts = []
    for table in TABLES:
        rate = {r.switch: r.per_s for r in runs if r.client == "finsy" and r.table == table}
        own = rate["ebb-switch"]
        verdict = "missed" if own < TARGET_PER_S else "reached"
        aim = "reached" if own >= AIM * TARGET_PER_S else "not reached"
        line = (
            f"{table}, finsy: {own:,.0f}/s; the target is {TARGET_PER_S:,}: {verdict}, twice: {aim}"
        )
        if other := rate.get("simple_switch_grpc"):
            line += f"; {own / other:.1f} times BMv2 in this run ({other:,.0f}/s)"
        verdicts.append(line)
    if not any(r.switch == "simple_switch_grpc" for r in runs):
        verdicts.append("simple_switch_grpc is not on PATH: no comparison with BMv2")
    return verdicts


def _program(context: Context) -> tuple[bytes, Path]:
    """Compiles writes.p4 with the compiler that `make build` left."""
    json, p4info = context.directory / "writes.json", context.directory / "writes.p4info.txtpb"
    command = [str(context.agent.with_name("ebb-p4c")), "--p4runtime-files", str(p4info)]
    command += ["-o", str(json), str(Path(__file__).with_name("writes.p4"))]
    output_of(*command)
    return json.read_bytes(), p4info


def _command(context: Context, name: str) -> list[str] | None:
    found = context.agent.with_name(name) if name == "ebb-switch" else shutil.which(name)
    if found is None:
        return None
    options = ["--no-p4", "--device-id", str(DEVICE_ID)]
    if name != "ebb-switch":
        options += ["--thrift-port", str(_free_port()), "--"]
    return [str(found), *options, "--grpc-server-addr"]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def _serve(context: Context, name: str, command: list[str]) -> Iterator[Server]:
    address = f"127.0.0.1:{_free_port()}"
    processes = ProcessTable(context.directory)
    try:
        server = Server(name, address, processes.spawn(name, [*command, address]))
        server.wait()
        yield server
    finally:
        processes.stop()


Program = tuple[bytes, Path]


Write = Callable[[ChannelSwitch, list[finsy.P4TableEntry]], Coroutine[Any, Any, None]]


async def _insert(switch: ChannelSwitch, entries: list[finsy.P4TableEntry]) -> None:
    """As any controller with finsy does it."""
    for first in range(0, len(entries), BATCH):
        await switch.insert(entries[first : first + BATCH])


async def _install(switch: ChannelSwitch, entries: list[finsy.P4TableEntry]) -> None:
    """As ebb-controller does it: all of them are read back, too."""
    await reconcile(switch, entries, Encoder(), {})


async def _finsy(
    write: Write, server: Server, program: Program, client: str, table: str, count: int
) -> Run:
    """Writes as a controller does: entries are Python objects, encoded as they are sent."""
    json, p4info = program
    ready = asyncio.Event()

    async def primary(_: finsy.Switch) -> None:
        ready.set()

    options = finsy.SwitchOptions(
        p4info=p4info, p4blob=json, device_id=DEVICE_ID, ready_handler=primary
    )
    switch = ChannelSwitch(server.name, server.address, options)
    running = asyncio.create_task(switch.run())
    try:
        await asyncio.wait_for(ready.wait(), START_SECONDS)
        entries = [_entity(table, n) for n in range(count)]
        before, began, own = server.usage(), time.perf_counter(), time.process_time()
        await write(switch, entries)
        seconds, after = time.perf_counter() - began, server.usage()
        own = time.process_time() - own
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
    return _result(server, client, table, count, (seconds, own), (before, after))


async def _bare(
    server: Server,
    program: Program,
    client: str,
    table: str,
    count: int,
    reads: list[ReadBack] | None = None,
) -> Run:
    """Writes as fast as a Python client can: the messages are there, and one call follows the
    other."""
    json, p4info = program
    schema = P4Schema(p4info, json)
    election = p4r.Uint128(low=1)
    with grpc.insecure_channel(server.address) as channel:
        stub = p4r_grpc.P4RuntimeStub(channel)
        hello = p4r.MasterArbitrationUpdate(device_id=DEVICE_ID, election_id=election)
        requests: SimpleQueue[p4r.StreamMessageRequest | None] = SimpleQueue()
        requests.put(p4r.StreamMessageRequest(arbitration=hello))
        stream = stub.StreamChannel(iter(requests.get, None))
        if next(stream).arbitration.status.code != 0:
            raise InputError(f"{server.name}: another controller is primary")
        stub.SetForwardingPipelineConfig(
            p4r.SetForwardingPipelineConfigRequest(
                device_id=DEVICE_ID,
                election_id=election,
                action=p4r.SetForwardingPipelineConfigRequest.VERIFY_AND_COMMIT,
                config=p4r.ForwardingPipelineConfig(p4info=schema.p4info, p4_device_config=json),
            )
        )
        before, seconds, own = server.usage(), 0.0, 0.0
        for first in range(0, count, BATCH):
            request = p4r.WriteRequest(device_id=DEVICE_ID, election_id=election)
            for n in range(first, first + BATCH):
                update = request.updates.add(type=p4r.Update.INSERT)
                _fill(update.entity.table_entry, schema, table, n)
            began, began_own = time.perf_counter(), time.process_time()
            stub.Write(request)
            seconds += time.perf_counter() - began
            own += time.process_time() - began_own
        after = server.usage()
        if reads is not None:
            reads.append(_read_back(server, stub, table, schema.tables[table].id))
        requests.put(None)
    return _result(server, client, table, count, (seconds, own), (before, after))


def _read_back(server: Server, stub: Any, table: str, table_id: int) -> ReadBack:
    """Reads all entries of a table; the messages are not kept."""
    before, began = server.usage(), time.perf_counter()
    request = p4r.ReadRequest(device_id=DEVICE_ID)
    request.entities.add().table_entry.table_id = table_id
    sizes, entries = [], 0
    for response in stub.Read(request):
        sizes.append(response.ByteSize())
        entries += len(response.entities)
    seconds, after = time.perf_counter() - began, server.usage()
    return ReadBack(
        table=table,
        entries=entries,
        seconds=seconds,
        server_cpu_s=after.cpu_seconds - before.cpu_seconds,
        messages=len(sizes),
        largest_bytes=max(sizes, default=0),
        memory_bytes=after.memory_bytes - before.memory_bytes,
    )


CLIENTS: dict[str, Callable[[Server, Program, str, str, int], Coroutine[Any, Any, Run]]] = {
    "finsy": partial(_finsy, _insert),
    "ebb-controller": partial(_finsy, _install),
    "grpcio": _bare,
}


def _numbers(table: str, n: int) -> tuple[int, int]:
    """Key and port of an entry: keys are spread, each is there once (odd factors have inverses)."""
    bits = 48 if table == "bridge" else 32
    return n * 0x9E3779B1 % (1 << bits), n % 500


def _entity(table: str, n: int) -> finsy.P4TableEntry:
    key, port = _numbers(table, n)
    if table == "bridge":
        match, action = finsy.P4TableMatch(dst=key), finsy.P4TableAction("forward", port=port)
    else:
        match = finsy.P4TableMatch(dst=(key, 32))
        action = finsy.P4TableAction("route", port=port, mac=n)
    return finsy.P4TableEntry(table, match=match, action=action)


def _fill(entry: p4r.TableEntry, schema: P4Schema, table: str, n: int) -> None:
    key, port = _numbers(table, n)
    definition = schema.tables[table]
    entry.table_id = definition.id
    match = entry.match.add(field_id=1)
    action = entry.action.action
    if table == "bridge":
        match.exact.value = _bytes(key)
        action.action_id = definition.actions["forward"].id
        action.params.add(param_id=1, value=_bytes(port))
    else:
        match.lpm.value, match.lpm.prefix_len = _bytes(key), 32
        action.action_id = definition.actions["route"].id
        action.params.add(param_id=1, value=_bytes(port))
        action.params.add(param_id=2, value=_bytes(n))


def _bytes(value: int) -> bytes:
    """A value in P4Runtime's shortest form."""
    return value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")


def _result(
    server: Server,
    client: str,
    table: str,
    count: int,
    times: tuple[float, float],
    usage: tuple[Usage, Usage],
) -> Run:
    """A run from its times: by the clock, and processor time of this process."""
    (seconds, client_cpu_s) = times
    before, after = usage
    return Run(
        switch=server.name,
        client=client,
        table=table,
        writes=count,
        seconds=seconds,
        server_cpu_s=after.cpu_seconds - before.cpu_seconds,
        client_cpu_s=client_cpu_s,
        memory_bytes=after.memory_bytes - before.memory_bytes,
    )
