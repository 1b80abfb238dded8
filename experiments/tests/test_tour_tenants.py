"""Packets of tenants against their bounds, after a run under the wall clock."""

from __future__ import annotations

from typing import Any

import pytest
from ebb_experiments.cli import check_tenants
from ebb_experiments.results.tables import Row
from ebb_experiments.results.tenants import promises
from ebb_experiments.scenario.loaded import scenario
from ebb_experiments.tour import tenants
from ebb_experiments.tour.checks import checks
from ebb_experiments.tour.summary import FabricCounts, Round, SchemeResult
from ebb_topologies.files import InputError

COUNTS = FabricCounts(0, 0.0, 0, 0, 0, 0, 0)


def packets(tenant: str, longest_us: float, bound_us: float | None = 500) -> Row:
    return {
        "tenant": tenant,
        "source": f"{tenant}-1",
        "destination": f"{tenant}-2",
        "packets": 10,
        "longest_ns": longest_us * 1e3,
        "bound_ns": None if bound_us is None else bound_us * 1e3,
        "conforms": int(tenant != "bulk"),
    }


def result(late_us: float, *rows: Row) -> SchemeResult:
    return SchemeResult([Round("all", [], COUNTS, tenants=rows, late_ns=late_us * 1e3)])


def claims(name: str, late_us: float, longest_us: float) -> list[bool | None]:
    results = {name: result(late_us, packets("search", longest_us), packets("bulk", 9_000))}
    return [check.holds for check in checks(results) if ", tenant search: " in check.claim]


@pytest.mark.parametrize(
    ("late_us", "longest_us", "kept"),
    [
        (50, 500, True),
        (50, 550, True),  # by what processes were late
        (50, 551, False),
        (501, 501, None),  # the machine was later than the bound
        (501, 499, True),
    ],
)
def test_a_bound_is_kept_within_the_lateness_of_the_machine(
    late_us: float, longest_us: float, kept: bool | None
) -> None:
    assert claims("silo", late_us, longest_us) == [kept]
    without = None if kept is None else not kept
    assert claims("tcp-tenants", late_us, longest_us) == [without]
    # Oktopus promises no delay.
    assert claims("oktopus", late_us, longest_us) == []


@pytest.mark.parametrize(("dropped", "holds"), [(0, False), (90, True), (101, False)])
def test_void_frames_end_at_the_first_hop(dropped: int, holds: bool) -> None:
    once = Round("all", [], COUNTS, voids=(100, dropped))
    found = [
        check.holds for check in checks({"silo": SchemeResult([once])}) if "void" in check.claim
    ]
    assert found == [holds]


def test_the_table_has_all_tenants_with_a_guarantee() -> None:
    results = {"silo": result(50, packets("search", 80), packets("free", 80, None))}
    assert tenants.table(results) is not None
    assert tenants.rows(results) == [
        ["silo", "search", "10", "search-1 -> search-2", "80", "500", "50", "kept"]
    ]
    attack = {"silo": result(50, packets("bulk", 9_000))}
    assert tenants.rows(attack)[0][-1] == "no guarantee: does not conform"
    assert tenants.table({"silo": result(50)}) is None
    assert tenants.markdown({"silo": result(50)}) == ""


def test_a_tenant_that_does_not_conform_has_no_bound_in_virtual_time_either() -> None:
    rows = [packets("search", 501), packets("bulk", 9_000), packets("free", 80, None)]
    bulk, search = promises(rows)
    assert bulk.startswith("tenant bulk: 10 packets, without a guarantee, as it does not conform")
    assert search.startswith("tenant search: 10 packets, later than the bound between 1 of 1 pairs")


def loaded(**keys: Any) -> Any:
    tenant = {"name": "a", "vms": 2, "at": ["h1", "h3"]}
    table = {"schemes": ["silo"], "fat_tree": {"k": 4}, "placement": {"queue_bytes": 62_500}}
    return scenario(table | {"tenant": [tenant]} | keys, "test")


def test_what_cannot_be_run_is_refused_in_one_line() -> None:
    check_tenants(loaded(), "ebb", has_traffic_manager=True)
    with pytest.raises(InputError, match="tenant: guarantees are of links with a rate, which bmv2"):
        check_tenants(loaded(), "bmv2", has_traffic_manager=False)
    phase = {"name": "files", "objects": "files", "workload": {}}
    with pytest.raises(InputError, match=r'phase files: objects = "files": expected "generated"'):
        check_tenants(loaded(phase=[phase]), "ebb", has_traffic_manager=True)


def test_copies_are_tenants_of_their_own() -> None:
    tenant = {"name": "a", "vms": 2, "copies": 2, "at": ["h1", "h3"]}
    found = loaded(tenant=[tenant])
    assert [vm.name for vm in found.topology.vms] == ["a1-1", "a2-1", "a1-2", "a2-2"]
