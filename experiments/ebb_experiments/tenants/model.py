"""What an experiment file says of a data centre and its tenants."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Annotated

import ebb_controller.placement
from ebb_controller.placement.curves import Bursts
from ebb_controller.placement.search import Algorithm
from ebb_topologies.model import MAX_RATE_BPS
from pydantic import BaseModel, ConfigDict, Field, model_validator

Rate = Annotated[int, Field(gt=0, le=MAX_RATE_BPS)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1, le=100_000)]


@cache
def fingerprint() -> str:
    """Of the code that a trial depends on: this package, and the placement."""
    files = [*Path(__file__).parent.glob("*.py")]
    files += Path(ebb_controller.placement.__path__[0]).glob("*.py")
    content = b"".join(path.read_bytes() for path in sorted(files))
    return hashlib.sha256(content).hexdigest()[:16]


class Spec(BaseModel):
    """A part of the table. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Class(Spec):
    """A class of tenants. Rates and bursts of its tenants are exponential variates."""

    share: Share
    """Share of the tenants."""
    rate_bps: Rate
    """Mean of B, bit/s; what is above the rate of a host's link is that."""
    burst_bytes: Annotated[int, Field(gt=0, le=2**26)]
    """Mean of S, bytes; what is below a packet is one."""
    peak_bps: Rate | None = None
    """Bmax, bit/s; B if that is more; none: the rate of a host's link."""
    delay_ns: Annotated[int, Field(gt=0)] | None = None
    """d, ns; none: no guarantee of delay."""


class Messages(Spec):
    """A VM that sends messages through its token bucket; no data centre."""

    count: Annotated[int, Field(ge=1, le=100_000_000)]
    """Messages of a trial."""
    overprovisioning: Annotated[float, Field(ge=1, le=100)] = 1
    """Guaranteed rate over the average."""
    burst: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Guaranteed burst, in messages."""


class DataCentre(Spec):
    """A tree of equal pods and racks, and the tenants that come."""

    algorithm: Algorithm = "silo"
    """How they are placed."""
    bursts: Bursts = "bunched"
    """Effect of queues on bursts."""
    pods: Count = 1
    racks_per_pod: Count = 1
    hosts_per_rack: Count = 1
    vms_per_host: Annotated[int, Field(ge=1, le=62)] = 8
    rate_bps: Rate = 10_000_000_000
    """Rate of a host's link, bit/s."""
    queue_ns: Annotated[int, Field(ge=1, le=10_000_000)] = 249_600
    """Queue capacity of every port at its rate, ns (312 KB at 10 Gbit/s)."""
    rack_oversubscription: Annotated[float, Field(ge=0.1, le=100)] = 1
    pod_oversubscription: Annotated[float, Field(ge=0.1, le=100)] = 1
    packet_bytes: Annotated[int, Field(ge=64, le=65_536)] = 1_500
    """Longest packet, bytes."""
    blocking: bool = True
    """Whether a packet of lower priority may be in service."""
    tenants: Count = 1_000
    """How many tenants come, after those of the warm-up."""
    warm_up: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Tenants that come first and are not counted."""
    mean_vms: Annotated[float, Field(ge=1, le=10_000)] = 49
    """Mean number of VMs of a tenant, an exponential variate (Oktopus: 49)."""
    occupancy: Annotated[float, Field(gt=0, le=2)] = 0.75
    """Share of the slots that would be taken if all were admitted and took their least time."""
    network_share: Annotated[float, Field(ge=0, le=10)] = 1
    """Time that a job's transfers take at its guaranteed rates, over its compute time."""
    classes: dict[str, Class] = {}
    """Classes by name."""
    messages: Messages | None = None
    """Instead of all of this: messages of one VM."""

    @model_validator(mode="after")
    def _classes_or_messages(self) -> DataCentre:
        if (self.messages is None) == (not self.classes):
            raise ValueError("give either classes of tenants, or messages")
        if self.classes and abs(sum(c.share for c in self.classes.values()) - 1) > 1e-9:
            raise ValueError("the shares of the classes must add up to 1")
        return self
