"""The storage phase: who takes part, how its records are read, its table and its checks."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from ebb_experiments.checks import checks
from ebb_experiments.measure import FabricCounts, Flow
from ebb_experiments.report import STORAGE_COLUMNS, markdown, storage_row, storage_table
from ebb_experiments.scenario import Storage, StorageRoles, load_scenario
from ebb_experiments.storage import StorageResult, Transfer, _to, _together
from ebb_experiments.tour import Round, SchemeResult
from ebb_topologies.files import InputError
from ebb_topologies.model import from_table

FAT_TREE = from_table({"fat_tree": {"k": 4}}, "test")
SCENARIO = """
topology = "topology.toml"
schemes = ["scdp"]
[incast]
senders = 2
"""


def scenario_file(directory: Path, more: str, topology: str = "[fat_tree]\nk = 4\n") -> Path:
    (directory / "topology.toml").write_text(topology)
    path = directory / "scenario.toml"
    path.write_text(SCENARIO + more)
    return path


def test_replicas_are_in_different_pods_and_nobody_has_two_roles() -> None:
    roles = StorageRoles.of(FAT_TREE, Storage())
    assert [str(host.ip).split(".")[1] for host in roles.replicas] == ["1", "2", "3"]
    for hosts in range(8, 17):
        topology = from_table({"single_rack": {"hosts": hosts}}, "test")
        roles = StorageRoles.of(topology, Storage(replicas=3, incast_senders=4))
        names = {h.name for h in (roles.client, *roles.replicas, *roles.incast)}
        assert len(names) == 8, hosts


def test_the_replicas_are_a_group_beside_those_of_the_file(tmp_path: Path) -> None:
    derived, given = '[[group]]\nreceivers = ["h1", "h6"]\n', '[[group]]\nreceivers = ["h2"]\n'
    given += 'address = "239.9.9.9"\n'
    groups = load_scenario(scenario_file(tmp_path, f"[storage]\n{derived}{given}")).groups
    assert [(group.address, group.group) for group in groups[:2]] == [
        ("239.93.176.22", 1), ("239.9.9.9", 2),
    ]  # fmt: skip
    assert groups[2].members == ("h5", "h9", "h13")
    assert load_scenario(scenario_file(tmp_path, "")).groups == []


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ('[[group]]\nreceivers = ["h99"]\n', "has no host 'h99'"),
        ('[[group]]\nreceivers = ["h1"]\naddress = "10.0.0.1"\n', "not an IPv4 multicast address"),
        ('[storage]\n[[group]]\nreceivers = ["h13", "h9", "h5"]\n', "two multicast groups"),
        ("[storage]\nincast_senders = 13\n", "needs 17"),
        ("[storage]\nreplicas = 1\n", "greater than or equal to 2"),
    ],
)
def test_groups_that_cannot_be_are_named(tmp_path: Path, more: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_scenario(scenario_file(tmp_path, more))


GROUP = {"peer": "239.1.2.3:7000", "receivers": 3}
STRAGGLER = {"peer": "10.0.0.3:7000"}
NEIGHBOUR = {"peer": "10.0.0.30:7000"}


def test_the_record_of_a_replica_is_that_of_its_group_or_its_own() -> None:
    assert _to([GROUP, STRAGGLER], "10.0.0.3") is GROUP
    assert _to([NEIGHBOUR, STRAGGLER], "10.0.0.3") is STRAGGLER


def test_several_senders_count_as_one_that_began_with_the_first() -> None:
    one = {"started_at_ns": 7, "status": "finished", "object_bytes": 9, "timeouts": 1}
    two = one | {"started_at_ns": 5, "timeouts": 2, "returned": 3}
    together = _together([one, two], 100)
    assert (together["started_at_ns"], together["object_bytes"]) == (5, 100)
    assert (together["timeouts"], together["returned"], together["status"]) == (3, 3, "finished")
    failed = _together([one, two | {"status": "failed", "reason": "peer vanished"}], 100)
    assert (failed["status"], failed["reason"]) == ("failed", "peer vanished")


FLOW = Flow(1_000_000, 1e6, 9e6, 0, 0, 2, 0, ok=True)
QUIET = FabricCounts(1000, 100.0, 0, 10, 0, 0, 0)


def stored(end_ns: float, sent_bytes: int, *, ok: bool = True) -> StorageResult:
    flows = [replace(FLOW, finished_ns=end_ns / 2), replace(FLOW, finished_ns=end_ns, ok=ok)]
    transfer = Transfer(flows, 1_000_000, sent_bytes, QUIET)
    return StorageResult(transfer, transfer, [FLOW])


def result(storage: StorageResult | None) -> SchemeResult:
    return SchemeResult(FLOW, QUIET, [Round([FLOW], [FLOW], QUIET)], storage)


def test_goodput_counts_the_object_once_until_the_last_host_has_it() -> None:
    write = stored(11e6, 3_000_000).write
    assert write.span_ns == 10e6
    assert math.isclose(write.goodput_fraction(10**9), 0.8)
    assert stored(11e6, 1, ok=False).write.goodput_fraction(10**9) == 0


def test_the_table_has_a_cell_per_column() -> None:
    cells = storage_row("scdp", stored(11e6, 1_100_000), 10**9)
    assert cells == ["scdp", "80.0", "80.0", "1.10", "1.10", "0", "20", "0", "8"]
    assert len(cells) == len(STORAGE_COLUMNS)
    results = {"dctcp": result(None), "scdp": result(stored(11e6, 1_100_000))}
    text = markdown(results, 10**9).partition("\n\n")[2].splitlines()
    assert len(text) == 3
    assert len({line.count("|") for line in text}) == 1
    assert storage_table({"dctcp": result(None)}, 10**9, "") is None


def test_each_claim_can_hold_and_fail() -> None:
    def verdicts(scdp: StorageResult, ndp: StorageResult) -> list[bool | None]:
        results = {"scdp": result(scdp), "ndp": result(ndp)}
        return [c.holds for c in checks(results) if "replicas" in c.claim]

    good, slow = stored(11e6, 1_100_000), stored(31e6, 3_000_000)
    assert verdicts(good, slow) == [True, True]
    assert verdicts(slow, good) == [False, False]
    assert verdicts(good, stored(31e6, 1, ok=False)) == [True, False]
    failed = {
        check.claim: check.holds for check in checks({"scdp": result(stored(1e7, 1, ok=False))})
    }
    assert failed["scdp: every object arrived with the right SHA-256"] is False
