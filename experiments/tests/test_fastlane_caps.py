"""Limits of drop notifications on a link and in a buffer (Zats, section 6.5.3): formulas of
the thesis, and what the schemes have of them."""

from __future__ import annotations

import pytest
from ebb_controller.scheme import load_scheme

NOTIFICATION_BYTES, PACKET_BYTES = 64, 800
BUFFER_BYTES = 131_072
"""Buffer of a port."""
PORTS, BURST_BYTES = 48, 163_840
"""Caps of the switch and of each burst: twice the typical one (figure 6.4)."""


def link_share(drops: float) -> float:
    """Share of the load that notifications are, if so much of the packets is dropped (6.1)."""
    notifications = drops * NOTIFICATION_BYTES
    return notifications / (PACKET_BYTES + notifications)


def notified_bytes(inputs: float) -> float:
    """Notifications of a burst that comes in by this many ports and finds no buffer (6.2)."""
    return BURST_BYTES * NOTIFICATION_BYTES / PACKET_BYTES * (1 - 1 / inputs)


def buffer_share(bursts: int) -> float:
    """Share of the buffers of a switch for notifications of this many bursts at once, with the
    ports spread evenly over them."""
    return bursts * notified_bytes(PORTS / bursts) / (PORTS * BUFFER_BYTES)


@pytest.mark.parametrize(
    ("drops", "percent"),
    [(0.01, 0.0799), (0.05, 0.398), (0.10, 0.794), (0.12, 0.951), (0.20, 1.57), (1.0, 7.41)],
)
def test_share_of_a_link(drops: float, percent: float) -> None:
    assert 100 * link_share(drops) == pytest.approx(percent, rel=5e-3)


def test_a_percent_is_reached_at_one_drop_in_eight() -> None:
    assert 100 * link_share(0.12626) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize(
    ("bursts", "kilobytes"), [(1, 12.5), (8, 85.3), (12, 115.2), (24, 153.6), (40, 85.3), (48, 0)]
)
def test_buffers_of_a_switch(bursts: int, kilobytes: float) -> None:
    taken = buffer_share(bursts) * PORTS * BUFFER_BYTES / 1024
    assert taken == pytest.approx(kilobytes, rel=5e-3, abs=1e-9)


def test_the_most_of_the_buffers_is_taken_by_bursts_to_half_of_the_ports() -> None:
    shares = {bursts: buffer_share(bursts) for bursts in range(1, PORTS + 1)}
    assert max(shares, key=lambda bursts: shares[bursts]) == PORTS / 2
    assert shares[24] == pytest.approx(0.025)
    # Whatever the number of ports.
    closed = BURST_BYTES * NOTIFICATION_BYTES / (4 * PACKET_BYTES * BUFFER_BYTES)
    assert shares[24] == pytest.approx(closed)


@pytest.mark.parametrize("name", ["fastlane", "fastlane-fh"])
def test_the_schemes_have_both_caps(name: str) -> None:
    fabric = load_scheme(name).fabric
    assert fabric.drop_notification is not None
    dscp = fabric.drop_notification.dscp_value
    (queue_id,) = (each.queue for each in fabric.classes if each.dscp == dscp)
    queues = {queue.id: queue for queue in fabric.ports.queue}
    (group,) = (group for group in fabric.ports.group if queue_id in group.queues)
    assert group.queues == [queue_id]
    assert group.share == round(link_share(0.12), 2)
    cap = round(buffer_share(24) * BUFFER_BYTES)
    assert queues[queue_id].capacity_bytes == group.burst_bytes == cap
    assert queues[queue_id].on_full == "tail-drop"
    others = [queue for queue in queues.values() if queue.id != queue_id]
    assert {queue.on_full for queue in others} == {"deflect"}
    assert {queue.capacity_bytes for queue in others} == {BUFFER_BYTES}
