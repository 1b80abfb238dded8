"""The client against real daemons."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pty
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from agent_hosts import BINARY, Host
from ebb_agent import (
    AgentGoneError,
    IncomingObject,
    RequestError,
    TimedOutError,
    Transfer,
    TransferError,
)

SCHEMES = ["ndp", "scdp", "reno", "reno-ecn", "dctcp", "hull"]
SECONDS = 20.0


def test_what_is_sent_is_received(hosts: list[Host], tmp_path: Path) -> None:
    a, b, _ = hosts
    path = tmp_path / "file.bin"
    content = os.urandom(300_000)
    path.write_bytes(content)
    with a.agent() as sender, b.agent() as receiver:
        for scheme in SCHEMES:
            with receiver.listen(scheme) as listener:
                transfer = sender.start_send(path, b.address, scheme=scheme, priority=3)
                found = listener.get(SECONDS)
                assert (found.name, found.object_bytes) == ("file.bin", len(content))
                assert found.sha256 == hashlib.sha256(content).hexdigest()
                assert found.read(SECONDS) == content
                (flow,) = transfer.wait(SECONDS)
                assert (flow.role, flow.scheme, flow.status) == ("sender", scheme, "finished")


def test_an_object_goes_to_files_streams_and_nowhere(hosts: list[Host], tmp_path: Path) -> None:
    a, b, _ = hosts
    content = os.urandom(2_000_000)
    with a.agent() as sender, b.agent() as receiver, receiver.listen("ndp") as listener:

        def next_object() -> tuple[Transfer, IncomingObject]:
            transfer = sender.start_send(content, b.address, name="x", scheme="ndp")
            return transfer, listener.get(SECONDS)

        transfer, found = next_object()
        found.save(tmp_path / "saved", SECONDS)
        assert (tmp_path / "saved").read_bytes() == content
        transfer.wait(SECONDS)
        transfer, found = next_object()
        found.save(tmp_path, SECONDS)
        assert (tmp_path / "x").read_bytes() == content
        transfer, found = next_object()
        with found.open() as stream:
            assert b"".join(iter(lambda: stream.read(10_000), b"")) == content
        transfer, found = next_object()
        found.discard()
        found.transfer.wait(SECONDS)
        transfer, found = next_object()
        found.refuse("not today")
        with pytest.raises(TransferError, match="abort"):
            transfer.wait(SECONDS)
        # Nothing in a directory is replaced unasked, and the sender knows.
        (tmp_path / "x").write_bytes(b"precious")
        transfer, found = next_object()
        with pytest.raises(TransferError, match="is there already"):
            found.save(tmp_path, SECONDS)
        with pytest.raises(TransferError, match=r"it refused the object: .* is there already"):
            transfer.wait(SECONDS)
        assert (tmp_path / "x").read_bytes() == b"precious"
        transfer, found = next_object()
        found.save(tmp_path, SECONDS, overwrite=True)
        transfer.wait(SECONDS)
        assert (tmp_path / "x").read_bytes() == content
        assert not list(tmp_path.glob(".ebb-*"))


def test_one_to_many(hosts: list[Host]) -> None:
    a, b, c = hosts
    content = os.urandom(500_000)
    with a.agent() as sender, b.agent() as first, c.agent() as second:  # noqa: SIM117
        with first.listen() as one, second.listen() as two:
            to = [b.address, c.address]
            transfer = sender.start_send(content, to, name="x", priority=4)
            got: dict[str, bytes] = {}
            both = [("b", one), ("c", two)]
            threads = [
                threading.Thread(
                    target=lambda k, n: got.update({k: n.get(SECONDS).read(SECONDS)}), args=pair
                )
                for pair in both
            ]
            for thread in threads:
                thread.start()
            flows = transfer.wait(SECONDS)
            for thread in threads:
                thread.join()
            assert got == {"b": content, "c": content}
            # Whoever decides later than the other is served by a flow of its own.
            assert any(flow.peer.startswith("239.") for flow in flows)
            with pytest.raises(RequestError, match="one-to-many") as error:
                sender.send(content, to, name="x", scheme="ndp")
            assert error.value.code == "not-possible"


def test_fetch_from_one(hosts: list[Host], tmp_path: Path) -> None:
    a, b, _ = hosts
    content = os.urandom(400_000)
    served = tmp_path / "served"
    served.mkdir()
    (served / "file").write_bytes(content)
    with a.agent() as client, b.agent() as server:
        server.serve(served)
        server.offer("offered", b"small")
        for scheme in SCHEMES:
            assert client.fetch("file", b.address, scheme=scheme, timeout=SECONDS) == content
            assert client.fetch("offered", b.address, scheme=scheme, timeout=SECONDS) == b"small"
        assert client.fetch("file", b.address, into=tmp_path, timeout=SECONDS) is None
        assert (tmp_path / "file").read_bytes() == content
        with pytest.raises(
            TransferError, match=r"10\.9\.0\.2 refuses: there is no object `nothing`"
        ):
            client.fetch("nothing", b.address, timeout=SECONDS)
        server.withdraw("offered")
        with pytest.raises(TransferError, match="there is no object"):
            client.fetch("offered", b.address, timeout=SECONDS)
        with pytest.raises(RequestError, match="single path component"):
            client.fetch("../file", b.address)


def test_fetch_from_two(hosts: list[Host]) -> None:
    a, b, c = hosts
    content = os.urandom(3_000_000)
    both = [b.address, c.address]
    with a.agent() as client, b.agent() as one, c.agent() as two:
        one.offer("x", content)
        two.offer("x", content)
        assert client.fetch("x", both, timeout=SECONDS) == content
        assert two.statistics()["schemes"]["scdp"]["requests_served"] == 1
        two.withdraw("x")
        assert client.fetch("x", both, timeout=SECONDS) == content
        one.withdraw("x")
        with pytest.raises(TransferError, match=r"10\.9\.0\.3: refuses"):
            client.fetch("x", both, timeout=SECONDS)
        one.offer("x", content)
        # Half of it comes from either.
        two.offer("x", content[::-1])
        with pytest.raises(TransferError, match="SHA-256"):
            client.fetch("x", both, timeout=SECONDS)


def test_a_server_that_dies(hosts: list[Host]) -> None:
    a, b, c = hosts
    content = os.urandom(30_000_000)
    with a.agent() as client, b.agent() as one, c.agent() as two:
        one.offer("x", content)
        two.offer("x", content)
        reader, writer = os.pipe()
        transfer = client.start_fetch("x", [b.address, c.address], writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as stream:
            got = stream.read(1_000_000)
            c.stop(signal.SIGKILL)
            got += stream.read()
        # The other one sends what it owes.
        transfer.wait(SECONDS)
        assert got == content
        with b.agent() as dying:
            dying.offer("y", content)
            reader, writer = os.pipe()
            transfer = client.start_fetch("y", b.address, writer)
            os.close(writer)
            with os.fdopen(reader, "rb") as stream:
                assert stream.read(1000) == content[:1000]
                b.stop(signal.SIGKILL)
                assert len(stream.read()) < len(content)
            with pytest.raises(TransferError):
                transfer.wait(SECONDS)


def test_a_reader_that_sleeps_holds_up_its_own_flow_only(hosts: list[Host]) -> None:
    a, b, _ = hosts
    size = 25_000_000
    with a.agent() as sender, b.agent() as receiver:
        for scheme in ["ndp", "scdp", "dctcp"]:
            with receiver.listen(scheme) as listener:
                slow = sender.start_send(bytes(size), b.address, name="slow", scheme=scheme)
                found = listener.get(SECONDS)
                with found.open() as stream:
                    assert len(stream.read(1000)) > 0
                    time.sleep(1.0)
                    waiting = receiver.statistics()["backlog_bytes"]
                    assert 0 < waiting < 8 << 20, scheme
                    quick = sender.start_send(b"quick", b.address, name="quick", scheme=scheme)
                    assert listener.get(SECONDS).read(SECONDS) == b"quick"
                    quick.wait(SECONDS)
                    assert not slow.done
                    total = 1000
                    while part := stream.read(1 << 20):
                        total += len(part)
                assert total == size
                slow.wait(SECONDS)


def test_many_at_once(hosts: list[Host]) -> None:
    a, b, _ = hosts
    with a.agent() as sender, b.agent() as receiver, receiver.listen("ndp") as listener:
        transfers = [
            sender.start_send(str(i).encode(), b.address, name=f"n{i}", scheme="ndp")
            for i in range(200)
        ]
        names = set()
        for _ in transfers:
            found = listener.get(SECONDS)
            assert found.read(SECONDS).decode() == found.name[1:]
            names.add(found.name)
        for transfer in transfers:
            transfer.wait(SECONDS)
        assert len(names) == 200
        assert sender.flows() == []


def test_who_goes_takes_his_transfers_along(hosts: list[Host]) -> None:
    a, b, _ = hosts
    with a.agent() as sender, b.agent() as other:
        receiver = b.agent()
        listener = receiver.listen("ndp")
        transfer = sender.start_send(bytes(50_000_000), b.address, name="x", scheme="ndp")
        listener.get(SECONDS).discard()
        with pytest.raises(RequestError, match="another client listens on port 7000"):
            other.listen("ndp")
        receiver.close()
        with pytest.raises(TransferError, match="abort"):
            transfer.wait(SECONDS)
        with other.listen("ndp") as again:
            transfer = sender.start_send(b"y", b.address, name="y", scheme="ndp")
            assert again.get(SECONDS).read(SECONDS) == b"y"
            # The daemon itself goes.
            transfer = sender.start_send(bytes(50_000_000), b.address, name="x", scheme="ndp")
            again.get(SECONDS).discard()
            b.stop(signal.SIGKILL)
            with pytest.raises(AgentGoneError):
                again.get(SECONDS)
            with pytest.raises(TransferError):
                transfer.wait(SECONDS)
    b.start()
    with a.agent() as sender, b.agent() as receiver, receiver.listen("ndp") as listener:
        sender.start_send(b"z", b.address, name="z", scheme="ndp")
        assert listener.get(SECONDS).read(SECONDS) == b"z"


def test_what_cannot_work_is_explained(hosts: list[Host]) -> None:
    a, b, _ = hosts
    wrong: list[tuple[dict[str, Any], str, str]] = [
        ({"to": "10.9.0.2:0"}, "bad-request", "is no host"),
        ({"to": b.address, "scheme": "udp"}, "bad-request", "unknown variant `udp`"),
        ({"to": b.address, "priority": 8}, "bad-request", "0 (normal) to 7"),
        ({"to": b.address, "name": "../x"}, "io", "single path component"),
        ({"to": "10.9.0.77"}, "io", "nobody answers ARP for 10.9.0.77"),
        ({"to": a.address}, "not-possible", "is this host itself"),
        ({"to": []}, "bad-request", "one or more hosts"),
    ]
    with a.agent() as agent:
        for arguments, code, message in wrong:
            with pytest.raises(RequestError) as error:
                agent.send(b"x", **{"name": "x", **arguments})
            assert error.value.code == code and message in str(error.value), str(error.value)
        with pytest.raises(TransferError, match=r"nobody listens|abort"):
            agent.send(b"x", b.address, name="x", scheme="ndp", timeout=SECONDS)
        with pytest.raises(TimedOutError), b.agent() as receiver, receiver.listen("ndp"):
            agent.send(b"x" * 20_000_000, b.address, name="x", scheme="ndp", timeout=0.3)


def test_a_server_serves_one_host_only_so_much(hosts: list[Host]) -> None:
    a, b, c = hosts
    with a.agent() as client, b.agent() as server, c.agent() as other:
        server.offer("large", bytes(8_000_000))
        # 32 are served at a time, 128 wait.
        pipes = [os.pipe() for _ in range(161)]
        transfers = [
            client.start_fetch("large", b.address, writer, scheme="ndp") for _, writer in pipes
        ]
        for _, writer in pipes:
            os.close(writer)
        # Nobody reads: all but one are held or wait, and that one is refused.
        refused: list[Transfer] = []
        deadline = time.monotonic() + SECONDS
        while not refused and time.monotonic() < deadline:
            refused = [transfer for transfer in transfers if transfer.done]
            time.sleep(0.05)
        assert len(refused) == 1
        with pytest.raises(TransferError, match="as many as it may"):
            refused[0].wait(SECONDS)
        # Other hosts are not concerned.
        assert other.fetch("large", b.address, scheme="ndp", timeout=SECONDS) == bytes(8_000_000)
        for reader, _ in pipes:
            os.close(reader)
        for transfer in transfers:
            with pytest.raises(TransferError):
                transfer.wait(SECONDS)
        assert client.fetch("large", b.address, timeout=SECONDS) == bytes(8_000_000)


def test_a_hundred_fetches_of_a_stranger_are_not_held_up(hosts: list[Host]) -> None:
    a, b, _ = hosts
    content = os.urandom(20_000)
    for scheme in ["ndp", "scdp", "reno"]:
        with a.agent() as client, b.agent() as server:
            server.offer("small", content)
            started = time.monotonic()
            readers, transfers = [], []
            for _ in range(100):
                reader, writer = os.pipe()
                transfers.append(client.start_fetch("small", b.address, writer, scheme=scheme))
                os.close(writer)
                readers.append(reader)
            for transfer in transfers:
                transfer.wait(SECONDS)
            # 2 MB, much of it in the time of one timeout of any scheme if nothing had to wait.
            assert time.monotonic() - started < 2.0, scheme
            for reader in readers:
                with os.fdopen(reader, "rb") as pipe:
                    assert pipe.read() == content
        # Forgotten by both, so that they are strangers again.
        for host in [a, b]:
            host.stop()
            host.start()


def test_what_is_no_request_harms_nobody(hosts: list[Host]) -> None:
    a, b, _ = hosts
    with a.agent() as agent:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as stranger:
            stranger.connect(str(a.socket))
            for text in [b"\0", b"{}", b"[1]", b'{"id": 7, "op": "send"}', b'{"id": -1, "op": 3}']:
                stranger.send(text)
                answer = json.loads(stranger.recv(1 << 16))
                assert answer["error"]["code"] == "bad-request", answer
            # Too long: the connection ends.
            stranger.send(b" " * 100_000)
            assert stranger.recv(1 << 16) == b""
        # One that never reads loses its transfers, if not its place.
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as deaf:
            deaf.connect(str(a.socket))
            deaf.settimeout(1.0)
            with contextlib.suppress(OSError):
                for number in range(40_000):
                    deaf.send(b'{"id": %d, "op": "statistics"}' % number)
            with b.agent() as receiver, receiver.listen("ndp") as listener:
                transfer = agent.start_send(b"x", b.address, name="x", scheme="ndp")
                assert listener.get(SECONDS).read(SECONDS) == b"x"
                transfer.wait(SECONDS)
        assert agent.statistics()["clients"] <= 3


def test_a_port_nobody_listens_on_is_free_again(hosts: list[Host]) -> None:
    a, b, _ = hosts
    rule = ["ip", "-n", b.namespace, "rule", "show", "ipproto", "tcp", "dport"]
    for scheme, port in [("scdp", 9000), ("reno", 9001)]:
        command = ["ip", "netns", "exec", b.namespace, str(BINARY), "recv", "--transport", scheme]
        command += ["--port", str(port), "--count", "1"]
        with a.agent() as sender, b.agent() as agent:
            to = f"{b.address}:{port}"
            with agent.listen(scheme, port=port) as listener:
                sender.start_send(b"x", to, name="x", scheme=scheme)
                listener.get(SECONDS).discard()
                taken = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
                assert taken.returncode == 2 and "in use" in taken.stderr, taken.stderr
            # It is, when the flow that came answers no more late packets.
            deadline = time.monotonic() + SECONDS
            while True:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                assert process.stdout is not None
                if b"ready" in process.stdout.readline():
                    break
                process.communicate(timeout=SECONDS)
                assert time.monotonic() < deadline
            sender.send(b"y", to, name="y", scheme=scheme, timeout=SECONDS)
            process.communicate(timeout=SECONDS)
            assert process.returncode == 0
            # The daemon may have it again, and the kernel, too.
            assert not subprocess.check_output([*rule, str(port)])
            with agent.listen(scheme, port=port) as listener:
                assert bool(subprocess.check_output([*rule, str(port)])) == (scheme == "reno")
                transfer = sender.start_send(b"z", to, name="z", scheme=scheme)
                assert listener.get(SECONDS).read(SECONDS) == b"z"
                transfer.wait(SECONDS)


def test_a_client_that_listens_on_many_ports_ends_no_daemon(hosts: list[Host]) -> None:
    a, b, _ = hosts
    with b.agent() as greedy, b.agent() as other, contextlib.ExitStack() as listeners:
        # More than the kernel takes rules for in the filter of a socket.
        with pytest.raises(RequestError, match="256 ports") as error:
            for port in range(10_000, 11_000):
                listeners.enter_context(greedy.listen("ndp", port=port))
        assert error.value.code == "too-many"
        with a.agent() as sender, other.listen("ndp") as listener:
            transfer = sender.start_send(b"x", b.address, name="x", scheme="ndp")
            assert listener.get(SECONDS).read(SECONDS) == b"x"
            transfer.wait(SECONDS)


def test_terminals_that_are_not_read_hold_up_no_other_transfer(
    hosts: list[Host], tmp_path: Path
) -> None:
    a, b, _ = hosts
    content = os.urandom(300_000)
    with a.agent() as server, b.agent() as client:
        server.offer("x", content)
        terminals = []
        for _ in range(8):  # more than there are threads that write
            terminals.append(pty.openpty())
            client.start_fetch("x", a.address, scheme="ndp", into=terminals[-1][1])
        for number in range(8):
            path = tmp_path / str(number)
            client.fetch("x", a.address, scheme="ndp", into=path, timeout=SECONDS)
            assert path.read_bytes() == content
        assert all(os.get_blocking(terminal) for _, terminal in terminals)
        for ends in terminals:
            for end in ends:
                os.close(end)


def test_directories_and_descriptors_come_to_an_end_with_a_reason(
    hosts: list[Host], tmp_path: Path
) -> None:
    a, _, _ = hosts
    (tmp_path / "file").write_bytes(b"x")
    with a.agent() as client, a.agent() as other:
        with pytest.raises(RequestError, match="64 directories"):
            for _ in range(100):
                client.serve(tmp_path)
        assert a.daemon is not None
        limits = resource.prlimit(a.daemon.pid, resource.RLIMIT_NOFILE)
        few = len(list(Path(f"/proc/{a.daemon.pid}/fd").iterdir())) + 10
        resource.prlimit(a.daemon.pid, resource.RLIMIT_NOFILE, (few, limits[1]))
        try:
            with pytest.raises(RequestError, match="as many as it may") as error:
                for number in range(100):
                    client.offer(str(number), tmp_path / "file")
            assert error.value.code == "too-many"
            assert other.statistics()["clients"] >= 2
        finally:
            resource.prlimit(a.daemon.pid, resource.RLIMIT_NOFILE, limits)


def test_other_users_are_turned_away(hosts: list[Host]) -> None:
    a, _, _ = hosts
    a.stop()
    # In the abstract namespace, where no file mode keeps anybody out.
    command = ["ip", "netns", "exec", a.namespace, str(BINARY), "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        assert b"ready" in daemon.stdout.readline()
        nobody = ["ip", "netns", "exec", a.namespace, "setpriv", "--reuid=65534", "--clear-groups"]
        connect = """
import socket
s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
s.connect("\\0ebb-agent")
s.settimeout(10)
try:
    s.send(b'{"id": 1, "op": "hello", "version": 1}')
    print(s.recv(65536))
except (BrokenPipeError, ConnectionResetError):
    print(b"")
"""
        args = [*nobody, sys.executable, "-c", connect]
        try:
            assert subprocess.check_output(args, timeout=SECONDS).strip() == b"b''"
            args = ["ip", "netns", "exec", a.namespace, sys.executable, "-c", connect]
            assert b"10.9.0.1" in subprocess.check_output(args, timeout=SECONDS)
        finally:
            daemon.terminate()
