"""Common base of the parameters of all mechanisms; each mechanism has its own in its module.

Values are nominal; whoever runs the fabric slower passes them through `ebb_topologies.dilation`
first.
"""

from __future__ import annotations

from typing import Annotated, Self

from ebb_topologies.dilation import Dilation
from ebb_topologies.traffic_manager import PortParameters
from pydantic import BaseModel, ConfigDict, Field

Dscp = Annotated[int, Field(ge=0, le=63)]
QueueId = Annotated[int, Field(ge=0, le=7)]
WAKEUP_NS = 5_000_000
"""How late a process under the wall clock may wake up, on a machine that keeps up with the rest: 5
ms."""


class Parameters(BaseModel):
    """A table of a scheme: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def slowed(self, dilation: Dilation) -> Self:
        """The parameters of a fabric that is slower than nominal."""
        return self.model_validate(dilation.slow(self.model_dump()))


class PortQueues(Parameters):
    """The queues, which several mechanisms name in their own parameters."""

    ports: PortParameters = PortParameters()
    """Queues and scheduler of every port."""

    @property
    def lossless_queues(self) -> list[int]:
        """Numbers of the queues that pause their neighbours before they drop."""
        return sorted(queue.id for queue in self.ports.queue if queue.lossless)

    def woken_late(self, wakeup_ns: int) -> Self:
        """The parameters for processes that wake up so late, and so pause and obey late."""
        pfc = self.ports.pfc
        if pfc is None:
            return self
        late = pfc.model_copy(update={"wakeup_ns": max(pfc.wakeup_ns, wakeup_ns)})
        ports = self.ports.model_copy(update={"pfc": late})
        return self.model_copy(update={"ports": ports})

    def need_queue(self, user: str, number: int) -> None:
        """Raises `ValueError` if `user`, the parameter of that name, names a queue that no port
        has."""
        existing = sorted(queue.id for queue in self.ports.queue)
        if number not in existing:
            raise ValueError(f"{user}: there is no queue {number}; [[ports.queue]] has {existing}")
