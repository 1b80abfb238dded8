"""Metrics that an experiment file may name."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from ebb_experiments.scenario.spec import Spec

Stat = Literal["mean", "p50", "p90", "p95", "p99", "p99.9", "max", "min"]
PERCENTILES = ("p50", "p90", "p95", "p99", "p99.9")


def _percent(stat: str) -> float | None:
    return float(stat[1:]) if stat in PERCENTILES else None


class _Common(Spec):
    label: str
    """Name in tables and at axes, without the unit."""
    unit: str
    scale: float = 1.0
    """Factor from ns, bit/s or a share to `unit`."""

    @property
    def percentile(self) -> float | None:
        """Which percentile of flows or jobs it is; none: none of them."""
        return None

    @property
    def share(self) -> bool:
        """Whether it is a share of something, which is never above the whole."""
        return False

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """The least and the largest value that it can have, in `unit`; none: there is none."""
        return 0.0, self.scale if self.share else None


class Flows(_Common):
    """A metric of flows: `fct` in ns, `slowdown` = fct over that of an idle network, `goodput` in
    bit/s; or a count of docs/agent-records.md per flow. Only of flows that ended; `share` counts
    all."""

    of: Literal["fct", "slowdown", "goodput", "packets_sent", "packets_received", "retransmitted",
                "timeouts", "trimmed", "ce_marks", "decodes", "unneeded", "surplus"]  # fmt: skip
    """`surplus`: packets that arrived whole, above those that the object has."""
    stat: Stat | Literal["sum", "share", "above", "outliers"]
    """`share`: of the flows in which it is not 0; `above`: number of flows above `limit`;
    `outliers`: above the upper quartile by more than 1.5 of the distance between quartiles."""
    limit: float | None = None
    """Limit of `above`, in units of the metric."""
    traffic: str | None = None
    """Part of the workload that counts, by name, or parts by a pattern such as `a*`; none: all."""
    above_bytes: int = 0
    up_to_bytes: int | None = None
    destination: str | None = None
    after_ns: int = 0
    """Only flows that were offered then or later."""
    unfinished: bool = False
    """Whether `goodput` is also that of flows open at the end of the run, of what has arrived."""

    @property
    def percentile(self) -> float | None:
        """The percentile, in %; none: another statistic."""
        return _percent(self.stat)

    @property
    def share(self) -> bool:
        """Whether it is a share of the flows."""
        return self.stat == "share"


class Jobs(_Common):
    """A metric of jobs, which somebody waits for: all transfers with the same `job`
    (docs/workloads.md). `completion` in ns; `goodput` in bit/s, 0 for a job that did not end."""

    of: Literal["completion", "job-goodput"]
    stat: Stat | Literal["above-share"]
    limit: float | None = None
    """Limit of `above-share`, which is the share of the jobs above it, in units of the metric."""
    traffic: str
    bytes: Literal["once", "each"] = "each"
    """Whether its transfers carry the same bytes (replicas: once) or different ones."""

    @property
    def percentile(self) -> float | None:
        """The percentile, in %; none: another statistic."""
        return _percent(self.stat)

    @property
    def share(self) -> bool:
        """Whether it is a share of the jobs."""
        return self.stat == "above-share"

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """`scale` is that of `limit`, and not of the share."""
        return (0.0, 1.0) if self.share else super().limits


class TenantMessages(_Common):
    """A metric of tenants of a scenario whose messages are the parts `traffic` of the workload.
    `tenants-beyond`: share of the tenants whose 99th percentile of the times of messages, or mean
    (`stat`), is above `limit`; `tenants-with-timeouts`: share of those of whose messages more than
    `limit` had a timeout. A message that did not end is beyond every limit, and had one."""

    of: Literal["tenants-beyond", "tenants-with-timeouts"]
    traffic: str
    """Pattern of their names, such as `a*`."""
    limit: float
    """In ns, or as a share of the messages."""
    stat: Literal["mean", "p99"] = "p99"
    """The statistic of `tenants-beyond`."""


class Delay(_Common):
    """Time in the queues of the switch port that leads to `peer`. Percentiles from the traffic
    manager's histogram, 32 buckets per octave, with logarithmic interpolation inside."""

    of: Literal["switch-delay"]
    stat: Literal["mean", "p50", "p90", "p99", "p99.9", "max"]
    peer: str | None = None
    """Switch or host that the port leads to; none: all ports."""
    queue: int | None = None
    of_each: Literal["packet", "instant", "probe"] = "packet"
    """Population of the delays: each packet, or, at a port with one queue, each instant.
    `instant`: how long the bytes in the queue now take to leave; `probe`: how long a packet would
    wait that arrived now, for the rest of the one being sent too. Both are 0 while the port is
    idle; percentiles are as if all packets were of one length."""

    @model_validator(mode="after")
    def _one_port(self) -> Self:
        if self.of_each != "packet" and (self.peer is None or self.queue is not None):
            raise ValueError(f"of_each = '{self.of_each}' needs a peer, and no queue")
        return self


class Port(_Common):
    """`throughput`: bits on the wire in bit/s; `utilisation`: share of the time. Of the port that
    leads to `peer`; `balance`: coefficient of variation of the packets of all ports of switches
    whose names begin with `switches`."""

    of: Literal["throughput", "utilisation", "balance"]
    peer: str | list[str] | None = None
    """Node that the port leads to; several: the mean of their ports."""
    switches: str = ""


class Network(_Common):
    """A metric of the whole network: packets `lost` for any reason, `trims`, `marks`; `finished`:
    share of the flows that ended well; `ended_at`: when the last of them did, in ns."""

    of: Literal["lost", "trims", "marks", "finished", "ended_at"]
    traffic: str | None = None

    @property
    def share(self) -> bool:
        """Whether it is a share of the flows."""
        return self.of == "finished"


class Samples(_Common):
    """Depth in bytes over time (`[[sample]]` of the scenario) of the port that leads to `peer`."""

    of: Literal["samples"]
    peer: str


class ConcurrentGoodput(_Common):
    """Goodput of all objects of `traffic` together, in bit/s, from the last first start to the
    first last end of it and the parts `while`: as long as all of them had objects under way.
    Needs `arrivals_every_ns` of the scenario, as the two below."""

    of: Literal["goodput-meanwhile"]
    traffic: str
    while_: Annotated[list[str], Field(alias="while")]


class Fairness(_Common):
    """A metric of the objects of a part that are under way at the same time. `jain`: Jain's index
    of their rates in every period of the samples, from `settle_ns` after a start or end on;
    `convergence`: the time from the start of one beside others until the index stays above 0.95, in
    ns."""

    of: Literal["jain", "convergence"]
    stat: Stat
    traffic: str
    settle_ns: float = 0

    @property
    def share(self) -> bool:
        """Whether it is the index, which is 1 at most."""
        return self.of == "jain"


class Rates(_Common):
    """Rate of every object of a part over time, in bit/s. For figures."""

    of: Literal["rates"]
    traffic: str


class Tenants(_Common):
    """A metric of the tenants at flow level. `rejected`: share that was refused;
    `network-utilisation` of the hosts' links, and `occupancy` of the slots: means over time;
    `late`: share of messages; `placement-time` of each search, in ns of the processor; `stretch`:
    time of a job over its least."""

    of: Literal["rejected", "network-utilisation", "occupancy", "late", "placement-time", "stretch"]
    stat: Stat | None = None
    """Statistic of `placement-time` and `stretch`, which need one."""
    class_: Annotated[str | None, Field(alias="class")] = None
    """Class that counts, of what is not a mean over time; none: all."""

    @model_validator(mode="after")
    def _stat_where_needed(self) -> Self:
        if (self.stat is None) == (self.of in ("placement-time", "stretch")):
            raise ValueError("placement-time and stretch need `stat`, the others have none")
        return self

    @property
    def share(self) -> bool:
        """Whether it is a share of tenants, links, slots or messages."""
        return self.of not in ("placement-time", "stretch")


class Volume(_Common):
    """The law of the bytes that arrive per bin (docs/traffic-volume.md), without empty bins.
    `best`: 1 if `law` beats every other law, else 0; `beaten`: 1 if one beats it; `correlation`:
    of its probability plot; `variation`: standard deviation of the bytes over their mean, `empty`:
    share of bins without any. Needs `arrivals_every_ns` of the scenario, of which a bin is a
    multiple."""

    of: Literal["volume"]
    stat: Literal["best", "beaten", "correlation", "variation", "empty"]
    law: Literal["log-normal", "normal", "Weibull", "gamma", "exponential"] = "log-normal"
    bin_ns: Annotated[int, Field(gt=0)]
    traffic: str
    destination: str | None = None
    """Host at which bytes arrive; none: all hosts together."""
    settle_ns: int = 0
    """Bins that begin earlier are left out."""

    @property
    def share(self) -> bool:
        """Whether it is a share of the bins or of the trials."""
        return self.stat in ("best", "beaten", "empty")

    @property
    def limits(self) -> tuple[float | None, float | None]:
        """A correlation may be negative."""
        return (-self.scale, self.scale) if self.stat == "correlation" else super().limits


Metric = Annotated[
    Flows
    | Jobs
    | TenantMessages
    | Delay
    | Port
    | Network
    | Samples
    | ConcurrentGoodput
    | Fairness
    | Rates
    | Tenants
    | Volume,
    Field(discriminator="of"),
]
