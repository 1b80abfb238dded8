"""Tenants of a scenario: where their virtual machines are, and what is refused before a run."""

from __future__ import annotations

from typing import Any

import pytest
from ebb_controller.prefixes import routes
from ebb_experiments.scenario.loaded import Loaded, scenario
from ebb_topologies.files import InputError

MESSAGES = {
    "pattern": "all-to-one",
    "size": {"type": "fixed", "bytes": 2_000},
    "arrivals": {"type": "once"},
}
TENANT = {
    "name": "a",
    "vms": 3,
    "rate_bps": 50_000_000,
    "burst_bytes": 3_076,
    "peak_bps": 500_000_000,
    "at": ["h1", "h1", "h3"],
    "messages": [MESSAGES],
}
PLACEMENT = {"queue_bytes": 62_500, "vms_per_host": 2}


def loaded(changes: dict[str, Any], **more: Any) -> Loaded:
    table = {"schemes": ["silo", "tcp-tenants"], "fat_tree": {"k": 4}, "placement": PLACEMENT}
    return scenario(table | {"tenant": [TENANT | changes]} | more, "test")


def test_vms_have_addresses_routes_and_contracts() -> None:
    found = loaded({})
    topology = found.topology
    assert [(vm.name, vm.machine, vm.ip) for vm in topology.vms] == [
        ("a-1", "h1", "100.64.0.1"),
        ("a-2", "h1", "100.64.0.2"),
        ("a-3", "h3", "100.64.2.1"),
    ]
    assert [host.name for host in topology.members][:3] == ["h2", "h4", "h5"]
    port = topology.attachment(topology.host("h1")).port
    assert ("100.64.0.2/32", (port,)) in list(routes(topology, "p0e0"))
    assert found.schemes["tcp-tenants"].fabric.policing is None
    policing = found.schemes["silo"].fabric.policing
    assert policing is not None
    (contract,) = policing.contract
    # The interface may hold a packet for 500 us.
    assert (contract.hosts, contract.guarantee_bps) == (["a-1", "a-2", "a-3"], 50_000_000)
    assert contract.burst_bytes == 3_076 + 50_000_000 * 500 // 8_000_000


def test_the_scheme_says_what_hosts_do() -> None:
    found = loaded({})
    assert found.tenancy is not None
    by_host = found.tenancy.entries(found.schemes["silo"], found.topology)
    vm = by_host["h3"][0]
    # Two peers with a message of 84 bytes each way every ms.
    assert vm["receive_bps"] == 50_000_000 - 2 * 2 * 84 * 8 * 1_000
    assert (vm["dscp"], vm["guarantee"]["burst_bytes"]) == (34, 3_076)
    by_host = found.tenancy.entries(found.schemes["tcp-tenants"], found.topology)
    assert by_host["h3"] == [{"name": "a-3", "ip": "100.64.2.1", "dscp": 0}]


def test_a_tenant_that_does_not_conform_is_in_its_class_without_a_pacer() -> None:
    found = loaded({"conforms": False})
    assert found.tenancy is not None
    by_host = found.tenancy.entries(found.schemes["silo"], found.topology)
    assert by_host["h3"] == [{"name": "a-3", "ip": "100.64.2.1", "dscp": 34}]


def test_tenants_may_be_placed_by_rates_or_slots_alone_and_have_no_bound_then() -> None:
    """Bursts of four machines to one are more than a queue holds, and rates are less than a link
    carries."""
    bursts = {"rate_bps": 100_000_000, "burst_bytes": 15_000, "vms": 5, "hosts": 5, "at": None}
    fast = {"rate_bps": 600_000_000, "peak_bps": 600_000_000}
    by_hand = [TENANT | fast, TENANT | fast | {"name": "b"}]

    def placed(algorithm: str, *tenants: dict[str, Any]) -> Loaded:
        placement = PLACEMENT | {"algorithm": algorithm, "vms_per_host": 4}
        return loaded({}, tenant=tenants, placement=placement)

    with pytest.raises(InputError, match="queue bound"):
        placed("silo", TENANT | bursts)
    for algorithm in ("oktopus", "okto+"):
        found = placed(algorithm, TENANT | bursts).tenancy
        assert found is not None and found.bound_ns("a-1", "a-5") is None
        with pytest.raises(InputError, match="guaranteed rates 600,000,000"):
            placed(algorithm, *by_hand)
    assert placed("locality", *by_hand).tenancy is not None


@pytest.mark.parametrize(
    ("tenant", "more", "text"),
    [
        ({"rate_bps": 2 * 10**9, "peak_bps": 2 * 10**9}, {}, "more than the 1,000,000,000 bit/s"),
        ({"burst_bytes": 1_500}, {}, "burst_bytes = 1500 is less than a packet of 1538 bytes"),
        ({"peak_bps": 1_000_000}, {}, "is below rate_bps"),
        ({"delay_ns": 1_000, "hosts": 2}, {}, "delay_ns = 1,000 is impossible"),
        ({"at": ["h1", "h1"]}, {}, "at names 2 hosts for 3 VMs"),
        ({"at": ["h1", "h1", "h99"]}, {}, "tenant a: at: topology fat-tree-k4 has no host 'h99'"),
        ({"at": ["h1", "h1", "h1"]}, {}, "3 VMs on h1, which has 2 free slots"),
        ({"rate_bps": 4_000_000}, {}, "raise placement.hose_ns"),
        ({}, {"placement": PLACEMENT | {"batch_ns": 1_000}}, "batch_ns = 1000: expected at least"),
        ({}, {"placement": PLACEMENT | {"queue_bytes": 2_000}}, "hold no packet"),
        ({}, {"placement": PLACEMENT | {"queue_bytes": 10**6}}, "holds 384500"),
        ({"rate_bps": 400_000_000, "vms": 6, "at": None}, {}, "tenant a is refused"),
        ({}, {"placement": None}, "placement.queue_bytes is missing"),
        ({}, {"tenant": [TENANT, TENANT]}, "two tenants are named a"),
        ({}, {"tenant": []}, "[[tenant]] alone"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    tenant: dict[str, Any], more: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError) as refused:
        loaded(tenant, **more)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)
