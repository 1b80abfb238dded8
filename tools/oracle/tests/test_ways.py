"""Batches, and what is made of runs that differ."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from oracle import bmv2, compilers, ebb, fourway, pcap, testgen
from oracle.bmv2 import Run, Split, split
from oracle.commands import Add, Call, Command, Control, CreateMember, Mirror, Packet, Remove
from oracle.fourway import OUR_SWITCH, THEIR_SWITCH, FourWay, Options, Way
from oracle.known import excused, hashes_copies, legitimate
from oracle.model import Program
from oracle.tests.fixtures import P4INFO, document, program

OURS, BMV2 = (compilers.OURS, OUR_SWITCH), (compilers.THEIRS, THEIR_SWITCH)
PACKETS: list[Command] = [Packet(0, bytes([number])) for number in range(5)]


def test_packets_go_in_batches_between_commands() -> None:
    commands = [*PACKETS[:2], Mirror(1, 2), *PACKETS[2:]]
    batches = split(commands, Split(2, frozenset({4})))
    assert [batch.places for batch in batches] == [[0, 1], [3], [4], [5]]
    assert [batch.controls for batch in batches] == [[], [(2, Mirror(1, 2))], [], []]


def test_a_pipe_holds_back_what_a_later_batch_may_read(tmp_path: Path) -> None:
    pipe = bmv2.Pipe(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    pipe.append(0, b"a")
    pipe.hold_until(2)
    pipe.append(1, b"b")
    pipe.write()
    assert os.read(reader, 1000) == pcap.HEADER
    for batch, expected in enumerate((pcap.record(0, b"a"), None, pcap.record(1, b"b"))):
        pipe.release(batch)
        assert pipe.write() == (expected is not None)
        if expected:
            assert pipe.is_read() != pipe.is_open
            assert os.read(reader, 1000) == expected
        assert pipe.is_read()
    # The end of the file.
    assert not pipe.is_open
    assert os.read(reader, 1000) == b""
    os.close(reader)


def test_commands_are_told_together_but_removals_after_what_was_added() -> None:
    add = Add("t", (), Call("a", {}), "e1")
    commands: list[Control] = [Remove("e0"), Remove("e9"), add, Remove("e1"), Mirror(1, 2)]
    controls = list(enumerate(commands))
    assert list(bmv2.portions(controls)) == [controls[:3], controls[3:]]
    many: list[tuple[int, Control]] = [(n, Mirror(1, 2)) for n in range(bmv2.MOST_TOGETHER + 1)]
    assert [len(portion) for portion in bmv2.portions(many)] == [bmv2.MOST_TOGETHER, 1]


def test_packets_may_come_in_at_the_drop_port() -> None:
    assert bmv2.ports([7, 511]) == list(range(512))
    assert bmv2.ports([7]) == list(range(511))


def test_a_key_field_may_have_no_bits(tmp_path: Path) -> None:
    made = document()
    made["header_types"][2]["fields"] = [["x", 0, False]]
    made["pipelines"][0]["tables"][0]["key"][0]["target"] = ["meta", "x"]
    path = tmp_path / "empty.json"
    path.write_text(json.dumps(made))
    assert Program(path).tables["I.route"].keys[0].bits == 0


class Runs(FourWay):
    """Ways that send back what they get, but for what `change` says."""

    def __init__(self, folder: Path, change: dict[tuple[Way, bytes], str]) -> None:
        (folder / "x.p4").touch()
        super().__init__(folder / "x.p4", Options(batch=3), folder)
        self.programs = {compilers.OURS: program(folder), compilers.THEIRS: program(folder)}
        self.change = change

    def ways(self) -> list[Way]:
        return [OURS, BMV2]

    def one(self, way: Way, commands: list[Command], how: Split) -> Run:
        run = Run()
        for batch in split(commands, how):
            run.frames.append([])
            for packet in batch.packets:
                change = self.change.get((way, packet.data))
                if change == "race" and len(batch.packets) == 1:
                    change = None
                if change == "end":
                    run.ended = "Assertion failed"
                    return run
                run.frames[-1].append((packet.port, b"!" if change else packet.data))
        return run


def test_ways_that_agree_are_the_same(tmp_path: Path) -> None:
    result = Runs(tmp_path, {}).judge(PACKETS)
    assert (result.verdict, result.packets, result.frames) == ("same", 5, 5)
    assert result.ways == ["ebb-p4c + ebb-switch", "p4c-bm2-ss + simple_switch"]


def test_a_difference_is_told_with_its_packet(tmp_path: Path) -> None:
    result = Runs(tmp_path, {(OURS, b"\4"): "other"}).judge(PACKETS)
    assert result.verdict == "different"
    assert "04 to port 0, command 4" in result.reason
    assert "ebb-p4c + ebb-switch: 0: 21" in result.reason


def test_what_differs_in_batches_only_is_not_a_difference(tmp_path: Path) -> None:
    assert Runs(tmp_path, {(BMV2, b"\1"): "race"}).judge(PACKETS).verdict == "same"


def test_a_packet_that_ends_bmv2_is_left_out_and_told(tmp_path: Path) -> None:
    result = Runs(tmp_path, {(BMV2, b"\1"): "end"}).judge(PACKETS)
    assert (result.verdict, result.packets) == ("same", 4)
    assert result.ended == ["p4c-bm2-ss + simple_switch: Assertion failed: 01"]
    assert Runs(tmp_path, {(OURS, b"\1"): "end"}).judge(PACKETS).verdict == "error"


def test_if_most_packets_end_bmv2_our_switch_goes_on_alone(tmp_path: Path) -> None:
    ours_there, theirs_here = (compilers.OURS, THEIR_SWITCH), (compilers.THEIRS, OUR_SWITCH)
    packets: list[Command] = [Packet(0, bytes([number])) for number in range(20)]

    class Ending(Runs):
        def ways(self) -> list[Way]:
            ways = [OURS, theirs_here, ours_there, BMV2]
            return [way for way in ways if way not in self.absent]

    for ending, verdict in (
        ([ours_there, BMV2], "legitimate"),
        ([ours_there], "different"),
        ([theirs_here, BMV2], "error"),
    ):
        change = {(way, bytes([number])): "end" for way in ending for number in range(20)}
        result = Ending(tmp_path, change).judge(packets)
        assert result.verdict == verdict, ending
    change = {(way, bytes([number])): "end" for way in (ours_there, BMV2) for number in range(20)}
    result = Ending(tmp_path, {**change, (OURS, b"\x13"): "other"}).judge(packets)
    assert result.verdict == "different"
    assert result.ways == ["ebb-p4c + ebb-switch", "p4c-bm2-ss + ebb-switch"]


def test_only_bmv2_may_refuse_a_program(tmp_path: Path) -> None:
    ways = [
        (compiler, switch) for compiler in OURS[:1] + BMV2[:1] for switch in OURS[1:] + BMV2[1:]
    ]
    ours_there, theirs_there = ways[1], ways[3]
    for absent, verdict in (
        ([theirs_there], "legitimate"),
        ([ours_there, theirs_there], "legitimate"),
        ([ours_there], "error"),
        ([ways[2]], "error"),
        ([ways[2], theirs_there], "legitimate"),
    ):
        four = Runs(tmp_path, {})
        four.absent = dict.fromkeys(absent, "bad JSON")
        four.runs = {way: Run() for way in ways if way not in absent}
        assert four.without_absent().verdict == verdict, absent


def test_commands_that_one_way_refuses_are_a_difference(tmp_path: Path) -> None:
    ways = Runs(tmp_path, {})
    commands: list[Command] = [Mirror(1, 2), *PACKETS]
    ways.runs = {OURS: Run(), BMV2: Run(refused={0: "error 3"})}
    expected = "p4c-bm2-ss + simple_switch refuses `mirroring_add 1 2`: error 3"
    assert ways.controls(commands) == expected
    ways.runs[OURS].refused[0] = "no such session"
    assert ways.controls(commands) == ""


def test_reasons_are_named_for_programs_that_have_them(tmp_path: Path) -> None:
    assert legitimate(program(tmp_path), True) == ""
    clock = document()
    target = ["standard_metadata", "ingress_global_timestamp"]
    clock["actions"][0]["primitives"] = [{"op": "assign", "parameters": [{"value": target}]}]
    path = tmp_path / "clock.json"
    path.write_text(json.dumps(clock))
    assert legitimate(Program(path), True) == "reads the clock"
    # Other ports or lengths are not explained by it.
    assert legitimate(Program(path), False) == ""


def test_hashes_of_copies_are_a_reason_if_the_switches_agree(tmp_path: Path) -> None:
    copied = document()
    copied["calculations"][0]["input"][0]["value"] = ["meta", "x"]
    path = tmp_path / "copied.json"
    path.write_text(json.dumps(copied))
    ways = Runs(tmp_path, {})
    assert not hashes_copies(*ways.programs.values())
    ways.programs[compilers.THEIRS] = Program(path)
    theirs_here = (compilers.THEIRS, OUR_SWITCH)
    one, other = Run(frames=[[(1, b"a")]]), Run(frames=[[(2, b"b")]])
    ways.runs = {OURS: one, theirs_here: other, BMV2: other}
    ways.path.write_text("control C() { apply { for (bit<8> i = 0; i < 2; i += 1) {} } }")
    assert ways.legitimate() == "hashes fields of a header that is not valid"
    ways.programs[compilers.THEIRS] = ways.programs[compilers.OURS]
    assert "`for`" in ways.legitimate()
    ways.path.write_text("")
    assert ways.legitimate() == ""
    ways.programs[compilers.THEIRS] = Program(path)
    ways.runs[BMV2] = one
    assert ways.legitimate() == ""


def test_prefixes_in_odd_keys_are_a_reason_if_the_compilers_agree(tmp_path: Path) -> None:
    odd = document()
    odd["header_types"][1]["fields"] = [["rest", 84, False], ["dst", 20, False]]
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(odd))
    ways = Runs(tmp_path, {})
    one, other = Run(frames=[[(1, b"a")]]), Run(frames=[[(2, b"b")]])
    ways.runs = {
        OURS: one,
        (compilers.THEIRS, OUR_SWITCH): one,
        (compilers.OURS, THEIR_SWITCH): other,
        BMV2: other,
    }
    assert ways.legitimate() == ""
    ways.programs[compilers.OURS] = Program(path)
    assert ways.legitimate().startswith("a prefix")
    ways.runs[OURS] = other
    assert ways.legitimate() == ""


def test_what_only_our_compiler_has_is_named() -> None:
    assert "loops" in excused("x.p4(3): error: BMV2 does not support for-in loops")
    assert excused("x.p4(3): error: syntax error") == ""


def test_bmv2_reads_zeros_from_headers_that_are_not_there(tmp_path: Path) -> None:
    changed = program(tmp_path).with_zeros(tmp_path / "zeros.json")
    parser = changed.json["parsers"][0]
    first = next(s for s in parser["parse_states"] if s["name"] == parser["init_state"])
    assert [t["next_state"] for t in first["transitions"]] == ["start"]
    fields = [operation["parameters"][0]["value"] for operation in first["parser_ops"]]
    assert ["ipv4", "ttl"] in fields
    assert ["meta", "x"] not in fields


@pytest.mark.parametrize("runner", [fourway, testgen])
def test_without_the_tools_the_runners_say_that_they_skip(
    runner: object,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for tool in ("ebb-p4c", "ebb-stf"):
        (tmp_path / tool).touch()
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.argv", ["runner", "--build", str(tmp_path), "x.p4"])
    assert runner.main() == 0  # type: ignore[attr-defined]
    assert capsys.readouterr().out.startswith("skipped: ")


def test_lists_have_flags_for_each_program(tmp_path: Path) -> None:
    (tmp_path / "LIST").write_text("/a.p4\t\n/b.p4\t-I /x -DY\n")
    found = fourway.programs([f"@{tmp_path}/LIST", "c.p4"], ["-Iz"])
    assert found == [
        (Path("/a.p4"), ("-Iz",)),
        (Path("/b.p4"), ("-Iz", "-I", "/x", "-DY")),
        (Path("c.p4"), ("-Iz",)),
    ]


def test_tables_that_a_compiler_left_out_get_no_entries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """p4c's JSON has no table of members, and so nobody may use its profile."""
    less = document()
    tables = less["pipelines"][0]["tables"]
    less["pipelines"][0]["tables"] = [t for t in tables if t["name"] != "I.ecmp"]
    result, told = what_is_told(tmp_path, monkeypatch, less)
    assert result.left_out == ["I.ecmp"]
    assert {c.table for c in told if isinstance(c, Add)} == {"I.route", "I.acl"}
    assert not any(isinstance(c, CreateMember) for c in told)


def test_an_action_of_a_table_has_its_parameters_whatever_copies_there_are(tmp_path: Path) -> None:
    """The copy that the program calls with a constant comes behind in p4c's JSON."""
    more = document()
    more["actions"].append({"name": "I.forward", "runtime_data": [], "primitives": []})
    (tmp_path / "more.json").write_text(json.dumps(more))
    assert Program(tmp_path / "more.json").actions["I.forward"] == {"port": 9}


def what_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, theirs: dict[str, Any]
) -> tuple[fourway.Result, list[Command]]:
    """The commands for the small program, if this is what p4c makes of it."""
    for compiler, json_document in ((compilers.OURS, document()), (compilers.THEIRS, theirs)):
        (tmp_path / f"{compiler}.json").write_text(json.dumps(json_document))
    (tmp_path / "p4info").write_text(P4INFO)
    monkeypatch.setattr(compilers, "command", lambda *_: "there")
    monkeypatch.setattr(
        compilers,
        "compile_program",
        lambda compiler, *_: compilers.Compiled(
            tmp_path / f"{compiler}.json", tmp_path / "p4info", ""
        ),
    )
    told: list[Command] = []

    class Told(Runs):
        def judge(self, commands: list[Command]) -> fourway.Result:
            told.extend(commands)
            return self.result

    return Told(tmp_path, {}).run(), told


def test_verdicts_are_read_by_script() -> None:
    said = (
        "mismatch       tests/a_1.json: line 9: nothing left port 3\n"
        "bad test       tests/a_2.json: line 60: there is no table `x`\n\n2 failed, 1 passed\n"
    )
    assert ebb.failures(said) == {
        "a_1.stf": "mismatch: line 9: nothing left port 3",
        "a_2.stf": "bad test: line 60: there is no table `x`",
    }
    alone = (
        "mismatch       tests/a_1.json\n    line 57: port 45: this packet did not leave\n"
        "      expected 00\n\n1 tests: 0 passed, failed: 1 mismatch\n"
    )
    assert ebb.failures(alone) == {
        "a_1.stf": "mismatch: line 57: port 45: this packet did not leave"
    }


@pytest.mark.parametrize("also_passes", [False, True])
def test_a_test_that_fails_is_counted_also_where_it_is_the_only_one(
    tmp_path: Path, also_passes: bool
) -> None:
    """ebb-stf prints all differences of a single test, each in a line of its own."""
    tests, runner = tmp_path / "tests", tmp_path / "build" / "ebb-stf"
    said = f"mismatch       {tests}/a_1.json"
    said += ": line 9: byte 3 differs\n" if also_passes else "\n    line 9: byte 3 differs\n"
    said += f"\n{1 + also_passes} tests: {int(also_passes)} passed, failed: 1 mismatch\n"
    tests.mkdir()
    runner.parent.mkdir()
    runner.write_text(f"#!/bin/sh\nprintf '%s' '{said}'\nexit 1\n")
    runner.chmod(0o755)
    for name in ("a_1", "a_2")[: 1 + also_passes]:
        (tests / f"{name}.stf").touch()
    count = testgen.Count()
    testgen.run(tests, tmp_path / "a.json", None, testgen.Options(build=runner.parent), count)
    assert (count.tests, count.passed, count.unknown) == (1 + also_passes, int(also_passes), 1)
    assert count.problem == ""
    assert count.failures == ["a_1.stf: mismatch: line 9: byte 3 differs (BMv2 was not asked)"]
