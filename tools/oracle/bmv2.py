"""simple_switch on pcap files: commands, packets in batches, and what leaves at any port.

Every port has an input file. Those that packets come in at are named pipes. BMv2 takes the packet
with the earliest time stamp, and after each it waits for the next one of the same pipe. So the pipe
of a batch's last packet is held back until all of BMv2's threads sleep: then the batch is done, and
what has left is that batch's.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import termios
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from free_ports import first_free_port

from . import pcap, thrift
from .commands import (
    Add,
    AddToGroup,
    Call,
    Command,
    Control,
    CreateGroup,
    CreateMember,
    Group,
    Match,
    Member,
    Mirror,
    Multicast,
    Packet,
    Remove,
    SetDefault,
    TableAction,
    WriteRegister,
)
from .model import Program
from .thrift import ConnectionLost, Request, ThriftError, Value

Calls = Generator[Request, object, None]
"""A generator of the requests of a command, which is sent the answer to each."""

PORTS = 511
"""How many ports packets can be sent to; the next number is the drop port."""
LOWEST_PRIORITY = 10_000
"""Priorities are taken from this number: the smallest wins in BMv2, the largest in P4Runtime."""
QUEUE_PACKETS = 100_000
"""Capacity of a queue: more than a batch can fill. BMv2's default is 64."""
START_S, CALL_S, BATCH_S = 120, 60, 120
"""How long something may take on a busy machine, in seconds."""
ENDLESS = "simple_switch goes on without end"
BATCH_CPU_S = 5
"""Processor time in seconds after which a batch counts as one whose packets are resubmitted or
recirculated without end."""
PIPE_BYTES = 1 << 20
MOST_TOGETHER = 100
"""Most commands that are sent before their answers are read: more would fill the buffers."""


class Bmv2Error(Exception):
    """simple_switch did not start, ended, or did not come to rest."""


@dataclass
class Run:
    """Outcome of a run."""

    frames: list[list[tuple[int, bytes]]] = field(default_factory=list)
    """Packets that left, by batch: port and frame, in order at each port. None: refused."""
    refused: dict[int, str] = field(default_factory=dict)
    """Commands that the switch refused, by place in the list of commands."""
    ended: str = ""
    """Why simple_switch ended before its time; empty if it did not."""


def is_there() -> bool:
    return shutil.which("simple_switch") is not None


def run(program: Program, commands: list[Command], how: Split) -> Run:
    """Runs the commands; packets that follow each other go in batches."""
    result = Run()
    with tempfile.TemporaryDirectory(prefix="ebb-bmv2-") as folder:
        batches = split(commands, how)
        try:
            process = Process(program, Path(folder), batches)
        except Bmv2Error as error:
            return Run(ended=str(error))
        with contextlib.closing(process):
            for number in range(len(batches)):
                result.frames.append([])
                try:
                    process.step(number, result)
                except Bmv2Error as error:
                    result.ended = str(error)
                    break
    return result


@dataclass
class Batch:
    """Commands, and then packets."""

    controls: list[tuple[int, Control]]
    """Commands, each with its place in the list of commands."""
    packets: list[Packet]
    places: list[int]
    """Places of the packets in the list of commands."""


@dataclass(frozen=True)
class Split:
    """Batches in which packets are sent."""

    most: int
    """How many packets a batch may have."""
    alone: frozenset[int] = frozenset()
    """Packets that have a batch each, by place in the list of commands."""


def split(commands: list[Command], how: Split) -> list[Batch]:
    batches = [Batch([], [], [])]
    for place, command in enumerate(commands):
        last = batches[-1]
        if isinstance(command, Packet):
            ends = last.places and (last.places[-1] in how.alone or place in how.alone)
            if ends or len(last.packets) == how.most:
                last = Batch([], [], [])
                batches.append(last)
            last.packets.append(command)
            last.places.append(place)
        elif last.packets:
            batches.append(Batch([(place, command)], [], []))
        else:
            last.controls.append((place, command))
    return batches


class Pipe:
    """The input of a port, in pieces of which each may be read when its batch begins."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        # Opened for both, so that nobody has to be there yet.
        self.file = os.open(path, os.O_RDWR | os.O_NONBLOCK)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.file, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self.pieces: list[tuple[int, bytearray]] = [(0, bytearray())]
        """Pieces: the first batch that may read each, and its bytes."""
        self.pending = bytearray(pcap.HEADER)
        self.is_open = True

    def append(self, number: int, frame: bytes) -> None:
        self.pieces[-1][1].extend(pcap.record(number, frame))

    def hold_until(self, batch: int) -> None:
        self.pieces.append((batch, bytearray()))

    def release(self, batch: int) -> None:
        while self.pieces and self.pieces[0][0] <= batch:
            self.pending += self.pieces.pop(0)[1]

    def write(self) -> bool:
        """Writes what may be written; returns whether anything was."""
        written = 0
        if self.pending:
            with contextlib.suppress(BlockingIOError):
                written = os.write(self.file, self.pending)
        del self.pending[:written]
        if not self.pending and not self.pieces:
            self.close()
        return written > 0

    def is_read(self) -> bool:
        """Whether BMv2 has taken all that it may."""
        if not self.is_open:
            return True
        unread = bytearray(4)
        fcntl.ioctl(self.file, termios.FIONREAD, unread)
        return not self.pending and not any(unread)

    def close(self) -> None:
        if self.is_open:
            os.close(self.file)
        self.is_open = False


class Process:
    """A simple_switch and its folder."""

    def __init__(self, program: Program, folder: Path, batches: list[Batch]) -> None:
        self.program, self.folder, self.batches = program, folder, batches
        self.handles: dict[str, tuple[str, int]] = {}
        self.pipes = self._pipes()
        self.ports = ports(self.pipes)
        self.last = [b.packets[-1].port if b.packets else None for b in batches]
        self._files()
        self.process, self.port = self._start()
        self.outputs: list[tuple[int, int]] = []
        try:
            self.client = self._connect(self.port)
            # The last service is there when all ports are, with their files.
            self._wait_for_services()
            self.outputs = [
                (os.open(folder / f"{port}_out.pcap", os.O_RDONLY), len(pcap.HEADER))
                for port in range(PORTS)
            ]
        except BaseException:
            self.close()
            raise

    def _pipes(self) -> dict[int, Pipe]:
        ports = {packet.port for batch in self.batches for packet in batch.packets}
        pipes = {port: Pipe(self.folder / f"{port}_in.pcap") for port in sorted(ports)}
        time_stamp = 0
        for number, batch in enumerate(self.batches):
            for packet in batch.packets:
                pipes[packet.port].append(time_stamp, packet.data)
                time_stamp += 1
            following = next(
                (n for n in range(number + 1, len(self.batches)) if self.batches[n].packets),
                len(self.batches),
            )
            if batch.packets:
                pipes[batch.packets[-1].port].hold_until(following)
        return pipes

    def _files(self) -> None:
        (self.folder / "program.json").symlink_to(self.program.path.resolve())
        empty = self.folder / "empty.pcap"
        empty.write_bytes(pcap.HEADER)
        for port in self.ports:
            if port not in self.pipes:
                os.link(empty, self.folder / f"{port}_in.pcap")

    def _start(self) -> tuple[subprocess.Popen[bytes], int]:
        allow_many_files()
        for pipe in self.pipes.values():
            pipe.write()
        port = first_free_port(1)
        arguments = ["simple_switch", "--use-files", "0", "--thrift-port", str(port)]
        if has_notifications():
            arguments += ["--notifications-addr", f"ipc://{self.folder}/notifications.ipc"]
        for number in self.ports:
            arguments += ["-i", f"{number}@{number}"]
        with (self.folder / "messages").open("wb") as messages:
            process = subprocess.Popen(
                [*arguments, "program.json"],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        return process, port

    def _connect(self, port: int) -> thrift.Client:
        deadline = time.monotonic() + START_S
        pause_s = 0.01
        while time.monotonic() < deadline:
            self.check()
            with contextlib.suppress(OSError):
                return thrift.Client(port, CALL_S)
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.3, 0.1)
        raise Bmv2Error(f"simple_switch was not there after {START_S} s")

    def _wait_for_services(self) -> None:
        """Waits until all services are there: the server is there earlier."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                depth = thrift.i32(QUEUE_PACKETS)
                self.call("simple_switch", "set_all_egress_queue_depths", depth)
                return
            except (ThriftError, OSError) as error:
                self.check()
                lost = isinstance(error, (ConnectionLost, OSError))
                if not (lost or "Unknown service" in str(error)) or time.monotonic() > deadline:
                    raise
            time.sleep(0.02)
            if lost:
                self.client.close()
                self.client = self._connect(self.port)

    def check(self) -> None:
        status = self.process.poll()
        if status is not None:
            raise Bmv2Error(f"simple_switch ended with {status}: {self.last_message()}")

    def last_message(self) -> str:
        lines = (self.folder / "messages").read_text(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "without a word")

    def close(self) -> None:
        if client := getattr(self, "client", None):
            client.close()
        self.process.kill()
        self.process.wait()
        for pipe in self.pipes.values():
            pipe.close()
        for file, _ in self.outputs:
            os.close(file)

    def step(self, number: int, result: Run) -> None:
        """Runs a batch: tells its commands, sends its packets, and collects what leaves."""
        batch = self.batches[number]
        try:
            for controls in portions(batch.controls):
                self.tell(controls, result)
        except (ConnectionLost, OSError) as error:
            self.wait_for_end()
            raise Bmv2Error(f"simple_switch does not answer: {error}") from None
        last = self.last[number]
        if last is None:
            return
        for pipe in self.pipes.values():
            pipe.release(number)
        try:
            self.wait_until_quiet(self.pipes[last])
        finally:
            result.frames[-1].extend(self.received())

    def tell(self, controls: list[tuple[int, Control]], result: Run) -> None:
        """Tells commands together, since to wait for one answer after the other takes longer than
        the work."""
        going = [(place, self.control(command)) for place, command in controls]
        answers: dict[int, object] = {}
        while going:
            requests, waiting = [], []
            for place, calls in going:
                try:
                    requests.append(calls.send(answers.get(place)))
                    waiting.append((place, calls))
                except StopIteration:
                    pass
                except ThriftError as error:
                    result.refused[place] = str(error)
            self.client.send(requests)
            for place, _ in waiting:
                try:
                    answers[place] = self.client.receive()
                except ConnectionLost:
                    raise
                except ThriftError as error:
                    result.refused[place] = str(error)
            going = [(place, calls) for place, calls in waiting if place not in result.refused]

    def wait_for_end(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=2)
        self.check()

    def wait_until_quiet(self, last: Pipe) -> None:
        deadline = time.monotonic() + BATCH_S
        most_cpu_s = self.cpu_s() + BATCH_CPU_S
        pause_s = 0.0005
        while time.monotonic() < deadline:
            progress = [pipe.write() for pipe in self.pipes.values() if pipe.is_open]
            if not any(progress) and last.is_read() and self.sleeps():
                return
            self.check()
            if self.cpu_s() > most_cpu_s:
                raise Bmv2Error(f"{ENDLESS}: {BATCH_CPU_S} s for a batch")
            time.sleep(pause_s)
            # Looking takes time that the switch may need.
            pause_s = min(pause_s * 1.5, 0.01)
        raise Bmv2Error(f"simple_switch was not done with a batch after {BATCH_S} s")

    def cpu_s(self) -> float:
        """Processor time that all threads have used, in seconds."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def sleeps(self) -> bool:
        """Whether no thread has run, nor wanted to, while one looked at all of them."""
        try:
            tasks = list(Path(f"/proc/{self.process.pid}/task").iterdir())
            before = [(task / "schedstat").read_bytes() for task in tasks]
            states = [(task / "stat").read_bytes().rpartition(b") ")[2][:1] for task in tasks]
            after = [(task / "schedstat").read_bytes() for task in tasks]
        except (FileNotFoundError, ProcessLookupError):
            return False
        return before == after and all(state == b"S" for state in states)

    def received(self) -> list[tuple[int, bytes]]:
        found = []
        for port, (file, at) in enumerate(self.outputs):
            size = os.fstat(file).st_size
            if size <= at:
                continue
            data = os.pread(file, size - at, at)
            whole = list(pcap.frames(data, 0))
            found += [(port, frame) for frame, _ in whole]
            self.outputs[port] = (file, at + (whole[-1][1] if whole else 0))
        return found

    def call(self, service: str, method: str, *arguments: Value) -> object:
        return self.client.call(service, method, *arguments)

    def control(self, command: Control) -> Calls:
        context = thrift.i32(0)
        match command:
            case Add():
                yield from self.add(command)
            case Remove(label):
                yield self.remove(label)
            case SetDefault(table, action):
                yield self.set_default(table, action)
            case CreateMember(profile, call):
                arguments = (thrift.text(profile), *self.action(call))
                yield standard("bm_mt_act_prof_add_member", context, *arguments)
            case CreateGroup(profile):
                yield standard("bm_mt_act_prof_create_group", context, thrift.text(profile))
            case AddToGroup(profile, member, group):
                numbers = (thrift.i32(member), thrift.i32(group))
                method = "bm_mt_act_prof_add_member_to_group"
                yield standard(method, context, thrift.text(profile), *numbers)
            case Multicast(group, nodes):
                yield from self.multicast(group, nodes)
            case Mirror(session, port):
                # A 32-bit number without sign, sent as one with.
                number = thrift.i32((session + 2**31) % 2**32 - 2**31)
                config = thrift.structure({1: thrift.i32(port)})
                yield Request("simple_switch", "mirroring_session_add", (number, config))
            case WriteRegister(name, index, value):
                place = (thrift.text(name), thrift.i32(index), thrift.i64(value))
                yield standard("bm_register_write", context, *place)

    def add(self, command: Add) -> Calls:
        table = self.program.tables[command.table]
        keys = [
            match_value(given, key.kind, key.bits)
            for given, key in zip(command.keys, table.keys, strict=True)
        ]
        options = {}
        if command.priority is not None:
            options[1] = thrift.i32(LOWEST_PRIORITY - command.priority)
        forms = ("add_entry", "indirect_add_entry")
        method, arguments = self.table_action(command.action, forms, "indirect_ws_add_entry")
        handle = yield standard(
            method,
            thrift.i32(0),
            thrift.text(table.name),
            thrift.sequence(thrift.STRUCT, keys),
            *arguments,
            thrift.structure(options),
        )
        assert isinstance(handle, int)
        self.handles[command.label] = (command.table, handle)

    def remove(self, label: str) -> Request:
        if label not in self.handles:
            raise ThriftError(f"no entry was added as `{label}`")
        table, handle = self.handles.pop(label)
        form = "indirect_" if self.program.tables[table].profile else ""
        place = (thrift.i32(0), thrift.text(table), thrift.i32(handle))
        return standard(f"bm_mt_{form}delete_entry", *place)

    def set_default(self, table: str, action: TableAction | None) -> Request:
        place = (thrift.i32(0), thrift.text(table))
        if action is None:
            form = "indirect_" if self.program.tables[table].profile else ""
            return standard(f"bm_mt_{form}reset_default_entry", *place)
        forms = ("set_default_action", "indirect_set_default_member")
        method, arguments = self.table_action(action, forms, "indirect_ws_set_default_group")
        return standard(method, *place, *arguments)

    def table_action(
        self, action: TableAction, forms: tuple[str, str], group: str
    ) -> tuple[str, list[Value]]:
        """The method for an action, and its arguments."""
        match action:
            case Call():
                return f"bm_mt_{forms[0]}", self.action(action)
            case Member(number):
                return f"bm_mt_{forms[1]}", [thrift.i32(number)]
            case Group(number):
                return f"bm_mt_{group}", [thrift.i32(number)]

    def action(self, call: Call) -> list[Value]:
        parameters = self.program.actions[call.action]
        data = [thrift.binary(big_endian(call.arguments[n], b)) for n, b in parameters.items()]
        return [thrift.text(call.action), thrift.sequence(thrift.STRING, data)]

    def multicast(self, group: int, nodes: tuple[tuple[int, tuple[int, ...]], ...]) -> Calls:
        context, service = thrift.i32(0), "simple_pre_lag"
        made = yield Request(service, "bm_mc_mgrp_create", (context, thrift.i32(group)))
        assert isinstance(made, int)
        for instance, ports in nodes:
            bits = "".join(
                "1" if port in ports else "0" for port in reversed(range(max(ports) + 1))
            )
            maps = (thrift.text(bits), thrift.text(""))
            created = (context, thrift.i32(instance), *maps)
            node = yield Request(service, "bm_mc_node_create", created)
            assert isinstance(node, int)
            numbers = (thrift.i32(made), thrift.i32(node))
            yield Request(service, "bm_mc_node_associate", (context, *numbers))


def ports(sources: Iterable[int]) -> list[int]:
    """All ports that packets may leave at, and those that they come in at: the drop port may be."""
    return sorted({*range(PORTS), *sources})


def portions(controls: list[tuple[int, Control]]) -> Iterator[list[tuple[int, Control]]]:
    """The commands in portions that are sent together: an entry is removed only after the answer to
    its addition."""
    portion: list[tuple[int, Control]] = []
    for place, command in controls:
        after = isinstance(command, Remove) and not all(isinstance(c, Remove) for _, c in portion)
        if after or len(portion) == MOST_TOGETHER:
            yield portion
            portion = []
        portion.append((place, command))
    if portion:
        yield portion


def standard(method: str, *arguments: Value) -> Request:
    return Request("standard", method, arguments)


def match_value(given: Match, kind: str, bits: int) -> Value:
    """A match as BMv2's `BmMatchParam`."""
    value = thrift.binary(big_endian(given.value, bits))
    match kind:
        case "lpm":
            length = bits if given.kind == "exact" else given.prefix_length
            return param(1, 3, {1: value, 2: thrift.i32(length)})
        case "ternary":
            mask = (1 << bits) - 1 if given.kind == "exact" else given.mask
            return param(2, 4, {1: value, 2: thrift.binary(big_endian(mask, bits))})
        case "valid":
            return param(3, 5, {1: thrift.boolean(given.value != 0)})
        case "range":
            high = (1 << bits) - 1 if given.kind == "any" else given.high
            return param(4, 6, {1: value, 2: thrift.binary(big_endian(high, bits))})
        case _:
            return param(0, 2, {1: value})


def param(kind: int, at: int, fields: dict[int, Value]) -> Value:
    return thrift.structure({1: thrift.i32(kind), at: thrift.structure(fields)})


def big_endian(value: int, bits: int) -> bytes:
    return value.to_bytes((bits + 7) // 8, "big")


def die_with_parent() -> None:
    """Has the kernel end this process with its parent, so that a killed runner leaves no switch
    behind."""
    set_parent_death_signal = 1
    ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGKILL)


def allow_many_files() -> None:
    """Raises the limit of open files: simple_switch opens two for each port."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, most), most))


@functools.cache
def has_notifications() -> bool:
    """Whether simple_switch knows `--notifications-addr`. Builds without nanomsg do not; with it,
    all instances would take the same address by default."""
    text = subprocess.run(["simple_switch", "--help"], capture_output=True, check=False)
    return b"--notifications-addr" in text.stdout + text.stderr
