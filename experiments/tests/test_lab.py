"""Labs: files, programs of switches, hosts that Python plays."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from binaries import BINARIES, ROOT, needs
from ebb_experiments.lab import cli, file
from ebb_experiments.lab.agents import AgentsSpec
from ebb_experiments.lab.lab import MAX_PORT, Lab
from ebb_experiments.run.conversation import SimulatorError
from ebb_topologies.errors import InputError
from free_ports import first_free_port

needs_compiler = needs("ebb-simulator", "ebb-p4c")
needs_traffic = needs("ebb-simulator", "ebb-p4c", "ebb-agent")

# A wire between ports 1 and 2, which marks what passes it, and may send it to an address.
V1MODEL = """
#include <core.p4>
#include <v1model.p4>
#ifndef TO
#define TO 0
#endif
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata {}
parser P(packet_in b, out headers h, inout metadata m, inout standard_metadata_t s) {
    state start { b.extract(h.ethernet); transition accept; }
}
control V(inout headers h, inout metadata m) { apply {} }
control I(inout headers h, inout metadata m, inout standard_metadata_t s) {
    apply {
        h.ethernet.type = MARK;
        h.ethernet.dst = h.ethernet.dst | TO;
        s.egress_spec = s.ingress_port ^ 3;
    }
}
control E(inout headers h, inout metadata m, inout standard_metadata_t s) { apply {} }
control D(packet_out b, in headers h) { apply { b.emit(h.ethernet); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""
TNA = """
#include <core.p4>
#include <tna.p4>
header ethernet_t { bit<48> dst; bit<48> src; bit<16> type; }
struct headers { ethernet_t ethernet; }
struct metadata {}
parser IP(packet_in b, out headers h, out metadata m, out ingress_intrinsic_metadata_t i) {
    state start {
        b.extract(i);
        b.advance(PORT_METADATA_SIZE);
        b.extract(h.ethernet);
        transition accept;
    }
}
control I(inout headers h, inout metadata m, in ingress_intrinsic_metadata_t i,
          in ingress_intrinsic_metadata_from_parser_t p,
          inout ingress_intrinsic_metadata_for_deparser_t d,
          inout ingress_intrinsic_metadata_for_tm_t t) {
    apply { h.ethernet.type = 0x88b6; t.ucast_egress_port = i.ingress_port ^ 3; t.qid = 31; }
}
control ID(packet_out b, inout headers h, in metadata m,
           in ingress_intrinsic_metadata_for_deparser_t d) { apply { b.emit(h); } }
parser EP(packet_in b, out headers h, out metadata m, out egress_intrinsic_metadata_t e) {
    state start { b.extract(e); transition accept; }
}
control E(inout headers h, inout metadata m, in egress_intrinsic_metadata_t e,
          in egress_intrinsic_metadata_from_parser_t p,
          inout egress_intrinsic_metadata_for_deparser_t d,
          inout egress_intrinsic_metadata_for_output_port_t o) { apply {} }
control ED(packet_out b, inout headers h, in metadata m,
           in egress_intrinsic_metadata_for_deparser_t d) { apply { b.emit(h); } }
Pipeline(IP(), I(), ID(), EP(), E(), ED()) pipe;
Switch(pipe) main;
"""
PAIR: dict[str, Any] = {
    "link_defaults": {"rate_bps": 1_000_000_000, "delay_ns": 500},
    "switch": [{"name": "s1"}, {"name": "s2"}],
    "host": [{"name": "h1"}, {"name": "h2"}],
    "link": [{"ends": ["h1", "s1"]}, {"ends": ["h2", "s2"]}, {"ends": ["s1", "s2"]}],
    "program": {
        "s1": {"p4": "mark.p4", "define": ["MARK=0x88b5"]},
        "s2": {"p4": "tofino.p4"},
    },
}
"""h1 - s1 - s2 - h2, at ports 1 and 2 of each switch."""
FRAME = bytes(12) + b"\x12\x34" + bytes(86)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With both programs."""
    (tmp_path / "mark.p4").write_text(V1MODEL)
    (tmp_path / "tofino.p4").write_text(TNA)
    return tmp_path


def lab_of(folder: Path, **changes: Any) -> Lab:
    return Lab.of(PAIR | changes, folder, first_port=first_free_port(2))


@needs_compiler
def test_frames_pass_a_program_of_each_architecture_on_time(folder: Path) -> None:
    arrived: list[tuple[str, int, bytes]] = []
    with lab_of(folder) as lab:
        lab.attach("h1", lambda now, frame: arrived.append(("h1", now, frame)))
        lab.attach("h2", lambda now, frame: arrived.append(("h2", now, frame)))
        lab.send("h1", FRAME, at_ns=2_000)
        lab.send("h2", FRAME, at_ns=3_000)
        lab.run(1_000_000)
        assert lab.now_ns == 1_000_000
    # Three links: 100 bytes at 1 Gbit/s and 500 ns each.
    of = 3 * (800 + 500)
    marks = {host: frame[12:14].hex() for host, _, frame in arrived}
    assert [(host, now) for host, now, _ in arrived] == [("h2", 2_000 + of), ("h1", 3_000 + of)]
    assert marks == {"h2": "88b6", "h1": "88b5"}
    assert {frame[14:] for _, _, frame in arrived} == {FRAME[14:]}


@needs_compiler
def test_the_wire_costs_each_link_as_much(folder: Path) -> None:
    arrived: list[int] = []
    ports = {"ports": {"queue": [{"id": 0}, {"id": 31}], "frame_overhead_bytes": 24}}
    program = {switch: spec | ports for switch, spec in PAIR["program"].items()}
    with lab_of(folder, program=program) as lab:
        lab.attach("h2", lambda now, _: arrived.append(now))
        lab.send("h1", FRAME)
        lab.send("h1", FRAME)
        lab.run(1_000_000)
    # 124 bytes take 992 ns.
    assert arrived == [3 * (992 + 500), 3 * (992 + 500) + 992]


@needs_compiler
def test_a_host_answers_at_the_multiple_and_calls_come_in_order(folder: Path) -> None:
    events: list[tuple[str, int]] = []

    def answer(now: int, frame: bytes) -> None:
        events.append((f"arrived {now}", lab.now_ns))
        lab.send("h2", frame)
        lab.call(lab.now_ns + 10, lambda: events.append(("later", lab.now_ns)))
        lab.call(0, lambda: events.append(("at once", lab.now_ns)))

    with lab_of(folder, reaction_ns=700) as lab:
        lab.attach("h2", answer)
        lab.attach("h1", lambda now, _: events.append(("answer", now)))
        lab.send("h1", FRAME)
        lab.call(100, lambda: events.append(("early", lab.now_ns)))
        lab.run(50_000)
    assert events == [
        ("early", 100),
        ("arrived 3900", 4_200),
        ("at once", 4_200),
        ("later", 4_210),
        ("answer", 4_200 + 3_900),
    ]


@needs_compiler
def test_each_switch_has_a_controller_while_the_clock_stands_still(folder: Path) -> None:
    router = {"p4": str(ROOT / "examples/router/router.p4"), "device_id": 7}
    table = {"single_rack": {"hosts": 2}, "program": {"s1": router}}
    ipv4 = bytes.fromhex("4500002000000000401165c40a0000010a000109") + bytes(12)
    arrived: list[bytes] = []
    with Lab.of(table, folder, first_port=first_free_port(2)) as lab:
        lab.attach("h2", lambda _, frame: arrived.append(frame))
        lab.send("h1", bytes(12) + b"\x08\x00" + ipv4)
        lab.run(1_000_000)
        ctl = [str(Path(sys.executable).parent / "ebb-ctl"), "-a", lab.addresses["s1"], "-d", "7"]
        entry = "table add routes 10.0.1.0/24 do forward port=2 next_hop=2"
        subprocess.run([*ctl, *entry.split()], check=True, cwd=ROOT)
        lab.send("h1", bytes(12) + b"\x08\x00" + ipv4)
        lab.run(2_000_000)
    assert [frame[:6].hex() for frame in arrived] == ["000000000002"]


@needs_compiler
def test_queues_are_those_of_the_file(folder: Path) -> None:
    """A burst comes much faster than it leaves: two packets wait and one is sent."""
    slow = [{"ends": ["h1", "s1"], "rate_bps": 100_000_000_000}, *PAIR["link"][1:]]
    program = PAIR["program"] | {
        "s1": PAIR["program"]["s1"] | {"ports": {"queue": [{"id": 0, "capacity_packets": 2}]}}
    }
    arrived: list[int] = []
    with lab_of(folder, link=slow, program=program) as lab:
        lab.attach("h2", lambda now, _: arrived.append(now))
        for _ in range(10):
            lab.send("h1", FRAME)
        lab.run(1_000_000)
    assert len(arrived) == 3


TRAFFIC = {
    "name": "there",
    "pattern": {"type": "random", "from": "left", "to": "right"},
    "arrivals": {"type": "once"},
    "size": {"type": "fixed", "bytes": 100_000},
}
GROUPS = [{"name": "left", "hosts": ["h1"]}, {"name": "right", "hosts": ["h2"]}]
AGENTS: dict[str, Any] = {
    "transport": "dctcp",
    "workload": {"group": GROUPS, "traffic": [TRAFFIC]},
}
RACK = {
    "link_defaults": PAIR["link_defaults"],
    "single_rack": {"hosts": 3},
    "program": {"s1": {"p4": "mark.p4", "define": ["MARK=0x0800", "TO=0xffffffffffff"]}},
    "agents": AGENTS | {"external": ["h3"]},
}


@needs_traffic
def test_agents_send_over_a_program_of_ones_own(folder: Path) -> None:
    def played() -> tuple[int, list[dict[str, Any]]]:
        with Lab.of(RACK, folder, first_port=first_free_port(2)) as lab:
            assert lab.unfinished == 1
            lab.run(1_000_000_000, flows=True)
            assert lab.unfinished == 0
            with pytest.raises(InputError, match=r"an agent plays h1: name it in agents\.external"):
                lab.send("h1", bytes(60))
            lab.send("h3", bytes(60))
            return lab.now_ns, lab.flows

    now_ns, flows = played()
    assert [(f["part"], f["host"], f["status"]) for f in flows if f["part"] == "receive"] == [
        ("receive", "h2", "finished")
    ]
    # 100 KB at 1 Gbit/s.
    (took,) = (f["fct_ns"] for f in flows if f["part"] == "receive")
    assert 800_000 < took < 1_500_000
    assert took <= now_ns < 1_000_000_000
    assert played() == (now_ns, flows)


@needs_traffic
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"transport": "dtcp"}, "unknown transport 'dtcp'; did you mean 'dctcp'"),
        ({"params": {"tcp": {"min_rto_ns": 0}}}, "agent parameter tcp.min_rto_ns is 0"),
        ({"params": {"tpc": {}}}, r"no parameters \[tpc\]; did you mean 'tcp'"),
        ({"external": ["h9"]}, "'agents.external': there is no host 'h9'"),
        ({"external": ["h1", "h2"]}, "'agents.external': agents play 1 of 3 hosts"),
        ({"workload": {"traffic": [TRAFFIC]}}, "agents: workload: traffic there pattern: .*group"),
        ({"workload": "none.toml"}, "none.toml: cannot be read"),
    ],
)
def test_agents_that_make_no_sense(folder: Path, change: dict[str, Any], words: str) -> None:
    table = RACK | {"agents": AGENTS | change}
    with pytest.raises(InputError, match=words):
        Lab.of(table, folder, first_port=first_free_port(2)).__enter__()


@needs_compiler
def test_what_goes_wrong_is_told_in_a_line(folder: Path) -> None:
    (folder / "bad.p4").write_text(V1MODEL.replace("MARK", "mark"))
    bad = PAIR["program"] | {"s1": {"p4": "bad.p4"}}
    with pytest.raises(InputError, match=r"program of s1: .*bad\.p4 is not compiled:\n.*mark"):
        lab_of(folder, program=bad).__enter__()
    absent = PAIR["program"] | {"s1": {"json": "none.json", "p4info": "none.txtpb"}}
    with pytest.raises(InputError, match=r"'program\.s1\.json': .*none\.json does not exist"):
        lab_of(folder, program=absent)
    (folder / "text.json").write_text("control {}")
    no_json = PAIR["program"] | {"s1": {"json": "text.json", "p4info": "mark.p4"}}
    with pytest.raises(InputError, match=r"text\.json is no BMv2 JSON: .*-o of ebb-p4c"):
        lab_of(folder, program=no_json).__enter__()
    with lab_of(folder) as first, pytest.raises(SimulatorError, match=r"\(--first-port, or"):
        port = int(first.addresses["s1"].rpartition(":")[2])
        Lab.of(PAIR, folder, first_port=port).__enter__()
    exported = {"queue": [{"id": 0}], "export": [{"register": "r", "what": "depth-bytes"}]}
    lacks = PAIR["program"] | {"s1": PAIR["program"]["s1"] | {"ports": exported}}
    with pytest.raises(InputError, match=r"without its program: .*register \"r\": the program has"):
        lab_of(folder, program=lacks).__enter__()
    with pytest.raises(InputError, match="the lab does not run"):
        lab_of(folder).run(10)
    with lab_of(folder) as lab:
        with pytest.raises(InputError, match="there is no host 'h3'; known: h1, h2"):
            lab.attach("h3", print)
        with pytest.raises(InputError, match="there is no host 's1'"):
            lab.send("s1", FRAME)
        lab.run(10)
        with pytest.raises(InputError, match="h1 cannot send at 9 ns: it is 10 ns"):
            lab.send("h1", FRAME, at_ns=9)
        lab.send("h1", bytes(13))
        with pytest.raises(SimulatorError, match="a frame of h1 has 13 bytes; 14 to 10000"):
            lab.run(20)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"program": {"s1": {"p4": "a.p4"}}}, r"switch s2 has no program: add \[program.s2\]"),
        ({"program": {"s9": {"p4": "a.p4"}}}, "'program.s9': no switch has this name; known"),
        ({"program": {"s1": {}}}, "give p4, or else json and p4info"),
        ({"program": {"s1": {"json": "a"}}}, "give json and p4info together"),
        ({"program": {"s1": {"json": "a", "p4info": "b", "arch": "tna"}}}, "arch, include and"),
        ({"program": {"s1": {"p4": "a", "arch": "pna"}}}, "arch"),
        (
            {
                "program": {
                    "s1": {"p4": "a"},
                    "s2": {"p4": "a", "ports": {"frame_overhead_bytes": 24}},
                }
            },
            "must be the same at all switches: s1 0, s2 24",
        ),
        ({"reaction_ns": 0}, "reaction_ns"),
        ({"reation_ns": 5}, r"unknown key 'reation_ns'; did you mean 'reaction_ns'"),
        ({"link": []}, r"lab\.toml: host 'h1' has no link"),
        ({"link": [*PAIR["link"], {"ends": ["h1", "s2"]}]}, "'h1' has more than one link"),
        ({"program": {"s1": {"p4file": "a"}}}, r"\(valid keys: .*, include, json, p4, "),
        (
            {"program": {"s1": {"p4": "a", "cpu_port": 2}, "s2": {"p4": "a"}}},
            r"'program\.s1\.cpu_port': port 2 has a link, to s2",
        ),
    ],
)
def test_files_that_make_no_sense(change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        file.split(PAIR | change, "lab.toml", "lab")


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ({"p4": "marc.p4"}, r"'program\.s1\.p4': .*marc\.p4 does not exist; .*'mark\.p4'"),
        ({"p4": ""}, r"'program\.s1\.p4': .* is no file"),
        ({"p4": "mark.p4", "include": ["none"]}, r"'program\.s1\.include': .*none is no folder"),
        ({"json": "mark.p4", "p4info": "x"}, r"'program\.s1\.p4info': .*x does not exist"),
    ],
)
def test_paths_that_lead_nowhere(folder: Path, program: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        lab_of(folder, program=PAIR["program"] | {"s1": program})


def test_a_command_line_without_a_file_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cli.main([]) == 1
    assert capsys.readouterr().err == (
        "ebb-lab: the following arguments are required: file (see --help)\n"
    )


def test_control_characters_of_a_file_do_not_reach_the_terminal(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "lab.toml"
    path.write_text('"\\u001b[2J" = 1\n')
    assert cli.main([str(path)]) == 1
    shown = capsys.readouterr().err
    assert "unknown key '\\x1b[2J'" in shown
    assert "\x1b" not in shown


def test_ports_end_somewhere(folder: Path) -> None:
    with pytest.raises(InputError, match="at ports 65535 to 65536, of 65535"):
        Lab.of(PAIR, folder, first_port=MAX_PORT)


def test_the_page_has_every_key() -> None:
    page = (ROOT / "docs/lab.md").read_text()
    specs = (file.ProgramSpec, file.LabSpec, AgentsSpec)
    fields = [item for spec in specs for item in spec.model_fields.items()]
    names = [field.alias or name for name, field in fields]
    assert len(names) == 19
    for name in names:
        assert re.search(rf"`(\.?){name}(\.SWITCH)?`", page), name


@needs_compiler
def test_the_example_marks_more_with_a_lower_threshold(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Two hosts fill a queue to 60 packets: the one that leaves first makes room for one more."""
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    example = ROOT / "examples/ecn_marking"
    options = ["--first-port", str(first_free_port(2)), "--build", str(BINARIES.directory)]
    marked = []
    for threshold in ("20", "5"):
        files = [str(example / name) for name in ("lab.toml", "lab.py")]
        assert cli.main([*options, *files, threshold]) == 0
        said = re.search(r"(\d+) of 120 packets arrived, (\d+) of", capfd.readouterr().out)
        assert said is not None
        assert int(said[1]) == 120
        marked.append(int(said[2]))
    assert marked == [81, 111]


@needs_compiler
def test_cells_are_read_over_plain_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    example = ROOT / "examples/ecn_marking"
    with Lab.open(example / "lab.toml", first_port=first_free_port(2)) as lab:
        cli.play(lab, example / "lab.py", ["20"])
        command = [sys.executable, str(ROOT / "examples/cells.py"), lab.addresses["s1"], "1"]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said.splitlines() == [
        "MarkingEgress.marked[3] 81 packets, 0 bytes",
        "MarkingEgress.threshold[0] 20",
    ]


@needs_compiler
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_who_ends_the_command_leaves_nothing(folder: Path, number: signal.Signals) -> None:
    (folder / "pair.toml").write_text(
        "[single_rack]\nhosts = 1\n[program.s1]\np4 = 'mark.p4'\ndefine = ['MARK=0x88b5']\n"
    )
    (folder / "wait.py").write_text("import time\ndef main(lab):\n    time.sleep(100)\n")
    scratch = folder / "scratch"
    scratch.mkdir()
    # A run of the tests may ignore signals, as nohup does, and its children with it.
    command = ["env", f"--default-signal={number.value}"]
    command += [str(Path(sys.executable).parent / "ebb-lab"), "--build", str(BINARIES.directory)]
    command += ["--first-port", str(first_free_port(2)), "pair.toml", "wait.py"]
    surroundings = os.environ | {"TMPDIR": str(scratch)}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=surroundings,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as lab:
        assert lab.stdout is not None
        while "up in" not in lab.stdout.readline():
            assert lab.poll() is None
        lab.send_signal(number)
        _, said = lab.communicate(timeout=30)
    assert said == "ebb-lab: interrupted\n"
    assert list(scratch.iterdir()) == []


@needs_compiler
def test_the_command_runs_a_script(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lab = folder / "pair.toml"
    lab.write_text(
        "[single_rack]\nhosts = 2\n[program.s1]\np4 = 'mark.p4'\ndefine = ['MARK=0x88b5']\n"
    )
    script = folder / "script.py"
    script.write_text(
        "def main(lab, word):\n"
        "    lab.attach('h2', lambda now, frame: print(word, now, len(frame)))\n"
        "    lab.send('h1', bytes(100))\n"
        "    lab.run(1_000_000)\n"
    )
    options = ["--first-port", str(first_free_port(2)), "--build", str(BINARIES.directory)]
    assert cli.main([*options, str(lab), str(script), "arrived"]) == 0
    out = capfd.readouterr().out
    assert out.startswith("s1        127.0.0.1:")
    # Two links: 100 bytes at 1 Gbit/s and 10 us each.
    assert out.endswith(f"arrived {2 * (800 + 10_000)} 100\n")
    assert cli.main([*options, str(lab), str(folder / "nowhere.py")]) == 1
    assert "nowhere.py is no file" in capfd.readouterr().err
    script.write_text("print('no main')\n")
    assert cli.main([*options, str(lab), str(script)]) == 1
    assert "script.py has no function main(lab, ..)" in capfd.readouterr().err
