"""`trimming.p4`: how much of a packet is kept, and how the rest travels."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, Self

from pydantic import Field, model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.drop_notification import WithDropNotification
from ebb_controller.parameters import Dscp, Parameters, QueueId
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4TableEntry

TRIMMING = Table("trimming", ("set_trimming",))
TRIMMED = Counter("trimmed", "trimmed", sum="trims")
TRIM_SENT = Counter("trim_sent", "trims\nsent")


class Trimming(Parameters):
    """Payload trimming on every port, with the names of SONiC's SWITCH_TRIMMING."""

    size: Annotated[int, Field(ge=82, le=1500)] = 128
    """Bytes of the frame that are kept (SAI_SWITCH_ATTR_PACKET_TRIM_SIZE)."""
    dscp_value: Dscp = 12
    """DSCP of trimmed packets (DSCP_TRIMMED)."""
    lasthop_dscp_value: Dscp | None = 14
    """DSCP of packets trimmed at a port to a host (DSCP_TRIMMED_LASTHOP); none: `dscp_value`."""
    queue_index: QueueId = 7
    """Queue that trimmed packets go through."""
    return_to_sender: bool = False
    """A header that this queue refuses goes back to its sender; the queue must `deflect`."""
    trigger: Literal["deflect", "occupancy"] = "deflect"
    """Who notices that a packet does not fit: the traffic manager, or the program's own counter."""
    occupancy_limit_bytes: Annotated[int, Field(gt=0, lt=2**32)] = 12_000
    """Data bytes queued on a port above which the `occupancy` trigger trims: 8 full packets."""


class WithTrimming(WithDropNotification):
    """The part of `FabricParameters` that trimming, its trigger and return-to-sender read."""

    trimming: Trimming | None = None
    """Payload trimming; none: nothing is trimmed."""

    def without_deflection(self) -> Self:
        """The parameters for a target whose queues cannot deflect (BMv2): the program's own counter
        triggers the trim, or else the notification of drops, and nothing is returned to its
        sender."""
        if self.trimming is None:
            return self.notified_by_the_program()
        trimming = self.trimming.model_copy(
            update={"trigger": "occupancy", "return_to_sender": False}
        )
        return self.model_copy(update={"trimming": trimming})

    @model_validator(mode="after")
    def _trimming_fits(self) -> WithTrimming:
        if self.trimming is None:
            return self
        index = self.trimming.queue_index
        self.need_queue("trimming.queue_index", index)
        if self.trimming.return_to_sender:
            (queue,) = (queue for queue in self.ports.queue if queue.id == index)
            if not queue.deflects:
                raise ValueError(
                    f'trimming.return_to_sender: queue {index} must say on_full = "deflect"'
                )
        return self


def entries(site: Site[WithTrimming]) -> Iterator[P4TableEntry]:
    """Per port: size, queue, and DSCP (DSCP_TRIMMED_LASTHOP at ports to hosts); size 0 where only
    notifications have the program's own trigger, so that other refused packets are dropped."""
    trimming = site.parameters.trimming
    notification = site.parameters.drop_notification
    if trimming is None:
        if notification is not None and notification.trigger == "occupancy":
            yield TRIMMING.default(size=0, dscp_value=0, queue_index=0)
        return
    for port in site.ports:
        at_last_hop = port.to_host and trimming.lasthop_dscp_value is not None
        yield TRIMMING.entry(
            {"egress_port": port.number},
            size=trimming.size,
            dscp_value=trimming.lasthop_dscp_value if at_last_hop else trimming.dscp_value,
            queue_index=trimming.queue_index,
        )


MECHANISM = Mechanism("trimming", entries, (TRIMMING,), (TRIMMED, TRIM_SENT))
