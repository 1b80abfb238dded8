"""Readers and writers: P4Info, Thrift, pcap, STF."""

import socket
import struct
import threading
from pathlib import Path

import pytest

from oracle import p4info, pcap, stf, thrift
from oracle.commands import (
    Add,
    AddToGroup,
    Call,
    Command,
    CreateGroup,
    CreateMember,
    Group,
    Match,
    Mirror,
    Multicast,
    Packet,
    Remove,
    Script,
    SetDefault,
    WriteRegister,
)
from oracle.tests.fixtures import P4INFO, program


def test_p4info_is_read() -> None:
    info = p4info.P4Info(P4INFO)
    route, acl, ecmp = info.tables
    assert route.refs == [p4info.Ref("I.forward", True, True), p4info.Ref("I.drop", False, True)]
    assert (route.has_const_default, acl.has_const_default) == (False, True)
    assert acl.kinds == ["TERNARY", "RANGE", "OPTIONAL"]
    assert not acl.refs[0].as_default
    assert ecmp.profile == "I.members"
    assert info.profiles == [p4info.Profile("I.members", ["I.ecmp"], True, 4)]


ARGUMENTS = bytes.fromhex("0c0001 020002 01 00 0f0002 0800000001ffffffff 00")


def exchange(reply: bytes) -> object:
    """Result of a client for the reply to a call with a structure and a list."""
    sent: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                sent.append(connection.recv(1000))
                connection.sendall(reply)

        thread = threading.Thread(target=serve)
        thread.start()
        client = thrift.Client(server.getsockname()[1], 5)
        try:
            fields = thrift.structure({2: thrift.boolean(True)})
            numbers = thrift.sequence(thrift.I32, [thrift.i32(-1)])
            answer: object = client.call("s", "m", fields, numbers)
        except thrift.ThriftError as error:
            answer = error
        finally:
            client.close()
            thread.join()
    assert sent[0].startswith(struct.pack(">Ii", 0x80010001, 3) + b"s:m")
    assert sent[0].endswith(ARGUMENTS)
    return answer


def reply(kind: int, fields: dict[int, thrift.Value]) -> bytes:
    head = struct.pack(">Ii", 0x80010000 | kind, 1) + b"m" + struct.pack(">i", 0)
    return head + thrift.structure(fields)[1]


def test_thrift_calls_return_values_and_refusals() -> None:
    numbers = thrift.sequence(thrift.I64, [thrift.i64(1), thrift.i64(-2)])
    assert exchange(reply(2, {0: numbers})) == [1, -2]
    assert exchange(reply(2, {})) is None
    refused = exchange(reply(2, {1: thrift.structure({1: thrift.i32(17)})}))
    assert str(refused) == "m: error 17"
    unknown = exchange(reply(3, {1: thrift.text("no such method")}))
    assert str(unknown) == "m: no such method"
    lost = exchange(reply(2, {0: numbers})[:-3])
    assert isinstance(lost, thrift.ConnectionLost)


def test_answers_are_those_to_the_requests_in_their_order() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = thrift.Client(server.getsockname()[1], 5)
        connection, _ = server.accept()
        with connection:
            client.send([thrift.Request("s", "one", ()), thrift.Request("s", "two", ())])
            connection.sendall(reply(3, {1: thrift.text("no")}) + reply(2, {0: thrift.i32(2)}))
            with pytest.raises(thrift.ThriftError, match="one: no"):
                client.receive()
            assert client.receive() == 2
            client.close()


def test_only_whole_frames_of_a_pcap_file_are_read() -> None:
    data = pcap.HEADER + pcap.record(1_500_000, b"abc") + pcap.record(2, b"")
    at = len(pcap.HEADER)
    assert [frame for frame, _ in pcap.frames(data, at)] == [b"abc", b""]
    assert list(pcap.frames(data, at))[-1][1] == len(data)
    assert [frame for frame, _ in pcap.frames(data[:-1], at)] == [b"abc"]


def test_commands_have_a_text(tmp_path: Path) -> None:
    forward = Call("I.forward", {"port": 3})
    keys = (Match("ternary", 0x5, mask=0x7), Match("range", 1, high=9), Match("optional"))
    any_key = "0b" + "*" * 32
    lines: dict[Command, list[str]] = {
        Packet(2, b"\x01\xff"): ["packet 2 01ff"],
        Add("I.acl", keys, forward, "e1", 7): [
            f'add "I.acl" 7 "hdr.ipv4.src":0b{"*" * 29}101 "hdr.ipv4.ttl":0x1->0x9 '
            f'"hdr.ipv4.dst":{any_key} "I.forward"("port":0x3) = e1'
        ],
        Add("I.ecmp", (Match("exact", 16),), Group(1), "e2"): [
            'add "I.ecmp" "hdr.eth.type":0x10 group 1 = e2'
        ],
        Remove("e1"): ["remove e1"],
        SetDefault("I.route", forward): ['setdefault "I.route" "I.forward"("port":0x3)'],
        SetDefault("I.route", None): ['setdefault "I.route"'],
        CreateMember("I.members", forward): [
            'act_prof_create_member "I.members" "I.forward"("port":0x3)'
        ],
        CreateGroup("I.members"): ['act_prof_create_group "I.members"'],
        AddToGroup("I.members", 0, 1): ['act_prof_add_member_to_group "I.members" 0 1'],
        Mirror(5, 2): ["mirroring_add 5 2"],
        WriteRegister("I.counts", 1, 2): ['register_write "I.counts" 1 2'],
        Multicast(7, ((0, (1, 2)), (1, (3,)))): [
            "mc_mgrp_create 7",
            "mc_node_create 0 1 2",
            "mc_node_associate 7 0",
            "mc_node_create 1 3",
            "mc_node_associate 7 1",
        ],
    }
    for command, expected in lines.items():
        assert Script(program(tmp_path)).lines(command) == expected
    text, origins = Script(program(tmp_path)).text([*lines][-2:])
    assert text.count("\n") == 6
    assert origins == [0, 1, 1, 1, 1, 1]


def test_tests_of_p4testgen_are_read(tmp_path: Path) -> None:
    script = stf.read(
        """# p4testgen seed: 1
        add "I.acl" 5 "hdr.ipv4.src":0b1*0 "hdr.ipv4.ttl":0x2 "I.forward"("port":0x7)  # why "
        add "I.route" "hdr.ipv4.dst":0x0a** "forward"("port":1)
        setdefault "I.route" "I.drop"()
        mirroring_add 3 4
        packet 1 00 FF
        expect 2 0* fF $
        expect 4
        """,
        program(tmp_path),
    )
    acl, route, default, mirror, packet = script.commands
    assert isinstance(acl, Add)
    assert acl.keys == (Match("ternary", 4, mask=5), Match("exact", 2), Match("any"))
    assert (acl.priority, acl.action) == (5, Call("I.forward", {"port": 7}))
    assert isinstance(route, Add)
    assert route.keys == (Match("lpm", 0x0A00, prefix_length=8),)
    assert route.priority is None
    assert default == SetDefault("I.route", Call("I.drop", {}))
    assert mirror == Mirror(3, 4)
    assert packet == Packet(1, b"\0\xff")
    assert script.expected == {2: ["0*FF$"], 4: [""]}
    for broken, problem in {
        'add "I.none" "x":1 "I.drop"()': "table `I.none` is not there",
        'add "I.route" "x":1 "I.drop"()': "has no key field `x`",
        'add "I.route" ~': "what is `~`",
        "wait": "`wait` is not known here",
    }.items():
        with pytest.raises(stf.StfError, match=f"line 1.*{problem}"):
            stf.read(broken, program(tmp_path))


def test_frames_are_compared_at_all_ports() -> None:
    script = stf.Script(expected={1: ["0A*B$", ""]})
    right = [(1, b"\x0a\x0b"), (1, b"\1\2\3")]
    assert stf.differences(script, right) == ""
    assert "2 are expected" in stf.differences(script, right[:1])
    assert "port 0: 1 frames" in stf.differences(script, [*right, (0, b"")])
    assert "expected 0A*B$" in stf.differences(script, [(1, b"\x0a\x0b\0"), right[1]])
    assert "expected 0A*B$" in stf.differences(script, right[::-1])
