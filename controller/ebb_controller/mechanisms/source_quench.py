"""`source_quench.p4`: ports whose senders are notified, and the clone sessions of the messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from pydantic import model_validator

from ebb_controller.mechanism import Counter, Mechanism, Table
from ebb_controller.mechanisms.codel import PROGRAM, WithCodel
from ebb_controller.parameters import PortQueues
from ebb_controller.site import Site

if TYPE_CHECKING:
    from finsy import P4CloneSessionEntry, P4TableEntry

SOURCE_QUENCH = Table("source_quench", ("set_quench",))
QUENCHED = Counter("quenched", "quenched")
QUEUES = 8
"""Queues of a port that P4 distinguishes."""


class WithSourceQuench(WithCodel, PortQueues):
    """The part of `FabricParameters` that this mechanism reads: `codel.reaction`."""

    def without_class_of_copies(self) -> Self:
        """The parameters for a target that puts all copies of packets into queue 0 (BMv2)."""
        if self.codel is None:
            return self
        return self.model_copy(update={"codel": self.codel.model_copy(update={"message_queue": 0})})

    @model_validator(mode="after")
    def _copies_are_not_deflected(self) -> WithSourceQuench:
        if self.codel is None or self.codel.reaction != "source-quench":
            return self
        if self.codel.message_queue is not None:
            self.need_queue("codel.message_queue", self.codel.message_queue)
        deflecting = [queue.id for queue in self.ports.queue if queue.deflects]
        if deflecting:
            raise ValueError(
                'codel.reaction: with "source-quench", no queue may say on_full = "deflect", as '
                f"queue {deflecting[0]} does: the copy of a packet that becomes a message would "
                "come back as the packet"
            )
        return self


def session(port: int, queue: int) -> int:
    """The clone session of a port and a queue, as the program counts them."""
    return port * QUEUES + queue


def entries(site: Site[WithSourceQuench]) -> Iterator[P4TableEntry | P4CloneSessionEntry]:
    """Per port, with the addresses of its link, and a clone session for each of its queues."""
    from finsy import P4CloneSessionEntry

    codel = site.parameters.codel
    if codel is None or codel.reaction != "source-quench":
        return
    for port in site.ports:
        yield SOURCE_QUENCH.entry({"port": port.number}, src_mac=port.mac, dst_mac=port.peer_mac)
        for queue in site.parameters.ports.queue:
            chosen = queue.id if codel.message_queue is None else codel.message_queue
            yield P4CloneSessionEntry(
                session(port.number, queue.id), class_of_service=chosen, replicas=[port.number]
            )


MECHANISM = Mechanism(
    "source_quench", entries, (SOURCE_QUENCH,), (QUENCHED,), PROGRAM, ported=False
)
