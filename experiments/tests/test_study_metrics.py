"""Metrics and claims on tables made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ebb_experiments.study.claims import check
from ebb_experiments.study.metric_spec import Delay, Flows, Jobs, Network, Port, TenantMessages
from ebb_experiments.study.metrics import (
    EBB_HEADER_BYTES,
    ETHERNET_BYTES,
    HEADER_BYTES,
    histogram_percentile,
    row,
    sample,
    spread,
    value,
)
from ebb_experiments.study.report import unended_lines
from ebb_topologies.model import Topology, from_table
from study_tables import experiment, flow, tables

COMMON: dict[str, Any] = {"label": "", "unit": ""}


@pytest.fixture
def rack() -> Topology:
    links = {"rate_bps": 1_000_000_000, "delay_ns": 10_000}
    return from_table({"single_rack": {"hosts": 3}, "link_defaults": links}, "rack")


def test_sizes_of_headers_are_those_of_frames() -> None:
    """Frames of docs/wire-vectors.json, which `common/wire` is tested against too."""
    page = Path(__file__).resolve().parents[2] / "docs/wire-vectors.json"
    sizes: dict[str, set[int]] = {}
    for vector in json.loads(page.read_text()):
        fields = vector["fields"]
        around = len(vector["frame"]) // 2 - fields["payload_bytes"]
        for protocol in fields.keys() & {"tcp", "ebb"}:
            sizes.setdefault(protocol, set()).add(around)
    assert sizes == {"tcp": {HEADER_BYTES}, "ebb": {ETHERNET_BYTES + EBB_HEADER_BYTES}}


def test_flows_are_chosen_by_traffic_size_and_destination(tmp_path: Path, rack: Topology) -> None:
    rows = [
        flow(0, took=1_000, bytes=100),
        flow(1, took=2_000, bytes=101),
        flow(2, took=4_000, bytes=200, traffic="other"),
        flow(3, took=8_000, bytes=200, destination="h3"),
        flow(4, bytes=150, status="unfinished", fct_ns=None),
    ]
    found = tables(tmp_path, flows=rows)

    def mean(**keys: Any) -> float | None:
        return value(Flows(of="fct", stat="mean", **keys, **COMMON), found, rack, 1500)

    assert mean() == 3_750
    assert mean(traffic="t") == pytest.approx(11_000 / 3)
    assert mean(above_bytes=100, up_to_bytes=101) == 2_000
    assert mean(destination="h3") == 8_000
    assert mean(traffic="none") is None
    assert value(Network(of="finished", **COMMON), found, rack, 1500) == 0.8


def test_shares_sums_and_counts_above_a_limit(tmp_path: Path, rack: Topology) -> None:
    found = tables(tmp_path, flows=[flow(i, decodes=i % 2 * 3, took=i * 1e3) for i in range(1, 5)])

    def number(of: str, **keys: Any) -> float | None:
        metric = Flows.model_validate({"of": of, **COMMON, **keys})
        return value(metric, found, rack, 1500)

    assert number("decodes", stat="share", scale=100) == 50
    assert number("decodes", stat="sum") == 6
    assert number("fct", stat="above", limit=2, scale=1e-3) == pytest.approx(2)
    assert number("fct", stat="p50") == 2_000
    assert number("fct", stat="p99") == 4_000


def test_flows_of_the_start_need_not_count(tmp_path: Path, rack: Topology) -> None:
    rows = [flow(i, took=i * 1e3, offered_at_ns=i * 100.0) for i in range(1, 4)]
    metric = Flows(of="fct", stat="mean", after_ns=200, **COMMON)
    assert value(metric, tables(tmp_path, flows=rows), rack, 1500) == 2_500


def test_tenants_are_counted_by_the_names_of_their_messages(tmp_path: Path, rack: Topology) -> None:
    rows = [
        *(flow(i, took=1_000, traffic="a1") for i in range(3)),
        flow(3, took=5_000, traffic="a1"),
        flow(4, took=1_000, traffic="a2", timeouts=1),
        flow(5, took=9_000, traffic="b1", timeouts=1),
        flow(6, traffic="a3", status="unfinished", fct_ns=None),
    ]
    found = tables(tmp_path, flows=rows)

    def share(of: str, limit: float, **more: str) -> float | None:
        keys = {"of": of, "traffic": "a*", "limit": limit, **COMMON, **more}
        return value(TenantMessages.model_validate(keys), found, rack, 1500)

    assert share("tenants-beyond", 4_000) == pytest.approx(2 / 3)
    assert share("tenants-beyond", 5_000) == pytest.approx(1 / 3)
    assert share("tenants-beyond", 1_999, stat="mean") == pytest.approx(2 / 3)
    assert share("tenants-beyond", 2_000, stat="mean") == pytest.approx(1 / 3)
    assert share("tenants-with-timeouts", 0.5) == pytest.approx(2 / 3)
    mean = Flows(of="fct", stat="mean", traffic="a*", **COMMON)
    assert value(mean, found, rack, 1500) == pytest.approx(9_000 / 5)


def test_percentiles_of_tenants_are_nearest_ranks(tmp_path: Path, rack: Topology) -> None:
    """The 99th of 100 messages, not the longest."""
    rows = [flow(i, took=1_000 * (i + 1), traffic="a1") for i in range(100)]
    found = tables(tmp_path, flows=rows)
    keys = {"of": "tenants-beyond", "traffic": "a*", **COMMON}
    for limit, share in ((98_999, 1), (99_000, 0)):
        metric = TenantMessages.model_validate({**keys, "limit": limit})
        assert value(metric, found, rack, 1500) == share


def test_slowdown_is_one_for_a_flow_alone(tmp_path: Path, rack: Topology) -> None:
    # One packet of 1054 bytes over two links of 10 us.
    alone = 2 * (1_054 * 8 + 10_000)
    found = tables(tmp_path, flows=[flow(0, took=alone), flow(1, took=3 * alone)])
    metric = Flows(of="slowdown", stat="mean", **COMMON)
    assert list(sample(metric, found, rack, 1500)) == [1, 3]


def test_a_job_ends_with_its_last_transfer_and_replicas_count_once(
    tmp_path: Path, rack: Topology
) -> None:
    rows = [
        flow(0, job=0, took=8_000),
        flow(1, job=0, took=16_000, destination="h3"),
        flow(2, job=2, took=4_000),
        flow(3, job=3, status="failed"),
    ]
    found = tables(tmp_path, flows=rows)

    def number(**keys: Any) -> list[float]:
        metric = Jobs.model_validate({"traffic": "t", "stat": "mean", **COMMON, **keys})
        return list(sample(metric, found, rack, 1500))

    assert number(of="completion") == [16_000, 4_000]
    # 1000 bytes in 16 us are 0.5 Gbit/s; a job that did not end has no goodput.
    assert number(of="job-goodput", bytes="once") == [5e8, 2e9, 0]
    assert number(of="job-goodput", bytes="each") == [1e9, 2e9, 0]


def test_delay_is_of_the_port_to_the_peer(tmp_path: Path, rack: Topology) -> None:
    place = {"switch": "s1", "port": 1, "peer": "h1"}
    queues = [
        {**place, "queue": 0, "dequeued_packets": 30, "average_delay_ns": 100.0, "max_delay_ns": 9},
        {**place, "queue": 1, "dequeued_packets": 10, "average_delay_ns": 500.0, "max_delay_ns": 7},
        {**place, "peer": "h2", "queue": 0, "dequeued_packets": 5, "average_delay_ns": 9e9,
         "max_delay_ns": 9e9},
    ]  # fmt: skip
    ports = [{**place, "transmitted_bytes": 1_000, "busy_ns": 8_000, "utilisation": 0.5}]
    found = tables(tmp_path, queues=queues, ports=ports)
    assert value(Delay(of="switch-delay", stat="mean", peer="h1", **COMMON), found, rack, 1) == 200
    assert value(Delay(of="switch-delay", stat="max", peer="h1", **COMMON), found, rack, 1) == 9
    assert value(Port(of="throughput", peer="h1", **COMMON), found, rack, 1) == 5e8


def test_delay_of_an_instant_is_0_while_the_port_is_idle(tmp_path: Path, rack: Topology) -> None:
    place = {"switch": "s1", "port": 1, "peer": "h1"}
    queues = [
        {**place, "queue": 0, "dequeued_packets": 100, "average_delay_ns": 100.0, "max_delay_ns": 9,
         "average_depth_bytes": 2.5},
    ]  # fmt: skip
    ports = [{**place, "rate_bps": 1_000_000_000, "busy_ns": 4_000, "utilisation": 0.2}]
    delays = [
        {**place, "queue": 0, "from_ns": low, "below_ns": low * 1.01, "packets": packets}
        for low, packets in ((10.0, 90), (1_000.0, 10))
    ]
    found = tables(tmp_path, queues=queues, ports=ports, delays=delays)

    def delay(stat: str, of_each: str) -> float | None:
        keys = {"of": "switch-delay", "peer": "h1", "stat": stat, "of_each": of_each}
        return value(Delay.model_validate(keys | COMMON), found, rack, 1)

    assert (delay("mean", "packet"), delay("mean", "instant")) == (100, 20)
    # A tenth of the packets waited 1000 ns: so does an instant of 50.
    assert delay("p99", "packet") == pytest.approx(1_000, rel=0.02)
    assert delay("p99", "instant") == pytest.approx(1_000, rel=0.02)
    assert delay("p90", "packet") == pytest.approx(10, rel=0.02)
    assert (delay("p50", "instant"), delay("p50", "packet")) == (0, pytest.approx(10, rel=0.02))


def test_a_probe_waits_for_the_rest_of_the_packet_being_sent(
    tmp_path: Path, rack: Topology
) -> None:
    place = {"switch": "s1", "port": 1, "peer": "h1"}
    queues = [{**place, "queue": 0, "dequeued_packets": 9, "average_depth_bytes": 0.0}]
    ports = [{**place, "rate_bps": 1_000_000_000, "busy_ns": 1, "utilisation": 0.5,
              "transmitted_bytes": 15_140, "transmitted_packets": 10}]  # fmt: skip
    delays = [{**place, "queue": 0, "from_ns": 0.0, "below_ns": 1.0, "packets": 9}]
    found = tables(tmp_path, queues=queues, ports=ports, delays=delays)

    def delay(stat: str, of_each: str) -> float | None:
        keys = {"of": "switch-delay", "peer": "h1", "stat": stat, "of_each": of_each}
        return value(Delay.model_validate(keys | COMMON), found, rack, 1_500)

    assert delay("mean", "probe") == pytest.approx(0.5 * 12_112 / 2)
    assert (delay("p99", "packet"), delay("p99", "instant"), delay("p50", "probe")) == (0, 0, 0)
    assert delay("p99", "probe") == pytest.approx(0.98 * 12_112, rel=0.02)


def test_probes_wait_as_packets_do_that_arrive_at_random() -> None:
    """M/D/1: Poisson arrivals see what there is on average over time."""
    load, sending = 0.6, 1_000.0
    waits = [0.0]
    for gap in np.random.default_rng(1).exponential(sending / load, 100_000):
        waits.append(max(0.0, waits[-1] + sending - gap))
    waited = np.array(waits)
    low, high, packets = spread(waited, waited * 1.0001, np.ones(len(waited)), sending)
    for share in (0.7, 0.9, 0.99):
        probes = histogram_percentile(low, high, packets, 1 - (1 - share) / load)
        assert probes == pytest.approx(np.quantile(waited, share), rel=0.05)


def test_delay_of_instants_is_that_of_one_port() -> None:
    with pytest.raises(ValueError, match="needs a peer"):
        Delay.model_validate({"of": "switch-delay", "stat": "mean", "of_each": "instant"} | COMMON)


def test_percentiles_inside_a_bucket_are_logarithmic() -> None:
    low, high = np.array([0.0, 1.0, 4.0]), np.array([1.0, 4.0, 16.0])
    packets = np.array([0.0, 50.0, 50.0])
    assert histogram_percentile(low, high, packets, 0.25) == pytest.approx(2)
    assert histogram_percentile(low, high, packets, 0.75) == pytest.approx(8)
    assert histogram_percentile(low, high, packets, 1.0) == pytest.approx(16)
    assert histogram_percentile(low, high, np.zeros(3), 0.5) is None


# -- flows that did not end ------------------------------------------------------------------------


def test_flows_that_did_not_end_are_told_with_the_numbers_that_leave_them_out(
    tmp_path: Path, rack: Topology
) -> None:
    open_ = "unfinished at the end of the run: {} of 1000 bytes have arrived"
    rows = [
        *(flow(i) for i in range(6)),
        *(flow(i, status="unfinished", reason=open_.format(i)) for i in (6, 7)),
        flow(8, status="failed", reason="sender: connection reset by the peer"),
        flow(9, status="not-started", traffic="other"),
    ]
    names = {
        "fct": Flows(of="fct", stat="mean", **COMMON),
        "jobs": Jobs(of="completion", stat="p99", traffic="t", **COMMON),
        "lost": Network(of="lost", **COMMON),
    }
    found = row(names, tables(tmp_path, flows=rows), "dctcp", 1, {}, rack, 1500)
    assert found["ended"] == {"fct": 0.6, "jobs": pytest.approx(2 / 3)}
    assert (found["flows"], found["unended"]) == (
        10,
        {open_.format("N").replace("1000", "N"): 2, "not-started": 1, rows[8]["reason"]: 1},
    )
    claim = {"text": "c", "expression": 'fct("dctcp")', "published": 1, "band": [0, 1e9]}
    made = experiment(claim=[claim])
    (checked,) = check(made, [found], [], None)
    assert checked.ended == 0.6
    assert "of a trial only 60 % of the flows ended; the others are left out" in checked.notes
    (line,) = unended_lines(made, [found, found])
    assert ": 8 of 20 flows. unfinished" in line and "(4); " in line
    whole = row(names, tables(tmp_path, flows=rows[:6]), "dctcp", 1, {}, rack, 1500)
    assert (check(made, [whole], [], None)[0].notes, unended_lines(made, [whole])) == (
        ["one trial"],
        [],
    )
