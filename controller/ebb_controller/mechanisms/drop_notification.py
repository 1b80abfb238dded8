"""`drop_notification.p4`: whose packets' loss is told to their sender, and in which class."""

from __future__ import annotations

from collections.abc import Iterator

from finsy import P4TableEntry
from pydantic import model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.traffic_class import WithClasses
from ebb_controller.parameters import Dscp, Parameters
from ebb_controller.site import Site

DROP_NOTIFICATION = Table("drop_notification", ("set_notification",))
NOTIFICATION_CLASS = Table("notification_class", ("accept_cut",))
NOTIFIED = Counter("notified", "notified")


class DropNotification(Parameters):
    """Notifications of drops to the senders of TCP packets (FastLane; SAI's
    DROP_AND_TRIM_TO_SENDER)."""

    dscp_value: Dscp = 56
    """DSCP of notifications, whose class says their queue; the thesis leaves the value open."""


class WithDropNotification(WithClasses):
    """The part of `FabricParameters` that this mechanism reads."""

    drop_notification: DropNotification | None = None
    """Notifications of drops; none: what is refused is trimmed or dropped."""

    @model_validator(mode="after")
    def _notifications_have_a_class(self) -> WithDropNotification:
        if self.drop_notification is not None:
            dscp = self.drop_notification.dscp_value
            if all(each.dscp != dscp for each in self.classes):
                raise ValueError(
                    f"drop_notification: no class has dscp {dscp}; add one, with the queue of the "
                    f"notifications"
                )
        return self


def entries(site: Site[WithDropNotification]) -> Iterator[P4TableEntry]:
    """Per port, with the addresses of its link, and the class that may be cut."""
    notification = site.parameters.drop_notification
    if notification is None:
        return
    dscp = notification.dscp_value
    (queue,) = (each.queue for each in site.parameters.classes if each.dscp == dscp)
    yield NOTIFICATION_CLASS.entry({"dscp": dscp})
    for port in site.ports:
        yield DROP_NOTIFICATION.entry(
            {"ingress_port": port.number},
            src_mac=port.mac,
            dst_mac=port.peer_mac,
            dscp_value=dscp,
            queue_index=queue,
        )


MECHANISM = Mechanism(
    "drop_notification", entries, (DROP_NOTIFICATION, NOTIFICATION_CLASS), (NOTIFIED,)
)
