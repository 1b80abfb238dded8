"""Names in mechanisms are there in `fabric.p4` as compiled, and those that are not are reported."""

from __future__ import annotations

from pathlib import Path

import pytest
from built import NEEDS_PROGRAM, PROGRAM, PROGRAMS, p4info
from ebb_controller import mechanisms
from ebb_controller.errors import ControllerError
from ebb_controller.mechanism import Counter, Mechanism, Table, counter_names, missing
from ebb_controller.mechanisms.codel import Codel
from ebb_controller.mechanisms.volume_counters import Volume
from ebb_controller.program import Program
from finsy.proto import p4i
from google.protobuf import text_format

P4_FILES = Path(__file__).resolve().parents[2] / "p4src" / "include"
MARKING = Mechanism(
    "marking", tables=(Table("marks", ("mark", "pass"), "ecmp"),), counters=(Counter("marked"),)
)


@NEEDS_PROGRAM
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_the_program_has_what_mechanisms_name(program: Program) -> None:
    assert list(missing(mechanisms.of_program(program.name), p4info(program))) == []


@NEEDS_PROGRAM
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_every_table_and_counter_of_the_program_has_a_mechanism(program: Program) -> None:
    """One without would be empty for ever, or counted and shown nowhere."""
    ours, theirs = mechanisms.of_program(program.name), p4info(program)
    assert {table.name for each in ours for table in each.tables} == {
        table.preamble.alias for table in theirs.tables
    }
    assert {counter.name for each in ours for counter in each.counters} == {
        counter.preamble.alias for counter in theirs.counters
    }


def test_a_program_is_chosen_by_what_the_switches_do() -> None:
    folder, plain = Path("build"), mechanisms.FabricParameters()
    with_codel = mechanisms.FabricParameters(codel=Codel())
    with_void_frames = mechanisms.FabricParameters(void_frames=True)
    with_volume = mechanisms.FabricParameters(volume=Volume())
    assert Program.of(folder).json == folder / "fabric.json"
    assert Program.of(folder, plain).p4info == folder / "fabric.p4info.txtpb"
    assert Program.of(folder, plain, with_codel).json == folder / "fabric_codel.json"
    assert Program.of(folder, with_volume, with_codel).json == folder / "fabric_full.json"
    assert Program.of(folder, with_void_frames).json == folder / "fabric_tenants.json"
    each = (plain, with_codel, with_void_frames, with_volume)
    assert {Program.of(folder, one).name for one in each} == set(mechanisms.PROGRAMS)


def test_a_mechanism_has_the_name_of_its_p4_file() -> None:
    names = {mechanism.name for mechanism in mechanisms.MECHANISMS}
    assert {name for name in names if not (P4_FILES / f"{name}.p4").is_file()} == set()


def test_what_is_missing_is_named_with_its_mechanism() -> None:
    program = p4i.P4Info()
    assert list(missing([MARKING], program)) == [
        "mechanism marking needs the table marks",
        "mechanism marking needs the counter marked",
    ]
    program.counters.add(preamble=p4i.Preamble(alias="marked"))
    program.actions.add(preamble=p4i.Preamble(id=1, alias="pass"))
    table = program.tables.add(preamble=p4i.Preamble(alias="marks"))
    table.action_refs.add(id=1)
    assert list(missing([MARKING], program)) == [
        "mechanism marking needs the action mark of the table marks",
        "mechanism marking needs the table marks with the selector ecmp",
    ]
    program.actions.add(preamble=p4i.Preamble(id=2, alias="mark"))
    program.action_profiles.add(preamble=p4i.Preamble(id=3, alias="ecmp"))
    table.action_refs.add(id=2)
    table.implementation_id = 3
    assert list(missing([MARKING], program)) == []


def test_counters_that_no_mechanism_describes_come_last() -> None:
    program = p4i.P4Info()
    for name in ("own", "marked", "other"):
        program.counters.add(preamble=p4i.Preamble(alias=name))
    assert counter_names([MARKING], program) == ("marked", "own", "other")


@NEEDS_PROGRAM
def test_another_program_is_refused_at_the_start(tmp_path: Path) -> None:
    info = p4i.P4Info()
    info.CopyFrom(p4info())
    (gone,) = (table for table in info.tables if table.preamble.alias == "arp_responder")
    info.tables.remove(gone)
    other = Program(tmp_path / "fabric.p4info.txtpb", PROGRAM.json)
    other.p4info.write_text(text_format.MessageToString(info))
    with pytest.raises(ControllerError) as caught:
        other.check()
    assert str(caught.value) == (
        f"{other.p4info}: mechanism arp needs the table arp_responder, which the program does not "
        "have: compile p4src/fabric.p4"
    )


def test_every_sum_of_a_network_has_counters() -> None:
    assert mechanisms.summed("trims") == ("trimmed",)
    marks = mechanisms.summed("marks")
    assert len(set(marks)) == len(marks)
    assert {"step_marked", "phantom_marked"} <= set(marks)
    assert mechanisms.summed("lost") == ("dropped",)
