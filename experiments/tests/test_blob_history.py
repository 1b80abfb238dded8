"""The check of histories of the blob store: what can have happened passes, what cannot is found."""

from __future__ import annotations

import pytest
from ebb_experiments.blobs.history import INFINITY, Operation, linearize, unfounded_conflicts
from ebb_experiments.blobs.plan import CLIENTS, REPLICAS, plan


def put(name: str, began: float, ended: float, content: str, version: int) -> Operation:
    return Operation("put", began, ended, name, content, version)


def may(name: str, began: float, content: str) -> Operation:
    return Operation("may-put", began, INFINITY, name, content)


def get(name: str, began: float, ended: float, content: str = "", version: int = 0) -> Operation:
    return Operation("get", began, ended, name, content, version)


def shown(began: float, ended: float, *listed: tuple[str, int]) -> Operation:
    return Operation("list", began, ended, listed=listed)


@pytest.mark.parametrize(
    "history",
    [
        [],
        [put("a", 0, 10, "x", 1), get("a", 5, 6), get("a", 7, 8, "x", 1)],
        [put("a", 0, 10, "x", 2), put("a", 5, 8, "y", 1), get("a", 11, 12, "x", 2)],
        [may("a", 0, "x"), may("a", 0, "y"), get("a", 50, 51, "y", 1)],
        [put("a", 0, 1, "x", 1), put("b", 2, 9, "y", 1), shown(3, 4, ("a", 1))],
    ],
)
def test_operations_at_the_same_time_have_some_order(history: list[Operation]) -> None:
    order = linearize(history)
    assert order is not None
    assert len(set(order)) == len(order)


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([put("a", 0, 1, "x", 1), get("a", 2, 3)], id="lost put"),
        pytest.param(
            [put("a", 0, 1, "x", 1), put("a", 2, 3, "y", 2), get("a", 4, 5, "x", 1)], id="old"
        ),
        pytest.param(
            [
                put("a", 0, 1, "x", 1),
                put("a", 2, 9, "y", 2),
                get("a", 3, 4, "y", 2),
                get("a", 5, 6, "x", 1),
            ],
            id="back to old",
        ),
        pytest.param([put("a", 0, 9, "x", 1), put("a", 0, 9, "y", 1)], id="two winners"),
        pytest.param([may("a", 0, "x"), get("a", 2, 3, "x", 1), get("a", 4, 5)], id="seen, gone"),
        pytest.param(
            [
                put("a", 0, 1, "x", 1),
                put("a", 2, 3, "y", 2),
                put("b", 4, 9, "z", 1),
                shown(4, 9, ("a", 1), ("b", 1)),
            ],
            id="list of two moments",
        ),
        pytest.param([get("a", 0, 1, "mixed", 1)], id="content of nobody"),
    ],
)
def test_impossible_histories_are_found(history: list[Operation]) -> None:
    assert linearize(history) is None


def test_a_conflict_needs_another_put_of_the_name_meanwhile() -> None:
    lost = Operation("lost", 5, 9, "a")
    assert unfounded_conflicts([lost, put("a", 0, 4, "x", 1)]) == [lost]
    assert unfounded_conflicts([lost, put("b", 5, 9, "x", 1)]) == [lost]
    assert unfounded_conflicts([lost, put("a", 0, 6, "x", 1)]) == []


def test_a_plan_follows_from_its_seed_and_no_host_has_two_faults_at_once() -> None:
    kinds = set()
    for seed in range(40):
        made = plan(seed)
        assert made == plan(seed)
        assert set(made.operations) == set(CLIENTS)
        assert made.faults
        for number, fault in enumerate(made.faults):
            kinds.add(fault.kind)
            assert fault.host in (CLIENTS if fault.kind == "kill-client" else REPLICAS)
            for other in made.faults[number + 1 :]:
                apart = other.at_seconds > fault.at_seconds + fault.for_seconds
                assert apart or other.host != fault.host
    assert len(kinds) == 7
