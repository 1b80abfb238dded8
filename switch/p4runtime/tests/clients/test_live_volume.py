"""`ebb-volume` on the counters of a real switch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import p4switch
import pytest
from certificates import self_signed
from ebb_controller.ctl import cli as ctl
from ebb_controller.ctl.client import Client, Place
from ebb_controller.ctl.stream import SwitchError
from ebb_topologies.errors import InputError
from ebb_volume import cli, live
from ebb_volume.notes import Notes
from ebb_volume.series import Name
from finsy import P4CounterEntry
from finsy.p4entity import P4CounterData
from finsy.proto import p4i, p4r
from google.protobuf import text_format
from p4switch import DEVICE_ID, JSON, P4INFO

MS = 10**6
CELL = Name("port_in[2]")


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    found = Client(Place(address, DEVICE_ID))
    found.push(text_format.Parse(P4INFO.read_text(), p4i.P4Info()), JSON.read_bytes())
    yield found
    found.close()


def count(client: Client, size_bytes: int, packets: int) -> None:
    data = P4CounterData(byte_count=size_bytes, packet_count=packets)
    client.modify(P4CounterEntry("port_in", index=2, data=data))


def test_a_bin_is_what_the_counter_has_counted_in_it(client: Client, address: str) -> None:
    """The counter goes up by 1500 bytes before each reading."""
    with live.p4runtime(Place(address, DEVICE_ID), "port_in") as read:
        readings = 0

        def counted() -> live.Counts:
            nonlocal readings
            count(client, 1500 * readings**2, readings)
            readings += 1
            return read()

        notes = Notes()
        (series,), interrupted = live.record(counted, 20 * MS, 5, notes)
    assert series.name == CELL
    assert series.bytes.tolist() == [1500 * (2 * i + 1) for i in range(5)]
    assert series.packets.tolist() == [1] * 5
    assert not interrupted


def test_the_command_with_p4runtime_and_gnmi(
    client: Client, address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing goes through this switch: there is nothing to use, and the command says so."""
    for words in (
        ["--p4runtime", address, "--device-id", str(DEVICE_ID), "--counter", "port_in"],
        ["--gnmi", address],
    ):
        out = tmp_path / "bins.csv"
        code = cli.main(["bins", *words, "--bin", "20ms", "--for", "60ms", "-o", str(out)])
        assert code == 1
        assert "no counter has changed" in capsys.readouterr().err


def test_interfaces_of_gnmi(address: str) -> None:
    with live.openconfig(Place(address, DEVICE_ID)) as read:
        names = set(read())
    expected = {Name(f"s1-eth{port}", kind) for port in (1, 2) for kind in ("in", "out")}
    assert expected <= names


def test_a_counter_that_there_is_not(client: Client, address: str) -> None:
    with (
        pytest.raises(InputError, match="no counter 'port_on'; it has: port_in"),
        live.p4runtime(Place(address, DEVICE_ID), "port_on"),
    ):
        pass


def test_nobody_answers(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--p4runtime", "--gnmi"):
        assert cli.main(["fit", option, "127.0.0.1:1", "--for", "1s"]) == 1
        said = capsys.readouterr().err
        assert len(said.splitlines()) == 1
        assert "127.0.0.1:1" in said


def test_a_switch_that_wants_tls_and_certificates_of_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the options of `ebb-ctl`. Nothing is counted, so an answer is that of no traffic."""
    if not p4switch.SWITCH.exists():
        pytest.skip("no build/ebb-switch: run `make build`")
    key, certificate = self_signed(tmp_path, "127.0.0.1")
    given = (f"--grpc-server-{name}={path}" for name, path in (
        ("cert", certificate), ("key", key), ("cacert", certificate),
    ))  # fmt: skip
    wanted = ["--grpc-server-ssl", *given, "--grpc-server-with-client-auth"]
    ours = ["--cacert", str(certificate), "--cert", str(certificate), "--key", str(key)]
    with p4switch.running(tmp_path, options=["--", *wanted]) as address:
        pushed = [*ours, "program", "push", str(JSON), str(P4INFO)]
        assert ctl.main(["-a", address, "-d", str(DEVICE_ID), *pushed]) == 0
        for words in (
            ["--p4runtime", address, "--device-id", str(DEVICE_ID), "--counter", "port_in"],
            ["--gnmi", address],
        ):
            command = ["bins", *words, "--bin", "20ms", "--for", "60ms"]
            for options, said in ((ours, "no counter has changed"), ([], address)):
                assert cli.main([*command, *options]) == 1
                assert said in capsys.readouterr().err


@pytest.mark.parametrize("words, said", [
    (["--cert", "a", "--key", "b"], "need --cacert"),
    (["--cacert", "a", "--key", "b"], "need each other"),
    (["--cacert", "/no/such"], "cannot read /no/such"),
])  # fmt: skip
def test_certificates_that_cannot_be_used(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for option in ("--p4runtime", "--gnmi"):
        assert cli.main(["fit", option, "127.0.0.1:1", *words]) == 1
        assert said in capsys.readouterr().err


# -- readings, without a switch --------------------------------------------------------------------


def test_counters_that_begin_anew_and_points_that_come_later() -> None:
    a, b = Name("a"), Name("b")
    notes = Notes()
    readings = live.Readings(10, notes)
    for at, counts in enumerate((
        {a: (100, 1)}, {a: (150, 2)}, {a: (20, 1), b: (7, 1)}, {b: (9, 2)}, {a: (50, 3), b: (9, 2)},
    )):  # fmt: skip
        readings.handle(1_000 + 10 * at, 0, counts)
    first, second = readings.series()
    assert (first.start_ns, first.bytes.tolist()) == (1_000, [50, 20, 0, 50])
    assert second.bytes.tolist() == [0, 7, 2, 0]
    assert list(notes) == ["a: its counter began anew; that bin has what came after"]


def test_counters_that_no_link_can_have() -> None:
    a, b = Name("a"), Name("b")
    notes = Notes()
    readings = live.Readings(10, notes)
    for counts in ({a: (0, 0), b: (5, 0)}, {a: (2**63, 1), b: (-7, 0)}, {a: (2**63 + 9, 2)}):
        readings.handle(1_000, 0, counts)
    (series,) = readings.series()
    assert (series.name, series.bytes.tolist(), series.packets.tolist()) == (a, [0, 9], [0, 1])
    assert [f"{name}: no bin can have" in " ".join(notes) for name in (a, b)] == [True, True]


def test_memory_is_bounded_whatever_a_switch_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Points that are others in each reading, and readings without end."""
    fresh = ({Name(f"{at}-{i}"): (at, 0) for i in range(1_000)} for at in range(10**6))
    with pytest.raises(InputError, match="has 5000 points; at most 4096 fit"):
        live.record(lambda: next(fresh), 10 * MS, 50, Notes())
    monkeypatch.setattr(live, "MAX_BINS", 6)
    notes, more = Notes(), iter(range(10**6))
    (series,), _ = live.record(lambda: {CELL: (next(more), 0)}, 10 * MS, 10**6, notes)
    assert len(series) == 6
    assert "all series together have at most 6 bins: reading ended there" in notes


def test_what_was_not_asked_for(client: Client) -> None:
    """A switch that tells of what its P4Info lacks, or of another kind of entity."""
    lacking = p4r.Entity(counter_entry=p4r.CounterEntry(counter_id=7))
    other = p4r.Entity(table_entry=p4r.TableEntry(table_id=client.schema.tables["bridge"].id))
    for entity, said in ((lacking, "does not have"), (other, "another kind of entity")):
        answer = p4r.ReadResponse(entities=[entity])
        client._p4runtime = SimpleNamespace(Read=lambda *_, a=answer, **__: [a])  # type: ignore[assignment]
        with pytest.raises(SwitchError, match=said):
            list(client.read(P4CounterEntry("port_in")))


def test_late_readings_and_lost_switches_are_remarked() -> None:
    notes = Notes()
    live.Readings(10, notes).handle(0, 5, {})
    assert "came late" in next(iter(notes))
    answers = iter([{CELL: (0, 0)}, {CELL: (5, 1)}])

    def read() -> live.Counts:
        try:
            return next(answers)
        except StopIteration:
            raise SwitchError("it is gone") from None

    notes = Notes()
    (series,), _ = live.record(read, 10 * MS, 50, notes)
    assert series.bytes.tolist() == [5]
    assert any("it is gone; what was read before is used" in note for note in notes)


@pytest.mark.parametrize("slot_ns, slots", [(MS, 10), (10**9, 0), (10**9, 2**21)])
def test_bins_that_cannot_be_read_from_outside(slot_ns: int, slots: int) -> None:
    with pytest.raises(InputError):
        live.record(dict, slot_ns, slots, Notes())


def test_ctrl_c_leaves_what_was_read() -> None:
    answers = iter([{CELL: (0, 0)}, {CELL: (5, 1)}, {CELL: (7, 2)}])

    def read() -> live.Counts:
        try:
            return next(answers)
        except StopIteration:
            raise KeyboardInterrupt from None

    (series,), interrupted = live.record(read, 10 * MS, 50, Notes())
    assert series.bytes.tolist() == [5, 2]
    assert interrupted


def test_an_answer_of_gnmi_that_is_no_answer() -> None:
    from finsy.proto import gnmi

    elements = [gnmi.PathElem(name="interface", key={"name": "e\x1b1"})]
    path = gnmi.Path(elem=elements)
    bad = (b"[" * 10_000, b"{}", b"7", json.dumps({"in-octets": "-5"}).encode())
    good = json.dumps({"oc:in-octets": "7", "out-octets": 8, "out-pkts": "x"}).encode()
    answer = gnmi.GetResponse(notification=[
        gnmi.Notification(update=[
            gnmi.Update(path=path, val=gnmi.TypedValue(json_ietf_val=value))
            for value in (*bad, good)
        ])
    ])  # fmt: skip
    name = "e\\x1b1"
    assert live.interface_counts(answer) == {Name(name, "in"): (7, 0), Name(name, "out"): (8, 0)}
