"""What the parameters of all mechanisms have in common; each mechanism has its own in its module.

Values are nominal; whoever runs the fabric slower passes them through `ebb_topologies.dilation`
first.
"""

from __future__ import annotations

from typing import Annotated

from ebb_topologies.traffic_manager import PortParameters
from pydantic import BaseModel, ConfigDict, Field

Dscp = Annotated[int, Field(ge=0, le=63)]
QueueId = Annotated[int, Field(ge=0, le=7)]


class Parameters(BaseModel):
    """A table of a scheme: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class PortQueues(Parameters):
    """The queues, which several mechanisms name in their own parameters."""

    ports: PortParameters = PortParameters()
    """Queues and scheduler of every port."""

    def need_queue(self, user: str, number: int) -> None:
        """Raises `ValueError` if `user`, the parameter of that name, names a queue that no port
        has."""
        existing = sorted(queue.id for queue in self.ports.queue)
        if number not in existing:
            raise ValueError(f"{user}: there is no queue {number}; [[ports.queue]] has {existing}")
