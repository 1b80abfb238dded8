"""From the counters of two samples to what is shown."""

from __future__ import annotations

from ebb_controller import ebb_tm_pb2 as tm
from ebb_dashboard.picture import Port
from ebb_dashboard.statistics_delta import StatisticsDelta

PORTS = [Port("s1", 1, 0, 0), Port("s1", 2, 1, 0), Port("s2", 1, 1, 1)]


def stats(time_ns: int, busy_ns: int = 0, depth: int = 0, **counts: int) -> tm.Stats:
    """Port 1 of a switch, with counts by the name of their field."""
    queue = tm.QueueStats(queue=0, depth_bytes=depth, max_depth_bytes=counts.get("longest", depth))
    queue.deflected.packets = counts.get("deflected", 0)
    queue.ecn_ce.packets = counts.get("ecn_ce", 0)
    queue.egress_dropped.packets = counts.get("egress_dropped", 0)
    queue.pruned.packets = counts.get("pruned", 0)
    queue.pauses_received = counts.get("pauses", 0)
    queue.drops.add(reason="queue-full").count.packets = counts.get("full", 0)
    message = tm.Stats(time_ns=time_ns)
    message.ports.add(port=1, busy_ns=busy_ns).queues.append(queue)
    if counts.get("outside"):
        message.drops.add(port=1, reason="link-down").count.packets = counts["outside"]
    if counts.get("corrupt"):
        message.drops.add(port=1, reason="link-corrupt").count.packets = counts["corrupt"]
    return message


def test_the_first_look_tells_depths_only() -> None:
    sample = StatisticsDelta(PORTS).take(
        {"s1": stats(1000, busy_ns=900, depth=70, full=5, outside=2)}
    )
    assert sample == {"utilisation": [0, 0, 0], "queue": [70, 0, 0], "events": []}


def test_a_look_tells_what_was_counted_since_the_last() -> None:
    statistics = StatisticsDelta(PORTS)
    statistics.take({"s1": stats(1000, busy_ns=100, full=5, outside=2, ecn_ce=1)})
    later = stats(
        *(2000, 850, 3000),
        **{"full": 6, "outside": 4, "egress_dropped": 1, "deflected": 7, "ecn_ce": 1, "pauses": 2},
    )
    sample = statistics.take({"s1": later, "s2": stats(2000)})
    assert sample["utilisation"] == [750, 0, 0]
    assert sample["queue"] == [3000, 0, 0]
    assert sample["events"] == [[0, "drop", 4], [0, "trim", 7], [0, "pause", 2]]


def test_replicas_at_their_packets_port_and_flipped_bits_are_no_losses() -> None:
    statistics = StatisticsDelta(PORTS)
    statistics.take({"s1": stats(1000, pruned=2)})
    sample = statistics.take({"s1": stats(2000, egress_dropped=3, pruned=6, corrupt=5)})
    assert sample["events"] == [[0, "drop", 3]]


def test_a_reset_is_no_event_and_hides_none() -> None:
    statistics = StatisticsDelta(PORTS)
    statistics.take({"s1": stats(1000, busy_ns=900, full=50, outside=3)})
    # Queues count from zero; what was dropped outside of them goes on being counted.
    sample = statistics.take({"s1": stats(2000, busy_ns=200, full=1, outside=3)})
    assert sample["utilisation"][0] == 200
    assert sample["events"] == [[0, "drop", 1]]


def test_a_peak_between_two_looks_is_seen_if_it_was_the_highest() -> None:
    statistics = StatisticsDelta(PORTS)
    statistics.take({"s1": stats(1000, depth=10, longest=500)})
    depths = [(20, 500), (30, 900), (40, 900), (50, 60)]  # the last one after a reset
    seen = [
        statistics.take({"s1": stats(2000 + n, depth=depth, longest=longest)})["queue"][0]
        for n, (depth, longest) in enumerate(depths)
    ]
    assert seen == [20, 900, 40, 60]


def test_a_switch_that_is_away_is_idle() -> None:
    statistics = StatisticsDelta(PORTS)
    statistics.take({"s1": stats(1000), "s2": stats(1000)})
    assert statistics.take({"s2": stats(2000, depth=9)})["queue"] == [0, 0, 9]
    assert set(statistics.latest) == {"s1", "s2"}
