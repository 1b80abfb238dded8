"""Traffic volume of a link: the fit, the rate to provision, and what of it is told."""

from __future__ import annotations

from collections.abc import Iterator
from math import exp
from random import Random

import pytest
from ebb_dashboard.picture import Place, Wire
from ebb_dashboard.volume import EPSILON, LEAST_SLOTS, MAX_POINTS, LinkVolumes, fitted
from ebb_experiments.results.tables import Row

LINK = Wire(Place("h1", None), Place("s1", 1))
SLOT_NS = 1_000_000


def rows(volumes: list[int], *, point: str = "s1:1", round: int = 0, **keys: str) -> Iterator[Row]:
    """A table of one port, with a second class that sends one byte more."""
    head = {"scheme": "ndp", "phase": "all", "round": round, "slot_ns": SLOT_NS} | keys
    for number, size in enumerate(volumes):
        slot = head | {"slot_start_ns": number * SLOT_NS, "point": point, "packets": 1}
        yield slot | {"class": 0, "bytes": size}
        yield slot | {"class": 7, "bytes": 1}


def test_the_law_of_known_volumes_is_found() -> None:
    random = Random(1)
    law = fitted(random.lognormvariate(10, 0.5) for _ in range(20_000))
    assert law is not None
    assert law.mu == pytest.approx(10, abs=0.02)
    assert law.sigma == pytest.approx(0.5, abs=0.02)
    assert law.quantile(0.5) == pytest.approx(exp(law.mu))
    assert law.share_below(law.quantile(1 - EPSILON)) == pytest.approx(1 - EPSILON)


def test_there_is_no_law_of_few_or_equal_volumes() -> None:
    assert fitted([]) is None
    assert fitted(range(1, LEAST_SLOTS)) is None
    assert fitted([0] * 100 + [5, 6]) is None
    assert fitted([7] * 100) is None


def test_classes_are_added_and_the_line_keeps_the_exceedance() -> None:
    random = Random(2)
    sizes = [round(random.lognormvariate(10, 0.5)) for _ in range(4_000)]
    volumes = LinkVolumes()
    volumes.add(rows(sizes))
    (told,) = volumes.of(LINK)["series"]
    assert (told["place"], told["scheme"], told["phase"]) == ("s1:1", "ndp", "all")
    assert told["mean_bps"] == pytest.approx(
        sum(size + 1 for size in sizes) * 8e9 / 4_000 / SLOT_NS
    )
    assert told["provisioned_bps"] > told["mean_bps"]
    assert told["exceeded"] == pytest.approx(EPSILON, abs=0.005)
    assert max(told["bps"]) == (max(sizes) + 1) * 8e9 / SLOT_NS  # the peak is told
    assert len(told["t_ns"]) == len(told["bps"]) <= MAX_POINTS
    assert len(told["busy_bps"]) == len(told["fit"]) == MAX_POINTS
    assert told["fit"] == sorted(told["fit"])


def test_other_links_and_later_rounds_are_left_out() -> None:
    volumes = LinkVolumes()
    volumes.add([*rows([10, 20]), *rows([99] * 5, round=1), *rows([7], point="s1:2")])
    (told,) = volumes.of(LINK)["series"]
    assert told["slots"] == 2 and told["idle"] == 0
    assert (told["fit"], told["provisioned_bps"], told["exceeded"]) == (None, None, None)
    assert volumes.of(Wire(Place("s9", 1), Place("s8", 1))) == {"series": []}


def test_a_scheme_that_runs_again_takes_its_place() -> None:
    volumes = LinkVolumes()
    volumes.add(rows([10, 20, 30]))
    volumes.add(rows([10]))
    volumes.add(rows([10], scheme="hull"))
    told = volumes.of(LINK)["series"]
    assert [(each["scheme"], each["slots"]) for each in told] == [("ndp", 1), ("hull", 1)]
