"""Small models in experiments/digs that stand beside the simulator's results."""

import runpy
from pathlib import Path
from typing import Any

DIGS = Path(__file__).resolve().parents[1] / "digs"


def dctcp_phase() -> dict[str, Any]:
    return runpy.run_path(str(DIGS / "dctcp_phase.py"))


def test_two_dctcp_flows_are_locked_at_unequal_rates_where_nothing_is_random() -> None:
    model = dctcp_phase()
    rates = model["Port"](threshold_packets=20).run(0.7)
    assert len(rates) == 30
    assert model["jain"](rates) < 0.85
    assert all(abs(sum(pair) - 949) < 12 for pair in rates), "the link is full all the same"


def test_a_tenth_of_a_microsecond_of_jitter_frees_them() -> None:
    model = dctcp_phase()
    assert model["jain"](model["Port"](threshold_packets=20, jitter_ns=100).run(0.7)) > 0.98


def test_so_does_an_acknowledgment_for_each_packet_or_a_window_of_parts_of_packets() -> None:
    model = dctcp_phase()
    for keys in ({"ack_every": 1}, {"whole": False}):
        assert model["jain"](model["Port"](threshold_packets=20, **keys).run(0.7)) > 0.98, keys


def test_log_normal_volumes_need_flows_of_different_rates_and_many_bins() -> None:
    winners = runpy.run_path(str(DIGS / "volume_rates.py"))["winners"]
    assert winners(3, 6000, equal=False) == {"log-normal": 3}
    assert winners(3, 6000, equal=True)["log-normal"] == 0
    assert winners(3, 1000, equal=False)["log-normal"] < 3


def test_no_placement_admits_a_third_of_class_a_with_49_vms_on_average() -> None:
    refused = runpy.run_path(str(DIGS / "silo_receiver_port.py"))["refused"]
    assert refused(49, 15_000) > 33
    assert refused(10, 15_000) < 3
