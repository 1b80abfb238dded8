"""`drop_notification.p4`: ports whose senders are notified of drops, and the class for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.traffic_class import WithClasses
from ebb_controller.parameters import Dscp, Parameters
from ebb_controller.site import Port, Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

DROP_NOTIFICATION = Table("drop_notification", ("set_notification",))
NOTIFICATION_CLASS = Table("notification_class", ("accept_cut",))
NOTIFICATION_SHARE = Table("notification_share", ("set_notification_share",))
NOTIFIED = Counter("notified", "notified")


class DropNotification(Parameters):
    """Notifications of drops to the senders of TCP packets (FastLane; SAI's
    DROP_AND_TRIM_TO_SENDER)."""

    dscp_value: Dscp = 56
    """DSCP of notifications, whose class says their queue; the thesis leaves the value open."""
    trigger: Literal["deflect", "occupancy"] = "deflect"
    """Who notices that a packet does not fit: the traffic manager, or the program's own counter,
    which then keeps notifications to their share as well."""
    occupancy_limit_bytes: Annotated[int, Field(gt=0, lt=2**32)] = 48_000
    """Bytes queued on a port above which the `occupancy` trigger notifies: half of the 64 full
    packets of a queue of stock BMv2."""


FRAME_BITS = 64 * 8
"""Length of a notification, as the thesis counts it."""


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

    def notified_by_the_program(self) -> Self:
        """The parameters for a target whose queues drop in silence (BMv2): the program counts what
        waits, of all classes but that of the notifications."""
        if self.drop_notification is None:
            return self
        told = self.drop_notification.model_copy(update={"trigger": "occupancy"})
        classes = [
            each.model_copy(update={"trimmable": each.dscp != told.dscp_value})
            for each in self.classes
        ]
        return self.model_copy(update={"drop_notification": told, "classes": classes})


def entries(site: Site[WithDropNotification]) -> Iterator[P4TableEntry]:
    """Per port, with the addresses of its link, and the class that may be cut; on stock BMv2, the
    scheme's share of each port."""
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
        if notification.trigger == "occupancy":
            yield from _share(site.parameters, queue, port)


def _share(parameters: WithDropNotification, queue: int, port: Port) -> Iterator[P4TableEntry]:
    """The token bucket of the traffic manager for the notifications' queue, for the
    program's own meter; none if the queue has no share."""
    for group in parameters.ports.group:
        if queue in group.queues and group.share is not None:
            interval_us = FRAME_BITS * 1e6 / (group.share * port.rate_bps)
            at_once = max(1, group.burst_bytes * 8 // FRAME_BITS)
            yield NOTIFICATION_SHARE.entry(
                {"ingress_port": port.number},
                interval_us=max(1, round(interval_us)),
                burst_us=round(interval_us * (at_once - 1)),
            )


MECHANISM = Mechanism(
    "drop_notification",
    entries,
    (DROP_NOTIFICATION, NOTIFICATION_CLASS, NOTIFICATION_SHARE),
    (NOTIFIED,),
)
